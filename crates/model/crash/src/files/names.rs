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
/// In an entry: it is a symbolic link.
const LINK: u64 = 1 << 33;

/// What an entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
}

/// Whether the place is in a file's contents; the others are lengths and names.
#[must_use]
pub fn is_contents(place: Place) -> bool {
    place.file() >= ROOT
}

/// The file whose contents or length the place is part of; [`NAMES`] for names.
pub(crate) fn owner(place: Place) -> u16 {
    match place.file() {
        LENGTHS => u16::try_from(place.offset() / 8).unwrap_or(NAMES),
        file => file,
    }
}

/// The word of an entry.
pub(crate) fn entry_place(entry: u32) -> Place {
    Place::new(NAMES, u64::from(entry) * 8)
}

/// The word of a file's length.
pub(crate) fn length_place(file: u16) -> Place {
    Place::new(LENGTHS, u64::from(file) * 8)
}

/// The file that an entry's word leads to, and what it is.
pub(crate) fn target(word: u64) -> Option<(u16, Kind)> {
    let kind = match word & (FOLDER | LINK) {
        FOLDER => Kind::Folder,
        LINK => Kind::Link,
        _ => Kind::File,
    };
    let file = u16::try_from(word & !(FOLDER | LINK)).ok().filter(|&file| file >= ROOT)?;
    Some((file, kind))
}

/// The word of an entry that leads to a file.
fn word(file: u16, kind: Kind) -> u64 {
    let flag = match kind {
        Kind::File => 0,
        Kind::Folder => FOLDER,
        Kind::Link => LINK,
    };
    u64::from(file) | flag
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
    /// Of each file a name that no other has: its first path.
    pub titles: Vec<String>,
    /// What symbolic links lead to.
    pub targets: HashMap<u16, String>,
    /// Files by names that are in no folder.
    nameless: HashMap<String, u16>,
    uses: HashMap<String, u32>,
}

/// More files than [`Place`] has numbers for.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Names {
    pub fn new() -> Self {
        let titles = ["names", "lengths", "/"].map(str::to_owned).to_vec();
        Names {
            entries: Vec::new(),
            by_name: HashMap::new(),
            titles,
            targets: HashMap::new(),
            nameless: HashMap::new(),
            uses: HashMap::new(),
        }
    }

    /// A title that no other file has.
    fn title(&mut self, path: &str) -> String {
        let uses = self.uses.entry(path.to_owned()).or_default();
        *uses += 1;
        if *uses == 1 { path.to_owned() } else { format!("{path} ({uses})") }
    }

    fn new_file(&mut self, path: &str) -> Result<u16, TooMany> {
        let file = u16::try_from(self.titles.len()).map_err(|_| TooMany)?;
        let title = self.title(path);
        self.titles.push(title);
        Ok(file)
    }

    /// The entry of a path; unknown folders on the way were there before the run.
    fn entry(&mut self, path: &str) -> Result<Option<u32>, TooMany> {
        let path = path.trim_end_matches('/');
        let Some((folder, name)) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty()) else {
            return Ok(None);
        };
        let folder = self.known(folder, Kind::Folder)?;
        let key = (folder, name.to_owned());
        if let Some(&entry) = self.by_name.get(&key) {
            return Ok(Some(entry));
        }
        let entry = self.entries.len() as u32;
        self.entries.push(Entry { folder, name: name.to_owned(), before: 0, now: 0 });
        self.by_name.insert(key, entry);
        Ok(Some(entry))
    }

    /// The file of a name that is in no folder; none if it is a path. An unknown one is a new file.
    fn nameless(&mut self, name: &str) -> Result<Option<u16>, TooMany> {
        if name.is_empty() || name.starts_with('/') {
            return Ok(None);
        }
        if let Some(&file) = self.nameless.get(name) {
            return Ok(Some(file));
        }
        let file = self.new_file(name)?;
        self.nameless.insert(name.to_owned(), file);
        Ok(Some(file))
    }

    /// The file or folder of a path. An unknown one was there before the run.
    pub fn known(&mut self, path: &str, kind: Kind) -> Result<u16, TooMany> {
        if let Some(file) = self.nameless(path)? {
            return Ok(file);
        }
        let Some(entry) = self.entry(path)? else { return Ok(ROOT) };
        if let Some((file, _)) = target(self.entries[entry as usize].now) {
            return Ok(file);
        }
        let file = self.new_file(path)?;
        self.was(entry, word(file, kind));
        Ok(file)
    }

    fn was(&mut self, entry: u32, word: u64) {
        let entry = &mut self.entries[entry as usize];
        (entry.before, entry.now) = (word, word);
    }

    /// A symbolic link that was there before the run.
    pub fn known_link(&mut self, path: &str, to: String) -> Result<(), TooMany> {
        let file = self.known(path, Kind::Link)?;
        self.targets.insert(file, to);
        Ok(())
    }

    /// One more path that a file had before the run.
    pub fn known_again(&mut self, path: &str, of: &str) -> Result<(), TooMany> {
        let file = self.known(of, Kind::File)?;
        if let Some(entry) = self.entry(path)? {
            self.was(entry, word(file, Kind::File));
        }
        Ok(())
    }

    /// The file of a path, if something is there.
    pub fn find(&mut self, path: &str) -> Result<Option<(u16, Kind)>, TooMany> {
        if let Some(file) = self.nameless(path)? {
            return Ok(Some((file, Kind::File)));
        }
        let Some(entry) = self.entry(path)? else { return Ok(Some((ROOT, Kind::Folder))) };
        Ok(target(self.entries[entry as usize].now))
    }

    fn change(&mut self, entry: u32, word: u64) -> Change {
        self.entries[entry as usize].now = word;
        Change { entry, word }
    }

    /// The entry of a path at which nothing is; none if something is.
    fn free(&mut self, path: &str) -> Result<Option<u32>, TooMany> {
        Ok(self.entry(path)?.filter(|&entry| self.entries[entry as usize].now == 0))
    }

    /// A new file or folder; none if something is there already. Without a change if its name is in no
    /// folder.
    pub fn create(&mut self, path: &str, kind: Kind) -> Result<Option<(u16, Option<Change>)>, TooMany> {
        self.nameless.remove(path);
        if let Some(file) = self.nameless(path)? {
            return Ok(Some((file, None)));
        }
        let Some(entry) = self.free(path)? else { return Ok(None) };
        let file = self.new_file(path)?;
        Ok(Some((file, Some(self.change(entry, word(file, kind))))))
    }

    /// A new symbolic link; none if something is there already.
    pub fn symlink(&mut self, path: &str, to: String) -> Result<Option<(u16, Option<Change>)>, TooMany> {
        let made = self.create(path, Kind::Link)?;
        if let Some((file, _)) = made {
            self.targets.insert(file, to);
        }
        Ok(made)
    }

    /// What `from` leads to is at `to`, too; none if something is there already, and without a change if
    /// `to` is in no folder.
    pub fn link(&mut self, from: &str, to: &str) -> Result<Option<(u16, Option<Change>)>, TooMany> {
        let (file, kind) = match self.find(from)? {
            Some(found) => found,
            None => (self.known(from, Kind::File)?, Kind::File),
        };
        if self.nameless(to)?.is_some() {
            self.nameless.insert(to.to_owned(), file);
            return Ok(Some((file, None)));
        }
        let Some(entry) = self.free(to)? else { return Ok(None) };
        if !self.titles[usize::from(file)].starts_with('/') {
            self.titles[usize::from(file)] = self.title(to);
        }
        Ok(Some((file, Some(self.change(entry, word(file, kind))))))
    }

    /// The path leads nowhere any more; and what it led to.
    pub fn remove(&mut self, path: &str) -> Result<Option<(u16, Change)>, TooMany> {
        let Some(entry) = self.entry(path)? else { return Ok(None) };
        let found = target(self.entries[entry as usize].now);
        Ok(found.map(|(file, _)| (file, self.change(entry, 0))))
    }

    /// What `from` leads to is at `to`, and no more at `from`; and what else was at `to` before.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<Option<Renamed>, TooMany> {
        let file = self.known(from, Kind::File)?;
        let (Some(from), Some(to)) = (self.entry(from)?, self.entry(to)?) else { return Ok(None) };
        let word = self.entries[from as usize].now;
        if from == to || self.entries[to as usize].now == word {
            return Ok(None);
        }
        let other = target(self.entries[to as usize].now).map(|(file, _)| file);
        Ok(Some(Renamed { file, other, changes: [self.change(to, word), self.change(from, 0)] }))
    }

    /// Each of two paths leads to what the other led to.
    pub fn exchange(&mut self, from: &str, to: &str) -> Result<Option<Renamed>, TooMany> {
        let (file, other) = (self.known(from, Kind::File)?, self.known(to, Kind::File)?);
        let (Some(from), Some(to)) = (self.entry(from)?, self.entry(to)?) else { return Ok(None) };
        let [a, b] = [from, to].map(|entry| self.entries[entry as usize].now);
        let changes = [self.change(to, a), self.change(from, b)];
        Ok((a != b).then_some(Renamed { file, other: Some(other), changes }))
    }
}

/// See [`Names::rename`] and [`Names::exchange`].
#[derive(Debug)]
pub(crate) struct Renamed {
    pub file: u16,
    pub other: Option<u16>,
    pub changes: [Change; 2],
}
