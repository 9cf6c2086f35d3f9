//! Code sites: which line of which function did it.

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

/// A place in the program, innermost inlined function first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site {
    /// Inlined functions from the innermost to the function that was compiled; never empty for a resolved site.
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
}

impl fmt::Display for Site {
    /// `function (file.c:12)`, as reports print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame() {
            None if self.module.is_empty() => f.write_str("unknown site"),
            None => write!(f, "{}+{:#x}", self.module, self.address),
            Some(Frame { function, file, .. }) if file.is_empty() => f.write_str(function),
            Some(Frame { function, file, line }) => {
                let name = file.rsplit('/').next().unwrap_or(file);
                write!(f, "{function} ({name}:{line})")
            }
        }
    }
}

/// The sites and names of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTable {
    sites: Vec<Site>,
    names: Vec<String>,
}

impl SiteTable {
    /// Enters `site` under `id`, growing the table as needed.
    pub fn define_site(&mut self, id: SiteId, site: Site) {
        let at = id.0 as usize;
        if self.sites.len() <= at {
            self.sites.resize_with(at + 1, Site::default);
        }
        self.sites[at] = site;
    }

    /// Enters `name` under `id`.
    pub fn define_name(&mut self, id: NameId, name: String) {
        let at = id.0 as usize;
        if self.names.len() <= at {
            self.names.resize_with(at + 1, String::new);
        }
        self.names[at] = name;
    }

    /// The site of that number, if it was defined.
    #[must_use]
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.sites.get(id.0 as usize).filter(|_| id != SiteId::UNKNOWN)
    }

    /// The string of that number, if it was defined.
    #[must_use]
    pub fn name(&self, id: NameId) -> Option<&str> {
        self.names.get(id.0 as usize).map(String::as_str)
    }

    /// Every defined site.
    pub fn sites(&self) -> impl Iterator<Item = (SiteId, &Site)> {
        (0u32..).map(SiteId).zip(&self.sites).skip(1)
    }

    /// How a report names the site.
    #[must_use]
    pub fn label(&self, id: SiteId) -> String {
        self.site(id).map_or_else(|| "unknown site".to_owned(), Site::to_string)
    }
}
