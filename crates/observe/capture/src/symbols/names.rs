//! Names of functions: those of C, which are not mangled, and those of C++ that the demangler refuses.

use std::borrow::Cow;

use addr2line::demangle_auto;

/// What the names begin with that C++ and Rust mangle. The demangler takes others for types: a C function `f`
/// for `float`.
const MANGLED: [&str; 3] = ["_Z", "_R", "_GLOBAL_"];

/// The name of a function as its source has it. Where the demangler fails: the names around it, without
/// arguments.
pub fn readable(name: &str) -> String {
    if !MANGLED.iter().any(|prefix| name.starts_with(prefix)) {
        return name.to_owned();
    }
    let found = demangle_auto(Cow::Borrowed(name), None);
    match found.strip_prefix("_Z").and_then(path) {
        Some(path) => path,
        None => found.into_owned(),
    }
}

/// The identifiers of a mangled name, in their order; `None` if there is none.
fn path(mangled: &str) -> Option<String> {
    let nested = mangled.strip_prefix('N');
    let mut rest = nested.unwrap_or(mangled).trim_start_matches(['r', 'V', 'K', 'R', 'O']);
    let mut names = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix("St") {
            names.push("std");
            rest = behind;
        } else if rest.starts_with(|letter: char| letter.is_ascii_digit()) {
            let (name, behind) = identifier(rest)?;
            names.push(name);
            rest = behind;
        } else if rest.starts_with('I') && nested.is_some() {
            rest = behind_arguments(rest)?;
        } else {
            break;
        }
        if nested.is_none() && names.last().is_some_and(|&name| name != "std") {
            break;
        }
    }
    names.last().is_some_and(|&name| name != "std").then(|| names.join("::"))
}

/// An identifier behind its length, and what follows.
fn identifier(text: &str) -> Option<(&str, &str)> {
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    text[digits..].split_at_checked(text[..digits].parse().ok()?)
}

/// What follows a list of template arguments, which begins here.
fn behind_arguments(text: &str) -> Option<&str> {
    let (mut rest, mut depth) = (text, 0_u32);
    loop {
        let letter = rest.chars().next()?;
        let opens = matches!(letter, 'I' | 'J' | 'N' | 'X' | 'F') || rest.starts_with("L_Z");
        rest = match letter {
            '0'..='9' => identifier(rest)?.1,
            // A constant: its digits are no length. A substitution: its letters and digits are its number.
            'L' if !rest.starts_with("L_Z") => &rest[rest.find('E')? + 1..],
            'S' | 'T' if rest[1..].starts_with(|next: char| next == '_' || next.is_ascii_digit()) => {
                &rest[rest.find('_')? + 1..]
            }
            _ => &rest[letter.len_utf8()..],
        };
        match letter {
            _ if opens => depth += 1,
            'E' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c_are_no_types() {
        for name in ["f", "d", "i", "h", "t", "St", "Ss", "Dn", "Pc", "Kc", "_R", "ZN1aE"] {
            assert_eq!(readable(name), name);
        }
    }

    #[test]
    fn what_the_demangler_refuses_has_a_name_nevertheless() {
        for (mangled, name) in [
            ("_ZN3foo3barEv", "foo::bar()"),
            ("main", "main"),
            (
                "_ZNSt16allocator_traitsI7PmAllocImEE12_S_constructImJRKmEEENSt9enable_ifIXsrSt6__and_IJS7_IJSt6__not_INS2_18\
                 __construct_helperIT_JDpT0_EE4typeEESt16is_constructibleISA_JSC_EEEEEE5valueEvE4typeERS1_PSA_DpOSB_",
                "std::allocator_traits::_S_construct",
            ),
            ("_ZN4list6insertITkSt8integraliLi12EEEvT_", "list::insert"),
            ("_ZNK4list5firstITkSt8integraliEEvT_", "list::first"),
            ("_Z3putITkSt8integraliEvT_", "put"),
            ("_ZSt4sortITkSt8integraliEvT_", "std::sort"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("_ZN99a", "_ZN99a"),
            ("_ZN1aI", "_ZN1aI"),
        ] {
            assert_eq!(readable(mangled), name, "{mangled}");
        }
    }
}
