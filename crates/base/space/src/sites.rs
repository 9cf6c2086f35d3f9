//! From a caller's location to a code site.
//!
//! `#[track_caller]` gives file and line of the code that called into a recorded space, for free and in every
//! build. It does not give the function. That comes from the debug information, by unwinding the stack once,
//! when a line is seen for the first time.

use std::panic::Location;

use event::{Frame, Site};

/// The site of `location`, which must be on the caller's stack. The function's name is empty if the program
/// has no debug information.
pub(crate) fn resolve(location: &Location<'_>) -> Site {
    let frame = Frame {
        function: enclosing_function(location).unwrap_or_default(),
        file: location.file().to_owned(),
        line: location.line(),
    };
    Site { frames: vec![frame], module: String::new(), address: 0 }
}

/// The innermost function on the stack that is in the location's file, nearest to its line; for a closure,
/// the function around it. As `btree::insert`: file and function, because debug information of lines only has
/// no more.
fn enclosing_function(location: &Location<'_>) -> Option<String> {
    let mut nearest = u32::MAX;
    let mut function = None;
    backtrace::trace(|frame| {
        backtrace::resolve_frame(frame, |symbol| {
            let (Some(file), Some(line), Some(name)) = (symbol.filename(), symbol.lineno(), symbol.name())
            else {
                return;
            };
            if !file.ends_with(location.file()) {
                return;
            }
            let distance = line.abs_diff(location.line());
            if distance < nearest {
                nearest = distance;
                function = own_name(&format!("{name:#}"));
            } else if function.is_none() {
                function = own_name(&format!("{name:#}"));
            }
        });
        nearest != 0 || function.is_none()
    });
    let file = location.file();
    let stem = file.rsplit('/').next()?.trim_end_matches(".rs");
    function.map(|function| format!("{stem}::{function}"))
}

/// The last part of a function's demangled name, without type arguments; nothing for a closure.
fn own_name(name: &str) -> Option<String> {
    let mut plain = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut before = ' ';
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' if before == '-' => {}
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        before = c;
    }
    let last = plain.split("::").filter(|part| !part.is_empty()).last()?;
    (!last.starts_with("{closure") && !last.starts_with("{{closure")).then(|| last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_reduced_to_their_last_part() {
        let own = |name| own_name(name).unwrap_or_default();
        assert_eq!(own("workload::run::<space::Image>"), "run");
        assert_eq!(own("<workload::Tree<S>>::insert"), "insert");
        assert_eq!(own("<a::B<c::D> as e::F<g::H>>::i"), "i");
        assert_eq!(own("record<K, fn(u8) -> E, E>"), "record");
        assert_eq!(own("plain"), "plain");
        assert_eq!(own_name("a::b::{{closure}}"), None);
        assert_eq!(own_name("{closure#0}<S>"), None);
    }

    #[test]
    fn a_location_finds_its_function() {
        #[track_caller]
        fn here() -> Site {
            resolve(Location::caller())
        }
        let (line, site) = (line!(), here());
        let frame = site.frame().expect("a resolved site has a frame");
        assert_eq!(frame.function, "sites::a_location_finds_its_function");
        assert!(frame.file.ends_with("sites.rs"));
        assert_eq!(frame.line, line);
        let in_closure = [0].map(|_| here());
        assert_eq!(in_closure[0].frame().map(|frame| &frame.function), Some(&frame.function));
    }
}
