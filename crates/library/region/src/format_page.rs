//! `docs/pool-format.md` says what the code does.

use crate::header::{LOGS, ROOT, STATE};
use crate::heap::SIZES;
use crate::{ENGINES, NAME_MAX, VERSION};

const PAGE: &str = include_str!("../../../../docs/pool-format.md");

/// The page with one blank between words, so that lines can end anywhere.
fn page() -> String {
    PAGE.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_has_the_constants_of_the_code() {
    let sizes = SIZES.map(|size| size.to_string()).join(", ");
    for said in [
        format!("| 8–11 | format version: {VERSION} |"),
        format!("| {STATE} | 8 | state of the engine"),
        format!("| {ROOT} | 16 | root line"),
        format!("| {LOGS} | logs × bytes of a log | logs"),
        format!("| 56–{} | name of the layout", 56 + NAME_MAX - 1),
        format!("Classes of size, from 0: {sizes} bytes."),
        format!("Regions are numbered from 0, up to 2^{}", crate::engine::NUMBERS.ilog2()),
    ] {
        assert!(page().contains(&said), "docs/pool-format.md lacks: {said}");
    }
}

#[test]
fn the_page_has_each_engine() {
    for engine in &ENGINES {
        let row = format!("| {} | `{}` |", engine.number, engine.name);
        assert!(PAGE.contains(&row), "docs/pool-format.md has no row for the engine: {row}");
    }
}
