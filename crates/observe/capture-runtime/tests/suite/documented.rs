//! Every function that the runtime stands in front of is in the table of docs/check.md.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::program::runtime;

const PAGE: &str = include_str!("../../../../../docs/check.md");

/// What the page says in code marks under "Calls on files".
fn named() -> BTreeSet<&'static str> {
    let rest = PAGE.split("## Calls on files").nth(1).expect("the section is there");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    section.split('`').skip(1).step_by(2).collect()
}

/// A name without what distinguishes its variants.
fn plain(mut name: &str) -> String {
    name = name.trim_start_matches("_IO_").trim_start_matches('_');
    let name = name.replace("64", "");
    let name = ["_chk", "_2", "_unlocked"]
        .iter()
        .fold(name.as_str(), |name, end| name.strip_suffix(end).unwrap_or(name));
    match name {
        "pwritevv2" => "pwritev2",
        // The C library's own part of `putc`.
        "overflow" => "putc",
        name => name,
    }
    .to_owned()
}

/// Whether a pattern with stars fits.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, behind)) => {
            name.len() >= before.len() + behind.len() && name.starts_with(before) && name.ends_with(behind)
        }
    }
}

#[test]
fn every_interposed_function_has_a_row() {
    let library = runtime().join("libstrandline_rt.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm runs");
    let listed = String::from_utf8(output.stdout).expect("UTF-8");
    let names = listed.lines().filter_map(|line| line.split(' ').nth(2));
    let names: BTreeSet<&str> = names.map(|name| name.split('@').next().unwrap_or(name)).collect();
    assert!(names.contains("fsync") && names.len() > 300, "{listed}");
    // What the compiler's code, `libstrandline` and `libpmem` call, and C++'s heap.
    let ours = ["strandline_", "__tsan_", "sl_", "pmem_", "pmem2_", "_Z"];
    let own = names.iter().filter(|name| !ours.iter().any(|start| name.starts_with(start)));
    let named = named();
    let has_row = |name: &str| named.iter().any(|pattern| fits(pattern, name) || fits(pattern, &plain(name)));
    let missing: Vec<_> = own.filter(|name| !has_row(name)).collect();
    assert!(missing.is_empty(), "no row in docs/check.md: {missing:?}");
}

#[test]
fn variants_go_with_their_function() {
    for (name, function) in [
        ("open64", "open"),
        ("__open64_2", "open"),
        ("pwritev64v2", "pwritev2"),
        ("__pread64_chk", "pread"),
        ("fwrite_unlocked", "fwrite"),
        ("_IO_putc", "putc"),
    ] {
        assert_eq!(plain(name), function);
    }
    assert!(
        fits("mq_*", "mq_send")
            && !fits("mq_*", "mq")
            && fits("sem*op", "semtimedop")
            && !fits("open", "openat")
    );
}
