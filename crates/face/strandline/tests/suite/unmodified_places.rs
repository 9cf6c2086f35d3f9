//! Where the files of a program that nobody recompiled can lie, who it can become, and when it can be ended.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Scratch, dump, has, is_running, ok, stderr, stdout, strandline};

fn fresh(scratch: &Scratch) {
    std::fs::remove_dir_all(scratch.path("d")).ok();
    std::fs::create_dir(scratch.path("d")).expect("the folder is made");
}

fn says(output: &Output, status: i32, words: &[&str]) {
    let said = format!("{}{}", stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(status), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}` in {said}");
    }
}

/// Runs a script in a mount namespace of its own; `None` where that is forbidden.
fn with_mounts(scratch: &Scratch, script: &str) -> Option<Output> {
    let mut probe = Command::new("unshare");
    probe.args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        println!("skipped: no mounts without rights");
        return None;
    }
    let mut command = Command::new("unshare");
    command.current_dir(scratch.dir()).args(["-m", "sh", "-ec", script, "sh"]);
    Some(command.arg(strandline().get_program()).output().expect("it runs"))
}

/// The words of a save that POSIX and ext4 keep.
const SAVE: &str = "printf new > f.tmp; sync f.tmp; mv f.tmp f; sync .; echo saved";

#[test]
fn a_folder_on_tmpfs_or_an_overlay() {
    for (mounts, said) in [
        ("mount -t tmpfs none d", "d is a mount point"),
        (
            "mount -t tmpfs none t; mkdir t/low t/up t/work; printf old > t/low/f; \
             mount -t overlay -o lowerdir=t/low,upperdir=t/up,workdir=t/work none d",
            "d is on an overlay",
        ),
    ] {
        let scratch = Scratch::new();
        fresh(&scratch);
        std::fs::create_dir(scratch.path("t")).expect("a folder");
        scratch.file("save.sh", SAVE);
        scratch.file("recover.sh", "! grep -q saved \"$STRANDLINE_STDOUT\" || grep -q new \"$1/f\"\n");
        let check = "\"$1\" check --files d --recover 'sh recover.sh POOL' -- sh -ec 'cd d; . ../save.sh'";
        let Some(output) = with_mounts(&scratch, &format!("{mounts}; {check}")) else { return };
        says(&output, 0, &[said, "nothing found"]);
        // Without the syncs something is lost there, too.
        let scratch = Scratch::new();
        fresh(&scratch);
        std::fs::create_dir(scratch.path("t")).expect("a folder");
        scratch.file("save.sh", &SAVE.replace("sync f.tmp; ", "").replace("sync .; ", ""));
        scratch.file("recover.sh", "! grep -q saved \"$STRANDLINE_STDOUT\" || grep -q new \"$1/f\"\n");
        let Some(output) = with_mounts(&scratch, &format!("{mounts}; {check}")) else { return };
        says(&output, 1, &["when `saved` had been printed"]);
    }
}

#[test]
fn a_program_that_becomes_another_user_is_followed() {
    let scratch = Scratch::new();
    fresh(&scratch);
    if !has("gcc") {
        return;
    }
    let source = "#include <unistd.h>\n#include <fcntl.h>\n\
                  int main(void){if(setgid(65534)||setuid(65534))return 3;\n\
                  int f=open(\"d/a\",O_CREAT|O_WRONLY,0600);\n\
                  if(f<0||write(f,\"seen\",4)!=4||fsync(f))return 2;return 0;}\n";
    scratch.file("becomes.c", source);
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-w", "-o", "becomes", "becomes.c"]));
    let open_to_all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scratch.path("d"), open_to_all.clone()).expect("its mode");
    std::fs::set_permissions(scratch.dir(), open_to_all).expect("its mode");
    let plain = Command::new(scratch.path("becomes")).current_dir(scratch.dir()).status().expect("it runs");
    if plain.code() == Some(3) {
        println!("skipped: not root");
        return;
    }
    std::fs::remove_file(scratch.path("d/a")).expect("its file");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args([
        "record",
        "--values",
        "--files",
        "d",
        "-o",
        "t.slt",
        "--",
        "./becomes",
    ]);
    says(&command.output().expect("it runs"), 0, &[]);
    let dumped = dump(&scratch.path("t.slt"));
    for word in ["d/a", "file-write", "file-sync"] {
        assert!(dumped.iter().any(|line| line.contains(word)), "no {word}: {dumped:?}");
    }
}

/// It is killed while its program stands in front of a call, most likely.
#[test]
fn nothing_stays_stopped_when_the_tracer_is_killed() {
    for verb in [&["record", "-o", "t.slt"][..], &["check", "--recover", "true POOL"]] {
        let scratch = Scratch::new();
        fresh(&scratch);
        let marker = format!("strandline-killed-{}-{}", verb[0], std::process::id());
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(verb).args(["--files", "d", "--"]);
        command.args(["sh", "-c", &format!("while :; do echo a; done > d/a; : {marker}")]);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        until(&|| std::fs::metadata(scratch.path("d/a")).is_ok_and(|about| about.len() > 200));
        running.kill().expect("it is killed");
        running.wait().expect("it is gone");
        until(&|| !is_running(&marker));
        assert!(std::fs::read(scratch.path("d/a")).is_ok_and(|bytes| bytes.starts_with(b"a\na\n")));
    }
}

/// A terminal sends the interrupt to both.
#[test]
fn ctrl_c_ends_both_and_keeps_the_trace() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let marker = format!("strandline-interrupted-{}", std::process::id());
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["record", "--files", "d", "-o", "t.slt", "--"]);
    command.args(["sh", "-c", &format!("echo a > d/a; while :; do sleep 0.05; done; : {marker}")]);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().expect("it runs");
    until(&|| std::fs::read(scratch.path("d/a")).is_ok_and(|bytes| bytes == b"a\n"));
    let group = rustix::process::Pid::from_raw(running.id() as i32).expect("its number");
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).expect("it is there");
    let output = running.wait_with_output().expect("it ends");
    assert!(stderr(&output).contains("SIGINT"), "{}", stderr(&output));
    until(&|| !is_running(&marker));
    assert!(dump(&scratch.path("t.slt")).iter().any(|line| line.contains("d/a")));
    let left = std::fs::read_dir(scratch.dir()).expect("the folder").count();
    assert_eq!(left, 2, "the folder and the trace");
}

fn until(wanted: &dyn Fn() -> bool) {
    let began = Instant::now();
    while !wanted() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(wanted());
}

/// A file that is changed by a name outside of the folder.
#[test]
fn a_hard_link_out_of_the_folder() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--files", "d", "--recover", "true POOL", "--"]);
    command.args(["sh", "-c", "echo a > d/a; ln d/a out; echo b >> out"]);
    let output = command.output().expect("it runs");
    says(&output, 2, &["no verdict"]);
    assert_eq!(std::fs::read(scratch.path("d/a")).expect("the file"), b"a\nb\n");
}
