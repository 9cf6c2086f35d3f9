//! Lines that are fetched for few of their bytes.

use advise::{Finding, Rule};

use super::case::{Case, FETCHES, bytes, percent, ratio};
use crate::fields::FieldUse;

/// Fields that are named.
const NAMES_MAX: usize = 8;

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        let (left, used, _) = brought(state);
        let use_of = ratio(used, left * 64);
        // Walks against the rows and hops are other rules'. Who jumps about has no use for the neighbours in any layout.
        let other = state.walks_columns() || state.hops * 4 >= state.fetches.max(1);
        let other = other || state.steady * 4 < state.jumps * 3;
        (left >= options.lines_min && use_of < options.used_min && !other).then_some((site, left))
    };
    let (lines, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    let (left, used, together) = brought(&first);
    let use_of = ratio(used, left * 64);
    let (stride, steps) = first.stride();
    let fields = match fields(case, sites[0].site.0) {
        Some(fields) => fields,
        None if (16..=1024).contains(&stride) && steps > 2 => {
            format!(" It steps by {stride} B, the size of an element or of a few of them.")
        }
        None => String::new(),
    };
    Some(Finding {
        rule: Rule::UnusedBytes,
        title: "Lines are fetched for few of their bytes".to_owned(),
        evidence: format!(
            "Of the {} lines that {} brought and that left again, {} of the bytes were used (bytes {} of a line, over all of \
             them).{fields}",
            left,
            case.label(sites[0].site.0),
            percent(use_of),
            bytes(together)
        ),
        remedy: "Put the fields that are used together next to each other: an array per field (structure of arrays) instead of \
                 an array of structures, or hot fields split from cold ones."
            .to_owned(),
        share: ratio(lines, case.watcher.fetches + case.watcher.again) * (1.0 - use_of),
        share_of: FETCHES.to_owned(),
        sites,
    })
}

/// Lines that code brought and that left: the table, or a first-level cache, to come there again; bytes of
/// them that were used, and these together.
fn brought(state: &crate::sites::SiteState) -> (u64, u64, u64) {
    (state.left + state.again, state.used + state.again_used, state.bytes_or | state.again_or)
}

/// Which fields of which type it uses, and what becomes of the others, if debug information has them.
fn fields(case: &Case<'_>, site: u32) -> Option<String> {
    let (layout, fields, own) = case.uses.by_code(site)?;
    let named = |wanted: &dyn Fn(usize, &FieldUse) -> bool| {
        let found: Vec<&FieldUse> =
            fields.iter().enumerate().filter(|(at, of)| wanted(*at, of)).map(|of| of.1).collect();
        let bytes: u64 = found.iter().map(|of| of.bytes).sum();
        let mut names: Vec<&str> = found.iter().take(NAMES_MAX).map(|of| of.name.as_str()).collect();
        if found.len() > NAMES_MAX {
            names.push("…");
        }
        (names.join(", "), bytes)
    };
    let (used, bytes) = named(&|at, _| own[at]);
    let (elsewhere, _) = named(&|at, of| !own[at] && of.loads + of.stores > 0);
    let (nowhere, _) = named(&|at, of| !own[at] && of.loads + of.stores == 0);
    let mut text = format!(" Of each {} of {} B it uses {used} ({bytes} B)", layout.name, layout.bytes);
    if !elsewhere.is_empty() {
        text.push_str(&format!("; other code uses {elsewhere}"));
    }
    if !nowhere.is_empty() {
        text.push_str(&format!("; none that was looked at uses {nowhere}"));
    }
    text.push('.');
    Some(text)
}
