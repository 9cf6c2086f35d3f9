//! What can be wrong, in words.

use event::{SiteId, SiteTable};
use serde::{Deserialize, Serialize};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A rename or link of a file whose contents are not synced.
    RenameBeforeContents,
    /// A name whose folder is not synced.
    FolderNotSynced,
    /// A length that may survive without the bytes that it covers.
    LengthBeforeContents,
    /// Work that counts on a sync that failed.
    FailedSyncIgnored,
    /// A file that is written over, so that a crash leaves neither version.
    OverwrittenInPlace,
    /// A file that is emptied while what replaces it is not synced.
    DroppedEarly,
    /// Nothing is ever synced.
    NeverSynced,
    /// A write with `O_DIRECT` that is counted on and not synced.
    DirectNotSynced,
    /// A write with `O_DIRECT` that is not aligned.
    DirectUnaligned,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::RenameBeforeContents,
        Kind::FolderNotSynced,
        Kind::LengthBeforeContents,
        Kind::FailedSyncIgnored,
        Kind::OverwrittenInPlace,
        Kind::DroppedEarly,
        Kind::NeverSynced,
        Kind::DirectNotSynced,
        Kind::DirectUnaligned,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::RenameBeforeContents => "rename-before-contents",
            Kind::FolderNotSynced => "folder-not-synced",
            Kind::LengthBeforeContents => "length-before-contents",
            Kind::FailedSyncIgnored => "failed-sync-ignored",
            Kind::OverwrittenInPlace => "overwritten-in-place",
            Kind::DroppedEarly => "dropped-early",
            Kind::NeverSynced => "never-synced",
            Kind::DirectNotSynced => "direct-not-synced",
            Kind::DirectUnaligned => "direct-unaligned",
        }
    }

    /// Whether a crash may lose data.
    #[must_use]
    pub fn is_danger(self) -> bool {
        self != Kind::DirectUnaligned
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Kind::RenameBeforeContents => "fsync the file before it is renamed or linked",
            Kind::FolderNotSynced => {
                "open the folder and fsync it, behind the call and before anything relies on the name"
            }
            Kind::LengthBeforeContents => {
                "sync the bytes before the length that covers them is written, or give each record a checksum that recovery tests"
            }
            Kind::FailedSyncIgnored => {
                "stop, or write the data anew to another file and sync that: a second sync of the same file may succeed without having written it"
            }
            Kind::OverwrittenInPlace => {
                "write a new file, fsync it, rename it over the old one and fsync the folder; or journal what is overwritten and sync the journal first"
            }
            Kind::DroppedEarly => "sync what replaces the file before it is emptied",
            Kind::NeverSynced => "fsync what has to survive, and the folders of new names",
            Kind::DirectNotSynced => {
                "fsync or fdatasync behind the write, or open with O_DSYNC: O_DIRECT goes past the page cache, not past the device's cache, and leaves lengths and allocation unsynced"
            }
            Kind::DirectUnaligned => {
                "align address, offset and length to the device's logical sectors (512 B or 4 KiB): elsewhere the same call fails, or goes through the page cache"
            }
        }
    }
}

/// A place in the code with one thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The call.
    pub site: SiteId,
    /// The other call that it takes: the write, the sync that failed.
    pub other: Option<SiteId>,
    /// The first file that it happened to.
    pub path: String,
    /// Of a rename the new name, of a folder the folder, of a failed sync the error.
    pub detail: String,
    /// Where in the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// How often.
    pub count: u64,
}

impl Finding {
    /// What is wrong, in one line.
    #[must_use]
    pub fn describe(&self, table: &SiteTable) -> String {
        let Finding { bytes, offset, detail, .. } = self;
        let site = table.chain(self.site);
        let other = self.other.map(|other| table.chain(other));
        let by = |before: &str| other.as_ref().map_or_else(String::new, |other| format!("{before}{other}"));
        let times = if self.count == 1 { String::new() } else { format!(" ({} times)", self.count) };
        let path = last(&self.path);
        let text = match self.kind {
            Kind::RenameBeforeContents => format!(
                "{site} gives `{path}` the name `{}` before its contents are synced: {bytes} B{}",
                last(detail),
                by(", written by ")
            ),
            Kind::FolderNotSynced => {
                format!(
                    "{site} gives `{path}` its name, and the folder `{}` is not synced behind it",
                    last(detail)
                )
            }
            Kind::LengthBeforeContents => format!(
                "{site} writes a length at {offset:#x} of `{path}` that covers {bytes} B, and no sync stands between them{}",
                by(", written by ")
            ),
            Kind::FailedSyncIgnored => {
                format!("{site} counts on `{path}`, of which a sync had failed ({detail}){}", by(": "))
            }
            Kind::OverwrittenInPlace => format!(
                "{site} overwrites `{path}` in place from {offset:#x} on ({bytes} B): a crash may leave neither the old nor the new version{}",
                by(", made durable by ")
            ),
            Kind::DroppedEarly => format!(
                "{site} empties `{path}` while `{}` is not synced: {bytes} B{}",
                last(detail),
                by(", written by ")
            ),
            Kind::NeverSynced => {
                format!("{site} changes `{path}`, and the run syncs nothing: a crash may lose all of it")
            }
            Kind::DirectNotSynced => format!(
                "{site} writes {bytes} B to `{path}` with O_DIRECT, and nothing syncs them{}",
                by(" before ")
            ),
            Kind::DirectUnaligned => {
                format!("{site} writes to `{path}` with O_DIRECT, and {detail} is no multiple of a sector")
            }
        };
        text + &times
    }
}

/// The last part of a path.
fn last(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}
