//! What programs that were not built with `strandline cc` can do wrong to whoever follows them: each gets a clear message,
//! and nothing is left behind.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Scratch, has, is_running, ok, stderr, stdout, strandline};

/// A folder `d`, empty.
fn fresh(scratch: &Scratch) {
    std::fs::remove_dir_all(scratch.path("d")).ok();
    std::fs::create_dir(scratch.path("d")).expect("the folder is made");
}

fn check(scratch: &Scratch, options: &[&str], program: &[&str]) -> Output {
    let mut command = strandline();
    command
        .current_dir(scratch.dir())
        .args(["check", "--files", "d", "--recover", "true POOL"])
        .args(options);
    command.arg("--").args(program).output().expect("it runs")
}

fn says(output: &Output, status: i32, words: &[&str]) {
    let said = format!("{}{}", stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(status), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}` in {said}");
    }
}

fn compiled(scratch: &Scratch, name: &str, source: &str) -> bool {
    if !has("gcc") {
        return false;
    }
    scratch.file(&format!("{name}.c"), source);
    let mut gcc = Command::new("gcc");
    ok(gcc.current_dir(scratch.dir()).args(["-g", "-O1", "-w", "-o", name, &format!("{name}.c")]));
    true
}

#[test]
fn a_32_bit_program_is_refused_by_name() {
    let scratch = Scratch::new();
    fresh(&scratch);
    // The head of an ELF file for 32 bits, one segment, and code that ends with status 0.
    let mut elf = b"\x7fELF\x01\x01\x01".to_vec();
    elf.resize(16, 0);
    elf.extend([2, 0, 3, 0, 1, 0, 0, 0]);
    elf.extend(0x0804_8054_u32.to_le_bytes());
    elf.extend(52_u32.to_le_bytes());
    elf.extend([0; 8]);
    elf.extend([52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0, 0]);
    for word in [1_u32, 0, 0x0804_8000, 0x0804_8000, 96, 96, 5, 4096] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0x31, 0xdb, 0x31, 0xc0, 0x40, 0xcd, 0x80, 0x90, 0x90, 0x90, 0x90, 0x90]);
    let path = scratch.path("old32");
    std::fs::write(&path, elf).expect("the program is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is a program");
    if Command::new(&path).status().is_err() {
        println!("skipped: this kernel runs no 32-bit programs");
        return;
    }
    says(&check(&scratch, &[], &["./old32"]), 2, &["old32 is a 32-bit program"]);
    says(&check(&scratch, &[], &["sh", "-c", "echo a > d/a; ./old32"]), 2, &["old32 is a 32-bit program"]);
}

#[test]
fn a_program_that_traces_is_told_of() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let source = "#include <sys/ptrace.h>\n#include <stdio.h>\n\
                  int main(void){FILE *f=fopen(\"d/a\",\"w\");fputs(\"a\",f);fclose(f);return ptrace(PTRACE_TRACEME,0,0,0)!=-1;}\n";
    if compiled(&scratch, "traces", source) {
        says(&check(&scratch, &[], &["./traces"]), 0, &["traces asked to trace a program (ptrace)"]);
    }
}

/// Filters add up: the program's own one does not keep its writes from being seen.
#[test]
fn a_filter_of_the_programs_own_hides_nothing() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let source = "#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <sys/prctl.h>\n#include <stdio.h>\n\
                  int main(void){struct sock_filter c[]={{BPF_RET|BPF_K,0,0,SECCOMP_RET_ALLOW}};struct sock_fprog p={1,c};\n\
                  if(prctl(PR_SET_NO_NEW_PRIVS,1,0,0,0)||prctl(PR_SET_SECCOMP,SECCOMP_MODE_FILTER,&p))return 2;\n\
                  FILE *f=fopen(\"d/a\",\"w\");fputs(\"seen\",f);fclose(f);return 0;}\n";
    if compiled(&scratch, "filters", source) {
        let output = check(&scratch, &[], &["./filters"]);
        says(&output, 0, &["in 1 file", "nothing found"]);
    }
}

#[test]
fn a_set_user_id_program_runs_without_its_rights_and_that_is_said() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let program = scratch.path("rights");
    std::fs::copy("/bin/sh", &program).expect("a copy");
    if std::os::unix::fs::chown(&program, Some(1), Some(1)).is_err() {
        println!("skipped: not root");
        return;
    }
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("its mode");
    let output = check(&scratch, &[], &["./rights", "-c", "echo a > d/a"]);
    says(&output, 0, &["rights is a set-user-id or set-group-id program"]);
}

#[test]
fn a_program_goes_with_the_one_that_follows_it() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let marker = format!("strandline-test-{}", std::process::id());
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--files", "d", "--recover", "true POOL", "--"]);
    command.args(["sh", "-c", &format!("echo a > d/a; while :; do sleep 0.05; done; : {marker}")]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let until = |wanted: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !wanted() && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(wanted());
    };
    until(&|| std::fs::read(scratch.path("d/a")).is_ok_and(|bytes| bytes == b"a\n"));
    running.kill().expect("it is killed");
    running.wait().expect("it is gone");
    until(&|| !is_running(&marker));
    assert_eq!(std::fs::read(scratch.path("d/a")).expect("its file"), b"a\n");
}

#[test]
fn an_interrupt_ends_the_program_and_keeps_what_it_did() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["record", "--files", "d", "-o", "t.slt", "--"]);
    command.args(["sh", "-c", "echo a > d/a; while :; do sleep 0.05; done"]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let began = Instant::now();
    while !scratch.path("d/a").exists() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(running.id() as i32).expect("its number");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
    let output = running.wait_with_output().expect("it ends");
    assert!(stderr(&output).contains("SIGTERM"), "{}", stderr(&output));
    let left: Vec<_> =
        std::fs::read_dir(scratch.dir()).expect("the folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), 2, "something is left behind: {left:?}");
    assert!(crate::common::dump(&scratch.path("t.slt")).iter().any(|line| line.contains("d/a")));
}

#[test]
fn a_full_disk_is_said_and_the_programs_files_stay() {
    let scratch = Scratch::new();
    fresh(&scratch);
    std::fs::write(scratch.path("d/kept"), "kept").expect("a file");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["record", "--values", "--files", "d", "-o", "/dev/full", "--"]);
    command.args(["sh", "-c", "head -c 300000 /dev/urandom > d/a"]);
    let output = command.output().expect("it runs");
    says(&output, 2, &["/dev/full", "No space left"]);
    assert_eq!(std::fs::read(scratch.path("d/kept")).expect("the file"), b"kept");
}

#[test]
fn what_another_process_changes_gives_no_verdict() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let (go, done) = (scratch.path("go"), scratch.path("done"));
    let outside = scratch.path("d/b");
    let other = std::thread::spawn(move || {
        while !go.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::write(outside, "from outside").expect("a file");
        std::fs::write(done, "").expect("a file");
    });
    let script = "echo a > d/a; touch go; while [ ! -e done ]; do sleep 0.02; done";
    says(&check(&scratch, &[], &["sh", "-c", script]), 2, &["no verdict", "d/b"]);
    other.join().expect("it ends");
}

#[test]
fn links_into_and_out_of_the_folder() {
    let scratch = Scratch::new();
    fresh(&scratch);
    std::fs::write(scratch.path("outside"), "old").expect("a file");
    symlink("../outside", scratch.path("d/out")).expect("a link");
    std::fs::create_dir(scratch.path("inside")).expect("a folder");
    symlink("../d", scratch.path("inside/in")).expect("a link");
    // By a link out of the folder nothing in it is changed; by a link into it something is.
    let output = check(
        &scratch,
        &[],
        &["sh", "-c", "echo new > d/out; echo in > inside/in/a; ln d/a d/b; ln -s a d/c"],
    );
    says(&output, 0, &["nothing found"]);
    assert_eq!(std::fs::read(scratch.path("outside")).expect("the file"), b"new\n");
    fresh(&scratch);
    let output = check(&scratch, &[], &["ln", "outside", "d/hard"]);
    says(&output, 2, &["no verdict", "link to a file outside"]);
}

#[test]
fn a_name_that_is_not_utf_8_gives_no_verdict() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let output = check(&scratch, &[], &["sh", "-c", "echo a > d/a; echo b > \"d/$(printf 'x\\377')\""]);
    says(&output, 2, &["not UTF-8"]);
    // It is the program's own all the same.
    let name = std::ffi::OsStr::from_bytes(b"x\xff");
    assert_eq!(std::fs::read(scratch.path("d").join(name)).expect("the file"), b"b\n");
}

#[test]
fn ten_thousand_files() {
    let scratch = Scratch::new();
    fresh(&scratch);
    for number in 0..10_000 {
        std::fs::write(scratch.path("d").join(format!("f{number}")), "x").expect("a file");
    }
    let script = "echo new > d/f5.tmp; sync d/f5.tmp; mv d/f5.tmp d/f5; sync d; echo saved";
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--files", "d", "--", "sh", "-c", script]);
    says(&command.output().expect("it runs"), 0, &["nothing found"]);
}

#[test]
fn a_mount_point_is_said() {
    let shm = std::path::Path::new("/dev/shm");
    let Ok(folder) = tempfile::Builder::new().prefix("strandline-").tempdir_in(shm) else {
        println!("skipped: no /dev/shm");
        return;
    };
    let scratch = Scratch::new();
    let script = format!("echo a > {}/a", folder.path().display());
    let mut command = strandline();
    command
        .current_dir(scratch.dir())
        .args(["record", "--files", "/dev/shm", "-o", "t.slt", "--", "sh", "-c", &script]);
    says(&command.output().expect("it runs"), 0, &["/dev/shm is a mount point"]);
}
