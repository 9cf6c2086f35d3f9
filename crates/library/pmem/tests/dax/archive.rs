//! An archive that the kernel unpacks as its first file system: `cpio`, in its format `newc`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// The archive that is made.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: usize,
}

impl Archive {
    /// Adds a file with that contents, and the folders above it.
    pub fn add(&mut self, path: &str, contents: &[u8]) {
        let path = path.trim_start_matches('/');
        for (slash, _) in path.match_indices('/') {
            if self.folders.insert(path[..slash].to_owned()) {
                self.entry(&path[..slash], 0o040_755, &[]);
            }
        }
        self.entry(path, 0o100_755, contents);
    }

    /// Adds the file `from` under the name `path`.
    pub fn add_file(&mut self, path: &str, from: &Path) -> io::Result<()> {
        self.add(path, &fs::read(from)?);
        Ok(())
    }

    /// The finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: usize, contents: &[u8]) {
        self.entries += 1;
        let links = 1;
        // Inode, mode, owner, group, links, time, length, four of devices, length of the name with its zero, checksum.
        let fields = [self.entries, mode, 0, 0, links, 0, contents.len(), 0, 0, 0, 0, name.len() + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
