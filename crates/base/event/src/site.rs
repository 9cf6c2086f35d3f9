//! Code sites: which line of which function did it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a code site within one run; resolved by a [`SiteTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SiteId(pub u32);

impl SiteId {
    /// The source can't tell where the event came from.
    pub const UNKNOWN: SiteId = SiteId(0);
}

/// Number of a string within one run: a file's path, a phase's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NameId(pub u32);

/// One function of a site's inline chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled name, or `0x…` where there is no symbol.
    pub function: String,
    /// Source file as the debug information names it; empty if unknown.
    pub file: String,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
}

/// Stands for the source file of the functions of `libstrandline`.
pub const OWN_LIBRARY: &str = "libstrandline";

/// Callers that a story names besides the innermost function.
const CALLERS_MAX: usize = 3;

/// A place in the program, innermost inlined function first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site {
    /// Inlined functions from the innermost to the function that was compiled; never empty for a resolved
    /// site.
    pub frames: Vec<Frame>,
    /// Program or library the code belongs to; empty if unknown.
    pub module: String,
    /// Address within the module (before relocation).
    pub address: u64,
}

impl Site {
    /// The innermost frame, if the site was resolved.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        self.frames.first()
    }

    /// Who called the innermost function, as far as calls were compiled into one, without the insides of
    /// C++'s standard library.
    pub fn callers(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().skip(1).filter(|frame| !frame.is_library())
    }
}

impl Frame {
    /// Whether its code is in the headers of C++'s standard library, or in the sources of Rust's.
    #[must_use]
    pub fn is_library(&self) -> bool {
        // `/rustc/59807616e1fa/library/core/src/ptr/mod.rs`,
        // `…/lib/rustlib/src/rust/library/alloc/src/vec/mod.rs`.
        let rust = ["/rustc/", "/rustlib/src/rust/"].iter().find_map(|place| self.file.split_once(place));
        if rust.is_some_and(|(_, inside)| inside.starts_with("library/") || inside.contains("/library/")) {
            return true;
        }
        // `/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h` is one of them.
        self.file
            .split_once("/include/")
            .is_some_and(|(_, inside)| inside.starts_with("c++/") || inside.contains("/c++/"))
    }

    /// Whether it is a function of `libstrandline`, which a program calls and can't change.
    #[must_use]
    pub fn is_own_library(&self) -> bool {
        self.file == OWN_LIBRARY
    }

    /// `file.c:12`, or `file.c:?` where the compiler gave the code no line; `None` without a file.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        if self.is_own_library() {
            return Some(self.file.clone());
        }
        let name = self.file.rsplit('/').next().filter(|name| !name.is_empty())?;
        Some(match self.line {
            0 => format!("{name}:?"),
            line => format!("{name}:{line}"),
        })
    }
}

impl fmt::Display for Frame {
    /// `function (file.c:12)`, as reports print it; of what is unknown, nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            None => f.write_str(&self.function),
            Some(place) if self.function.is_empty() => f.write_str(&place),
            Some(place) => write!(f, "{} ({place})", self.function),
        }
    }
}

impl fmt::Display for Site {
    /// As its innermost frame; the address where there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame() {
            None if self.module.is_empty() => f.write_str("unknown site"),
            None => write!(f, "{}+{:#x}", self.module, self.address),
            Some(frame) => frame.fmt(f),
        }
    }
}

/// The sites and names of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTable {
    // Trees, not vectors: a number that comes from a damaged file must not decide how much memory is taken.
    sites: BTreeMap<SiteId, Site>,
    names: BTreeMap<NameId, String>,
}

impl SiteTable {
    /// Enters `site` under `id`; a later definition replaces an earlier one.
    pub fn define_site(&mut self, id: SiteId, site: Site) {
        self.sites.insert(id, site);
    }

    /// Enters `name` under `id`; a later definition replaces an earlier one.
    pub fn define_name(&mut self, id: NameId, name: String) {
        self.names.insert(id, name);
    }

    /// The site of that number, if it was defined.
    #[must_use]
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.sites.get(&id).filter(|_| id != SiteId::UNKNOWN)
    }

    /// The string of that number, if it was defined.
    #[must_use]
    pub fn name(&self, id: NameId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// Every defined site, by number.
    pub fn sites(&self) -> impl Iterator<Item = (SiteId, &Site)> {
        self.sites.iter().map(|(id, site)| (*id, site)).filter(|(id, _)| *id != SiteId::UNKNOWN)
    }

    /// Every defined name, by number.
    pub fn names(&self) -> impl Iterator<Item = (NameId, &str)> {
        self.names.iter().map(|(id, name)| (*id, name.as_str()))
    }

    /// How a story names the site: as [`SiteTable::label`], and who called it, as far as calls were compiled
    /// into one function.
    #[must_use]
    pub fn chain(&self, id: SiteId) -> String {
        let mut text = self.label(id);
        for caller in self.site(id).into_iter().flat_map(Site::callers).take(CALLERS_MAX) {
            text.push_str(&format!(", called from {caller}"));
        }
        text
    }

    /// How a report names the site.
    #[must_use]
    pub fn label(&self, id: SiteId) -> String {
        self.site(id).map_or_else(|| "unknown site".to_owned(), Site::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_library_are_told_from_the_programs() {
        let of = |file: &str| Frame { function: String::new(), file: file.into(), line: 1 }.is_library();
        assert!(of("/usr/include/c++/12/bits/stl_map.h"));
        assert!(of("/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h"));
        assert!(of("/rustc/59807616e1fa/library/core/src/ptr/mod.rs"));
        assert!(of("/opt/rust/lib/rustlib/src/rust/library/alloc/src/vec/mod.rs"));
        assert!(!of("/src/library/lib.rs") && !of("/rustc/59807616e1fa/compiler/a.c"));
        assert!(!of("/src/include/tree.h") && !of("/src/c++/main.cc"));
    }

    #[test]
    fn of_what_is_unknown_nothing_is_said() {
        let name = |function: &str, file: &str, line| {
            Frame { function: function.into(), file: file.into(), line }.to_string()
        };
        assert_eq!(name("put", "/src/map.c", 7), "put (map.c:7)");
        assert_eq!(name("put", "/src/map.c", 0), "put (map.c:?)");
        assert_eq!(name("put", "", 7), "put");
        assert_eq!(name("", "src/log.rs", 36), "log.rs:36");
    }
}
