//! Circles among the files of a crate, from the paths in their `use` items and in their code.
//!
//! A re-export (`pub use`) is no dependency: a path through it leads to the file that defines the name. Calls
//! of methods are not seen.

use std::collections::{BTreeMap, BTreeSet};

/// One file of a crate.
struct Module {
    /// `sim/env.rs`, from the crate's `src`.
    file: String,
    /// `["sim", "env"]`.
    path: Vec<String>,
    /// Names that `use` items bind, with what they stand for.
    names: BTreeMap<String, Vec<String>>,
    /// Modules of which everything is in scope.
    globs: Vec<Vec<String>>,
    /// Names that the file defines.
    defined: BTreeSet<String>,
    /// Paths that the file goes to: of its private `use` items, and in its code.
    paths: BTreeSet<Vec<String>>,
}

/// The circles of a crate: groups of files that lead to each other. `files` are paths from `src` with their
/// texts.
pub fn circles(files: &[(String, String)]) -> Vec<Vec<String>> {
    let modules: Vec<Module> = files.iter().filter_map(|(file, text)| Module::read(file, text)).collect();
    let by_path: BTreeMap<&[String], usize> =
        modules.iter().enumerate().map(|(at, module)| (module.path.as_slice(), at)).collect();
    let resolver = Resolver { modules: &modules, by_path };
    let edges: Vec<BTreeSet<usize>> = (0..modules.len()).map(|from| resolver.edges(from)).collect();
    let reach: Vec<BTreeSet<usize>> = (0..modules.len()).map(|from| reachable(&edges, from)).collect();
    let mut found = BTreeSet::new();
    for from in 0..modules.len() {
        let circle: BTreeSet<&str> = (0..modules.len())
            .filter(|&to| reach[from].contains(&to) && reach[to].contains(&from))
            .map(|at| modules[at].file.as_str())
            .collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().map(|circle| circle.into_iter().map(str::to_owned).collect()).collect()
}

fn reachable(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<usize> = edges[from].iter().copied().collect();
    while let Some(at) = next.pop() {
        if seen.insert(at) {
            next.extend(&edges[at]);
        }
    }
    seen
}

impl Module {
    /// Reads a file; nothing for a program beside the library.
    fn read(file: &str, text: &str) -> Option<Module> {
        if file.starts_with("bin/") {
            return None;
        }
        let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let path: Vec<String> = match stem {
            "lib" | "main" => Vec::new(),
            _ => stem.split('/').map(str::to_owned).collect(),
        };
        let mut module = Module {
            file: file.to_owned(),
            path,
            names: BTreeMap::new(),
            globs: Vec::new(),
            defined: BTreeSet::new(),
            paths: BTreeSet::new(),
        };
        module.scan(&tokens(text));
        Some(module)
    }

    fn scan(&mut self, tokens: &[String]) {
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "use" {
                let end = tokens[at..].iter().position(|t| t == ";").map_or(tokens.len(), |n| at + n);
                // `pub use` and `pub(crate) use` hand names on.
                let again = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
                self.import(
                    &mut tokens[at + 1..end].iter().map(String::as_str).peekable(),
                    Vec::new(),
                    again,
                );
                at = end;
            } else if DEFINES.contains(&tokens[at].as_str()) {
                self.defined.extend(tokens.get(at + 1).cloned());
                at += 1;
            } else if is_name(&tokens[at]) && tokens.get(at + 1).is_some_and(|next| next == "::") {
                let mut path = vec![tokens[at].clone()];
                at += 1;
                while tokens.get(at).is_some_and(|t| t == "::")
                    && tokens.get(at + 1).is_some_and(|t| is_name(t))
                {
                    path.push(tokens[at + 1].clone());
                    at += 2;
                }
                self.paths.insert(path);
            } else {
                at += 1;
            }
        }
    }

    /// One tree of a `use` item, behind `start`. Stops at the `,` or `}` behind it.
    fn import<'a>(
        &mut self,
        tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
        start: Vec<String>,
        again: bool,
    ) {
        let mut path = start;
        let mut bound = None;
        while let Some(&token) = tokens.peek() {
            if token == "," || token == "}" {
                break;
            }
            tokens.next();
            match token {
                "::" => {}
                "*" => {
                    let whole = std::mem::take(&mut path);
                    if !again {
                        self.paths.insert(whole.clone());
                    }
                    self.globs.push(whole);
                }
                "{" => {
                    loop {
                        self.import(tokens, path.clone(), again);
                        if tokens.next() != Some(",") {
                            break;
                        }
                    }
                    return;
                }
                "as" => bound = tokens.next().map(str::to_owned),
                "self" if !path.is_empty() => {}
                name => path.push(name.to_owned()),
            }
        }
        if let Some(last) = path.last() {
            self.names.insert(bound.unwrap_or_else(|| last.clone()), path.clone());
            if !again {
                self.paths.insert(path);
            }
        }
    }
}

/// Words behind which a file gives a name to something.
const DEFINES: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

struct Resolver<'a> {
    modules: &'a [Module],
    by_path: BTreeMap<&'a [String], usize>,
}

impl Resolver<'_> {
    /// The files that one file leads to.
    fn edges(&self, from: usize) -> BTreeSet<usize> {
        let paths = self.modules[from].paths.iter();
        paths.filter_map(|path| self.resolve(from, path, 8)).filter(|&to| to != from).collect()
    }

    /// The file that a path of file `from` leads to; nothing if it is another crate's. `depth` bounds
    /// re-exports.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        let here = &self.modules[from];
        let (first, rest) = path.split_first()?;
        let mut module = match first.as_str() {
            "crate" => Vec::new(),
            "self" => here.path.clone(),
            "super" => parent(&here.path),
            name => {
                let mut child = here.path.clone();
                child.push(name.to_owned());
                if !self.by_path.contains_key(child.as_slice()) {
                    return self.through_names(from, name, rest, depth);
                }
                child
            }
        };
        for (at, segment) in rest.iter().enumerate() {
            if segment == "super" {
                module = parent(&module);
                continue;
            }
            let mut child = module.clone();
            child.push(segment.clone());
            if !self.by_path.contains_key(child.as_slice()) {
                let file = *self.by_path.get(module.as_slice())?;
                return self.through_names(file, segment, &rest[at + 1..], depth).or(Some(file));
            }
            module = child;
        }
        self.by_path.get(module.as_slice()).copied()
    }

    /// The file behind a name in the scope of a file, if a `use` item brought it there.
    fn through_names(&self, file: usize, name: &str, rest: &[String], depth: usize) -> Option<usize> {
        let module = &self.modules[file];
        if depth == 0 || module.defined.contains(name) {
            return None;
        }
        if let Some(target) = module.names.get(name) {
            let whole: Vec<String> = target.iter().chain(rest).cloned().collect();
            return (target.first().is_some_and(|first| first != name) || target.len() > 1)
                .then(|| self.resolve(file, &whole, depth - 1))
                .flatten();
        }
        module.globs.iter().find_map(|glob| {
            let to = self.resolve(file, glob, depth - 1).filter(|&to| to != file)?;
            if self.modules[to].defined.contains(name) {
                return Some(to);
            }
            self.through_names(to, name, rest, depth - 1)
        })
    }
}

fn parent(path: &[String]) -> Vec<String> {
    path[..path.len().saturating_sub(1)].to_vec()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single characters; without comments, strings and characters in quotes.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if c == '"' {
            quoted(rest)
        } else if c == '\'' {
            character(rest)
        } else if c.is_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
            end
        } else {
            let length = if rest.starts_with("::") { 2 } else { c.len_utf8() };
            if !c.is_whitespace() {
                found.push(rest[..length].to_owned());
            }
            length
        };
        rest = &rest[length..];
    }
    found
}

/// Length of a raw string at the start, if one is there.
fn raw_string(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('b').unwrap_or(text).strip_prefix('r')?;
    let hashes = inner.len() - inner.trim_start_matches('#').len();
    let body = inner[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close)? + close.len();
    Some(text.len() - body.len() + end)
}

/// Length of the string literal at the start.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == '"' && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Length of the character literal, or of the quote of a lifetime, at the start.
fn character(text: &str) -> usize {
    let mut inside = text[1..].chars();
    match inside.next() {
        Some('\\') => text[2..].char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 3),
        Some(c) if inside.next() == Some('\'') => 2 + c.len_utf8(),
        _ => 1,
    }
}
