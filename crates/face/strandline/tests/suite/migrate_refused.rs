//! What cannot be saved or moved, through the verbs: each gets status 2 and a message with a remedy, and the
//! process goes on where it was.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::common::{Scratch, alone, compile, stderr, strandline};

fn privileged() -> bool {
    let is = fs::read_to_string("/proc/self/status").is_ok_and(|text| text.contains("CapEff:\t000001ff"));
    if !is {
        println!("skipped: choosing process numbers needs root");
    }
    is
}

fn started(program: &Path, arguments: &[&str]) -> Child {
    let mut command = alone(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("it is there");
    std::thread::sleep(Duration::from_millis(150));
    child
}

fn run(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(arguments).stdin(Stdio::null());
    command.output().expect("it runs")
}

/// Both verbs refuse it with this message, and leave nothing.
fn refused(scratch: &Scratch, pid: u32, message: &str) {
    let pid = pid.to_string();
    for arguments in
        [["checkpoint", "--pid", &pid, "folder"].as_slice(), &["migrate", "--pid", &pid, "--fam", "folder"]]
    {
        let output = run(scratch, arguments);
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(message), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(!scratch.path("folder/state").exists(), "{arguments:?}");
    }
}

/// It runs, and nobody traces or stops it.
fn lives(child: &mut Child) {
    assert!(child.try_wait().expect("our child").is_none(), "it goes on");
    let text = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it is there");
    assert!(text.contains("TracerPid:\t0") && !text.contains("State:\tT"), "{text}");
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn one_that_is_gone_a_zombie_or_traced() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    let mut child = started(Path::new("true"), &[]);
    refused(&scratch, child.id(), "has ended (a zombie)");
    let _ = child.wait();
    refused(&scratch, child.id(), "does not exist");
    let text = "#include <stdio.h>\n#include <sys/ptrace.h>\n#include <unistd.h>\nint main() { int p = fork(); if (!p) \
                for (;;) pause(); ptrace(PTRACE_SEIZE, p, 0, 0); printf(\"%d\\n\", p); fflush(stdout); pause(); }";
    scratch.file("tracer.c", text);
    compile(scratch.dir(), "cc", "-O1 -w -o tracer tracer.c");
    let mut tracer = Command::new(scratch.path("tracer")).stdout(Stdio::piped()).spawn().expect("built");
    let mut line = String::new();
    BufReader::new(tracer.stdout.take().expect("piped")).read_line(&mut line).expect("a number");
    let traced = line.trim().parse().expect("a number");
    refused(&scratch, traced, "detach that debugger first");
    assert!(Path::new("/proc").join(line.trim()).exists(), "it goes on");
    let _ = Command::new("kill").arg(line.trim()).status();
    let _ = tracer.kill();
    let _ = tracer.wait();
}

#[test]
fn one_of_another_user() {
    if !privileged() {
        return;
    }
    let mut child = started(Path::new("sleep"), &["60"]);
    // Where that user may read it.
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let binary = folder.path().join("strandline");
    fs::copy(strandline().get_program(), &binary).expect("copied");
    let mut command = Command::new(&binary);
    command.args(["migrate", "--pid", &child.id().to_string(), "--fam", "fam"]);
    let output = command.uid(65534).gid(65534).current_dir(folder.path()).output().expect("it runs");
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("run as its user or as root"), "{said}");
    lives(&mut child);
    end(child);
}

/// A program of 32-bit code that waits: header, one segment, `pause` in a loop.
fn old_program() -> Vec<u8> {
    let code = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 1, 1, 1];
    bytes.resize(16, 0);
    let halves =
        |bytes: &mut Vec<u8>, all: &[u16]| all.iter().for_each(|one| bytes.extend(one.to_le_bytes()));
    let words = |bytes: &mut Vec<u8>, all: &[u32]| all.iter().for_each(|one| bytes.extend(one.to_le_bytes()));
    halves(&mut bytes, &[2, 3]);
    words(&mut bytes, &[1, 0x0804_8054, 52, 0, 0]);
    halves(&mut bytes, &[52, 32, 1, 0, 0, 0]);
    let len = 84 + code.len() as u32;
    words(&mut bytes, &[1, 0, 0x0804_8000, 0x0804_8000, len, len, 5, 0x1000]);
    bytes.extend(code);
    bytes
}

#[test]
fn one_of_32_bits() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.path("old");
    fs::write(&program, old_program()).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    if !Command::new(&program).stdin(Stdio::null()).spawn().is_ok_and(|child| {
        end(child);
        true
    }) {
        println!("skipped: this kernel runs no 32-bit programs");
        return;
    }
    let mut child = started(&program, &[]);
    refused(&scratch, child.id(), "is not a 64-bit program");
    lives(&mut child);
    end(child);
}

#[test]
fn one_with_a_deleted_file_open_and_one_that_has_a_connection() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    let text = "#include <fcntl.h>\n#include <sys/socket.h>\n#include <sys/un.h>\n#include <string.h>\n#include <unistd.h>\n\
                int main(int c, char **v) { if (c > 2) { struct sockaddr_un a = {AF_UNIX}; strcpy(a.sun_path, v[1]); \
                int s = socket(AF_UNIX, SOCK_STREAM, 0); connect(s, (void *)&a, sizeof a); } else { \
                open(v[1], O_RDWR | O_CREAT, 0600); unlink(v[1]); } for (;;) pause(); }";
    scratch.file("open.c", text);
    compile(scratch.dir(), "cc", "-O1 -w -o open open.c");
    let (program, path) = (scratch.path("open"), scratch.path("gone").display().to_string());
    let mut child = started(&program, &[&path]);
    refused(&scratch, child.id(), "file descriptor 3: the deleted file");
    lives(&mut child);
    end(child);
    let at = scratch.path("there").display().to_string();
    let listener = UnixListener::bind(&at).expect("a socket");
    let mut child = started(&program, &[&at, "connect"]);
    let _peer = listener.accept().expect("it connects");
    refused(&scratch, child.id(), "file descriptor 3: ");
    lives(&mut child);
    end(child);
}

/// Each descriptor that cannot move is listed by its number, with a remedy, in one message before anything is stopped.
#[test]
fn all_that_cannot_move_is_listed_at_once() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("many.c", include_str!("../programs/many.c"));
    compile(scratch.dir(), "cc", "-O1 -w -o many many.c");
    let mut child = started(&scratch.path("many"), &[&scratch.path("file").display().to_string()]);
    let wanted = [
        (3, "the deleted file", "open it again under a name that stays"),
        (4, "an object of the kernel, inotify", "close it"),
        (5, "the named pipe or device", "close it"),
        (6, "a socket of address family 16", "close it"),
        (7, "a lease of", "wait until the program has released it"),
        (8, "a connection to 127.0.0.1:", "--close-connections"),
        (9, "a local socket in which file descriptors are on their way", "try again"),
        (10, "the device", "close it"),
        (11, "an object of the kernel, [userfaultfd]", "close it"),
    ];
    for (fd, what, remedy) in wanted {
        let line = format!("process {}, file descriptor {fd}: ", child.id());
        refused(&scratch, child.id(), &line);
        let output = run(&scratch, &["checkpoint", "--pid", &child.id().to_string(), "folder"]);
        let said = stderr(&output);
        let line = said.lines().find(|one| one.contains(&line)).expect("as just seen");
        assert!(line.contains(what) && line.contains(remedy), "{said}");
        assert!(said.contains("it was not stopped"), "{said}");
    }
    lives(&mut child);
    end(child);
}

/// It forks, executes and ends while it is saved again and again: each time it is saved whole, or the message
/// says what happened.
#[test]
fn one_that_forks_executes_and_ends_meanwhile() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    let text = "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
                int main(int c, char **v) { int n = atoi(v[1]); for (int i = 0; i < 20; i++) { if (!fork()) { \
                usleep(200); _exit(0); } usleep(300); } while (waitpid(-1, 0, WNOHANG) > 0); if (n == 0) return 3; \
                char next[20]; sprintf(next, \"%d\", n - 1); execl(v[0], v[0], next, (char *)0); }";
    scratch.file("busy.c", text);
    compile(scratch.dir(), "cc", "-O1 -w -o busy busy.c");
    let mut child = started(&scratch.path("busy"), &["60"]);
    let pid = child.id().to_string();
    while child.try_wait().expect("our child").is_none() {
        let output = run(&scratch, &["checkpoint", "--leave-running", "--no-sync", "--pid", &pid, "saved"]);
        match output.status.code() {
            Some(0) => assert!(run(&scratch, &["restore", "--check", "saved"]).status.success()),
            code => assert!(code == Some(2) && stderr(&output).contains("process "), "{}", stderr(&output)),
        }
    }
    assert_eq!(child.wait().expect("our child").code(), Some(3), "it ran to its end");
}

#[test]
fn full_memory_a_used_folder_and_an_absurd_pid() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    let mut child = started(Path::new("sleep"), &["60"]);
    let pid = child.id().to_string();
    fs::create_dir(scratch.path("small")).expect("ours");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(scratch.path("small"));
    let mounted = mount.status().is_ok_and(|status| status.success());
    if mounted {
        let output = run(&scratch, &["migrate", "--pid", &pid, "--fam", "small/fam"]);
        let left = fs::read_dir(scratch.path("small/fam")).map_or(0, Iterator::count);
        let _ = Command::new("umount").arg("-l").arg(scratch.path("small")).status();
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains("fabric-attached memory is full"), "{said}");
        assert!(said.contains("bytes are needed"), "{said}");
        assert_eq!(left, 0, "nothing is left behind");
    } else {
        println!("not tried: no tmpfs can be mounted");
    }
    fs::create_dir(scratch.path("used")).expect("ours");
    scratch.file("used/state", "something else");
    let output = run(&scratch, &["migrate", "--pid", &pid, "--fam", "used"]);
    assert!(stderr(&output).contains("name another folder"), "{}", stderr(&output));
    for pid in ["0", "-1", "999999999", "x"] {
        let output = run(&scratch, &["migrate", &format!("--pid={pid}"), "--fam", "fam"]);
        assert_eq!(output.status.code(), Some(2), "{pid}: {}", stderr(&output));
        assert!(stderr(&output).lines().count() < 10 && !stderr(&output).contains("panicked"), "{pid}");
    }
    lives(&mut child);
    end(child);
}

/// A process that has moved and ended: its folder restores it from memory alone, unless the file is
/// another's, of another version, or half-written.
#[test]
fn a_file_of_another_process_or_version_or_half_written() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("works.c", include_str!("../programs/works.c"));
    compile(scratch.dir(), "cc", "-O1 -w -o works works.c");
    let out = scratch.path("out").display().to_string();
    let moved = |fam: &str| {
        let mut child = started(&scratch.path("works"), &[&out, "30"]);
        let pid = child.id().to_string();
        let output = run(&scratch, &["migrate", "--pid", &pid, "--fam", fam]);
        assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
        let _ = child.wait();
        format!("{fam}/{pid}.lazy")
    };
    let (first, second) = (scratch.path(&moved("one")), scratch.path(&moved("two")));
    let whole = fs::read(&first).expect("there");
    let with = |at: usize, bytes: &[u8]| {
        let mut other = whole.clone();
        other[at..at + bytes.len()].copy_from_slice(bytes);
        other
    };
    let cases = [
        (fs::read(&second).expect("there"), "is of process "),
        (with(8, &[9]), "of version 9, this program reads version"),
        (with(64, b"FILLING."), "half-written"),
        (with(0, b"nonsense"), "not a lazy-page file"),
        (whole[..8192].to_vec(), "longer or shorter than its header says"),
    ];
    for (bytes, message) in cases {
        fs::write(&first, bytes).expect("written");
        let output = run(&scratch, &["restore", "--lazy", "--clones", "1", "one"]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(message), "{message}: {said}");
    }
    fs::remove_file(&first).expect("there");
    let said = stderr(&run(&scratch, &["restore", "--lazy", "--clones", "1", "one"]));
    assert!(said.contains(".lazy: open"), "{said}");
    // A bit of a page; behind the pages the file has room that counts for nothing.
    let last = whole.iter().rposition(|byte| *byte != 0).expect("pages");
    fs::write(&first, with(last, &[whole[last] ^ 1])).expect("written");
    let output = run(&scratch, &["restore", "--check", "one"]);
    assert!(
        output.status.code() == Some(2) && stderr(&output).contains("the pages at"),
        "{}",
        stderr(&output)
    );
    let lines = fs::read_to_string(&out).expect("written").lines().count();
    assert_eq!(lines, 2, "none of them ran");
    fs::write(&first, &whole).expect("whole again");
    let output = run(&scratch, &["restore", "--lazy", "--clones", "1", "one"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
}

#[test]
fn a_target_that_is_lost_or_says_no_and_a_source_that_is_lost() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    let mut child = started(Path::new("sleep"), &["60"]);
    let pid = child.id().to_string();
    let output = run(&scratch, &["migrate", "--pid", &pid, "--fam", "fam", "--to", "./nobody"]);
    assert!(stderr(&output).contains("no target listens there"), "{}", stderr(&output));
    for answer in ["", "no room here\n", "welcome\n"] {
        let at = scratch.path("there");
        let listener = UnixListener::bind(&at).expect("a socket");
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the source");
                let _ = stream.write_all(answer.as_bytes());
                drop(listener);
            });
            run(&scratch, &["migrate", "--pid", &pid, "--fam", "fam", "--to", "./there"])
        });
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains("it goes on where it was"), "{said}");
        let _ = fs::remove_file(at);
        assert!(!scratch.path("fam/state").exists(), "{said}");
    }
    lives(&mut child);
    end(child);
    for greeting in
        ["strandline-migrate 1 4711.1.x fam\n", "strandline-migrate 9 4711.1.x fam\n", "nonsense\n", ""]
    {
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["restore", "--lazy", "--listen", "./here", "none"]);
        let there = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut stream = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            UnixStream::connect(scratch.path("here")).ok()
        });
        let _ = stream.as_mut().expect("it listens").write_all(greeting.as_bytes());
        drop(stream);
        let output = there.wait_with_output().expect("our child");
        assert_eq!(output.status.code(), Some(2), "{greeting}: {}", stderr(&output));
        let _ = fs::remove_file(scratch.path("here"));
    }
}

/// A network of 20 MB/s: it takes its time, and nothing else changes.
#[test]
fn a_slow_network() {
    if !privileged() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("works.c", include_str!("../programs/works.c"));
    compile(scratch.dir(), "cc", "-O1 -w -o works works.c");
    let out = scratch.path("out").display().to_string();
    let mut child = started(&scratch.path("works"), &[&out, "60"]);
    let pid = child.id().to_string();
    let slow = ["--by-socket", "--throttle", "1000000:20"];
    let output = run(&scratch, &[&["migrate", "--json", "--pid", &pid, "--fam", "fam"], &slow[..]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let times: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let least = times["lazy_bytes"].as_f64().unwrap_or(0.0) / 20e6;
    assert!(times["total_s"].as_f64() > Some(least), "no faster than the network: {times:#}");
    let _ = child.wait();
    assert_eq!(fs::read_to_string(&out).expect("written").lines().count(), 1);
}
