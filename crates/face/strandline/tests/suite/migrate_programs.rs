//! Programs that nobody wrote for this: a compiler at work, Python with threads, a JVM, Go, PostgreSQL's
//! single-user mode. Each is moved in the middle by `strandline migrate`, and what it leaves is held against
//! an undisturbed run.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{alone, stderr, strandline};
use serde_json::Value;

/// Where a program is; none if it is not installed, or process numbers may not be chosen.
fn found(program: &str) -> Option<PathBuf> {
    if !fs::read_to_string("/proc/self/status").is_ok_and(|text| text.contains("CapEff:\t000001ff")) {
        println!("skipped: choosing process numbers needs root");
        return None;
    }
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/lib/postgresql/15/bin";
    let found = path.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: no {program}");
    }
    found
}

fn memory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("strandline-work-").tempdir_in("/dev/shm").expect("/dev/shm")
}

/// What a program runs on, and what it leaves.
struct Work<'a> {
    folder: &'a Path,
    make: &'a dyn Fn() -> Command,
    result: &'a dyn Fn() -> Vec<u8>,
}

impl Work<'_> {
    fn start(&self) -> std::process::Child {
        let mut command = (self.make)();
        let out = fs::File::create(self.folder.join("stdout")).expect("a file");
        command.current_dir(self.folder).stdout(out).stderr(Stdio::null());
        command.spawn().expect("it is installed")
    }

    /// Runs it undisturbed, then again in each of the ways that move it; what the verb said of each.
    fn compare(&self) -> Vec<(&'static str, Value)> {
        let begin = Instant::now();
        assert!(self.start().wait().expect("it ends").success());
        let (whole, wanted) = (begin.elapsed(), (self.result)());
        assert!(!wanted.is_empty());
        let ways = [("copied", &[][..]), ("mapped", &["--map"][..]), ("sent before", &["--precopy"][..])];
        let mut said = Vec::new();
        for (number, (name, more)) in (0_u32..).zip(ways) {
            let mut child = self.start();
            std::thread::sleep(whole.mul_f64(0.3 + 0.1 * f64::from(number)).min(Duration::from_secs(4)));
            let (fam, pid) = (self.folder.join(format!("fam{number}")), child.id().to_string());
            let mut verb = strandline();
            verb.args(["migrate", "--json", "--pid", &pid, "--fam"]).arg(&fam).args(more);
            let output = verb.stdin(Stdio::null()).output().expect("it runs");
            let _ = child.wait();
            assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
            let times: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
            assert!((self.result)() == wanted, "{name}: another result than undisturbed");
            println!(
                "{name}: {} threads, {} bytes on demand, down {} s, rounds {}, left {}",
                times["threads"],
                times["lazy_bytes"],
                times["downtime_s"],
                times["before"]["rounds"],
                times["before"]["left_bytes"]
            );
            let _ = fs::remove_dir_all(fam);
            said.push((name, times));
        }
        said
    }
}

fn printed(folder: &Path) -> impl Fn() -> Vec<u8> {
    let path = folder.join("stdout");
    move || fs::read(&path).expect("its output")
}

#[test]
fn python_with_threads() {
    let Some(python) = found("/usr/bin/python3") else { return };
    let folder = memory();
    let text = "import threading, hashlib\nout = [None] * 4\ndef work(n):\n    h, d = hashlib.sha256(), {}\n    for i in \
                range(300000):\n        d[i % 5000] = i * n\n        h.update(str(i * n).encode())\n    out[n] = \
                h.hexdigest() + str(sum(d.values()))\nall = [threading.Thread(target=work, args=(n,)) for n in \
                range(4)]\nfor t in all: t.start()\nfor t in all: t.join()\nprint(out)\n";
    fs::write(folder.path().join("work.py"), text).expect("written");
    let make = || {
        let mut command = alone(&python);
        command.arg("work.py").stdin(Stdio::null());
        command
    };
    Work { folder: folder.path(), make: &make, result: &printed(folder.path()) }.compare();
}

/// The driver and the compiler proper: a tree of two, the one waiting for the other.
#[test]
#[ignore = "--long: a compiler, moved three times"]
fn a_compiler() {
    let Some(gcc) = found("gcc") else { return };
    let folder = memory();
    let functions = (0..700).map(|n| {
        format!(
            "double f{n}(double *a, int n) {{ double s = {n}; for (int i = 1; i < n; i++) {{ a[i] = a[i - 1] * \
             {n}.5 + s; if (a[i] > {n}) s += a[i] / (i + {n}); else s -= a[i]; }} return s; }}\n"
        )
    });
    fs::write(folder.path().join("large.c"), functions.collect::<String>()).expect("written");
    let make = || {
        let mut command = alone(&gcc);
        command.args(["-O2", "-c", "large.c", "-o", "large.o"]).stdin(Stdio::null());
        command
    };
    let object = folder.path().join("large.o");
    let result = || fs::read(&object).expect("its object");
    Work { folder: folder.path(), make: &make, result: &result }.compare();
}

/// It reserves far more addresses than it has memory for.
#[test]
#[ignore = "--long: a JVM, moved three times"]
fn a_jvm() {
    let Some(java) = found("java") else { return };
    let folder = memory();
    let text = "import java.util.*; public class Main { public static void main(String[] a) throws Exception { long[] out \
                = new long[4]; Thread[] all = new Thread[4]; for (int t = 0; t < 4; t++) { int n = t; all[t] = new \
                Thread(() -> { Map<Integer, String> m = new HashMap<>(); long s = 0; for (int i = 0; i < 6000000; i++) { \
                m.put(i % 30000, \"v\" + i * n); s += m.get((i * 7) % (i % 30000 + 1)) == null ? 1 : 3; } out[n] = s; }); \
                all[t].start(); } for (Thread t : all) t.join(); System.out.println(Arrays.toString(out)); } }";
    fs::write(folder.path().join("Main.java"), text).expect("written");
    let make = || {
        let mut command = alone(&java);
        command.arg("Main.java").stdin(Stdio::null());
        command
    };
    let said = Work { folder: folder.path(), make: &make, result: &printed(folder.path()) }.compare();
    for (name, times) in said.iter().filter(|(_, times)| times["before"].is_object()) {
        let (first, lazy) = (times["before"]["rounds"][0].as_u64(), times["lazy_bytes"].as_u64());
        assert!(first < lazy.map(|bytes| 2 * bytes), "{name}: more than it has: {times:#}");
    }
}

#[test]
#[ignore = "--long: a Go program, moved three times"]
fn go() {
    let Some(go) = found("go") else { return };
    let folder = memory();
    let text = "package main\nimport (\"fmt\"; \"sync\")\nfunc main() { var w sync.WaitGroup; out := make([]int, 8); for n \
                := range out { w.Add(1); go func() { defer w.Done(); m := map[int][]int{}; for i := 0; i < 8000000; i++ { \
                k := i % 4000; m[k] = append(m[k][:0:0], i, i*n); out[n] += m[(i*7)%(k+1)][1] % 1000 } }() }; w.Wait(); \
                fmt.Println(out) }\n";
    fs::write(folder.path().join("main.go"), text).expect("written");
    fs::write(folder.path().join("go.mod"), "module program\ngo 1.22\n").expect("written");
    let mut build = Command::new(&go);
    build.args(["build", "-o", "program", "."]).current_dir(folder.path());
    assert!(build.status().expect("it is installed").success());
    let program = folder.path().join("program");
    let make = || {
        let mut command = alone(&program);
        command.stdin(Stdio::null());
        command
    };
    Work { folder: folder.path(), make: &make, result: &printed(folder.path()) }.compare();
}

#[test]
#[ignore = "--long: a database made and queried, moved three times"]
fn postgres_for_a_single_user() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let (Some(postgres), Some(initdb)) = (found("postgres"), found("initdb")) else { return };
    let folder = memory();
    let number = |flag: &str| {
        let id = Command::new("id").args([flag, "postgres"]).output().expect("id is everywhere");
        String::from_utf8_lossy(&id.stdout).trim().parse::<u32>().ok()
    };
    let (Some(user), Some(group)) = (number("-u"), number("-g")) else {
        println!("skipped: no user postgres");
        return;
    };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("ours");
    chown(&data, Some(user), Some(group)).expect("ours");
    let mut init = Command::new(initdb);
    init.arg("-D").arg(&data).uid(user).gid(group).stdout(Stdio::null()).current_dir("/");
    assert!(init.status().expect("it is installed").success());
    let query = "select sum(hashtext(a.i::text || b.i::text)) from generate_series(1, 1500) a(i), generate_series(1, 1500) \
                 b(i);\nselect count(*), md5(string_agg(i::text, ',')) from generate_series(1, 300000) s(i);\n";
    let input = folder.path().join("query");
    fs::write(&input, query).expect("written");
    let make = || {
        let mut command = alone(&postgres);
        command.args(["--single", "-D"]).arg(&data).arg("postgres").uid(user).gid(group);
        command.stdin(fs::File::open(&input).expect("written"));
        command
    };
    Work { folder: folder.path(), make: &make, result: &printed(folder.path()) }.compare();
}
