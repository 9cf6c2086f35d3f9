//! What a program does to ordinary files, and what it says of the order in which its stores persist.

mod common;

use common::{Scratch, compile, dump, number, ok, record, stdout, strandline};

#[test]
fn strand_marks_are_told_where_they_stand() {
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
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture/include");
    ok(std::process::Command::new("cc")
        .current_dir(scratch.dir())
        .args(["-I", header, "-o", "plain", "s.c"]));
    ok(&mut std::process::Command::new(scratch.path("plain")));
}
