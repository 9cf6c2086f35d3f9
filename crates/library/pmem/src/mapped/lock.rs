//! The lock that keeps a second opener out of a file.
//!
//! It is `flock`'s: it belongs to the open file, so that two spaces of one process exclude each other, too; it goes when
//! the process ends, however it ends; and `/proc/locks` lists the holder.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;

use super::MapError;

/// A file that is locked until this value goes in the process that locked it.
#[derive(Debug)]
pub(super) struct Locked {
    file: File,
    process: u32,
}

impl Deref for Locked {
    type Target = File;
    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing is not enough: a child that is about to be another program holds a copy of every open file for a moment.
        // Nothing is lost if it fails, then the lock goes with the last copy. A child that drops its copy has no lock to give up: it is its parent's.
        if process::id() == self.process {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// Locks `file`: for this space alone, or shared with other readers.
pub(super) fn lock(file: File, path: &Path, shared: bool) -> Result<Locked, MapError> {
    let operation =
        if shared { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
    flock(&file, operation).map_err(|errno| {
        let path = path.to_owned();
        if errno == Errno::WOULDBLOCK {
            return MapError::Locked { path, holder: holder(&file) };
        }
        let remedy = "; put it on a file system that has locks";
        MapError::File { action: "lock", path, remedy, source: io::Error::from(errno) }
    })?;
    Ok(Locked { file, process: process::id() })
}

/// The process that holds a lock on `file`, if the kernel reports it: not across containers, nor on file systems whose numbers
/// differ from those that `stat` gives.
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let (device, inode) = (metadata.dev(), metadata.ino());
    // 08:01:1234, the first two in hexadecimal
    let id = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    parse_holder(&fs::read_to_string("/proc/locks").ok()?, &id)
}

/// The process in the first line of `/proc/locks` that is a held lock of `flock` on the file with that id.
fn parse_holder(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        // 3: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF; who waits has `->` after the number
        let mut fields = line.split_whitespace().skip(1);
        (fields.next()? == "FLOCK").then_some(())?;
        let pid = fields.nth(2)?.parse().ok()?;
        (fields.next()? == id && pid > 0).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::parse_holder;

    #[test]
    fn the_holder_is_the_process_with_the_lock_on_that_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 22 fe:00:78 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 33 fe:00:77 0 EOF\n\
                     4: OFDLCK ADVISORY  READ  -1 fe:00:77 0 EOF\n\
                     5: FLOCK  ADVISORY  READ  44 fe:00:77 0 EOF\n";
        assert_eq!(parse_holder(locks, "fe:00:77"), Some(44));
        assert_eq!(parse_holder(locks, "fe:00:78"), Some(22));
        assert_eq!(parse_holder(locks, "fe:01:77"), None);
        // A process of another namespace has no number here.
        assert_eq!(parse_holder("5: FLOCK  ADVISORY  READ  0 fe:00:77 0 EOF", "fe:00:77"), None);
        assert_eq!(parse_holder("nothing\n\n7:", "fe:00:77"), None);
    }
}
