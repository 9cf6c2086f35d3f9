//! Writes and syncs in figures, per file and per call stack.

use std::collections::BTreeMap;

use event::{Batch, Capabilities, Definition, Note, Op, Sink, SinkError, SiteId, SiteTable, Source};
use serde::Serialize;

use crate::files::{Files, text};
use crate::ranges::Ranges;

/// Bytes of a page of the page cache.
const PAGE: u64 = 4096;
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Writes below this many bytes are small.
const SMALL: u64 = 512;

/// Writes by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Less than 512 B.
    pub small: u64,
    /// From 512 B, less than 4 KiB.
    pub sectors: u64,
    /// From 4 KiB, less than 64 KiB.
    pub pages: u64,
    /// 64 KiB and more.
    pub large: u64,
}

/// Sums over writes and syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sums {
    /// Writes; stores to a shared mapping count by words.
    pub writes: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Writes by size.
    pub sizes: Sizes,
    /// Writes whose offset and length are multiples of 4 KiB.
    pub page_aligned: u64,
    /// Writes whose offset and length are multiples of 512 B.
    pub sector_aligned: u64,
    /// Syncs that were waited for.
    pub syncs: u64,
    /// Syncs of what was clean.
    pub needless_syncs: u64,
    /// Bytes that these syncs waited for.
    pub synced_bytes: u64,
    /// The same in whole pages, as the page cache writes them.
    pub synced_page_bytes: u64,
    /// The same in whole sectors.
    pub synced_sector_bytes: u64,
    /// Bytes that the longest of them waited for.
    pub most_bytes: u64,
}

impl Sums {
    /// Bytes written in pages for each byte synced; `None` if none was.
    #[must_use]
    pub fn page_amplification(&self) -> Option<f64> {
        (self.synced_bytes > 0).then(|| self.synced_page_bytes as f64 / self.synced_bytes as f64)
    }

    /// Bytes written in sectors for each byte synced; `None` if none was.
    #[must_use]
    pub fn sector_amplification(&self) -> Option<f64> {
        (self.synced_bytes > 0).then(|| self.synced_sector_bytes as f64 / self.synced_bytes as f64)
    }

    fn write(&mut self, offset: u64, len: u64) {
        self.writes += 1;
        self.bytes += len;
        *match len {
            0..SMALL => &mut self.sizes.small,
            SMALL..PAGE => &mut self.sizes.sectors,
            PAGE..0x1_0000 => &mut self.sizes.pages,
            _ => &mut self.sizes.large,
        } += 1;
        let aligned = |unit| offset.is_multiple_of(unit) && len.is_multiple_of(unit);
        self.page_aligned += u64::from(aligned(PAGE));
        self.sector_aligned += u64::from(aligned(SECTOR));
    }

    fn sync(&mut self, sync: SyncFigures) {
        self.syncs += 1;
        self.needless_syncs += u64::from(sync.bytes == 0 && sync.names == 0);
        self.synced_bytes += sync.bytes;
        self.synced_page_bytes += sync.page_bytes;
        self.synced_sector_bytes += sync.sector_bytes;
        self.most_bytes = self.most_bytes.max(sync.bytes);
    }
}

/// What a sync waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncFigures {
    /// Bytes.
    pub bytes: u64,
    /// The same in whole pages.
    pub page_bytes: u64,
    /// The same in whole sectors.
    pub sector_bytes: u64,
    /// Names and lengths.
    pub names: u64,
}

/// Sums of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileFigures {
    /// Its path; a new one after a rename.
    pub path: String,
    /// Its sums.
    #[serde(flatten)]
    pub sums: Sums,
    /// Bytes that no sync waited for.
    pub unsynced_bytes: u64,
}

/// Sums of a call stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiteFigures {
    /// The call with its stack.
    pub site: SiteId,
    /// Its sums.
    pub sums: Sums,
}

#[derive(Clone, Debug, Default)]
struct File {
    sums: Sums,
    dirty: Ranges,
    /// Names given or taken below a folder, and changes of a file's length, since the last sync.
    names: u64,
}

/// A sink that sums up.
#[derive(Debug, Default)]
pub struct Figures {
    table: SiteTable,
    names: Files,
    files: BTreeMap<usize, File>,
    sites: BTreeMap<SiteId, Sums>,
    all: Sums,
    failed: u64,
}

impl Figures {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Figures::default()
    }

    /// Code sites and names.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// All together.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.all
    }

    /// Syncs that failed.
    #[must_use]
    pub fn failed_syncs(&self) -> u64 {
        self.failed
    }

    /// Files and folders with writes or syncs, those with most bytes first.
    #[must_use]
    pub fn files(&self) -> Vec<FileFigures> {
        let used = self.files.iter().filter(|(_, file)| file.sums.writes + file.sums.syncs > 0);
        let one = |(&number, file): (&usize, &File)| FileFigures {
            path: self.names.path(number).to_owned(),
            sums: file.sums,
            unsynced_bytes: file.dirty.bytes(),
        };
        let mut files: Vec<FileFigures> = used.map(one).collect();
        files.sort_by(|a, b| {
            (b.sums.bytes, b.sums.syncs, &a.path).cmp(&(a.sums.bytes, a.sums.syncs, &b.path))
        });
        files
    }

    /// Call stacks with writes or syncs, those with most syncs and then bytes first.
    #[must_use]
    pub fn sites(&self) -> Vec<SiteFigures> {
        let mut sites: Vec<SiteFigures> =
            self.sites.iter().map(|(&site, &sums)| SiteFigures { site, sums }).collect();
        sites.sort_by_key(|one| (std::cmp::Reverse((one.sums.syncs, one.sums.bytes)), one.site));
        sites
    }

    fn at(&mut self, path: &str) -> usize {
        let number = self.names.at(path);
        self.files.entry(number).or_default();
        number
    }

    fn named(&mut self, path: &str) {
        let folder = self.at(crate::files::folder(path));
        if let Some(folder) = self.files.get_mut(&folder) {
            folder.names += 1;
        }
    }

    fn sync(&mut self, site: SiteId, number: usize, range: Option<(u64, u64)>) {
        let Some(file) = self.files.get_mut(&number) else { return };
        let dirty = match range {
            None => file.dirty.take(),
            Some((from, to)) => {
                let mut synced = file.dirty.clone();
                synced.remove(0, from);
                synced.remove(to, u64::MAX);
                file.dirty.remove(from, to);
                synced
            }
        };
        let sync = SyncFigures {
            bytes: dirty.bytes(),
            page_bytes: dirty.blocks(PAGE) * PAGE,
            sector_bytes: dirty.blocks(SECTOR) * SECTOR,
            names: std::mem::take(&mut file.names),
        };
        file.sums.sync(sync);
        self.sites.entry(site).or_default().sync(sync);
        self.all.sync(sync);
    }

    /// An operation on names.
    fn renames(&mut self, op: Op) {
        let text = |name| text(&self.table, name);
        match op {
            Op::FileCreate { file, .. } => {
                let path = text(file);
                let number = self.names.create(&path);
                self.files.insert(number, File { names: 1, ..File::default() });
                self.named(&path);
            }
            Op::Unlink { file } => {
                let path = text(file);
                self.names.unlink(&path);
                self.named(&path);
            }
            Op::Rename { from, to } => {
                let (from, to) = (text(from), text(to));
                self.names.rename(&from, &to);
                self.named(&from);
                self.named(&to);
            }
            Op::Exchange { from, to } => {
                let (from, to) = (text(from), text(to));
                self.names.exchange(&from, &to);
                self.named(&from);
                self.named(&to);
            }
            Op::Link { from, to } => {
                let (from, to) = (text(from), text(to));
                self.names.link(&from, &to);
                self.named(&to);
            }
            Op::Symlink { file, .. } => {
                let path = text(file);
                self.named(&path);
            }
            _ => {}
        }
    }

    fn event(&mut self, site: SiteId, op: Op) {
        let text = |name| text(&self.table, name);
        match op {
            Op::FileWrite { file, offset, len } => {
                let number = self.at(&text(file));
                let len = u64::from(len);
                if let Some(file) = self.files.get_mut(&number) {
                    file.sums.write(offset, len);
                    file.dirty.insert(offset, offset + len);
                }
                self.sites.entry(site).or_default().write(offset, len);
                self.all.write(offset, len);
            }
            Op::FileTruncate { file, len } => {
                let number = self.at(&text(file));
                if let Some(file) = self.files.get_mut(&number) {
                    file.dirty.remove(len, u64::MAX);
                    file.names += 1;
                }
            }
            Op::FileSync { file, .. } => {
                let number = self.at(&text(file));
                self.sync(site, number, None);
            }
            Op::FileRangeSync { file, offset, len, .. } => {
                let number = self.at(&text(file));
                self.sync(site, number, Some((offset, offset + u64::from(len))));
            }
            Op::FilesSync { .. } => {
                let numbers: Vec<usize> = self
                    .files
                    .iter()
                    .filter(|(_, file)| !file.dirty.is_empty())
                    .map(|(&number, _)| number)
                    .collect();
                numbers.into_iter().for_each(|number| self.sync(site, number, None));
            }
            Op::Phase { name } => {
                if matches!(Note::of(name, &self.table), Some(Note::SyncFailed { .. })) {
                    self.failed += 1;
                }
            }
            op => self.renames(op),
        }
    }
}

impl Sink for Figures {
    fn name(&self) -> &'static str {
        "the figures of files"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::FILES
    }

    fn begin(&mut self, _: &Source) -> Result<(), SinkError> {
        Ok(())
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.table.define_site(id, site.clone()),
            Definition::Name(id, name) => self.table.define_name(id, name.to_owned()),
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        for event in batch.events {
            self.event(event.site, event.op);
        }
        Ok(())
    }
}
