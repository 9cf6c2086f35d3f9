//! Files that are mapped shared and writable.
//!
//! A store to such a mapping makes no call. The file, read through the page cache, shows it at once; so each
//! scan compares the file with a copy and reports every word that differs as a write of its own. Where the
//! kernel says which pages were stored to (`pages.rs`), only those are compared. The order of the words
//! between two scans is not known, which is how the kernel may write them back anyway.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::look;
use crate::pages::Pages;

/// Bytes of a word.
const WORD: usize = 8;

/// Bytes that are compared at once.
const PAGE: usize = 4096;
/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Copies of mapped files by path.
#[derive(Debug, Default)]
pub struct Mapped {
    copies: BTreeMap<String, Vec<u8>>,
    /// What the kernel watches of them.
    pub pages: Pages,
}

impl Mapped {
    /// A process mapped a file; whether it is the first to do so.
    pub fn map(&mut self, path: &str) -> bool {
        let first = !self.copies.contains_key(path);
        let whole = || look::contents(path, 0, look::length(path).unwrap_or(0) as usize);
        self.copies.entry(path.to_owned()).or_insert_with(whole);
        if !first {
            self.pages.leave(path);
        }
        first
    }

    /// Whether a file is mapped.
    pub fn has(&self, path: &str) -> bool {
        self.copies.contains_key(path)
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
        }
        // A folder takes what is below it along.
        let below = format!("{from}/");
        let moved: Vec<String> =
            self.copies.keys().filter(|path| path.starts_with(&below)).cloned().collect();
        for path in moved {
            let copy = self.copies.remove(&path);
            if let Some((copy, to)) = copy.zip(to) {
                self.copies.insert(format!("{to}/{}", &path[below.len()..]), copy);
            }
        }
    }

    /// The words that changed since the scan before: path, offset, bytes.
    pub fn scan(&mut self) -> Vec<(String, u64, Vec<u8>)> {
        let mut found = Vec::new();
        for (path, copy) in &mut self.copies {
            let stored = self.pages.stored(path);
            if stored.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let Ok(file) = File::open(path) else { continue };
            for (from, to) in stored.unwrap_or_else(|| vec![(0, copy.len() as u64)]) {
                let to = to.min(copy.len() as u64);
                if from < to {
                    compared(path, &file, from, &mut copy[from as usize..to as usize], &mut found);
                }
            }
        }
        found
    }
}

/// Notes the words of a part of a file, from an offset on, that differ from a copy, and takes them over.
fn compared(path: &str, file: &File, from: u64, copy: &mut [u8], found: &mut Vec<(String, u64, Vec<u8>)>) {
    let mut now = vec![0; PIECE.min(copy.len())];
    for (piece, old) in copy.chunks_mut(PIECE).enumerate() {
        let new = &mut now[..old.len()];
        if file.read_exact_at(new, from + (piece * PIECE) as u64).is_err() {
            break;
        }
        for (page, (old, new)) in old.chunks_mut(PAGE).zip(new.chunks(PAGE)).enumerate() {
            if old != new {
                words(path, from + (piece * PIECE + page * PAGE) as u64, old, new, found);
            }
        }
    }
}

/// Notes the words of a page that differ, and takes them over.
fn words(path: &str, from: u64, old: &mut [u8], new: &[u8], found: &mut Vec<(String, u64, Vec<u8>)>) {
    for (number, (old, new)) in old.chunks_mut(WORD).zip(new.chunks(WORD)).enumerate() {
        if old != new {
            old.copy_from_slice(new);
            found.push((path.to_owned(), from + (number * WORD) as u64, new.to_vec()));
        }
    }
}
