//! Names that their folder's sync has not made durable.

use std::collections::BTreeMap;

use event::{SiteId, ThreadId};

use crate::files::folder;

/// A name that was given.
#[derive(Clone, Debug)]
pub struct Named {
    /// The call.
    pub site: SiteId,
    /// Who made it.
    pub thread: ThreadId,
    /// What has the name.
    pub file: usize,
    /// Whether the program counts on what has the name: it was synced.
    pub wanted: bool,
    /// Whether the thread has said something since.
    pub acknowledged: bool,
}

/// Names by path.
#[derive(Clone, Debug, Default)]
pub struct Entries(BTreeMap<String, Named>);

impl Entries {
    /// A name was given.
    pub fn give(&mut self, path: &str, named: Named) {
        self.0.insert(path.to_owned(), named);
    }

    /// A name is gone, with all below it.
    pub fn remove(&mut self, path: &str) {
        self.0.remove(path);
        let below = format!("{path}/");
        self.0.retain(|path, _| !path.starts_with(&below));
    }

    /// A file or folder was synced: the program counts on it, and on the folders above it.
    pub fn synced(&mut self, file: usize, path: &str) {
        for (name, named) in &mut self.0 {
            let above = path.len() > name.len()
                && path.starts_with(name.as_str())
                && path.as_bytes()[name.len()] == b'/';
            named.wanted |= named.file == file || above;
        }
    }

    /// A thread printed something.
    pub fn said(&mut self, thread: ThreadId) {
        self.0
            .values_mut()
            .filter(|named| named.thread == thread)
            .for_each(|named| named.acknowledged = true);
    }

    /// A folder was synced, or all: the names that became durable.
    pub fn folder_synced(&mut self, synced: Option<&str>) -> Vec<(String, Named)> {
        let of = |path: &str| synced.is_none_or(|synced| folder(path) == synced);
        let durable: Vec<String> = self.0.keys().filter(|path| of(path)).cloned().collect();
        durable.into_iter().filter_map(|path| self.0.remove_entry(&path)).collect()
    }

    /// The names that are not durable.
    pub fn left(&self) -> impl Iterator<Item = (&String, &Named)> {
        self.0.iter()
    }
}
