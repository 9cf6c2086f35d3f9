//! Which C++ type (or C structure) an allocation is of, by what its call stack and its line of source say.
//!
//! A container's allocator has the type in its name, which debug information keeps for functions that were inlined. An expression
//! `new T`, `make_unique<T>` or `malloc(sizeof(T))` has it in its line, if the source is there to be read. Where neither says
//! anything, the type is not known: object code does not have it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use event::{Frame, Layout};

use super::expression::{assigned, measured};
use super::layouts::Layouts;

/// Larger files of source are not read.
const SOURCE_MAX: u64 = 16 << 20;

/// Finds types; source files are read once.
#[derive(Debug, Default)]
pub struct Types {
    files: HashMap<PathBuf, Vec<String>>,
}

impl Types {
    /// The type that is allocated by a call stack, whose innermost frame is first.
    pub fn of(&mut self, frames: &[Frame]) -> Option<String> {
        let by_name = frames.iter().find_map(|frame| by_allocator(&frame.function));
        by_name.or_else(|| {
            let own = frames.iter().find(|frame| frame.line > 0 && !frame.is_library())?;
            by_source(self.line(Path::new(&own.file), own.line)?)
        })
    }

    /// The layout of the type that is allocated by a call stack: by its name, or of what the line of source
    /// assigns the block to.
    pub fn layout(&mut self, frames: &[Frame], layouts: &Layouts<'_>) -> Option<Layout> {
        let by_name = self.of(frames).and_then(|name| layouts.named(&name));
        by_name.or_else(|| {
            let own = frames.iter().find(|frame| frame.line > 0 && !frame.is_library())?;
            let code = self.statement(Path::new(&own.file), own.line)?;
            let cast = || layouts.named(&cast(&code)?);
            let of = |expression| layouts.pointed_to(&expression, &own.file, own.line);
            measured(&code).and_then(of).or_else(cast).or_else(|| assigned(&code).and_then(of))
        })
    }

    /// The statement that a line of source is part of, as far as it is near.
    fn statement(&mut self, path: &Path, line: u32) -> Option<String> {
        let own = self.line(path, line)?;
        let ends = |text: &str| text.trim_end().ends_with([';', '{', '}']) || text.trim().is_empty();
        let mut text = without_comment(own).to_owned();
        for before in (line.saturating_sub(3).max(1)..line).rev() {
            let Some(part) = self.line(path, before).map(without_comment).filter(|part| !ends(part)) else {
                break;
            };
            text = format!("{part} {text}");
        }
        for after in line + 1..line + 3 {
            if ends(&text) {
                break;
            }
            let Some(part) = self.line(path, after) else { break };
            text = format!("{text} {}", without_comment(part));
        }
        Some(text)
    }

    fn line(&mut self, path: &Path, line: u32) -> Option<&str> {
        let lines = self.files.entry(path.to_owned()).or_insert_with(|| {
            let small = fs::metadata(path).is_ok_and(|about| about.len() <= SOURCE_MAX);
            let text = if small { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
            text.lines().map(str::to_owned).collect()
        });
        lines.get((line as usize).checked_sub(1)?).map(String::as_str)
    }
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// `T` of `(T *)malloc(…)`.
fn cast(code: &str) -> Option<String> {
    let call = code.find("alloc(")?;
    let before = code[..call].trim_end_matches(|one: char| one.is_alphanumeric() || one == '_').trim_end();
    let open = before.strip_suffix(')')?.rfind('(')?;
    let inside = before[open + 1..before.len() - 1].trim().strip_suffix('*')?;
    let name = inside.trim().trim_start_matches("struct ").trim();
    (!name.is_empty() && name != "void").then(|| name.to_owned())
}

/// `T` of `std::allocator<T>::allocate`, `std::_Vector_base<T, …>::_M_allocate` and the like.
fn by_allocator(function: &str) -> Option<String> {
    let before = ["::allocate(", "::_M_allocate(", "::_S_allocate("];
    let at = before.iter().find_map(|name| function.find(name))?;
    let class = &function[..at];
    let inside = match class.find("allocator<") {
        Some(at) => arguments(&class[at + "allocator".len()..])?,
        None => arguments(&class[class.find('<')?..])?,
    };
    let first = first_argument(inside);
    (!first.is_empty()).then(|| first.to_owned())
}

/// The type of a `new`, `make_unique`, `make_shared` or `sizeof` in a line of source.
fn by_source(line: &str) -> Option<String> {
    let code = line.split("//").next()?;
    if let Some(rest) = word(code, "new") {
        // `new (place) T` and `new (std::nothrow) T`.
        let rest = rest.trim_start();
        let rest = if rest.starts_with('(') { balanced(rest, '(', ')')?.1 } else { rest };
        return type_at(rest);
    }
    for maker in ["make_unique", "make_shared", "make_unique_for_overwrite"] {
        if let Some(rest) = word(code, maker) {
            return arguments(rest).map(|inside| first_argument(inside).to_owned());
        }
    }
    let (inside, _) = balanced(word(code, "sizeof")?.trim_start(), '(', ')')?;
    let inside = inside.trim().trim_start_matches("struct ").trim_start();
    inside.starts_with(|one: char| one.is_alphabetic() || one == '_').then(|| inside.to_owned())
}

/// What follows a word that stands alone.
fn word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let part = |one: char| one.is_alphanumeric() || one == '_';
    text.match_indices(word)
        .map(|(at, _)| (&text[..at], &text[at + word.len()..]))
        .find_map(|(before, after)| (!before.ends_with(part) && !after.starts_with(part)).then_some(after))
}

/// A type at the beginning of some text.
fn type_at(text: &str) -> Option<String> {
    let text = text.trim_start();
    let mut depth = 0usize;
    let end = text.char_indices().find(|&(_, one)| {
        match one {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(one, '[' | '(' | '{' | ';' | ',' | ')')
    });
    let name = text[..end.map_or(text.len(), |(at, _)| at)].trim().trim_start_matches("struct ").trim();
    name.starts_with(|one: char| one.is_alphabetic() || one == '_').then(|| name.to_owned())
}

/// What stands between `<` at the beginning and its `>`.
fn arguments(text: &str) -> Option<&str> {
    balanced(text, '<', '>').map(|(inside, _)| inside)
}

/// What stands between the first bracket, at the beginning, and its other, and what follows.
fn balanced(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, one) in text.char_indices() {
        if one == open {
            depth += 1;
        } else if one == close {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some((&text[open.len_utf8()..at], &text[at + close.len_utf8()..]));
            }
        }
        if depth == 0 {
            return None;
        }
    }
    None
}

fn first_argument(text: &str) -> &str {
    let mut depth = 0usize;
    let end = text.char_indices().find(|&(_, one)| {
        match one {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        one == ',' && depth == 0
    });
    text[..end.map_or(text.len(), |(at, _)| at)].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_have_the_type_in_their_name() {
        for (function, found) in [
            ("std::__new_allocator<Node>::allocate(unsigned long, void const*)", Some("Node")),
            (
                "std::allocator_traits<std::allocator<a::B<int, 2> > >::allocate(std::allocator<x>&, unsigned long)",
                Some("a::B<int, 2>"),
            ),
            (
                "std::_Vector_base<Particle, std::allocator<Particle> >::_M_allocate(unsigned long)",
                Some("Particle"),
            ),
            ("std::_Vector_base<P, my::arena<P> >::_M_allocate(unsigned long)", Some("P")),
            ("fill(std::vector<Node, std::allocator<Node> >&)", None),
            ("main", None),
            ("broken<::allocate(", None),
        ] {
            assert_eq!(by_allocator(function).as_deref(), found, "{function}");
        }
    }

    #[test]
    fn lines_of_source_have_it_too() {
        for (line, found) in [
            ("    Node *n = new Node(1, 2);", Some("Node")),
            ("auto *all = new a::Pair<int, std::string>[count];", Some("a::Pair<int, std::string>")),
            ("x = new (std::nothrow) unsigned long[9];", Some("unsigned long")),
            ("auto p = std::make_unique<Table>(3);", Some("Table")),
            ("s = make_shared< Map<K, V> >();", Some("Map<K, V>")),
            ("struct node *n = malloc(sizeof(struct node));", Some("node")),
            ("p = malloc(n * sizeof(double)); // new Shiny", Some("double")),
            ("p = malloc(n * sizeof *p);", None),
            ("renew(that); sizeof(*p)", None),
            ("new", None),
            ("", None),
        ] {
            assert_eq!(by_source(line).as_deref(), found, "{line}");
        }
    }

    #[test]
    fn casts_of_allocations_are_read() {
        for (line, found) in [
            ("p = (struct node *)malloc(n * 24);", Some("node")),
            ("p = (double*) calloc(n, 8);", Some("double")),
            ("p = (void *)malloc(9);", None),
            ("f(g(), malloc(9));", None),
            ("p = malloc(9);", None),
        ] {
            assert_eq!(cast(line).as_deref(), found, "{line}");
        }
    }

    #[test]
    fn a_file_is_read_and_one_that_is_absent_says_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.cc");
        fs::write(&path, "int x;\nauto *t = new Tree;\n").expect("a file");
        let frame =
            |file: &Path, line| Frame { function: "main".to_owned(), file: file.display().to_string(), line };
        let mut types = Types::default();
        assert_eq!(types.of(&[frame(&path, 2)]).as_deref(), Some("Tree"));
        assert_eq!(types.of(&[frame(&path, 1)]), None);
        assert_eq!(types.of(&[frame(&path, 99)]), None);
        assert_eq!(types.of(&[frame(Path::new("/none.cc"), 2)]), None);
    }
}
