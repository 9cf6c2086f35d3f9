//! What a program does to ordinary files, and what it says of the order in which its stores persist.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{Scratch, c_sources, compile, copy_files, dump, number, ok, record, stdout, strandline};
use event::{Op, SiteTable};
use trace::Reader;

#[test]
fn strand_marks_are_reported_where_they_stand() {
    let scratch = Scratch::new();
    scratch.file(
        "s.c",
        r"
#include <strandline.h>
volatile long a[3];
int main(void) {
    sl_new_strand();
    a[0] = 1;
    sl_persist_barrier();
    a[1] = 2;
    sl_join_strand();
    a[2] = 3;
    return 0;
}
",
    );
    compile(scratch.dir(), "cc", "-O1 -g -o s s.c");
    let info = record(&scratch, &[], &["./s"]);
    assert_eq!(number(&info, "strand_marks"), 3, "{info:#}");
    let lines = dump(&scratch.path("t.slt"));
    let ours: Vec<&str> =
        lines.iter().filter(|line| line.contains("s.c:")).filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(
        ours,
        ["strand-new", "store", "strand-barrier", "store", "strand-join", "store"],
        "{lines:#?}"
    );
    let json = stdout(&ok(strandline().args(["trace", "dump", "--json"]).arg(scratch.path("t.slt"))));
    assert!(json.contains(r#""op":"strand-barrier""#), "{json}");
    // Without Strandline the marks do nothing.
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../observe/instrument/include");
    ok(std::process::Command::new("cc")
        .current_dir(scratch.dir())
        .args(["-I", header, "-o", "plain", "s.c"]));
    ok(&mut std::process::Command::new(scratch.path("plain")));
}

/// What the trace says was done to the files below a folder, a line each, the folder's path left out.
fn reported(scratch: &Scratch, folder: &str) -> Vec<String> {
    let base = scratch.path(folder).canonicalize().expect("the folder is there");
    let base = format!("{}/", base.display());
    let kinds = ["file-", "folder-", "rename", "unlink", "map", "unmap"];
    let mut addresses = Vec::new();
    dump(&scratch.path("t.slt"))
        .iter()
        .filter_map(|line| line.split_once(' ').map(|(_, rest)| rest))
        .filter(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
        .filter(|rest| !rest.contains("/dev/shm") && rest.contains("files.c:"))
        .map(|rest| {
            let text = rest.replace(&base, "");
            let text = text.split(" main (").next().unwrap_or_default();
            let words: Vec<String> = text
                .split(' ')
                .map(|word| {
                    if !word.starts_with("0x") {
                        return word.to_owned();
                    }
                    if !addresses.contains(&word.to_owned()) {
                        addresses.push(word.to_owned());
                    }
                    format!("@{}", addresses.iter().position(|known| known == word).expect("it is there"))
                })
                .collect();
            words.join(" ")
        })
        .collect()
}

fn files_program(scratch: &Scratch) {
    scratch.file("files.c", include_str!("../programs/files.c"));
    compile(scratch.dir(), "cc", "-O1 -g -o files files.c");
    std::fs::create_dir(scratch.path("data")).expect("the folder is made");
}

#[test]
fn what_is_done_to_files_is_reported_with_offsets_and_names() {
    let scratch = Scratch::new();
    files_program(&scratch);
    record(&scratch, &["--files", "data"], &["./files", "data"]);
    let temporary = |line: &str| match line.find("tmp-") {
        Some(at) => format!("{}{}", &line[..at + 3], &line[at + 10..]),
        None => line.to_owned(),
    };
    let lines: Vec<String> = reported(&scratch, "data").iter().map(|line| temporary(line)).collect();
    let wanted = [
        "file-create a",
        "file-write a 0 3",
        "file-write a 100 3",
        "file-write a 3 5",
        "file-write a 8 5",
        "file-write a 200 5",
        "file-write a 50 4",
        "file-data-sync a",
        "file-truncate a 1000",
        "file-truncate a 2000",
        "file-truncate a 3000",
        "file-sync a",
        "file-write a 7 3",
        "file-write a 54 4",
        "file-write a 3000 3",
        "file-range-data-sync a 3000 3",
        "file-create big",
        "file-write big 0 200000",
        "file-truncate big 0",
        "folder-create d",
        "file-create d/tmp",
        "file-write d/tmp 0 3",
        "file-sync d/tmp",
        "rename d/tmp d/final",
        "file-write d/final 0 1",
        "file-sync d",
        "unlink d/final",
        "unlink d",
        "file-create m",
        "file-truncate m 12288",
        "map @0 8192 m",
        "map-offset @0 4096",
        "map-sync @0 4096",
        "unmap @0 8192",
        "file-create log",
        "file-write log 0 6",
        "file-write log 6 5",
        "file-write log 11 5",
    ];
    assert_eq!(lines, wanted, "{lines:#?}");
}

#[test]
fn nobody_is_reported_of_files_that_were_not_named() {
    let scratch = Scratch::new();
    files_program(&scratch);
    let info = record(&scratch, &[], &["./files", "data"]);
    assert_eq!(reported(&scratch, "data"), [""; 0]);
    assert!(!info["capabilities"].to_string().contains("files"), "{info:#}");
    // A single file, and a glob.
    for (pattern, writes) in [("data/log", 3), ("*/bi?", 1)] {
        std::fs::remove_dir_all(scratch.path("data")).expect("the folder is removed");
        std::fs::create_dir(scratch.path("data")).expect("the folder is made");
        let info = record(&scratch, &["--files", pattern], &["./files", "data"]);
        assert_eq!(number(&info, "file_writes"), writes, "{pattern}: {info:#}");
        assert!(info["capabilities"].to_string().contains("files"), "{info:#}");
    }
}

/// The contents of files as the trace's operations make them.
#[derive(Default)]
struct Replayed {
    files: BTreeMap<String, Vec<u8>>,
}

impl Replayed {
    fn apply(&mut self, op: Op, value: &[u8], table: &SiteTable) {
        let name = |id| table.name(id).expect("a name").to_owned();
        match op {
            Op::FileCreate { file, folder: false } => drop(self.files.insert(name(file), Vec::new())),
            Op::FileWrite { file, offset, .. } => {
                let bytes = self.files.get_mut(&name(file)).expect("it was made before");
                let end = offset as usize + value.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[offset as usize..end].copy_from_slice(value);
            }
            Op::FileTruncate { file, len } => {
                self.files.get_mut(&name(file)).expect("it was made before").resize(len as usize, 0);
            }
            Op::Rename { from, to } => {
                let moved = self.files.remove(&name(from)).expect("it was there");
                self.files.insert(name(to), moved);
            }
            Op::Unlink { file } => drop(self.files.remove(&name(file))),
            _ => {}
        }
    }

    /// Replays a trace with values: all operations in the order of the trace.
    fn of(trace: &Path) -> Replayed {
        let mut reader = Reader::open(trace).expect("the trace opens");
        let table = reader.table().clone();
        let mut replayed = Replayed::default();
        let mut maps: Vec<(u64, u64, u64, String)> = Vec::new();
        let mut batches = reader.batches();
        while let Some(batch) = batches.next().expect("the trace is whole") {
            let mut values = batch.values;
            for event in batch.events {
                let len = event.op.value_len().unwrap_or(0) as usize;
                let value = values.split_off(..len).expect("its bytes");
                match event.op {
                    Op::Map { addr, len, name } => {
                        maps.push((addr, len, 0, table.name(name).expect("a name").to_owned()));
                    }
                    Op::MapOffset { addr, offset } => {
                        let map = maps.last_mut().expect("it comes after its map");
                        assert_eq!(map.0, addr);
                        map.2 = offset;
                    }
                    Op::Unmap { addr, .. } => maps.retain(|map| map.0 != addr),
                    Op::Store { addr, .. } | Op::StoreNt { addr, .. } => {
                        let inside = |map: &&(u64, u64, u64, String)| (map.0..map.0 + map.1).contains(&addr);
                        let Some((start, _, offset, file)) = maps.iter().find(inside) else { continue };
                        let at = (addr - start + offset) as usize;
                        // What is behind the file's end is in no file.
                        if let Some(bytes) = replayed.files.get_mut(file) {
                            bytes.iter_mut().skip(at).zip(value).for_each(|(to, byte)| *to = *byte);
                        }
                    }
                    op => replayed.apply(op, value, &table),
                }
            }
        }
        replayed
    }

    /// Holds every file of the folder against what was replayed.
    fn check(&self, folder: &Path, wanted: usize) {
        let folder = folder.canonicalize().expect("the folder is there");
        let real: BTreeMap<String, Vec<u8>> = std::fs::read_dir(folder)
            .expect("the folder is read")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.display().to_string(), std::fs::read(&path).expect("the file is read")))
            .collect();
        assert_eq!(real.len(), wanted);
        assert_eq!(self.files.keys().collect::<Vec<_>>(), real.keys().collect::<Vec<_>>());
        for (name, bytes) in &real {
            assert_eq!(self.files[name].len(), bytes.len(), "{name}");
            let differs = self.files[name].iter().zip(bytes).position(|(reported, real)| reported != real);
            assert_eq!(differs, None, "{name}: the first byte that differs");
        }
    }
}

#[test]
fn replaying_the_operations_makes_the_files() {
    let scratch = Scratch::new();
    files_program(&scratch);
    record(&scratch, &["--values", "--files", "data"], &["./files", "data"]);
    let replayed = Replayed::of(&scratch.path("t.slt"));
    replayed.check(&scratch.path("data"), 4);
    let log = scratch.path("data/log").canonicalize().expect("it is there").display().to_string();
    assert_eq!(replayed.files[&log], b"parentchildagain");
}

#[test]
fn threads_that_append_to_one_file_are_reported_in_the_kernels_order() {
    let scratch = Scratch::new();
    scratch.file(
        "p.c",
        r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int fd;
static void *work(void *argument) {
    char line[64];
    for (int i = 0; i < 300; i++) {
        int len = snprintf(line, sizeof line, "%s %d%.*s\n", (char *)argument, i, i % 40, "........................................");
        if (write(fd, line, len) != len) return argument;
        if (i % 50 == 0) fdatasync(fd);
    }
    return NULL;
}
int main(void) {
    fd = open("data/log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    pthread_t threads[4];
    for (int t = 0; t < 4; t++) pthread_create(&threads[t], NULL, work, (void *)&"a\0b\0c\0d"[2 * t]);
    for (int t = 0; t < 4; t++) pthread_join(threads[t], NULL);
    return 0;
}
"#,
    );
    compile(scratch.dir(), "cc", "-O1 -g -pthread -o p p.c");
    std::fs::create_dir(scratch.path("data")).expect("the folder is made");
    let info = record(&scratch, &["--values", "--files", "data"], &["./p"]);
    assert_eq!((number(&info, "file_writes"), number(&info, "file_syncs")), (1200, 24), "{info:#}");
    Replayed::of(&scratch.path("t.slt")).check(&scratch.path("data"), 1);
}

#[test]
fn a_thread_can_be_cancelled_while_it_writes() {
    let scratch = Scratch::new();
    scratch.file(
        "c.c",
        r#"
#include <pthread.h>
#include <unistd.h>
static int cleaned, pipes[2];
static void clean(void *argument) { (void)argument; cleaned = 1; }
static void *work(void *argument) {
    static char bytes[1 << 20];
    pthread_cleanup_push(clean, NULL);
    write(pipes[0], "x", 1);
    write(pipes[1], bytes, sizeof bytes);
    pthread_cleanup_pop(0);
    return argument;
}
int main(void) {
    void *result = NULL;
    pthread_t thread;
    if (pipe(pipes)) return 1;
    pthread_create(&thread, NULL, work, NULL);
    usleep(100000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    return result == PTHREAD_CANCELED && cleaned ? 0 : 1;
}
"#,
    );
    compile(scratch.dir(), "cc", "-O1 -g -pthread -o c c.c");
    for options in [&[][..], &["--files", "data"]] {
        record(&scratch, options, &["./c"]);
    }
}

#[test]
fn lmdb_commits_are_writes_and_syncs_of_its_file() {
    let scratch = Scratch::new();
    copy_files(&c_sources("lmdb-master-sys", "lmdb/libraries/liblmdb"), scratch.dir());
    scratch.file("lmdb_commit.c", include_str!("../programs/lmdb_commit.c"));
    compile(scratch.dir(), "cc", "-O2 -I. -o lmdb_commit lmdb_commit.c mdb.c midl.c -pthread");
    for mode in [&[][..], &["writemap"]] {
        std::fs::create_dir(scratch.path("data")).expect("the folder is made");
        let program = [&["./lmdb_commit", "data/l.mdb", "20"][..], mode].concat();
        // Not its lock file, whose locks the C library changes where nobody sees it.
        let info = record(&scratch, &["--values", "--files", "data/l.mdb"], &program);
        // Per transaction its pages and its meta page, the latter through a descriptor with O_DSYNC.
        assert!(number(&info, "file_syncs") >= 40, "{mode:?}: {info:#}");
        std::fs::remove_file(scratch.path("data/l.mdb-lock")).expect("the lock file is removed");
        Replayed::of(&scratch.path("t.slt")).check(&scratch.path("data"), 1);
        std::fs::remove_dir_all(scratch.path("data")).expect("the folder is removed");
    }
}
