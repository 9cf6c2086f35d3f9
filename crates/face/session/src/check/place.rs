//! Where images of ordinary files are laid out, and what they share.
//!
//! An image has all files of the run, most of them as they were before it. In memory these are written, once
//! for each job, because from image to image only pages that differ are. A file system that clones files
//! gives each image a clone: it costs no room and hardly any time, however long the file is, and what
//! recovery writes to it reaches no other.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crash::files::{Disk, Node};

use crate::error::Error;
use crate::temporary::Temporary;

/// Shorter files are written: that takes no longer than to clone them.
const CLONED_MIN: u64 = 64 << 10;
/// Room for what recovery adds.
const SPARE: u64 = 32 << 20;

/// How an image comes to the files that are as they were before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// They are clones of one copy.
    Reflink,
    /// Each job has written its own.
    Written,
}

impl Sharing {
    /// As `check.json` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Reflink => "reflink",
            Sharing::Written => "written",
        }
    }
}

/// A folder for images of one run.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    base: Option<Base>,
}

/// The files as they were before the run, by their numbers.
#[derive(Debug)]
struct Base {
    files: HashMap<u16, PathBuf>,
    _folder: Temporary,
}

impl Place {
    /// In this folder; if none is given, where there is room for so many copies of so many bytes.
    pub fn new(wanted: Option<&Path>, disk: &Disk, bytes: u64, copies: u64) -> Result<Place, Error> {
        let folder = match wanted {
            Some(folder) => folder.to_owned(),
            None => roomy(bytes, copies),
        };
        let base = if clones(&folder) { Base::new(&folder, disk)? } else { None };
        Ok(Place { folder, base })
    }

    /// Makes a folder for one image.
    pub fn image(&self) -> Result<Temporary, Error> {
        Temporary::new("strandline-image-", &self.folder)
            .map_err(Error::file("make a folder for images in", &self.folder))
    }

    /// Where it is, if that is not in memory.
    pub fn on_disk(&self) -> Option<&Path> {
        (self.folder != Path::new(MEMORY)).then_some(&*self.folder)
    }

    pub fn sharing(&self) -> Sharing {
        if self.base.is_some() { Sharing::Reflink } else { Sharing::Written }
    }

    /// Gives an empty file the bytes that the node's file had before the run, if they are there to be cloned.
    pub fn gives_clone(&self, file: &File, node: Node) -> bool {
        let Some(from) = self.base.as_ref().and_then(|base| base.files.get(&node.file())) else {
            return false;
        };
        File::open(from).is_ok_and(|from| rustix::fs::ioctl_ficlone(file, from).is_ok())
    }
}

impl Base {
    /// A copy of all longer files; none if there are none.
    fn new(place: &Path, disk: &Disk) -> Result<Option<Base>, Error> {
        let long = |node: &Node| !node.folder && disk.target(*node).is_none() && node.len >= CLONED_MIN;
        let nodes: HashMap<u16, Node> =
            disk.nodes().into_values().filter(long).map(|node| (node.file(), node)).collect();
        if nodes.is_empty() {
            return Ok(None);
        }
        let made = Temporary::new("strandline-before-", place);
        let folder = made.map_err(Error::file("make a folder for images in", place))?;
        let mut files = HashMap::new();
        for (number, node) in nodes {
            let path = folder.path().join(number.to_string());
            write(&path, disk, node).map_err(Error::file("write", &path))?;
            files.insert(number, path);
        }
        Ok(Some(Base { files, _folder: folder }))
    }
}

fn write(path: &Path, disk: &Disk, node: Node) -> io::Result<()> {
    let file = File::create_new(path)?;
    file.set_len(node.len)?;
    disk.read(node, |offset, bytes| file.write_all_at(bytes, offset))
}

/// A file system in memory.
pub const MEMORY: &str = "/dev/shm";

/// Memory, else the folder for temporary files, else the one for large ones: the first with room for all
/// copies, or the one with most.
fn roomy(bytes: u64, copies: u64) -> PathBuf {
    let places = [PathBuf::from(MEMORY), std::env::temp_dir(), "/var/tmp".into()];
    let room =
        |place: &Path| rustix::fs::statvfs(place).map_or(0, |all| all.f_bavail.saturating_mul(all.f_frsize));
    let needs = |place: &Path| {
        // The copy that all are clones of, and what is written over them.
        let copies = if place != Path::new(MEMORY) && clones(place) { 2 } else { copies };
        bytes.saturating_mul(copies).saturating_add(SPARE)
    };
    let first = places.iter().find(|place| room(place) >= needs(place));
    let most = || places.iter().max_by_key(|place| room(place));
    first.or_else(most).cloned().unwrap_or_else(std::env::temp_dir)
}

/// Whether a file system clones files, by trying.
fn clones(place: &Path) -> bool {
    let Ok(folder) = Temporary::new("strandline-clones-", place) else { return false };
    let file = |name: &str| folder.path().join(name);
    let tried = || -> io::Result<bool> {
        fs::write(file("from"), [1; 4096])?;
        let (from, to) = (File::open(file("from"))?, File::create_new(file("to"))?);
        Ok(rustix::fs::ioctl_ficlone(to, from).is_ok())
    };
    tried().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_preferred_and_left_where_it_is_short() {
        if Path::new(MEMORY).is_dir() {
            assert_eq!(roomy(1, 1), Path::new(MEMORY));
        }
        let all: u64 = 1 << 62;
        let room = |place: &Path| rustix::fs::statvfs(place).map_or(0, |all| all.f_bavail * all.f_frsize);
        let chosen = roomy(all, 2);
        for place in [Path::new(MEMORY), &std::env::temp_dir(), Path::new("/var/tmp")] {
            // Others write meanwhile.
            assert!(room(&chosen) + (64 << 20) >= room(place), "{chosen:?} {place:?}");
        }
    }
}
