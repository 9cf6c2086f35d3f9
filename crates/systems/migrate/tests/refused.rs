//! What cannot be saved or moved: each gets a message that says so, and the process goes on where it was.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use migrate::Error;
use migrate::freeze::{Checkpoint, checkpoint};
use migrate::live::{Lazy, Listener, Migrate, migrate, restore_lazy, target};
use migrate::restore::{exit_code, in_namespace};

const ROLE: &str = "STRANDLINE_TEST_PID";

fn memory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("strandline-refused-").tempdir_in("/dev/shm").expect("/dev/shm")
}

fn privileged() -> bool {
    let is =
        std::fs::read_to_string("/proc/self/status").expect("/proc is there").contains("CapEff:\t000001ff");
    if !is {
        println!("skipped: choosing process numbers needs root");
    }
    is
}

/// A program of these tests' own, out of its text.
fn built(folder: &Path, text: &str) -> Option<PathBuf> {
    if !privileged() {
        return None;
    }
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, text).expect("written");
    let done = Command::new("cc").args(["-O1", "-w", "-o"]).arg(&program).arg(&source).status();
    if !done.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return None;
    }
    Some(program)
}

/// A program that has none of the files that whoever started these tests has left open.
fn alone(command: &mut Command) -> &mut Command {
    let close = || {
        // SAFETY: no memory is involved.
        unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
        Ok(())
    };
    // SAFETY: the child makes a system call only.
    unsafe { command.pre_exec(close) }
}

fn started(program: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    alone(&mut command).spawn().expect("it is there")
}

fn sleeper() -> Child {
    let child = started(Path::new("sleep"), &["60"]);
    // Until it is that program.
    let name = format!("/proc/{}/comm", child.id());
    while std::fs::read_to_string(&name).is_ok_and(|comm| comm.trim() != "sleep") {
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

fn save(child: &Child, folder: &Path) -> migrate::Result<migrate::freeze::Times> {
    let how = Checkpoint { no_sync: true, leave_running: true, ..Checkpoint::default() };
    checkpoint(child.id().cast_signed(), &folder.join("image"), &how)
}

fn refused(child: &Child, folder: &Path) -> Error {
    let error = save(child, folder).expect_err("refused");
    assert!(!folder.join("image/state").exists(), "{error}");
    error
}

fn lives(child: &mut Child) {
    assert!(child.try_wait().expect("our child").is_none(), "it goes on");
    // A thread that traced it lets go when it has ended, which may be a moment after it was joined.
    let free = || {
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it is there");
        (text.contains("TracerPid:\t0") && !text.contains("State:\tT")).then_some(()).ok_or(text)
    };
    for _ in 0..100 {
        if free().is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    free().expect("nobody traces it");
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn one_that_is_gone_or_a_zombie() {
    let folder = memory();
    let mut child = started(Path::new("true"), &[]);
    let path = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let error = refused(&child, folder.path());
    assert!(
        matches!(error, Error::Zombie(_)) && error.to_string().contains("has ended (a zombie)"),
        "{error}"
    );
    let _ = child.wait();
    let error = refused(&child, folder.path());
    assert!(matches!(error, Error::NoProcess(_)) && error.to_string().contains("does not exist"), "{error}");
}

#[test]
fn one_that_is_traced() {
    if !privileged() {
        return;
    }
    let folder = memory();
    let mut child = sleeper();
    let pid = child.id().cast_signed();
    let (ready, wait) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: no memory is involved.
            assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) }, 0);
            ready.send(()).expect("the test waits");
            let _ = gone.recv();
        });
        wait.recv().expect("traced");
        let error = refused(&child, folder.path());
        assert!(matches!(error, Error::Traced { .. }), "{error}");
        assert!(error.to_string().contains("detach that debugger first"), "{error}");
        drop(go);
    });
    lives(&mut child);
    end(child);
}

#[test]
#[ignore = "--long: a helper process of the other tests, which does nothing by itself"]
fn as_another_user() {
    let Ok(pid) = std::env::var(ROLE) else { return };
    let folder = std::env::temp_dir().join(format!("strandline-nobody-{pid}"));
    let how = Checkpoint { leave_running: true, ..Checkpoint::default() };
    let error = checkpoint(pid.parse().expect("a number"), &folder, &how).expect_err("not ours");
    println!("refused: {error}");
}

#[test]
fn one_of_another_user() {
    if !privileged() {
        return;
    }
    // A copy where that user may read it.
    let folder = memory();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("ours");
    let test = folder.path().join("test");
    std::fs::copy(std::env::current_exe().expect("this test"), &test).expect("copied");
    let mut child = sleeper();
    let mut command = Command::new(&test);
    command.args(["--exact", "as_another_user", "--ignored", "--nocapture"]);
    command.env(ROLE, child.id().to_string()).uid(65534).gid(65534).current_dir("/");
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("may not be traced") && text.contains("run as its user or as root"), "{text}");
    lives(&mut child);
    end(child);
}

/// A program of 32-bit code that waits: header, one segment, `pause` in a loop.
fn old_program() -> Vec<u8> {
    let code = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 1, 1, 1];
    bytes.resize(16, 0);
    let half = |bytes: &mut Vec<u8>, value: u16| bytes.extend(value.to_le_bytes());
    let word = |bytes: &mut Vec<u8>, value: u32| bytes.extend(value.to_le_bytes());
    half(&mut bytes, 2);
    half(&mut bytes, 3);
    for value in [1, 0x0804_8054, 52, 0, 0] {
        word(&mut bytes, value);
    }
    for value in [52, 32, 1, 0, 0, 0] {
        half(&mut bytes, value);
    }
    let len = 84 + code.len() as u32;
    for value in [1, 0, 0x0804_8000, 0x0804_8000, len, len, 5, 0x1000] {
        word(&mut bytes, value);
    }
    bytes.extend(code);
    bytes
}

#[test]
fn one_of_32_bits() {
    if !privileged() {
        return;
    }
    let folder = memory();
    let program = folder.path().join("old");
    std::fs::write(&program, old_program()).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let Ok(mut child) = Command::new(&program).stdin(Stdio::null()).spawn() else {
        println!("skipped: this kernel runs no 32-bit programs");
        return;
    };
    let error = refused(&child, folder.path()).to_string();
    assert!(error.contains("is not a 64-bit program; only x86-64 programs can be saved"), "{error}");
    lives(&mut child);
    end(child);
}

#[test]
fn one_with_a_deleted_file_open() {
    let folder = memory();
    let text = "#include <fcntl.h>\n#include <unistd.h>\nint main(int c, char **v) { close_range(3, ~0U, 0); \
                open(v[1], O_RDWR | O_CREAT, 0600); unlink(v[1]); for (;;) pause(); }";
    let Some(program) = built(folder.path(), text) else { return };
    let path = folder.path().join("gone");
    let mut child = started(&program, &[&path.display().to_string()]);
    std::thread::sleep(Duration::from_millis(100));
    let error = refused(&child, folder.path()).to_string();
    assert!(error.contains("file descriptor 3: the deleted file") && error.contains("gone"), "{error}");
    assert!(error.contains("it was not stopped"), "{error}");
    lives(&mut child);
    end(child);
}

/// Children come and go, and programs change, while checkpoints are taken: each is whole or says what happened.
#[test]
fn one_that_forks_executes_and_ends_meanwhile() {
    let folder = memory();
    let text = "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
                int main(int c, char **v) { close_range(3, ~0U, 0); int n = atoi(v[1]); \
                for (int i = 0; i < 20; i++) { if (!fork()) { usleep(200); _exit(0); } usleep(300); } \
                while (waitpid(-1, 0, WNOHANG) > 0); if (n == 0) return 3; \
                char next[20]; sprintf(next, \"%d\", n - 1); execl(v[0], v[0], next, (char *)0); }";
    let Some(program) = built(folder.path(), text) else { return };
    let (mut whole, mut said) = (0, Vec::new());
    for round in 0..6 {
        let mut child = started(&program, &["25"]);
        loop {
            match save(&child, folder.path()) {
                Ok(_) => {
                    whole += 1;
                    migrate::live::check(&folder.path().join("image")).expect("whole");
                }
                Err(error) => said.push(error.to_string()),
            }
            if child.try_wait().expect("our child").is_some() {
                break;
            }
        }
        assert_eq!(child.wait().expect("our child").code(), Some(3), "round {round}: it ran to its end");
    }
    println!("{whole} whole; {:#?}", said.iter().collect::<std::collections::BTreeSet<_>>());
    assert!(whole > 0, "{said:#?}");
    let known =
        ["does not exist", "has ended", "in between", "cannot be saved", "to wait", "may not be traced"];
    let known = |text: &String| known.iter().any(|one| text.contains(one)) || text.contains("process ");
    assert!(said.iter().all(known), "{said:#?}");
}

#[test]
fn full_memory_is_noticed_before_anything_stops() {
    if !privileged() {
        return;
    }
    let folder = memory();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).expect("ours");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: no tmpfs can be mounted");
        return;
    }
    let mut child = sleeper();
    let error = migrate(child.id().cast_signed(), &small.join("fam"), &Migrate::default()).map(drop);
    let left = std::fs::read_dir(small.join("fam")).map_or(0, |entries| entries.flatten().count());
    lives(&mut child);
    end(child);
    // Lazily: another test's child may hold a copy of the mount just then.
    let unmounted = Command::new("umount").arg("-l").arg(&small).status();
    let error = error.expect_err("full").to_string();
    assert!(
        error.contains("fabric-attached memory is full") && error.contains("bytes are needed"),
        "{error}"
    );
    assert_eq!(left, 0, "nothing is left behind");
    assert!(unmounted.is_ok_and(|status| status.success()));
}

fn moved(program: &Path, out: &Path, fam: &Path) -> u32 {
    let mut child = started(program, &[&out.display().to_string()]);
    std::thread::sleep(Duration::from_millis(100));
    let done = migrate(child.id().cast_signed(), fam, &Migrate::default()).expect("it moves");
    let _ = child.wait();
    assert_eq!(exit_code(done.child.expect("a target of ours")).expect("our child"), 7);
    child.id()
}

fn not_restored(folder: &Path) -> String {
    let restored = in_namespace(&mut || {
        let (restored, pages) = restore_lazy(folder, Lazy::default())?;
        Ok((restored, Box::new(move || drop(pages.wait()))))
    });
    restored.expect_err("refused").to_string()
}

#[test]
fn memory_of_another_process_or_version_or_half_written() {
    let folder = memory();
    let Some(program) = built(folder.path(), include_str!("programs/work.c")) else { return };
    let path = |name: &str| folder.path().join(name);
    let first = moved(&program, &path("out"), &path("one"));
    let second = moved(&program, &path("out"), &path("two"));
    let lines = std::fs::read_to_string(path("out")).expect("written").lines().count();
    assert_eq!(lines, 2);
    let file = path("one").join(format!("{first}.lazy"));
    let whole = std::fs::read(&file).expect("there");
    std::fs::copy(path("two").join(format!("{second}.lazy")), &file).expect("copied");
    let error = not_restored(&path("one"));
    assert!(error.contains(&format!("is of process {second}, not of {first}")), "{error}");
    let with = |at: usize, bytes: &[u8]| {
        let mut other = whole.clone();
        other[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&file, other).expect("written");
        not_restored(&path("one"))
    };
    let error = with(8, &[9]);
    assert!(error.contains("lazy-page file of version 9, this program reads version"), "{error}");
    let error = with(64, b"FILLING.");
    assert!(
        error.contains("half-written") && error.contains("only a file that is complete restores"),
        "{error}"
    );
    let error = with(0, b"nonsense");
    assert!(error.contains("not a lazy-page file"), "{error}");
    std::fs::write(&file, &whole[..8192]).expect("cut short");
    let error = not_restored(&path("one"));
    assert!(error.contains("longer or shorter than its header says"), "{error}");
    std::fs::remove_file(&file).expect("gone");
    let error = not_restored(&path("one"));
    assert!(error.contains(&format!("{first}.lazy: open")), "{error}");
    assert_eq!(std::fs::read_to_string(path("out")).expect("written").lines().count(), 2, "none of them ran");
}

#[test]
fn a_target_that_is_lost_and_one_that_says_no() {
    if !privileged() {
        return;
    }
    for answer in ["", "no room here\n", "welcome\n"] {
        let folder = memory();
        let at = folder.path().join("there");
        let listener = UnixListener::bind(&at).expect("a socket");
        let mut child = sleeper();
        let how = Migrate { to: Some(at.display().to_string()), ..Migrate::default() };
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the source");
                let mut line = String::new();
                let _ = BufReader::new(&stream).read_line(&mut line);
                assert!(line.starts_with("strandline-migrate 1 "), "{line}");
                let _ = stream.write_all(answer.as_bytes());
                drop(stream);
                drop(listener);
            });
            migrate(child.id().cast_signed(), &folder.path().join("fam"), &how).map(drop)
        });
        let error = error.expect_err("no target").to_string();
        assert!(error.contains("it goes on where it was") || error.contains("no target listens"), "{error}");
        assert!(answer != "no room here\n" || error.contains("no room here"), "{error}");
        lives(&mut child);
        end(child);
        assert!(!folder.path().join("fam/state").exists());
    }
}

#[test]
fn a_source_that_is_lost_and_one_that_speaks_otherwise() {
    let folder = memory();
    for greeting in ["strandline-migrate 1 4711.1.x fam\n", "strandline-migrate 9 4711.1.x fam\n", "\n"] {
        let at = folder.path().join(format!("there{}", greeting.len())).display().to_string();
        let listener = Listener::bind(&at).expect("a socket");
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = UnixStream::connect(&at).expect("it listens");
                let _ = stream.write_all(greeting.as_bytes());
            });
            target(&listener, folder.path(), Lazy::default()).map(drop).expect_err("no source").to_string()
        });
        let lost = error.contains("the source gave up before the process was here");
        assert!(lost || error.contains("is no greeting of this version's"), "{error}");
        let _ = std::fs::remove_file(&at);
    }
}
