//! Programs that nobody wrote for this: a compiler at work, Python with threads, a JVM, Go, PostgreSQL's single-user mode. Each
//! is moved in the middle, and what it writes is held against an undisturbed run.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use migrate::live::{Lazy, Migrate, migrate};
use migrate::restore::exit_code;

fn privileged() -> bool {
    let is =
        std::fs::read_to_string("/proc/self/status").expect("/proc is there").contains("CapEff:\t000001ff");
    if !is {
        println!("skipped: choosing process numbers needs root");
    }
    is
}

fn installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
            || Path::new(program).exists();
    if !found {
        println!("skipped: no {program}");
    }
    found
}

fn memory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("strandline-work-").tempdir_in("/dev/shm").expect("/dev/shm")
}

/// A program that has none of the files that whoever started these tests has left open.
fn alone(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt as _;
    let close = || {
        // SAFETY: no memory is involved.
        unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
        Ok(())
    };
    // SAFETY: the child makes a system call only.
    unsafe { command.pre_exec(close) }
}

/// Runs a command undisturbed, then again in ways that move it, in `folder`; each time `result` is what it left there.
fn compared(folder: &Path, make: &dyn Fn() -> Command, result: &dyn Fn() -> Vec<u8>) {
    let start = || {
        let mut command = make();
        let out = std::fs::File::create(folder.join("stdout")).expect("a file");
        command.current_dir(folder).stdout(out).stderr(Stdio::null());
        alone(&mut command).spawn().expect("it is installed")
    };
    let begin = Instant::now();
    assert!(start().wait().expect("it ends").success());
    let (whole, wanted) = (begin.elapsed(), result());
    assert!(!wanted.is_empty());
    let ways = [
        ("copied", Migrate::default()),
        ("mapped", Migrate { lazy: Lazy { map: true, ..Lazy::default() }, ..Migrate::default() }),
        ("sent before", Migrate { precopy: true, ..Migrate::default() }),
    ];
    for (number, (name, how)) in ways.into_iter().enumerate() {
        let mut child = start();
        std::thread::sleep(whole.mul_f64(0.3 + 0.1 * number as f64).min(Duration::from_secs(4)));
        let fam = folder.join(format!("fam{number}"));
        let moved =
            migrate(child.id().cast_signed(), &fam, &how).unwrap_or_else(|error| panic!("{name}: {error}"));
        let _ = child.wait();
        assert_eq!(exit_code(moved.child.expect("a target of ours")).expect("our child"), 0, "{name}");
        assert!(result() == wanted, "{name}: another result");
        println!(
            "{name}: {} processes, {} threads, {:.1} MiB, down {:.1} ms",
            moved.processes,
            moved.threads,
            (moved.lazy_bytes + moved.eager_bytes) as f64 / f64::from(1 << 20),
            moved.downtime_s * 1e3
        );
        let _ = std::fs::remove_dir_all(fam);
    }
}

fn printed(folder: &Path) -> impl Fn() -> Vec<u8> {
    let path = folder.join("stdout");
    move || std::fs::read(&path).expect("its output")
}

#[test]
fn python_with_threads() {
    if !privileged() || !installed("/usr/bin/python3") {
        return;
    }
    let folder = memory();
    let text = "import threading, hashlib\nout = [None] * 4\ndef work(n):\n    h, d = hashlib.sha256(), {}\n    for i in \
                range(1000000):\n        d[i % 5000] = i * n\n        h.update(str(i * n).encode())\n    out[n] = \
                h.hexdigest() + str(sum(d.values()))\nall = [threading.Thread(target=work, args=(n,)) for n in \
                range(4)]\nfor t in all: t.start()\nfor t in all: t.join()\nprint(out)\n";
    std::fs::write(folder.path().join("work.py"), text).expect("written");
    let make = || {
        let mut command = Command::new("/usr/bin/python3");
        command.arg("work.py").stdin(Stdio::null());
        command
    };
    compared(folder.path(), &make, &printed(folder.path()));
}

#[test]
#[ignore = "--long: a compiler, moved three times"]
fn a_compiler() {
    if !privileged() || !installed("gcc") {
        return;
    }
    let folder = memory();
    let functions = (0..700).map(|n| {
        format!(
            "double f{n}(double *a, int n) {{ double s = {n}; for (int i = 1; i < n; i++) {{ a[i] = a[i - 1] * \
             {n}.5 + s; if (a[i] > {n}) s += a[i] / (i + {n}); else s -= a[i]; }} return s; }}\n"
        )
    });
    std::fs::write(folder.path().join("large.c"), functions.collect::<String>()).expect("written");
    let make = || {
        let mut command = Command::new("gcc");
        command.args(["-O2", "-c", "large.c", "-o", "large.o"]).stdin(Stdio::null());
        command
    };
    let object = folder.path().join("large.o");
    compared(folder.path(), &make, &|| std::fs::read(&object).expect("its object"));
}

#[test]
#[ignore = "--long: a JVM, moved three times"]
fn a_jvm() {
    if !privileged() || !installed("java") {
        return;
    }
    let folder = memory();
    let text = "import java.util.*; public class Main { public static void main(String[] a) throws Exception { long[] out \
                = new long[4]; Thread[] all = new Thread[4]; for (int t = 0; t < 4; t++) { int n = t; all[t] = new \
                Thread(() -> { Map<Integer, String> m = new HashMap<>(); long s = 0; for (int i = 0; i < 6000000; i++) { \
                m.put(i % 30000, \"v\" + i * n); s += m.get((i * 7) % (i % 30000 + 1)) == null ? 1 : 3; } out[n] = s; }); \
                all[t].start(); } for (Thread t : all) t.join(); System.out.println(Arrays.toString(out)); } }";
    std::fs::write(folder.path().join("Main.java"), text).expect("written");
    let make = || {
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "Main.java"]).stdin(Stdio::null());
        command
    };
    compared(folder.path(), &make, &printed(folder.path()));
}

#[test]
#[ignore = "--long: a Go program, moved three times"]
fn go() {
    if !privileged() || !installed("go") {
        return;
    }
    let folder = memory();
    let text = "package main\nimport (\"fmt\"; \"sync\")\nfunc main() { var w sync.WaitGroup; out := make([]int, 8); for n \
                := range out { w.Add(1); go func() { defer w.Done(); m := map[int][]int{}; for i := 0; i < 8000000; i++ { \
                k := i % 4000; m[k] = append(m[k][:0:0], i, i*n); out[n] += m[(i*7)%(k+1)][1] % 1000 } }() }; w.Wait(); \
                fmt.Println(out) }\n";
    std::fs::write(folder.path().join("main.go"), text).expect("written");
    let mut build = Command::new("go");
    build.args(["build", "-o", "program", "main.go"]).current_dir(folder.path()).env("GO111MODULE", "off");
    assert!(build.status().expect("it is installed").success());
    let program = folder.path().join("program");
    let make = || {
        let mut command = Command::new(&program);
        command.stdin(Stdio::null());
        command
    };
    compared(folder.path(), &make, &printed(folder.path()));
}

#[test]
#[ignore = "--long: a database made and queried, moved three times"]
fn postgres_for_a_single_user() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let binaries = Path::new("/usr/lib/postgresql/15/bin");
    if !privileged() || !installed(&binaries.join("postgres").display().to_string()) {
        return;
    }
    let folder = memory();
    let number = |flag: &str| {
        let id = Command::new("id").args([flag, "postgres"]).output().expect("id is everywhere");
        String::from_utf8_lossy(&id.stdout).trim().parse::<u32>().ok()
    };
    let (Some(user), Some(group)) = (number("-u"), number("-g")) else {
        println!("skipped: no user postgres");
        return;
    };
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("ours");
    chown(&data, Some(user), Some(group)).expect("ours");
    let mut init = Command::new(binaries.join("initdb"));
    init.arg("-D").arg(&data).uid(user).gid(group).stdout(Stdio::null()).current_dir("/");
    assert!(init.status().expect("it is installed").success());
    let query = "select sum(hashtext(a.i::text || b.i::text)) from generate_series(1, 1500) a(i), generate_series(1, 1500) \
                 b(i);\nselect count(*), md5(string_agg(i::text, ',')) from generate_series(1, 300000) s(i);\n";
    let input = folder.path().join("query");
    std::fs::write(&input, query).expect("written");
    let make = || {
        let mut command = Command::new(binaries.join("postgres"));
        command.args(["--single", "-D"]).arg(&data).arg("postgres").uid(user).gid(group);
        command.stdin(std::fs::File::open(&input).expect("written"));
        command
    };
    compared(folder.path(), &make, &printed(folder.path()));
}
