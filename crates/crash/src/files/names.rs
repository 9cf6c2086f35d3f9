//! Which file a path leads to, now and when the run began.

use std::collections::HashMap;

use crate::Place;

/// Number of the file whose words are the entries of folders.
pub(crate) const NAMES: u16 = 0;
/// Number of the file whose words are the lengths of files.
pub(crate) const LENGTHS: u16 = 1;
/// Number of the root folder, the first one that is a file of its own.
const ROOT: u16 = 2;
/// In an entry: it is a folder.
const FOLDER: u64 = 1 << 32;

/// Whether the place is in a file's contents; the others are lengths and names.
#[must_use]
pub fn is_contents(place: Place) -> bool {
    place.file() >= ROOT
}

/// The word of an entry.
pub(crate) fn entry_place(entry: u32) -> Place {
    Place::new(NAMES, u64::from(entry) * 8)
}

/// The word of a file's length.
pub(crate) fn length_place(file: u16) -> Place {
    Place::new(LENGTHS, u64::from(file) * 8)
}

/// The file that an entry's word leads to, and whether it is a folder.
pub(crate) fn target(word: u64) -> Option<(u16, bool)> {
    u16::try_from(word & !FOLDER).ok().filter(|&file| file >= ROOT).map(|file| (file, word & FOLDER != 0))
}

/// A name in a folder.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub folder: u16,
    pub name: String,
    /// What its word was when the run began.
    pub before: u64,
    /// What it is now.
    pub now: u64,
}

/// A change of an entry's word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub entry: u32,
    pub word: u64,
}

/// All folders and their entries.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub entries: Vec<Entry>,
    by_name: HashMap<(u16, String), u32>,
    /// Of each file a name that no other has: its path when it was first seen.
    pub titles: Vec<String>,
    uses: HashMap<String, u32>,
}

/// More files than [`Place`] has numbers for.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Names {
    pub fn new() -> Self {
        let titles = ["names", "lengths", "/"].map(str::to_owned).to_vec();
        Names { entries: Vec::new(), by_name: HashMap::new(), titles, uses: HashMap::new() }
    }

    fn new_file(&mut self, path: &str) -> Result<u16, TooMany> {
        let file = u16::try_from(self.titles.len()).map_err(|_| TooMany)?;
        let uses = self.uses.entry(path.to_owned()).or_default();
        *uses += 1;
        self.titles.push(if *uses == 1 { path.to_owned() } else { format!("{path} ({uses})") });
        Ok(file)
    }

    /// The entry of a path; folders on the way that nobody told of were there before the run.
    fn entry(&mut self, path: &str) -> Result<Option<u32>, TooMany> {
        let path = path.trim_end_matches('/');
        let Some((folder, name)) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty()) else {
            return Ok(None);
        };
        let folder = self.known(folder, true)?;
        let key = (folder, name.to_owned());
        if let Some(&entry) = self.by_name.get(&key) {
            return Ok(Some(entry));
        }
        let entry = self.entries.len() as u32;
        self.entries.push(Entry { folder, name: name.to_owned(), before: 0, now: 0 });
        self.by_name.insert(key, entry);
        Ok(Some(entry))
    }

    /// The file or folder of a path. If nothing is there, it was there before the run and nobody told of it.
    pub fn known(&mut self, path: &str, folder: bool) -> Result<u16, TooMany> {
        let Some(entry) = self.entry(path)? else { return Ok(ROOT) };
        if let Some((file, _)) = target(self.entries[entry as usize].now) {
            return Ok(file);
        }
        let file = self.new_file(path)?;
        let word = u64::from(file) | if folder { FOLDER } else { 0 };
        let entry = &mut self.entries[entry as usize];
        (entry.before, entry.now) = (word, word);
        Ok(file)
    }

    /// The file of a path, if something is there.
    pub fn find(&mut self, path: &str) -> Result<Option<(u16, bool)>, TooMany> {
        let Some(entry) = self.entry(path)? else { return Ok(Some((ROOT, true))) };
        Ok(target(self.entries[entry as usize].now))
    }

    fn change(&mut self, entry: u32, word: u64) -> Change {
        self.entries[entry as usize].now = word;
        Change { entry, word }
    }

    /// A new file or folder; none if something is there already.
    pub fn create(&mut self, path: &str, folder: bool) -> Result<Option<(u16, Change)>, TooMany> {
        let Some(entry) = self.entry(path)? else { return Ok(None) };
        if self.entries[entry as usize].now != 0 {
            return Ok(None);
        }
        let file = self.new_file(path)?;
        let word = u64::from(file) | if folder { FOLDER } else { 0 };
        Ok(Some((file, self.change(entry, word))))
    }

    /// The path leads nowhere any more.
    pub fn remove(&mut self, path: &str) -> Result<Option<Change>, TooMany> {
        let Some(entry) = self.entry(path)? else { return Ok(None) };
        let there = self.entries[entry as usize].now != 0;
        Ok(there.then(|| self.change(entry, 0)))
    }

    /// What `from` leads to is at `to`, and no more at `from`; and whether something else was at `to` before.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<Option<(u16, [Change; 2], bool)>, TooMany> {
        let file = self.known(from, false)?;
        let (Some(from), Some(to)) = (self.entry(from)?, self.entry(to)?) else { return Ok(None) };
        let word = self.entries[from as usize].now;
        if from == to || self.entries[to as usize].now == word {
            return Ok(None);
        }
        let replaced = self.entries[to as usize].now != 0;
        Ok(Some((file, [self.change(to, word), self.change(from, 0)], replaced)))
    }
}
