//! Files and folders from the words of an image.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use super::bulk::{BULKS, Bulks};
use super::names::{self, Kind, LENGTHS, NAMES};
use super::rules::PAGE;
use crate::explore::mix;
use crate::{Change, Contents, Place};

/// What is at a path.
#[derive(Clone, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Folder,
    /// A file with these bytes.
    File(Vec<u8>),
    /// A symbolic link with this text.
    Link(String),
    /// The file that is at this path, too: a hard link. A [`Disk`] gives each of its paths as
    /// [`Entry::File`].
    Again(String),
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Folder => f.write_str("a folder"),
            Entry::Link(to) => write!(f, "a link to {to}"),
            Entry::Again(path) => write!(f, "{path}, too"),
            Entry::File(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
        }
    }
}

/// Files and folders by their absolute paths.
pub type Tree = BTreeMap<String, Entry>;

/// The disk of a run, as it was when the run began or as an image's changes made it.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Folder and name of each entry.
    entries: Vec<(u16, String)>,
    contents: Contents,
    /// What contents has, by number of file.
    titles: Vec<String>,
    /// What symbolic links lead to.
    targets: HashMap<u16, String>,
    /// Words that were changed, by file and offset.
    changed: Vec<BTreeMap<u64, u64>>,
    /// A number for what differs in each file from what it held when the run began, and in each of its pages;
    /// zero, or none, if nothing does.
    differs: HashMap<u16, u128>,
    pages: HashMap<(u16, u64), u128>,
    /// Pages that changed since somebody asked.
    dirty: BTreeSet<(u16, u64)>,
    /// What a long run wrote at once, and how much of it is there.
    bulks: Arc<Bulks>,
    made: u32,
}

/// A file, folder or symbolic link of a disk, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    file: u16,
    /// Whether it is a folder.
    pub folder: bool,
    /// Bytes of the file.
    pub len: u64,
}

impl Node {
    /// The number of the file, as in [`Place::file`]: all paths of one file have the same.
    #[must_use]
    pub fn file(&self) -> u16 {
        self.file
    }
}

impl Disk {
    pub(super) fn new(
        entries: Vec<(u16, String)>,
        titles: Vec<String>,
        targets: HashMap<u16, String>,
        contents: Contents,
        bulks: Arc<Bulks>,
    ) -> Self {
        let changed = vec![BTreeMap::new(); titles.len()];
        let (differs, pages, dirty) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        Disk { entries, contents, titles, targets, changed, differs, pages, dirty, bulks, made: 0 }
    }

    /// What a node leads to, if it is a symbolic link.
    #[must_use]
    pub fn target(&self, node: Node) -> Option<&str> {
        self.targets.get(&node.file).map(String::as_str)
    }

    /// Takes over the changes of an image.
    pub fn apply(&mut self, changes: &[Change]) {
        if let Some(made) = changes.iter().rev().find(|change| change.place == BULKS) {
            self.move_bulks(made.word as u32);
        }
        // Most changes lie beside each other: their page is looked up once.
        let (mut page, mut mixed) = (Place(0), 0);
        for &Change { place, word } in changes.iter().filter(|change| change.place != BULKS) {
            let (file, offset) = (place.file(), place.offset());
            let Some(changed) = self.changed.get_mut(usize::from(file)) else { continue };
            let before = changed.insert(offset, word).unwrap_or_else(|| self.word_below(place));
            if before == word || !names::is_contents(place) {
                continue;
            }
            let of = Place(place.0 / PAGE * PAGE);
            if of != page {
                self.differ(page, std::mem::take(&mut mixed));
                page = of;
            }
            mixed ^= mix(place, before) ^ mix(place, word);
        }
        self.differ(page, mixed);
    }

    /// Adds or takes away bulks. Words that were changed in what they wrote are as below until the changes
    /// say more.
    fn move_bulks(&mut self, made: u32) {
        let moved = self.made.min(made)..self.made.max(made);
        for number in moved.clone() {
            let bulk = self.bulks.get(number);
            let file = bulk.place.file();
            let range = bulk.place.offset() / 8 * 8..bulk.place.offset() + bulk.len;
            let known: Vec<u64> =
                self.changed[usize::from(file)].range(range).map(|(&offset, _)| offset).collect();
            for offset in known {
                let place = Place::new(file, offset);
                let word = self.word(place);
                self.changed[usize::from(file)].remove(&offset);
                self.differ(place, mix(place, word) ^ mix(place, self.word(place)));
            }
        }
        for number in moved {
            let bulk = self.bulks.get(number);
            for (file, page) in Bulks::pages_of(bulk) {
                let place = Place::new(file, page * PAGE);
                self.differ(place, mix(place, !u64::from(number)));
            }
        }
        self.made = made;
    }

    fn differ(&mut self, place: Place, mixed: u128) {
        if mixed == 0 {
            return;
        }
        let page = (place.file(), place.offset() / PAGE);
        *self.differs.entry(place.file()).or_default() ^= mixed;
        *self.pages.entry(page).or_default() ^= mixed;
        self.dirty.insert(page);
    }

    /// What a file's bytes are from `from` on where no word was changed.
    fn below(&self, file: u16, from: u64, bytes: &mut [u8]) {
        let before = self.contents.file(&self.titles[usize::from(file)]).unwrap_or(&[]);
        if let Some(rest) = before.get(usize::try_from(from).unwrap_or(usize::MAX)..) {
            let held = rest.len().min(bytes.len());
            bytes[..held].copy_from_slice(&rest[..held]);
        }
        self.bulks.fill(Place::new(file, from), bytes, self.made);
    }

    /// A number that is the same for equal contents of a file in all images of the run.
    #[must_use]
    pub fn difference(&self, file: u16) -> u128 {
        self.differs.get(&file).copied().unwrap_or(0)
    }

    /// The same for a page of a file; pages have [`Disk::PAGE`] bytes.
    #[must_use]
    pub fn page_difference(&self, file: u16, page: u64) -> u128 {
        self.pages.get(&(file, page)).copied().unwrap_or(0)
    }

    /// Bytes of a page.
    pub const PAGE: u64 = PAGE;

    /// The pages, by file and number, that changed since the last call.
    pub fn take_dirty(&mut self) -> BTreeSet<(u16, u64)> {
        std::mem::take(&mut self.dirty)
    }

    /// Bytes of a file from `from` to `to`, which lie within its length.
    #[must_use]
    pub fn bytes(&self, node: Node, from: u64, to: u64) -> Vec<u8> {
        let file = usize::from(node.file);
        let to = to.min(node.len).max(from);
        let mut bytes = vec![0; (to - from) as usize];
        self.below(node.file, from, &mut bytes);
        for (&offset, word) in self.changed[file].range(from / 8 * 8..to) {
            for (at, byte) in (offset..).zip(word.to_le_bytes()) {
                if (from..to).contains(&at) {
                    bytes[(at - from) as usize] = byte;
                }
            }
        }
        bytes
    }

    fn word(&self, place: Place) -> u64 {
        let file = usize::from(place.file());
        if let Some(&word) = self.changed[file].get(&place.offset()) {
            return word;
        }
        self.word_below(place)
    }

    /// What a word is that was not changed.
    fn word_below(&self, place: Place) -> u64 {
        let mut bytes = [0; 8];
        self.below(place.file(), place.offset(), &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// All files and folders by path.
    #[must_use]
    pub fn nodes(&self) -> BTreeMap<String, Node> {
        let mut inside: BTreeMap<u16, Vec<(&str, u16, Kind)>> = BTreeMap::new();
        for (entry, (folder, name)) in self.entries.iter().enumerate() {
            let word = self.word(names::entry_place(entry as u32));
            if let Some((file, kind)) = names::target(word) {
                inside.entry(*folder).or_default().push((name, file, kind));
            }
        }
        let mut nodes = BTreeMap::new();
        let mut open = vec![(String::new(), LENGTHS + 1)];
        while let Some((path, folder)) = open.pop() {
            // A folder is in one place; taking it out ends every walk.
            for (name, file, kind) in inside.remove(&folder).unwrap_or_default() {
                let (path, folder) = (format!("{path}/{name}"), kind == Kind::Folder);
                let len = if folder { 0 } else { self.word(names::length_place(file)) };
                nodes.insert(path.clone(), Node { file, folder, len });
                if folder {
                    open.push((path, file));
                }
            }
        }
        nodes
    }

    /// Calls `write` with offsets and bytes that make a file of its length, zero at first, what it is; later ones replace earlier
    /// ones.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn read<E>(&self, node: Node, mut write: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let before = self.contents.file(&self.titles[usize::from(node.file)]).unwrap_or(&[]);
        let before = &before[..before.len().min(usize::try_from(node.len).unwrap_or(usize::MAX))];
        if !before.is_empty() {
            write(0, before)?;
        }
        self.read_changes(node, write)
    }

    /// The same for a file that is what it was when the run began, as far as its length goes.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn read_changes<E>(
        &self,
        node: Node,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let file = usize::from(node.file);
        let mut bytes = [0; PAGE as usize];
        for page in self.bulks.pages_in(node.file, node.len) {
            let from = page * PAGE;
            let bytes = &mut bytes[..(node.len - from).min(PAGE) as usize];
            bytes.fill(0);
            self.below(node.file, from, bytes);
            write(from, bytes)?;
        }
        let mut piece: (u64, Vec<u8>) = (0, Vec::new());
        for (&offset, word) in self.changed[file].range(..node.len) {
            let bytes = word.to_le_bytes();
            let inside = ((node.len - offset) as usize).min(8);
            if piece.0 + piece.1.len() as u64 != offset {
                if !piece.1.is_empty() {
                    write(piece.0, &piece.1)?;
                }
                piece = (offset, Vec::new());
            }
            piece.1.extend_from_slice(&bytes[..inside]);
        }
        if piece.1.is_empty() { Ok(()) } else { write(piece.0, &piece.1) }
    }

    /// Everything that is there, with contents.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let entry = |node: Node| {
            if node.folder {
                return Entry::Folder;
            }
            if let Some(to) = self.target(node) {
                return Entry::Link(to.to_owned());
            }
            let mut bytes = vec![0; usize::try_from(node.len).unwrap_or(usize::MAX)];
            let Ok(()) = self.read(node, |offset, part| {
                bytes[offset as usize..offset as usize + part.len()].copy_from_slice(part);
                Ok::<(), std::convert::Infallible>(())
            });
            Entry::File(bytes)
        };
        self.nodes().into_iter().map(|(path, node)| (path, entry(node))).collect()
    }
}

/// The words that `Names` and lengths are before the run, for [`Contents`].
pub(super) fn words(words: impl Iterator<Item = u64>) -> Vec<u8> {
    words.flat_map(u64::to_le_bytes).collect()
}

/// Titles of the files whose words are no file's contents.
pub(super) fn special(titles: &[String]) -> [&str; 2] {
    [&titles[usize::from(NAMES)], &titles[usize::from(LENGTHS)]]
}
