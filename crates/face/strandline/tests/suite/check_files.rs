//! `strandline check --files`: programs that save to ordinary files, right and wrong, among them LMDB and broken copies of it.

use std::path::Path;
use std::process::Output;

use crate::common::{Scratch, c_sources, compile, copy_files, ok, stderr, stdout, strandline};
use serde_json::Value;

const SLOT: usize = 4096;
const RECORD: usize = 700;

/// What was there before the run: version 0 of everything.
fn prepare(folder: &Path) {
    if folder.exists() {
        std::fs::remove_dir_all(folder).expect("the folder is removed");
    }
    std::fs::create_dir(folder).expect("the folder is made");
    let mut record = [b'a'; RECORD];
    record[..4].fill(0);
    std::fs::write(folder.join("config"), record).expect("the file is written");
    std::fs::write(folder.join("log"), []).expect("the file is written");
    std::fs::write(folder.join("slots"), [0; 5 * SLOT]).expect("the file is written");
}

fn check(scratch: &Scratch, options: &[&str], program: &[&str]) -> (Output, Value) {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--json"]).args(options).arg("--").args(program);
    let output = command.output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let findings = answer["findings"].as_array().map_or(0, Vec::len);
    assert_eq!(output.status.code(), Some(i32::from(findings > 0)), "{answer:#}");
    (output, answer)
}

fn messages(answer: &Value) -> Vec<String> {
    let findings = answer["findings"].as_array().expect("a list");
    findings.iter().map(|finding| finding["message"].as_str().expect("a text").to_owned()).collect()
}

/// What the check finds in one way of saving.
fn saves(scratch: &Scratch, platform: &str, mode: &str) -> Value {
    prepare(&scratch.path("data"));
    let recover = format!("./saves --verify {mode} POOL");
    let options = ["--files", "data", "--platform", platform, "--recover", &recover];
    check(scratch, &options, &["./saves", mode, "data"]).1
}

#[test]
fn ways_to_save_are_right_with_their_syncs_and_wrong_without() {
    let scratch = Scratch::new();
    scratch.file("saves.c", include_str!("../programs/saves.c"));
    compile(scratch.dir(), "cc", "-O1 -g -o saves saves.c");
    for platform in ["ext4", "posix"] {
        for mode in ["replace", "log", "slots", "map"] {
            let right = saves(&scratch, platform, mode);
            assert_eq!(messages(&right), [""; 0], "{platform} {mode}: {right:#}");
            assert!(right["images"].as_u64() > Some(7), "{platform} {mode}: {right:#}");
            let wrong = saves(&scratch, platform, &format!("-{mode}"));
            let said = messages(&wrong).join("; ");
            let wanted = match (mode, platform) {
                // A renaming brings the contents along on ext4, but is itself not durable yet.
                ("replace", "ext4") | ("log", _) => "what was done is lost",
                ("replace", _) => "the file is torn",
                _ => "a slot is torn",
            };
            assert!(said.contains(wanted), "{platform} {mode}: {wrong:#}");
            assert!(platform == "posix" || !said.contains("the file is torn"), "{wrong:#}");
        }
    }
}

#[test]
fn the_story_names_both_lines_and_the_token_repeats_it() {
    let scratch = Scratch::new();
    let source = scratch.file("saves.c", include_str!("../programs/saves.c"));
    compile(scratch.dir(), "cc", "-O1 -g -o saves saves.c");
    let wrong = saves(&scratch, "posix", "-slots");
    let finding = &wrong["findings"][0];
    let text = std::fs::read_to_string(source).expect("the source is read");
    let line_of =
        |part: &str| text.lines().position(|line| line.contains(part)).expect("it is there") as u64 + 1;
    assert_eq!(finding["missing"][0]["store"]["line"], line_of("pwrite(fd, record"), "{finding:#}");
    assert_eq!(finding["survived"]["store"]["line"], line_of("pwrite(fd, &version"), "{finding:#}");
    let story = finding["story"].to_string();
    assert!(
        story.contains("bytes 0 to 511 of the 700 B written to slots")
            && story.contains("slots is synced only later"),
        "{story}"
    );
    // The run is in the folder, and what was there before it.
    let token = finding["token"].as_str().expect("a token");
    let mut again = strandline();
    again.current_dir(scratch.dir()).args([
        "check",
        "--recover",
        "./saves --verify slots POOL",
        "--replay",
        token,
    ]);
    let output = again.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("a slot is torn"), "{}", stdout(&output));
    let image = scratch.path("strandline-check/image-1/data/slots");
    assert_eq!(std::fs::metadata(image).expect("the image is kept").len(), 5 * SLOT as u64);
}

#[test]
fn what_can_not_be_checked_is_refused() {
    let scratch = Scratch::new();
    scratch.file("saves.c", include_str!("../programs/saves.c"));
    compile(scratch.dir(), "cc", "-O1 -g -o saves saves.c");
    prepare(&scratch.path("data"));
    std::fs::create_dir(scratch.path("other")).expect("the folder is made");
    let cases: [(&[&str], &str); 4] = [
        (&["--files", "data", "--platform", "adr"], "platform adr is one of memory"),
        (&["--platform", "ext4"], "say which with --files"),
        (&["--files", "data/*"], "name the folder instead"),
        (&["--files", "other"], "changed none of the files"),
    ];
    for (options, wanted) in cases {
        let mut command = strandline();
        command.current_dir(scratch.dir()).arg("check").args(options);
        command.args(["--recover", "./saves --verify log POOL", "--", "./saves", "log", "data"]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(wanted), "{options:?}: {}", stderr(&output));
    }
}

/// Builds the loader with LMDB's source as `patch` makes it.
fn lmdb(scratch: &Scratch, name: &str, patch: impl Fn(String) -> String) {
    let source = std::fs::read_to_string(scratch.path("mdb.c")).expect("the source is read");
    scratch.file(&format!("{name}.c"), &patch(source));
    compile(scratch.dir(), "cc", &format!("-O1 -g -I. -o {name} lmdb_commit.c {name}.c midl.c -pthread"));
}

fn replaced(source: &str, from: &str, to: &str) -> String {
    assert_eq!(source.matches(from).count(), 1, "LMDB has `{from}` once");
    source.replace(from, to)
}

const FLUSH: &str = "\tif ((rc = mdb_page_flush(txn, 0)))\n\t\tgoto fail;\n";
const SYNC: &str = "(rc = mdb_env_sync0(env, 0, txn->mt_next_pgno)))";
const META: &str = "\tif ((rc = mdb_env_write_meta(txn)))\n\t\tgoto fail;\n";

#[test]
fn lmdb_commits_survive_and_those_of_broken_copies_do_not() {
    let scratch = Scratch::new();
    copy_files(&c_sources("lmdb-master-sys", "lmdb/libraries/liblmdb"), scratch.dir());
    scratch.file("lmdb_commit.c", include_str!("../programs/lmdb_commit.c"));
    lmdb(&scratch, "whole", |source| source);
    lmdb(&scratch, "unsynced", |source| replaced(&source, SYNC, "(rc = 0))"));
    lmdb(&scratch, "meta_first", |source| {
        replaced(&replaced(&source, META, ""), FLUSH, &format!("{META}{FLUSH}"))
    });
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../observe/instrument/include");
    ok(std::process::Command::new("cc").current_dir(scratch.dir()).args([
        "-O1",
        "-I.",
        "-I",
        header,
        "-o",
        "verify",
        "lmdb_commit.c",
        "mdb.c",
        "midl.c",
        "-pthread",
    ]));
    let run = |platform: &str, made_before: bool, program: &[&str]| {
        if scratch.path("data").exists() {
            std::fs::remove_dir_all(scratch.path("data")).expect("the folder is removed");
        }
        std::fs::create_dir(scratch.path("data")).expect("the folder is made");
        if made_before {
            let mut make = std::process::Command::new(scratch.path("verify"));
            ok(make.current_dir(scratch.dir()).args(["data/l.mdb", "0"]));
        }
        let recover = "./verify --verify POOL";
        check(&scratch, &["--files", "data/l.mdb", "--platform", platform, "--recover", recover], program).1
    };
    for platform in ["ext4", "posix"] {
        for mode in [&["data/l.mdb", "12"][..], &["data/l.mdb", "6", "writemap"]] {
            let right = run(platform, true, &[&["./whole"], mode].concat());
            assert_eq!(messages(&right), [""; 0], "{platform} {mode:?}: {right:#}");
            assert!(right["images"].as_u64() > Some(50), "{right:#}");
        }
        for broken in ["./unsynced", "./meta_first"] {
            let wrong = run(platform, true, &[broken, "data/l.mdb", "6"]);
            let stories = wrong["findings"].to_string();
            assert!(
                stories.contains("mdb_env_write_meta") && stories.contains("mdb_page_flush"),
                "{wrong:#}"
            );
        }
    }
    // Unless the file was there before: LMDB writes its first pages without a sync, and never syncs the folder.
    let made = |platform| messages(&run(platform, false, &["./whole", "data/l.mdb", "3"])).join("; ");
    assert!(made("ext4").contains("MDB_INVALID"));
    assert!(made("posix").contains("transaction 1 was committed, the last one is 0"));
}

#[test]
fn sqlite_commits_survive_as_its_manual_says() {
    let scratch = Scratch::new();
    let source = c_sources("libsqlite3-sys", "sqlite3").display().to_string();
    scratch.file("sqlite_commit.c", include_str!("../programs/sqlite_commit.c"));
    let arguments = |out: &str| {
        format!(
            "-I{source} -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -o {out} sqlite_commit.c {source}/sqlite3.c -lm"
        )
    };
    compile(scratch.dir(), "cc", &format!("-O1 -g {}", arguments("observed")));
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../observe/instrument/include");
    let mut plain = std::process::Command::new("cc");
    ok(plain.current_dir(scratch.dir()).args(["-O1", "-I", header]).args(arguments("plain").split(' ')));
    for platform in ["ext4", "posix"] {
        for (journal, synchronous) in
            [("wal", "full"), ("delete", "extra"), ("delete", "full"), ("truncate", "full")]
        {
            if scratch.path("data").exists() {
                std::fs::remove_dir_all(scratch.path("data")).expect("the folder is removed");
            }
            std::fs::create_dir(scratch.path("data")).expect("the folder is made");
            let mut make = std::process::Command::new(scratch.path("plain"));
            ok(make.current_dir(scratch.dir()).args(["data", "0", journal, synchronous]));
            let options = ["--files", "data", "--platform", platform, "--recover", "./plain --verify POOL"];
            let program = ["./observed", "data", "3", journal, synchronous];
            let (_, answer) = check(&scratch, &options, &program);
            let said = messages(&answer);
            if (journal, synchronous) == ("delete", "full") {
                // A transaction ends when the journal's name is gone, and only `extra` syncs the folder then.
                assert!(!said.is_empty(), "{platform}: {answer:#}");
                assert!(answer["findings"].to_string().contains("unixDelete"), "{platform}: {answer:#}");
                assert!(said.iter().all(|message| message.contains("rows after")), "{platform}: {answer:#}");
            } else if (platform, journal) == ("posix", "truncate") {
                // There a truncation is not one step: zeros in the journal may come before its new length.
                assert!(!said.is_empty(), "{answer:#}");
                for finding in answer["findings"].as_array().expect("findings") {
                    let [length, zeros] = [&finding["missing"][0], &finding["survived"]];
                    assert_ne!(length["place"], zeros["place"], "{finding:#}");
                    let story = finding["story"].to_string();
                    assert!(story.contains("the length that the truncation of t.db-journal"), "{finding:#}");
                    assert!(story.contains("zeros that the same truncation leaves at"), "{finding:#}");
                }
            } else {
                assert_eq!(said, [""; 0], "{platform} {journal} {synchronous}: {answer:#}");
            }
        }
    }
}

const STREAMS: &str = include_str!("../programs/streams.cc");

#[test]
fn streams_of_c_and_cpp_write_as_descriptors_do() {
    let scratch = Scratch::new();
    scratch.file("streams.cc", STREAMS);
    compile(scratch.dir(), "c++", "-O1 -g -std=c++17 -o streams streams.cc");
    let empty = || {
        std::fs::remove_dir_all(scratch.path("data")).ok();
        std::fs::create_dir(scratch.path("data")).expect("the folder is made");
    };
    let marked = |mark: &str| -> Vec<u64> {
        let lines = (1..).zip(STREAMS.lines());
        lines.filter(|(_, line)| line.contains(&format!("/* {mark} */"))).map(|(number, _)| number).collect()
    };
    let options = ["--files", "data", "--platform", "posix", "--recover", "./streams --verify POOL"];
    for way in ["stream", "closed", "print", "class"] {
        empty();
        let (_, right) = check(&scratch, &options, &["./streams", way, "data"]);
        assert_eq!(messages(&right), [""; 0], "{way}: {right:#}");
        assert!(right["images"].as_u64() > Some(15), "{way}: {right:#}");
        empty();
        let (_, wrong) = check(&scratch, &options, &["./streams", &format!("-{way}"), "data"]);
        assert!(messages(&wrong).contains(&"the file is torn".to_owned()), "{way}: {wrong:#}");
        let finding = &wrong["findings"][0];
        let [lost, survives] = [&finding["missing"][0], &finding["survived"]]
            .map(|store| store["store"]["line"].as_u64().expect("a line"));
        assert!(marked(&format!("lost: {way}")).contains(&lost), "{way}: {finding:#}");
        assert!(marked("survives").contains(&survives), "{way}: {finding:#}");
    }
    // With nothing lost, all that was written is there.
    empty();
    scratch.file("same.sh", "diff -r $1 data > difference && touch same; exit 0");
    let options = ["--files", "data", "--images", "8", "--recover", "sh same.sh POOL"];
    check(&scratch, &options, &["./streams", "every", "data"]);
    assert!(scratch.path("same").exists());
    assert_eq!(std::fs::read_dir(scratch.path("data")).expect("a folder").count(), 10);
}
