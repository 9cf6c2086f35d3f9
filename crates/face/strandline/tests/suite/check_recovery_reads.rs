//! Images that agree in what recovery reads are not run again; a recovery that writes leaves nothing for the
//! next one; a finding can be shown without us.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{Scratch, has, stdout, strandline};

fn check(scratch: &Scratch, options: &str, recover: &str, program: &str) -> (Option<i32>, Value) {
    let output = checked(scratch, options, recover, program);
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code(), json.unwrap_or_else(|_| panic!("{output:?}")))
}

fn checked(scratch: &Scratch, options: &str, recover: &str, program: &str) -> Output {
    let folder = scratch.path("d");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir(&folder).expect("the folder is made");
    for name in ["a", "b", "c"] {
        fs::write(folder.join(name), [b'0'; 2048]).expect("the file is written");
    }
    run(scratch, &format!("{options} --jobs 1"), recover, &["sh", "-c", program])
}

fn run(scratch: &Scratch, options: &str, recover: &str, program: &[&str]) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--files", "d", "--json"]);
    command.args(options.split_whitespace()).args(["--recover", recover, "--"]).args(program);
    command.output().expect("it runs")
}

fn number(answer: &Value, key: &str) -> u64 {
    answer[key].as_u64().unwrap_or_else(|| panic!("{key}: {answer:#}"))
}

/// Overwrites all three files, of which nothing is synced.
const PROGRAM: &str =
    "for f in a b c; do head -c 2048 /dev/zero | tr '\\0' 1 | dd of=d/$f conv=notrunc status=none; done";

#[test]
fn images_that_differ_in_what_recovery_does_not_read_are_not_run() {
    let scratch = Scratch::new();
    // Wrong if the file is torn in its middle; `all` reads the others, too, and judges alike.
    scratch.file(
        "recover.sh",
        "[ \"$2\" = all ] && cat \"$1\"/* >/dev/null\n\
         case \"$(tr -s 01 < \"$1/a\")\" in 0|1|01|10) ;; *) echo torn; exit 1 ;; esac\n",
    );
    let options = "--platform posix --images 64";
    let (status, few) = check(&scratch, options, "sh recover.sh POOL", PROGRAM);
    let (status_all, all) = check(&scratch, options, "sh recover.sh POOL all", PROGRAM);
    assert_eq!((status, status_all), (Some(1), Some(1)), "{few:#}{all:#}");
    let messages = |answer: &Value| -> Vec<String> {
        let findings = answer["findings"].as_array().expect("a list");
        findings.iter().map(|finding| finding["message"].to_string()).collect()
    };
    assert_eq!(messages(&few), messages(&all));
    for (key, answer) in [("few", &few), ("all", &all)] {
        assert!(number(answer, "images") >= 64, "{key}: {answer:#}");
        assert_eq!(number(answer, "images_failing"), number(&few, "images_failing"), "{key}");
    }
    assert!(number(&few, "images_equivalent") > 20, "{few:#}");
    assert!(number(&few, "recoveries") * 2 < number(&all, "recoveries"), "{few:#}{all:#}");
}

#[test]
fn what_a_recovery_prints_decides_for_all_that_it_could_have_read() {
    let scratch = Scratch::new();
    // The name decides, and what is in the folder: no file is read.
    scratch.file(
        "recover.sh",
        "ls \"$1\" | grep -q b || { echo gone; exit 1; }\n[ ! -e \"$1/new\" ] || [ -s \"$1/new\" ]\n",
    );
    let program = "echo x > d/new; sync d/new d; rm d/b; rm d/c";
    let (status, answer) =
        check(&scratch, "--platform posix", "sh recover.sh POOL", &format!("{program}; sync"));
    assert_eq!(status, Some(2), "recovery rejects the undisturbed result: {answer:#}");
    scratch.file("recover.sh", "[ ! -e \"$1/new\" ] || [ -s \"$1/new\" ] || { echo empty; exit 1; }\n");
    let (status, answer) = check(&scratch, "--platform posix", "sh recover.sh POOL", program);
    assert_eq!(status, Some(1), "{answer:#}");
    assert_eq!(answer["findings"][0]["message"], "empty", "{answer:#}");
}

/// Each recovery appends to, overwrites, replaces, removes and makes files; the next one must find none of
/// it.
#[test]
fn a_recovery_that_writes_changes_no_other_image() {
    let scratch = Scratch::new();
    let writes = "\
         [ ! -e \"$1/mark\" ] || { echo the last recovery is there; exit 1; }\n\
         touch \"$1/mark\"; mkdir \"$1/e\"; echo y > \"$1/e/y\"\n\
         cat \"$1/a\" \"$1/b\" \"$1/c\" | tr -d 01 | grep -q . && { echo its bytes are there; exit 1; }\n\
         [ $(cat \"$1/a\" \"$1/b\" \"$1/c\" | wc -c) = 6144 ] || { echo its lengths are there; exit 1; }\n";
    scratch.file(
        "recover.sh",
        &format!(
            "{writes}\
             echo more >> \"$1/a\"; printf 'x' | dd of=\"$1/b\" conv=notrunc bs=1 seek=700 status=none\n\
             mv \"$1/c\" \"$1/z\"; rm \"$1/z\"\n"
        ),
    );
    scratch.file(
        "recover.py",
        "import mmap,sys,os\np=sys.argv[1]\n\
         for n in 'abc':\n    d=open(p+'/'+n,'rb').read()\n    assert len(d)==2048 and not d.strip(b'01'), n\n\
         f=open(p+'/a','r+b'); m=mmap.mmap(f.fileno(),0); m[5:8]=b'xyz'; m.close()\n\
         os.truncate(p+'/b',3); os.rename(p+'/c',p+'/b')\n",
    );
    for recover in ["sh recover.sh POOL", "python3 recover.py POOL"] {
        if recover.starts_with("python3") && !has("python3") {
            continue;
        }
        for options in ["--platform posix --images 16", "--platform posix --images 16 --no-reboot"] {
            let (status, answer) = check(&scratch, options, recover, PROGRAM);
            assert_eq!(status, Some(0), "{recover} {options}: {answer:#}");
            assert!(number(&answer, "images") > 20, "{answer:#}");
        }
    }
    // The program's own files are as it left them.
    for name in ["a", "b", "c"] {
        assert_eq!(fs::read(scratch.path("d").join(name)).expect("it is there"), [b'1'; 2048]);
    }
}

/// Each recovery changes a few pages of a long file, and its length, in all ways that are followed page by
/// page or not; the next one must find none of it, nor the program's own file.
#[test]
fn pages_that_a_recovery_writes_are_in_no_other_image() {
    if !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    scratch.file(
        "write.py",
        "import os\nf=os.open('d/long',os.O_WRONLY)\n\
         for at in range(16):\n    os.pwrite(f,b'1'*3000,at*8192+2000)\n    at%8 or os.fdatasync(f)\n",
    );
    scratch.file(
        "recover.py",
        "import mmap,os,sys\np=sys.argv[1]+'/long'; n=12<<20\n\
         d=open(p,'rb').read(340000)\nassert not d.strip(b'01'), 'bytes of another'\n\
         assert os.stat(p).st_size==n, 'length of another'\n\
         assert os.listdir(sys.argv[1])==['long'], 'names of another'\n\
         f=os.open(p,os.O_RDWR|os.O_CREAT)\n\
         way=d.count(b'1')//512%6\n\
         if way==0:\n    os.pwrite(f,b'x'*9000,5000); os.write(f,b'x'*3)\n\
         if way==1:\n    a=os.open(p,os.O_WRONLY|os.O_APPEND); os.write(a,b'x'*5000); os.pwrite(a,b'x',9)\n\
         if way==2:\n    os.ftruncate(f,70000); os.ftruncate(f,n+9)\n\
         if way==3:\n    os.lseek(f,20000,0); os.writev(f,[b'x',b'y'*9000])\n\
         if way==4:\n    m=mmap.mmap(f,n); m[100:103]=b'xyz'; m[200000]=7\n\
         if way==5:\n    os.truncate(p,5); open(sys.argv[1]+'/new','w').write('x')\n",
    );
    let folder = scratch.path("d");
    fs::create_dir(&folder).expect("the folder is made");
    for jobs in ["1", "2"] {
        fs::write(folder.join("long"), vec![b'0'; 12 << 20]).expect("the file is written");
        let options = format!("--platform posix --images 8 --jobs {jobs}");
        let output =
            run(&scratch, &options, "python3 -ISB recover.py POOL", &["python3", "-ISB", "write.py"]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(output.status.code(), Some(0), "{answer:#}");
        assert!(number(&answer, "recoveries") > 30, "{answer:#}");
        let own = fs::read(folder.join("long")).expect("it is there");
        assert!(own.len() == 12 << 20 && own.iter().all(|byte| b"01".contains(byte)), "the program's own");
    }
}

/// Links make images that are always laid out whole.
#[test]
fn a_recovery_that_follows_links_is_judged_on_each_image() {
    let scratch = Scratch::new();
    scratch.file(
        "recover.sh",
        "grep -q 0 \"$1/current\" && grep -q 1 \"$1/current\" && { echo torn; exit 1; }; exit 0\n",
    );
    let program = format!("ln -s a d/current; sync d; {PROGRAM}");
    let (status, answer) = check(&scratch, "--platform posix --images 64", "sh recover.sh POOL", &program);
    assert_eq!(status, Some(1), "{answer:#}");
    assert_eq!(number(&answer, "images_equivalent"), 0, "{answer:#}");
}

/// `--replay` lays the image out and says how to run recovery on it; `reproducer/run.sh` needs nothing of
/// ours.
#[test]
fn a_finding_is_shown_without_us() {
    let scratch = Scratch::new();
    scratch.file("recover.sh", "[ -s \"$1/new\" ] || [ ! -e \"$1/new\" ] || { echo empty; exit 3; }\n");
    let program = "cp d/a d/tmp; mv d/tmp d/new; echo saved";
    let (status, answer) =
        check(&scratch, "--platform xfs --reproducer shown", "sh recover.sh POOL", program);
    assert_eq!(status, Some(1), "{answer:#}");
    let shown = scratch.path("shown");
    let story = fs::read_to_string(shown.join("story.txt")).expect("the story");
    assert!(
        story.contains("empty") && story.contains("platform: xfs") && story.contains("sh recover.sh POOL"),
        "{story}"
    );
    // Somewhere else, with nothing but what is in the folder.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let moved = elsewhere.path().join("moved");
    fs::rename(&shown, &moved)
        .or_else(|_| Command::new("cp").arg("-a").arg(&shown).arg(&moved).status().map(drop))
        .expect("it is moved");
    for again in 0..2 {
        // Without this tool, and with no more of the environment than where the system's programs are.
        let mut script = Command::new("/bin/sh");
        script.arg(moved.join("run.sh")).current_dir("/").env_clear().env("PATH", "/bin:/usr/bin");
        let output = script.output().expect("it runs");
        let said = stdout(&output);
        assert!(output.status.code() == Some(3) && said.starts_with("empty\n"), "{again}: {output:?}");
    }
    let token = answer["findings"][0]["token"].as_str().expect("a token");
    let mut replay = strandline();
    replay.current_dir(scratch.dir()).args(["check", "--recover", "sh recover.sh POOL", "--replay", token]);
    let output = replay.output().expect("it runs");
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line = said.lines().find(|line| line.starts_with("cd ")).unwrap_or_else(|| panic!("{said}"));
    let output = Command::new("sh").args(["-c", line]).current_dir("/").output().expect("it runs");
    assert!(output.status.code() == Some(3) && stdout(&output) == "empty\n", "{line}: {output:?}");
}

/// A folder that no check has made is refused as a reproducer's, and so is one that has something else in it.
#[test]
fn a_foreign_folder_is_no_reproducer() {
    let scratch = Scratch::new();
    scratch.file("recover.sh", "[ -s \"$1/new\" ] || [ ! -e \"$1/new\" ] || { echo empty; exit 3; }\n");
    let found = |options: &str| {
        let program = "cp d/a d/tmp; mv d/tmp d/new; echo saved";
        let options = format!("--platform xfs {options}");
        checked(&scratch, &options, "sh recover.sh POOL", program).status.code()
    };
    let files = |folder: &str, names: &[&str]| {
        for name in names {
            let path = scratch.path(folder).join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            fs::write(path, "mine\n").expect("it is written");
        }
    };
    let kept = |folder: &str, names: &[&str]| {
        let is_kept =
            |name: &&str| fs::read(scratch.path(folder).join(name)).is_ok_and(|bytes| bytes == b"mine\n");
        assert!(names.iter().all(is_kept), "{folder}");
    };
    // Names like ours, and a script of another kind.
    for (folder, names) in
        [("one", &["files/a", "image/b"][..]), ("two", &["run.sh", "story.txt"][..]), ("three", &["a"][..])]
    {
        files(folder, names);
        assert_eq!(found(&format!("--reproducer {folder}")), Some(2), "{folder}");
        kept(folder, names);
    }
    // Our own is replaced, unless something was added to it; an empty folder is taken.
    fs::create_dir(scratch.path("four")).expect("it is made");
    assert_eq!(found("--reproducer four"), Some(1));
    assert_eq!(found("--reproducer four"), Some(1));
    files("four", &["notes"]);
    assert_eq!(found("--reproducer four"), Some(2));
    kept("four", &["notes"]);
    // Beside the run itself, what is not ours stays where nothing is found.
    files("strandline-check/reproducer", &["run.sh"]);
    let fine = check(&scratch, "--platform xfs", "true POOL", "echo 1 > d/new; sync d/new").0;
    assert_eq!(fine, Some(0));
    kept("strandline-check/reproducer", &["run.sh"]);
}
