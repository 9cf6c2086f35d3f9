//! Real programs under the tracer.

use event::{Collected, Op};
use tracer::{Options, record};

fn run(script: &str, folder: &std::path::Path) -> Collected {
    let files = vec![folder.canonicalize().expect("its path").display().to_string()];
    let command = vec!["sh".into(), "-c".into(), script.into(), "sh".into(), folder.into()];
    let mut sink = Collected::default();
    let options = Options { command, files, stdout_to_stderr: false, ..Options::default() };
    let outcome = record(&options, &mut sink).expect("it is traced");
    assert!(outcome.status.success(), "{outcome:?}");
    sink
}

#[test]
fn a_shell_and_its_children_are_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = run(
        "cd $1 && echo one > a && echo two >> a && (cat a | sort > b) && sync b && mv b c && rm a && mkdir d",
        folder.path(),
    );
    let ops: Vec<Op> = seen.events.iter().map(|(_, event)| event.op).collect();
    let names =
        |id| seen.table.name(id).unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
    let mut deeds = Vec::new();
    for op in ops {
        match op {
            Op::FileCreate { file, folder } => deeds.push(format!("create {} {folder}", names(file))),
            Op::FileWrite { file, offset, len } => {
                deeds.push(format!("write {} {offset} {len}", names(file)))
            }
            Op::FileSync { file, .. } => deeds.push(format!("sync {}", names(file))),
            Op::Rename { from, to } => deeds.push(format!("rename {} {}", names(from), names(to))),
            Op::Unlink { file } => deeds.push(format!("unlink {}", names(file))),
            _ => {}
        }
    }
    let wanted = [
        "create a false",
        "write a 0 4",
        "write a 4 4",
        "create b false",
        "write b 0 8",
        "sync b",
        "rename b c",
        "unlink a",
        "create d true",
    ];
    assert_eq!(deeds, wanted);
    assert_eq!(seen.values, b"one\ntwo\none\ntwo\n");
}

#[test]
fn stores_to_shared_mappings_are_found_at_the_sync() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("m"), [0; 4096]).expect("a file");
    let python = "python3 -c 'import mmap,sys;f=open(sys.argv[1]+\"/m\",\"r+b\");m=mmap.mmap(f.fileno(),4096);m[16:24]=b\"12345678\";m.flush()' $1";
    if std::process::Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let seen = run(python, folder.path());
    let at = |wanted: fn(&Op) -> bool| seen.events.iter().position(|(_, event)| wanted(&event.op));
    let write = at(|op| matches!(op, Op::FileWrite { offset: 16, len: 8, .. })).expect("the word");
    let sync = at(|op| matches!(op, Op::FileRangeSync { offset: 0, len: 4096, data_only: true, .. }))
        .expect("the sync");
    assert!(write < sync);
    assert_eq!(seen.values, b"12345678");
}

#[test]
fn a_hole_made_by_advice_on_a_mapping_is_a_write_of_zeros() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("m"), [7; 10000]).expect("a file");
    let python = r#"python3 -c '
import mmap, sys
file = open(sys.argv[1] + "/m", "r+b")
mapped = mmap.mmap(file.fileno(), 10000)
mapped[4096:4104] = b"12345678"
try:
    mapped.madvise(mmap.MADV_REMOVE, 4096, 5904)
except OSError:
    print("none")
mapped[0:8] = b"abcdefgh"
mapped.flush()' $1"#;
    if std::process::Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let seen = run(python, folder.path());
    if std::fs::read(folder.path().join("m")).expect("the file")[9000] != 0 {
        println!("skipped: no holes on this file system");
        return;
    }
    let at = |from: u64, length: u32| {
        let is =
            |op: &Op| matches!(op, Op::FileWrite { offset, len, .. } if (*offset, *len) == (from, length));
        seen.events.iter().position(|(_, event)| is(&event.op)).expect("the write")
    };
    assert!(at(4096, 8) < at(4096, 5904) && at(4096, 5904) < at(0, 8));
    assert_eq!(seen.values, [&b"12345678"[..], &[0; 5904], b"abcdefgh"].concat());
}

#[test]
fn what_is_printed_comes_behind_what_was_synced() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = run("cd $1 && echo one > a && sync a && echo saved", folder.path());
    let ends = seen.events.iter().enumerate().filter_map(|(at, (_, event))| match event.op {
        Op::RegionEnd { region } => Some((at, event::printed(region, &seen.table).expect("its text"))),
        _ => None,
    });
    let ends = ends.collect::<Vec<_>>();
    let sync =
        seen.events.iter().position(|(_, event)| matches!(event.op, Op::FileSync { .. })).expect("a sync");
    assert_eq!(ends.len(), 1);
    assert!(sync < ends[0].0);
    assert_eq!(ends[0].1, b"saved\n");
}

/// All that can succeed or fail, by one thread; with a second one, which does nothing, each call's end is
/// waited for.
const CALLS: &str = r#"
import os, resource, sys, threading
if sys.argv[2] == 'two':
    threading.Thread(target=threading.Event().wait, daemon=True).start()
os.chdir(sys.argv[1])
def tried(call, *words):
    try: return call(*words)
    except OSError: return None
f = os.open('a', os.O_CREAT | os.O_RDWR, 0o600)
os.write(f, b'first'); os.write(f, b' second'); os.pwrite(f, b'FIRST', 0); os.writev(f, [b'1', b'', b'23'])
os.pwrite(f, b'far', 9000); os.pwrite(f, b'x' * 300000, 5)
os.pwrite(f, b'same', 100); os.pwrite(f, b'same', 100)
os.lseek(f, 3, os.SEEK_SET); os.write(f, b'!')
e = os.open('a', os.O_WRONLY | os.O_APPEND); os.write(e, b'end'); os.pwrite(e, b'end', 0)
d = os.dup(f); os.write(d, b'by a duplicate'); os.close(f)
f = os.open('b', os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600); os.write(f, b'under the same number')
os.ftruncate(f, 7); os.truncate('b', 3); os.close(f)
os.close(os.open('b', os.O_CREAT | os.O_WRONLY, 0o600)); os.close(os.open('b', os.O_TRUNC | os.O_WRONLY))
s = os.open('s', os.O_CREAT | os.O_WRONLY | os.O_DSYNC, 0o600); os.write(s, b'durable')
r = os.open('a', os.O_RDONLY); tried(os.write, r, b'not allowed')
tried(os.open, 'a', os.O_CREAT | os.O_EXCL | os.O_WRONLY); tried(os.open, 'no/x', os.O_CREAT | os.O_WRONLY)
os.mkdir('m'); tried(os.mkdir, 'm'); tried(os.rmdir, 'a'); tried(os.unlink, 'no'); tried(os.rename, 'no', 'a')
os.link('a', 'l'); tried(os.link, 'a', 'b')
os.rename('a', 'm/a'); os.rename('m', 'n'); tried(os.rename, 'b', 'n')
os.write(d, b'after the renaming'); os.rename('b', 's'); os.unlink('l'); os.unlink('n/a'); os.rmdir('n')
os.write(d, b'without a name'); os.symlink('nowhere', 'y'); os.close(os.open('y', os.O_CREAT | os.O_WRONLY))
t = os.open('t', os.O_CREAT | os.O_WRONLY, 0o600)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
os.write(t, b'a part of this is cut off'); tried(os.write, t, b'all of it'); os.pwrite(t, b'within', 2)
"#;

#[test]
fn one_thread_gives_the_same_events_as_two() {
    if std::process::Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let of = |threads: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("its path").display().to_string();
        let files = vec![root.clone()];
        let command = ["python3", "-c", CALLS, &root, threads].map(Into::into).to_vec();
        let mut sink = Collected::default();
        let options = Options { command, files, ..Options::default() };
        let outcome = record(&options, &mut sink).expect("it is traced");
        assert!(outcome.status.success(), "{outcome:?}");
        let name = |id| sink.table.name(id).unwrap_or_default().replace(&root, "").to_owned();
        let mut seen = Vec::new();
        for (_, event) in &sink.events {
            let what = match event.op {
                Op::FileWrite { file, offset, len } => format!("write {} {offset} {len}", name(file)),
                Op::FileRangeSync { file, offset, len, .. } => format!("range {} {offset} {len}", name(file)),
                Op::FileTruncate { file, len } => format!("truncate {} {len}", name(file)),
                Op::FileCreate { file, folder } => format!("create {} {folder}", name(file)),
                Op::Rename { from, to } => format!("rename {} {}", name(from), name(to)),
                Op::Link { from, to } => format!("link {} {}", name(from), name(to)),
                Op::Symlink { file, target } => format!("symlink {} {}", name(file), name(target)),
                Op::Unlink { file } => format!("unlink {}", name(file)),
                _ => continue,
            };
            seen.push(match what.split_once("inode:") {
                Some((what, rest)) => {
                    format!("{what}without a name{}", rest.split_once(' ').map_or("", |rest| rest.1))
                }
                None => what,
            });
        }
        (seen, sink.values)
    };
    let (one, two) = (of("one"), of("two"));
    assert_eq!(one.0, two.0);
    assert!(one.1 == two.1, "other bytes");
    for wanted in ["write /a 5 300000", "write /t 0 10", "unlink /n", "create /nowhere false", "write /t 2 6"]
    {
        assert!(one.0.iter().any(|what| what == wanted), "no {wanted}: {:?}", one.0);
    }
    assert!(!one.0.iter().any(|what| what.contains("/no ") || what.ends_with("/no")), "{:?}", one.0);
}

/// Stores to a mapped file of 4 MiB; mapped twice, it is compared as a whole, else only the pages that the
/// kernel names.
const STORES: &str = r#"
import mmap, os, random, sys
os.chdir(sys.argv[1])
f = os.open('m', os.O_RDWR)
m = mmap.mmap(f, 4 << 20)
if sys.argv[2] == 'twice': other = mmap.mmap(f, 4 << 20)
random.seed(43)
def some():
    for _ in range(40):
        at = random.randrange((4 << 20) - 20)
        m[at:at + 20] = random.randbytes(20)
some(); m.flush(); m.flush(); some(); os.fsync(f)
os.pwrite(f, b'by a call', 100000); m[100000:100002] = b'BY'; some(); m.flush(0, 8192)
f2 = os.open('g', os.O_CREAT | os.O_RDWR); os.ftruncate(f2, 3 << 20)
n = mmap.mmap(f2, 2 << 20, offset=1 << 20)
n[5:9] = b'past'; n.flush(); n[4096:4100] = b'left'; n.close(); os.fsync(f2)
os.rename('g', 'h'); some(); m.flush(); m.resize(8 << 20); some(); m[5 << 20] = 7; m.flush()
m[0:4] = b'last'
"#;

#[test]
fn what_the_kernel_says_of_pages_gives_the_same_events_as_comparison() {
    if std::process::Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let of = |times: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("its path").display().to_string();
        std::fs::write(folder.path().join("m"), vec![0; 4 << 20]).expect("a file");
        let command = ["python3", "-c", STORES, &root, times].map(Into::into).to_vec();
        let mut sink = Collected::default();
        let options = Options { command, files: vec![root.clone()], ..Options::default() };
        let outcome = record(&options, &mut sink).expect("it is traced");
        assert!(outcome.status.success(), "{outcome:?}");
        let name = |id| sink.table.name(id).unwrap_or_default().replace(&root, "");
        let mut seen = Vec::new();
        for (_, event) in &sink.events {
            match event.op {
                Op::FileWrite { file, offset, len } => seen.push((name(file), offset, u64::from(len))),
                Op::FileRangeSync { file, offset, len, .. } => {
                    seen.push((format!("sync {}", name(file)), offset, u64::from(len)));
                }
                Op::FileTruncate { file, len } => seen.push((format!("truncate {}", name(file)), len, 0)),
                _ => {}
            }
        }
        (outcome.watched, seen, sink.values)
    };
    let (one, twice) = (of("once"), of("twice"));
    println!("watched {} and {}", one.0, twice.0);
    assert_eq!(one.1, twice.1);
    assert!(one.2 == twice.2, "other bytes");
    assert!(one.1.iter().filter(|write| write.0 == "/m" && write.2 == 8).count() > 200, "{:?}", one.1.len());
    assert!(one.1.contains(&("/g".to_owned(), (1 << 20) + 4096, 8)), "stored and unmapped before the sync");
}

/// Go has its own calling convention, stacks that move, and lines in DWARF.
#[test]
fn functions_and_lines_of_go_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "package main\n\nimport \"os\"\n\ntype store struct{ f *os.File }\n\n//go:noinline\n\
                  func (s *store) put(text string) { s.f.WriteString(text) }\n\nfunc main() {\n\
                  \tf, _ := os.Create(os.Args[1])\n\ts := &store{f}\n\tdone := make(chan bool)\n\
                  \tgo func() { s.put(\"one\"); done <- true }()\n\t<-done\n\tf.Sync()\n}\n";
    std::fs::write(folder.path().join("save.go"), source).expect("its source");
    let mut go = std::process::Command::new("go");
    go.current_dir(folder.path()).env("GO111MODULE", "off").args(["build", "-o", "save", "save.go"]);
    if !go.status().is_ok_and(|status| status.success()) {
        println!("skipped: no go");
        return;
    }
    let root = folder.path().canonicalize().expect("its path");
    let file = root.join("f");
    let command = vec![root.join("save").into(), file.clone().into()];
    let mut sink = Collected::default();
    let options = Options { command, files: vec![file.display().to_string()], ..Options::default() };
    record(&options, &mut sink).expect("it is traced");
    let stack = |wanted: fn(&Op) -> bool| {
        let (_, event) = sink.events.iter().find(|(_, event)| wanted(&event.op)).expect("the call");
        let frames = &sink.table.site(event.site).expect("its site").frames;
        frames.iter().map(|frame| format!("{}:{}", frame.function, frame.line)).collect::<Vec<_>>()
    };
    let write = stack(|op| matches!(op, Op::FileWrite { .. }));
    assert_eq!(write, ["write:0", "main.(*store).put:8", "main.main.func1:14"]);
    assert_eq!(stack(|op| matches!(op, Op::FileSync { .. })), ["fsync:0", "main.main:16"]);
}

/// lld, which Rust links with, pads nothing: a page of the file has the end of one segment and the beginning
/// of the code, at two addresses.
#[test]
fn stacks_of_programs_whose_segments_share_a_page_of_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "use std::io::Write;\n\
                  #[inline(never)] fn outer(f: &mut std::fs::File) { inner(f); std::hint::black_box(f); }\n\
                  #[inline(never)] fn inner(f: &mut std::fs::File) {\n\
                  f.write_all(b\"hello\").unwrap(); f.sync_all().unwrap(); }\n\
                  fn main() {\n\
                  outer(&mut std::fs::File::create(std::env::args().nth(1).unwrap()).unwrap()); }\n";
    let (code, built) = (folder.path().join("a.rs"), folder.path().join("a"));
    std::fs::write(&code, source).expect("the source");
    let rustc = std::process::Command::new("rustc").args(["-g", "-o"]).args([&built, &code]).output();
    if !rustc.is_ok_and(|output| output.status.success()) {
        println!("skipped: no rustc");
        return;
    }
    std::fs::create_dir(folder.path().join("d")).expect("a folder");
    let seen = run("cd $1 && ./a d/f", folder.path());
    let sync = seen.events.iter().find(|(_, event)| matches!(event.op, Op::FileSync { .. })).expect("a sync");
    let frames = &seen.table.site(sync.1.site).expect("its site").frames;
    let functions: Vec<&str> =
        frames.iter().map(|frame| frame.function.rsplit("::").next().unwrap_or("")).collect();
    assert_eq!(functions, ["fsync", "inner", "outer", "main"], "{frames:?}");
}
