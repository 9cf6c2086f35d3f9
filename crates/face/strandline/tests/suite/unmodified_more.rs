//! Acknowledgements, patterns, recordings and profiles of programs that nobody recompiled.

use std::process::{Command, Output};

use crate::common::{Scratch, compile, dump, has, ok, stderr, stdout, strandline};

fn fresh(scratch: &Scratch) {
    std::fs::remove_dir_all(scratch.path("d")).ok();
    std::fs::create_dir(scratch.path("d")).expect("the folder is made");
}

fn run(scratch: &Scratch, arguments: &[&str], program: &[&str]) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(arguments).arg("--").args(program).output().expect("it runs")
}

fn native(scratch: &Scratch, name: &str, source: &str) -> bool {
    if !has("gcc") {
        return false;
    }
    scratch.file(&format!("{name}.c"), source);
    let mut gcc = Command::new("gcc");
    ok(gcc.current_dir(scratch.dir()).args(["-g", "-O1", "-w", "-o", name, &format!("{name}.c")]));
    true
}

/// The words of a check whose recovery wants what was acknowledged.
const ACKED: &str = "sh -c '! grep -q saved \"$STRANDLINE_ACKS\" || grep -q new POOL/f'";

#[test]
fn acknowledgements_by_a_descriptor_and_by_a_path_count() {
    let scratch = Scratch::new();
    for (acks, say) in [("2", "echo saved >&2"), ("acks.txt", "echo saved >> acks.txt")] {
        for (sync, status) in [("sync d/f d;", 0), ("", 1)] {
            fresh(&scratch);
            std::fs::remove_file(scratch.path("acks.txt")).ok();
            let script = format!("echo new > d/f; {sync} {say}");
            let options =
                ["check", "--files", "d", "--platform", "posix", "--acks", acks, "--recover", ACKED];
            let output = run(&scratch, &options, &["sh", "-c", &script]);
            let said = stdout(&output);
            assert_eq!(output.status.code(), Some(status), "{acks} {sync}: {said}{}", stderr(&output));
            assert!(status == 0 || said.contains("when `saved` had been acknowledged"), "{acks}: {said}");
        }
    }
}

#[test]
fn acknowledgements_by_a_socket_count() {
    if !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    let script = "import os,socket,sys\n\
                  a=socket.socket(socket.AF_UNIX);a.bind('s');a.listen()\n\
                  c=socket.socket(socket.AF_UNIX);c.connect('s');b,_=a.accept()\n\
                  f=os.open('d/f',os.O_CREAT|os.O_WRONLY);os.write(f,b'new')\n\
                  d=os.open('d',os.O_RDONLY)\n\
                  if len(sys.argv)>1: os.fsync(f);os.fsync(d)\n\
                  b.sendall(b'saved')\n";
    scratch.file("serve.py", script);
    for (word, status) in [(&["sync"][..], 0), (&[][..], 1)] {
        fresh(&scratch);
        std::fs::remove_file(scratch.path("s")).ok();
        let path = scratch.path("s").display().to_string();
        let program: Vec<&str> = ["python3", "serve.py"].iter().chain(word).copied().collect();
        let options = ["check", "--files", "d", "--platform", "posix", "--acks", &path, "--recover", ACKED];
        // A socket is bound to the path as the program gives it.
        let options: Vec<&str> = options.to_vec();
        let output = run(&scratch, &options, &program);
        assert_eq!(output.status.code(), Some(status), "{word:?}: {}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn what_nobody_understands_as_acks_is_refused() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let options = ["check", "--files", "d", "--acks", "localhost:port", "--recover", "true POOL"];
    let output = run(&scratch, &options, &["true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--acks localhost:port"), "{}", stderr(&output));
}

#[test]
fn a_pattern_decides_whatever_the_status_is() {
    let scratch = Scratch::new();
    for (pattern, status) in [("(?i)LOST|torn", 1), ("unheard of", 0)] {
        fresh(&scratch);
        let recover = "sh -c 'grep -q new POOL/f || echo it is lost; true'";
        let options =
            ["check", "--files", "d", "--platform", "posix", "--fail-on", pattern, "--recover", recover];
        let script = "echo new > d/f; sync d/f d";
        // The undisturbed result is right; an image without the file is not.
        let output = run(&scratch, &options, &["sh", "-c", script]);
        assert_eq!(output.status.code(), Some(status), "{pattern}: {}{}", stdout(&output), stderr(&output));
        assert!(status == 0 || stdout(&output).contains("it is lost"), "{}", stdout(&output));
    }
    let options = ["check", "--files", "d", "--fail-on", "(", "--recover", "true POOL"];
    let output = run(&scratch, &options, &["true"]);
    assert!(stderr(&output).contains("--fail-on ("), "{}", stderr(&output));
}

/// A shell writes `echo … >&2` by descriptor 1; where both are one pipe, that is not printed all the same.
#[test]
fn standard_output_and_error_of_one_pipe_are_distinguished() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let strandline = crate::common::strandline();
    let inside = format!(
        "{} record --files d -o t.slt -- sh -c 'echo a > d/a; echo out; echo err >&2; echo more' 2>&1",
        strandline.get_program().display()
    );
    let output =
        Command::new("sh").current_dir(scratch.dir()).args(["-c", &inside]).output().expect("it runs");
    let said = stdout(&output);
    assert!(["out\n", "err\n", "more\n"].iter().all(|line| said.contains(line)), "{said}");
    let regions = dump(&scratch.path("t.slt")).iter().filter(|line| line.contains("region")).count();
    assert_eq!(regions, 4, "two lines, each with a begin and an end: {:?}", dump(&scratch.path("t.slt")));
}

#[test]
fn asynchronous_writes_are_followed() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let source = r#"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    aio_context_t context = 0;
    struct iocb write_it, *list[] = { &write_it };
    struct io_event done;
    char text[] = "by io_submit";
    int fd = open("d/f", O_CREAT | O_RDWR, 0600), folder = open("d", O_RDONLY);
    if (syscall(SYS_io_setup, 4, &context)) return puts("no aio"), 0;
    memset(&write_it, 0, sizeof write_it);
    write_it.aio_lio_opcode = IOCB_CMD_PWRITE;
    write_it.aio_fildes = fd;
    write_it.aio_buf = (unsigned long)text;
    write_it.aio_nbytes = strlen(text);
    if (count > 1 && !strcmp(words[1], "early")) { fsync(fd); fsync(folder); }
    if (syscall(SYS_io_submit, context, 1, list) != 1) return 2;
    if (syscall(SYS_io_getevents, context, 1, 1, &done, 0) != 1 || done.res != strlen(text)) return 3;
    if (count > 1 && !strcmp(words[1], "sync")) { fsync(fd); fsync(folder); }
    puts("saved");
    return 0;
}
"#;
    if !native(&scratch, "aio", source) {
        return;
    }
    let recover = "sh -c '! grep -q saved \"$STRANDLINE_STDOUT\" || grep -q io_submit POOL/f'";
    for (word, status) in [("sync", 0), ("early", 1)] {
        fresh(&scratch);
        let output = run(&scratch, &["check", "--files", "d", "--recover", recover], &["./aio", word]);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        if said.contains("no aio") {
            println!("skipped: no asynchronous I/O here");
            return;
        }
        assert_eq!(output.status.code(), Some(status), "{word}: {said}");
        assert!(status == 0 || said.contains("io_submit, called from main (aio.c:"), "{said}");
    }
}

#[test]
fn any_program_is_recorded_and_profiled() {
    let scratch = Scratch::new();
    fresh(&scratch);
    let source = r#"
#include <fcntl.h>
#include <unistd.h>
__attribute__((noinline)) static void put(int fd) { write(fd, "0123456789", 10); }
__attribute__((noinline)) static void flush(int fd) { fsync(fd); }
int main(void) {
    int fd = open("d/log", O_CREAT | O_WRONLY | O_APPEND, 0600);
    for (int at = 0; at < 200; at++) { put(fd); flush(fd); }
    flush(fd);
    return 0;
}
"#;
    if !native(&scratch, "log", source) {
        return;
    }
    let output = run(&scratch, &["record", "--files", "d", "-o", "t.slt"], &["./log"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        dump(&scratch.path("t.slt"))
            .iter()
            .filter(|line| line.contains("file-write") || line.contains("write "))
            .count(),
        200
    );

    fresh(&scratch);
    let output = run(&scratch, &["profile", "--files", "d", "--json", "--out", "r"], &["./log"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("was not built with strandline cc"), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = &json["all"];
    for (field, wanted) in
        [("writes", 200), ("bytes", 2000), ("syncs", 201), ("needless_syncs", 1), ("most_bytes", 10)]
    {
        assert_eq!(all[field], wanted, "{field}: {json:#}");
    }
    // Each sync writes one page, or two where the ten bytes lie across a boundary.
    assert!(all["page_amplification"].as_f64().is_some_and(|times| times >= 409.0), "{json:#}");
    let calls = json["calls"].as_array().expect("calls");
    let of = |call: &str| calls.iter().find(|one| one["code"][0]["function"] == call).expect("the call");
    assert_eq!(of("fsync")["code"][1]["function"], "flush");
    assert_eq!(of("write")["code"][1]["function"], "put");
    assert_eq!(of("write")["code"][1]["line"], 4);
    assert!(
        json["lints"]
            .as_array()
            .is_some_and(|lints| lints.iter().any(|lint| lint["lint"] == "folder-not-synced"))
    );
    let page = std::fs::read_to_string(scratch.path("r/report.html")).expect("the page");
    assert!(page.contains("needless") && page.contains("called from flush"));

    fresh(&scratch);
    let output = run(&scratch, &["profile", "--files", "d", "--out", "r"], &["./log"]);
    let said = stdout(&output);
    assert!(
        said.contains("201 syncs") && said.contains("leave them out") && said.contains("folder-not-synced"),
        "{said}"
    );
}

/// A program that was built with `strandline cc` gives the same findings and as many images, whichever way it is followed.
/// One call stands on each line: images like those of a finding of the same code are not tried again.
#[test]
fn both_ways_of_recording_give_the_same_images() {
    let scratch = Scratch::new();
    let source = r#"
#include <fcntl.h>
#include <unistd.h>
int main(void) {
    int fd = open("d/a", O_CREAT | O_RDWR, 0600);
    if (write(fd, "first version", 13) != 13) return 1;
    fsync(fd);
    if (pwrite(fd, "FIRST", 5, 0) != 5) return 1;
    if (ftruncate(fd, 9)) return 1;
    rename("d/a", "d/b");
    int other = open("d/c", O_CREAT | O_WRONLY | O_APPEND, 0600);
    if (write(other, "one", 3) != 3) return 1;
    if (write(other, "two", 3) != 3) return 1;
    link("d/b", "d/l");
    fdatasync(other);
    unlink("d/c");
    mkdir("d/e", 0700);
    return 0;
}
"#;
    if !native(&scratch, "plain", source) {
        return;
    }
    std::fs::copy(scratch.path("plain.c"), scratch.path("built.c")).expect("a copy");
    compile(scratch.dir(), "cc", "-g -O1 -w -o built built.c");
    for platform in ["ext4", "posix"] {
        let of = |program: &str| {
            fresh(&scratch);
            let options = [
                "check",
                "--files",
                "d",
                "--platform",
                platform,
                "--jobs",
                "1",
                "--json",
                "--out",
                "found",
                "--images",
                "100000",
                "--recover",
                "sh -c 'cat POOL/b 2>/dev/null | grep -q FIRST || ! test -e POOL/l'",
            ];
            let output = run(&scratch, &options, &[&format!("./{program}")]);
            let json: serde_json::Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{program}: {}", stderr(&output)));
            let tokens: Vec<String> = json["findings"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| format!("{} {} {}", one["token"], one["message"], one["images"]))
                .collect();
            (
                json["images"].clone(),
                json["images_failing"].clone(),
                json["stored_words"].clone(),
                tokens.len(),
            )
        };
        assert_eq!(of("plain"), of("built"), "{platform}");
    }
}
