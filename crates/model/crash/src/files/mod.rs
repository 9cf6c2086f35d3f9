//! Ordinary files: what a file system may keep or lose of writes, lengths and names.
//!
//! # The idea
//! A disk is words, too. The contents of each file are words by offset; two more numbers of files hold, one word each, the
//! lengths of all files and the entries of all folders (which file a name leads to). Then all that is said of memory holds: what a call does
//! becomes atoms, a sync becomes a barrier, and what a file system promises is which atoms share a cell (a cell's atoms survive in
//! their order; cells are independent) and what a barrier demands. [`Disk`] makes files and folders of an image's words again.
//!
//! # What is promised
//! | | [`Platform::POSIX`](crate::Platform::POSIX), pessimistic | [`Platform::EXT4`](crate::Platform::EXT4), with `data=ordered` |
//! |---|---|---|
//! | a sector of 512 B | survives as it was at any moment since its last sync, whole | the same |
//! | a file's length | any since the last sync of the file, and that of each page between, whatever became of its bytes | the same |
//! | what a truncation cuts off | in the file's last block, may come back with a later, greater length | is zero with any later length |
//! | names | of names that have to do with each other (one was renamed to the other), in order; others in any order | all in the order of the journal |
//! | a renaming | at once, whatever became of the file's bytes; from one folder into another, a sync of the new one alone may leave both names | at once; if it replaces another file, not before the length that the file has by then, and its bytes in blocks that it did not have at its last sync (`auto_da_alloc`); bytes written over others are not brought along |
//! | `fsync`, `fdatasync` of a file | its bytes and its length; not its name | the same; and the journal up to there, if there is something of the file in it (for `fsync` also a change of its names) |
//! | `fsync` of a folder | its entries | the journal up to there, if something of the folder is in it |
//! | a hard or symbolic link, a removal | in any order with others, also of the old name behind the new one | in order |
//! | `RENAME_EXCHANGE` | both names at once | the same, whatever became of the files' bytes |
//! | `RENAME_NOREPLACE` | a renaming to a free name | the same: it brings no bytes along |
//! | `O_TMPFILE`, `linkat` | a name whatever became of the file's bytes | the same; a sync of the file brings the name along |
//! | `sync`, `syncfs` | all bytes, lengths and names before it, for Linux waits | the same |
//! | `sync_file_range` | nothing: neither the length nor the medium's cache is written | the same |
//! | `fallocate` | a length; a hole or zeros are a write of zeros | the same |
//! | its collapse and insert of a range | sector by sector, and the length | at once, not before the bytes that move |
//! | `msync` | the sectors of the range, and the length | as `fdatasync`, of the sectors of the range |
//!
//! The other file systems are sets of the same rules (`rules.rs`); `docs/file-systems.md` has each with its
//! source, and what real kernels left.
//!
//! A store to a mapping is a change of its sector; what one call writes to a sector is never torn, what stores write may be torn between
//! words.
//!
//! # What is supposed
//! A sync that the program made succeeded. The source records its beginning: concurrent writes of other threads are not
//! covered. A file that no event names is empty until it is written to. Under `Ext4`, a truncation is in order with the file's
//! later lengths, but not with other files' names; and `O_TRUNC` writes nothing back when the file is closed, which the default mount option
//! `auto_da_alloc` would.

mod build;
mod bulk;
mod disk;
mod joined;
mod names;
mod naming;
mod plan;
mod record;
mod rules;
mod steps;

pub(crate) use bulk::{BULKS, Bulk, Bulks};
pub use disk::{Disk, Entry, Node, Tree};
pub use names::is_contents;
pub(crate) use names::{LENGTHS, NAMES, owner};
pub use record::{FilesRecorder, FilesRun};
