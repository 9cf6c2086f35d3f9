//! Files that are mapped shared and writable.
//!
//! A store to such a mapping makes no call. The file, read through the page cache, shows it at once; so each scan
//! compares the file with a copy and reports every word that differs as a write of its own. The order of the
//! words between two scans is not known, which is how the kernel may write them back anyway.

use std::collections::BTreeMap;

use crate::look;

/// Bytes of a word.
const WORD: usize = 8;

/// Copies of mapped files by path, and where they are mapped.
#[derive(Debug, Default)]
pub struct Mapped {
    copies: BTreeMap<String, Vec<u8>>,
    ranges: Vec<(i32, u64, u64, String)>,
}

impl Mapped {
    /// A process mapped a file.
    pub fn map(&mut self, process: i32, address: u64, len: u64, path: &str) {
        self.ranges.push((process, address, len, path.to_owned()));
        let whole = || look::contents(path, 0, look::length(path).unwrap_or(0) as usize);
        self.copies.entry(path.to_owned()).or_insert_with(whole);
    }

    /// The file that was last mapped at an address.
    pub fn at(&self, process: i32, address: u64) -> Option<&str> {
        let hit = |range: &&(i32, u64, u64, String)| {
            range.0 == process && (range.1..range.1 + range.2).contains(&address)
        };
        self.ranges.iter().rev().find(hit).map(|range| range.3.as_str())
    }

    /// A recorded call wrote bytes.
    pub fn written(&mut self, path: &str, offset: u64, bytes: &[u8]) {
        let Some(copy) = self.copies.get_mut(path) else { return };
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        copy.resize(copy.len().max(to), 0);
        copy[from..to].copy_from_slice(bytes);
    }

    /// A recorded call changed the length.
    pub fn truncated(&mut self, path: &str, len: u64) {
        if let Some(copy) = self.copies.get_mut(path) {
            copy.resize(len as usize, 0);
        }
    }

    /// A path leads elsewhere, or nowhere.
    pub fn renamed(&mut self, from: &str, to: Option<&str>) {
        let copy = self.copies.remove(from);
        if let Some((copy, to)) = copy.zip(to) {
            self.copies.insert(to.to_owned(), copy);
            self.ranges
                .iter_mut()
                .filter(|range| range.3 == from)
                .for_each(|range| to.clone_into(&mut range.3));
        }
    }

    /// The words that changed since the scan before: path, offset, bytes.
    pub fn scan(&mut self) -> Vec<(String, u64, Vec<u8>)> {
        let mut found = Vec::new();
        for (path, copy) in &mut self.copies {
            let now = look::contents(path, 0, copy.len());
            for (number, (old, new)) in copy.chunks_mut(WORD).zip(now.chunks(WORD)).enumerate() {
                if old.len() == new.len() && old != new {
                    old.copy_from_slice(new);
                    found.push((path.clone(), (number * WORD) as u64, new.to_vec()));
                }
            }
        }
        found
    }
}
