//! `strandline check --html`: a page that tells each finding with its two lines of source and a picture.

use crate::common::{Scratch, browse, compile, has, has_flushes, stdout, strandline};

/// Checks a variant of `examples/c/bugs/shapes.c`: whether nothing was found, what was printed, and the page.
fn check(scratch: &Scratch, variant: &str) -> (bool, String, String) {
    if !scratch.path("shapes").exists() {
        let bugs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/c/bugs");
        let options = "-std=c11 -O2 -g -D_GNU_SOURCE -mclwb -mclflushopt";
        compile(
            scratch.dir(),
            "cc",
            &format!(
                "{options} -I{bugs}/../../../crates/observe/instrument/include -o shapes {bugs}/shapes.c"
            ),
        );
    }
    let pool = scratch.path("pool").display().to_string();
    std::fs::remove_file(&pool).ok();
    let recover = format!("./shapes --recover POOL {variant}");
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--html", "--out", "found", "--pmem", &pool, "--recover", &recover])
        .args(["--", "./shapes", &pool, variant])
        .output()
        .expect("strandline starts");
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(1), "{code:?}: {}", crate::common::stderr(&output));
    let page = std::fs::read_to_string(scratch.path("found/check.html")).expect("check.html is there");
    (code == Some(0), stdout(&output), page)
}

#[test]
fn a_bug_is_drawn_with_its_two_lines() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let scratch = Scratch::new();
    let (right, printed, page) = check(&scratch, "token-first");
    assert!(!right && printed.contains("The page: found/check.html"), "{printed}");
    // One story for one piece of code.
    let stories = printed.matches("SET(t->used, without | 1ull << new);").count();
    assert!(
        stories < 6 && printed.contains("the same code also leads to:\n   3. key 2 is there twice"),
        "{printed}"
    );
    for part in [
        "slot-&gt;key = key;",
        r#"<span class="says">lost</span>"#,
        "SET(t-&gt;used, without | 1ull &lt;&lt; new);",
        r#"<span class="says">survived</span>"#,
        "nothing makes 2 wait for 1",
        "the crash: nothing below happened",
        "put (shapes.c:71)",
        "--replay adr-p",
        "default-src 'none'",
    ] {
        assert!(page.contains(part), "no `{part}` in the page of\n{printed}");
    }
    // The command on the page does what it says.
    let from = page.find("--replay adr-p").expect("a token") + "--replay ".len();
    let token: String =
        page[from..].chars().take_while(|c| c.is_ascii_alphanumeric() || "-._".contains(*c)).collect();
    let again = strandline()
        .current_dir(scratch.dir())
        .args([
            "check",
            "--out",
            "found",
            "--recover",
            "./shapes --recover POOL token-first",
            "--replay",
            &token,
        ])
        .output()
        .expect("strandline starts");
    assert_eq!(again.status.code(), Some(1), "{}", crate::common::stderr(&again));
    let Some(dom) = browse(&scratch, &scratch.path("found/check.html")) else { return };
    assert!(
        dom.matches("<svg").count() >= 2 && dom.matches("class=\"crash\"").count() >= 2,
        "pictures are missing"
    );
}

#[test]
fn a_page_of_nothing_says_so() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let scratch = Scratch::new();
    let (right, printed, page) = check(&scratch, "fixed");
    assert!(right && printed.contains("nothing found"), "{printed}");
    assert!(page.contains("Nothing found") && !page.contains("<svg"), "{page}");
    assert!(page.contains("stored words in 1 file"), "{page}");
}
