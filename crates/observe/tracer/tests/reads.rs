//! What a command reads below a folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicI32;

use tracer::{Reads, watch};

fn reads(folder: &Path, script: &str) -> (Option<i32>, Reads) {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(folder).stdin(Stdio::null());
    let (status, reads) = watch(&mut command, folder, &AtomicI32::new(0)).expect("ptrace is allowed here");
    (status.code(), reads)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("d")).expect("a folder in it");
    for (name, len) in [("a", 100), ("b", 20_000), ("d/c", 10)] {
        fs::write(folder.path().join(name), vec![b'x'; len]).expect("a file");
    }
    folder
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn names_listings_and_pages_are_told_apart() {
    let folder = folder();
    let (status, read) =
        reads(folder.path(), "cat $1/a >/dev/null; ls $1/d >/dev/null; [ -e $1/gone ] || exit 3");
    assert_eq!(status, Some(3));
    assert!(!read.all, "{read:?}");
    assert!(read.files.contains_key("a") && !read.files.contains_key("b"), "{read:?}");
    assert!(
        read.listed == set(&["d"]) && read.names.contains("gone") && !read.names.contains("d/c"),
        "{read:?}"
    );
    assert!(read.written.is_empty(), "{read:?}");
    let (_, read) = reads(folder.path(), "cd $1 && dd if=b bs=4096 skip=2 count=1 of=/dev/null status=none");
    let pages = read.files["b"].as_ref().expect("pages of it");
    assert!(pages.contains(&2) && !pages.contains(&4), "{read:?}");
    assert!(!read.files.contains_key("a"), "{read:?}");
}

#[test]
fn what_may_have_been_changed_is_named() {
    let folder = folder();
    let script = "cd $1; echo y >> a; mkdir e; mv b e/b; rm d/c; echo z > new; read line < a; (sleep 0.01; : > late) & wait";
    let (status, read) = reads(folder.path(), script);
    assert_eq!(status, Some(0));
    for name in ["e", "b", "e/b", "d/c", "new", "late"] {
        assert!(read.written.contains(name), "{name}: {read:?}");
    }
    assert!(!read.all && !read.written.contains("d") && !read.written.contains("a"), "{read:?}");
    assert_eq!(read.changed["a"], Some(BTreeSet::from([0])), "{read:?}");
}

/// Writes by all calls, with the pages that they may reach; what maps a file can store anywhere.
#[test]
fn pages_that_may_have_been_changed_are_known() {
    let script = r#"
import mmap, os, sys
os.chdir(sys.argv[1])
b = os.open("b", os.O_RDWR)
os.pwrite(b, b"x" * 5000, 4096)
os.lseek(b, 16384, 0)
os.write(b, b"y")
os.ftruncate(b, 20000)
if sys.argv[2] == "more":
    os.ftruncate(b, 13000)
a = os.open("a", os.O_RDWR | os.O_CREAT)
c = os.open("d/c", os.O_RDWR)
kind = mmap.PROT_READ | mmap.PROT_WRITE if sys.argv[2] == "more" else mmap.PROT_READ
mmap.mmap(a, 100, mmap.MAP_SHARED, kind)
if sys.argv[2] == "more":
    os.writev(c, [b"z"])
"#;
    let run = |more: &str| {
        let folder = folder();
        std::fs::write(folder.path().join("script.py"), script).expect("a script");
        let (status, read) = reads(folder.path(), &format!("python3 -ISB $1/script.py $1 {more}"));
        assert!(status == Some(0) && !read.all && read.written.is_empty(), "{read:?}");
        read.changed
    };
    let pages = |pages: &[u64]| Some(pages.iter().copied().collect::<BTreeSet<u64>>());
    assert_eq!(run("less"), [("b".to_owned(), pages(&[1, 2, 4]))].into());
    let all = [("a".to_owned(), None), ("b".to_owned(), pages(&[1, 2, 3, 4])), ("d/c".to_owned(), None)];
    assert_eq!(run("more"), all.into());
}

#[test]
fn a_link_on_the_way_counts_as_all() {
    let folder = folder();
    std::os::unix::fs::symlink("a", folder.path().join("link")).expect("a link");
    assert!(reads(folder.path(), "cat $1/link >/dev/null").1.all);
    let outside = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(folder.path(), outside.path().join("in")).expect("a link");
    let script = format!("cat {}/in/a >/dev/null", outside.path().display());
    assert!(reads(folder.path(), &script).1.all);
}

/// What a command leaves running ends with it, and no process stays stopped.
#[test]
fn nothing_of_a_command_outlives_it() {
    let folder = folder();
    let (status, _) =
        reads(folder.path(), "setsid sh -c 'echo $$ > $0/pid; sleep 1000' $1 & sleep 0.3; exit 4");
    assert_eq!(status, Some(4));
    let pid = fs::read_to_string(folder.path().join("pid")).expect("it began");
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    assert!(state.is_err() || state.is_ok_and(|state| state.contains(") Z")), "it is gone");
}

/// A process ends with its last thread, and each thread has to be waited for.
#[test]
fn threads_that_a_command_leaves_end_with_it() {
    let script = "import threading,time\nfor _ in range(16): threading.Thread(target=time.sleep,args=(1000,)).start()\n\
                  open('ready','w')\n";
    for _ in 0..4 {
        let folder = folder();
        fs::write(folder.path().join("threads.py"), script).expect("a script");
        let line = "cd $1; python3 -ISB threads.py & while ! [ -e ready ]; do sleep 0.01; done; exit 4";
        assert_eq!(reads(folder.path(), line).0, Some(4));
    }
}
