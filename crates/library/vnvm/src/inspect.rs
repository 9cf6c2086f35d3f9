//! What is in an NVM, without changing it.

use std::path::PathBuf;

use space::Space;

use crate::error::{Error, Result};
use crate::files::Record;
use crate::host::Mode;
use crate::layout::{Layout, SLOTS, Sizes};
use crate::list::walk;
use crate::recover::{dirty_pages, heads};
use crate::words::{LogPage, State, Tag};

/// A backing file that the NVM knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its number.
    pub file: u16,
    /// Its path.
    pub path: PathBuf,
    /// How it is mapped.
    pub mode: Mode,
    /// Bytes of it that are mapped.
    pub bytes: u64,
    /// Slots of the processes that have it.
    pub users: Vec<u32>,
    /// Dirty cache pages.
    pub dirty: u64,
}

/// What a process, or a shared region, has committed that is not in its file yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListInfo {
    /// The process's slot, or `None`.
    pub slot: Option<u32>,
    /// The shared region's file number, or `None`.
    pub file: Option<u16>,
    /// The process's number.
    pub pid: u64,
    /// Committed transactions.
    pub transactions: u64,
    /// Their log pages.
    pub pages: u64,
}

/// What is in an NVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its sizes.
    pub sizes: Sizes,
    /// Cache pages that are clean, dirty, and neither.
    pub clean: u64,
    /// Dirty ones.
    pub dirty: u64,
    /// Free ones.
    pub free: u64,
    /// Log pages in use.
    pub log_used: u64,
    /// Files.
    pub files: Vec<FileInfo>,
    /// Lists that are not empty, and processes.
    pub lists: Vec<ListInfo>,
}

/// What is in the NVM; `None` if it is empty. All of it that recovery would read is read and checked, pages
/// of the log included.
///
/// # Errors
/// The first thing that is damaged.
pub fn inspect<S: Space>(space: &S) -> Result<Option<Info>> {
    let Some(layout) = Layout::read(space)? else { return Ok(None) };
    let records = Record::all(space, &layout)?;
    let dirty = dirty_pages(space, &layout, None)?;
    let (mut clean, mut free) = (0, 0);
    for index in 0..layout.sizes.cache_pages {
        let at = layout.tag(index);
        match Tag::of(at, space.load_u64(at))?.state {
            State::Clean => clean += 1,
            State::Free => free += 1,
            State::Dirty | State::Held => {}
        }
    }
    for (index, tag) in &dirty {
        if !records.iter().any(|(file, _)| *file == tag.file) {
            let (what, found) = ("a cache page's object, whose file has no record,", tag.word());
            return Err(Error::Damaged { offset: layout.tag(*index), what, found });
        }
    }
    let mut log_used = 0;
    for page in 0..layout.sizes.log_pages {
        let at = layout.log_word(page);
        log_used += u64::from(LogPage::of(at, space.load_u64(at))?.owner.is_some());
    }
    let mut lists = Vec::new();
    let modes = records.iter().map(|(file, record)| (*file, record.mode));
    for (number, at) in (0..).zip(heads(&layout, modes)) {
        let objects = walk(space, &layout, at, None, usize::MAX)?;
        for object in &objects {
            object.replay(space, &layout, |entry| {
                let record = records.iter().find(|(file, _)| *file == entry.file);
                let end = entry.offset.checked_add(entry.data.len() as u64);
                let inside = record.zip(end).is_some_and(|((_, record), end)| end <= record.len);
                let (what, found) = ("an entry of the log, outside of every file,", entry.offset);
                inside.then_some(()).ok_or(Error::Damaged { offset: at, what, found })
            })?;
        }
        let slot = Some(number).filter(|number| *number < SLOTS);
        let pid = slot.map_or(0, |slot| space.load_u64(layout.slot_pid(slot)));
        if !objects.is_empty() || pid != 0 {
            let shared = records.iter().filter(|(_, record)| record.mode == Mode::Shared);
            let file =
                number.checked_sub(SLOTS).and_then(|nth| shared.map(|(file, _)| *file).nth(nth as usize));
            let pages = objects.iter().map(|object| object.pages.len() as u64).sum();
            lists.push(ListInfo { slot, file, pid, transactions: objects.len() as u64, pages });
        }
    }
    let files = records.into_iter().map(|(file, record)| FileInfo {
        file,
        mode: record.mode,
        bytes: record.len,
        users: (0..SLOTS).filter(|slot| record.users >> slot & 1 == 1).collect(),
        dirty: dirty.iter().filter(|(_, tag)| tag.file == file).count() as u64,
        path: record.path,
    });
    let (files, dirty) = (files.collect(), dirty.len() as u64);
    Ok(Some(Info { sizes: layout.sizes, clean, dirty, free, log_used, files, lists }))
}

/// Makes an empty NVM in a space.
///
/// # Errors
/// If the space is too short.
pub fn format<S: Space>(space: &S, sizes: Sizes) -> Result<()> {
    Layout::make(space, sizes).map(drop)
}
