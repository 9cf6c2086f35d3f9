//! From a caller's location to a code site.
//!
//! `#[track_caller]` gives file and line of the code that called into a recorded space, for free and in every build. It does
//! not give the function. That comes from the debug information, by unwinding the stack once, when a line
//! is seen for the first time.

use std::panic::Location;

use event::{Frame, Site};

/// The site of `location`, which must be on the caller's stack. The function's name is empty if the program has no
/// debug information.
pub(crate) fn resolve(location: &Location<'_>) -> Site {
    let frame = Frame {
        function: enclosing_function(location).unwrap_or_default(),
        file: location.file().to_owned(),
        line: location.line(),
    };
    Site { frames: vec![frame], module: String::new(), address: 0 }
}

/// The innermost function on the stack that is in the location's file, nearest to its line.
fn enclosing_function(location: &Location<'_>) -> Option<String> {
    let mut best: Option<(u32, String)> = None;
    backtrace::trace(|frame| {
        backtrace::resolve_frame(frame, |symbol| {
            let (Some(file), Some(line), Some(name)) = (symbol.filename(), symbol.lineno(), symbol.name())
            else {
                return;
            };
            let distance = line.abs_diff(location.line());
            let nearer = best.as_ref().is_none_or(|(nearest, _)| distance < *nearest);
            if nearer && file.ends_with(location.file()) {
                best = Some((distance, readable(&format!("{name:#}"))));
            }
        });
        best.as_ref().is_none_or(|(distance, _)| *distance != 0)
    });
    best.map(|(_, name)| name)
}

/// `workload::btree::BTree<S>::insert` of a demangled name, which may be `<workload::btree::BTree<S>>::insert` or carry
/// type arguments that say nothing about the place.
fn readable(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut rest = name;
    // `<A as B>::f` keeps its own type A, `<A>::f` too.
    if let Some(inner) = name.strip_prefix('<') {
        let end = matching(inner);
        let own = inner[..end].split(" as ").next().unwrap_or_default();
        out.push_str(&readable(own));
        rest = inner.get(end + 1..).unwrap_or_default();
    }
    for c in rest.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out.replace("::::", "::").trim_end_matches("::").to_owned()
}

/// Where the angle bracket that is open before `text` closes.
fn matching(text: &str) -> usize {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_type_arguments() {
        assert_eq!(readable("workload::run::<space::Image>"), "workload::run");
        assert_eq!(readable("<workload::Tree<S>>::insert"), "workload::Tree::insert");
        assert_eq!(readable("workload::Tree<S>::insert"), "workload::Tree::insert");
        assert_eq!(readable("<a::B<c::D> as e::F<g::H>>::i::{{closure}}"), "a::B::i::{{closure}}");
        assert_eq!(readable("plain"), "plain");
    }

    #[test]
    fn a_location_finds_its_function() {
        #[track_caller]
        fn here() -> Site {
            resolve(Location::caller())
        }
        let site = here();
        let frame = site.frame().expect("a resolved site has a frame");
        assert!(frame.function.ends_with("a_location_finds_its_function"), "{}", frame.function);
        assert!(frame.file.ends_with("sites.rs"));
        assert_eq!(frame.line, line!() - 4);
    }
}
