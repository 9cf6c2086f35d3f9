//! The descriptors of the traced threads: of which file each is, where it stands, its flags.
//!
//! `/proc/PID/fdinfo/N`, kept open, says at each reading of which inode descriptor `N` is by then. The path
//! is asked for again only if the inode is another one, has not one name alone, or a call since may have
//! renamed something. The files themselves are opened anew by their paths: a duplicate of the program's
//! descriptor would keep its locks.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;

use nix::unistd::Pid;

use crate::look;

/// Descriptors that are kept.
const KEPT: usize = 256;
/// Bytes of `fdinfo` that are read: the first lines are what is looked for.
const HEAD: usize = 160;

/// What a descriptor is of now.
#[derive(Clone, Debug)]
pub struct Open {
    /// What it is of, as the kernel writes it; if a file has no path, a name that stands for the file itself.
    pub name: String,
    pub position: u64,
    pub flags: i32,
    /// The file's length, if it is opened here.
    pub len: u64,
    /// The file, opened for reading, if it is an ordinary one with a path.
    pub file: Option<Rc<File>>,
}

#[derive(Debug)]
struct Slot {
    info: File,
    inode: u64,
    mount: u64,
    /// The number of renamings when the name was asked for.
    names: u64,
    name: String,
    file: Option<Rc<File>>,
}

/// What was looked up before.
#[derive(Debug, Default)]
pub struct Descriptors {
    slots: HashMap<(i32, i32), Slot>,
    names: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Info {
    position: u64,
    flags: i32,
    inode: u64,
    mount: u64,
}

impl Descriptors {
    /// Files may have got other names.
    pub fn renamed(&mut self) {
        self.names += 1;
    }

    /// A file may have been removed: it is not kept open.
    pub fn removed(&mut self, path: &str) {
        self.slots.retain(|_, slot| slot.name != path);
    }

    /// The thread is gone, or executes another program.
    pub fn forget(&mut self, pid: Pid) {
        self.slots.retain(|&(owner, _), _| owner != pid.as_raw());
    }

    /// What a descriptor of a thread is of; `None` if it is closed. Unless the thread is the only one, others
    /// may give files other names at any time.
    pub fn of(&mut self, pid: Pid, fd: i32, only: bool) -> Option<Open> {
        if !only {
            self.renamed();
        }
        let key = (pid.as_raw(), fd);
        if !self.slots.contains_key(&key) {
            if self.slots.len() >= KEPT {
                self.slots.clear();
            }
            let info = File::open(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
            let name = String::new();
            self.slots.insert(key, Slot { info, inode: 0, mount: 0, names: u64::MAX, name, file: None });
        }
        let names = self.names;
        let found = self.slots.get_mut(&key).and_then(|slot| slot.look(pid, fd, names));
        if found.is_none() {
            self.slots.remove(&key);
        }
        found
    }
}

impl Slot {
    fn look(&mut self, pid: Pid, fd: i32, names: u64) -> Option<Open> {
        let mut head = [0; HEAD];
        let read = self.info.read_at(&mut head, 0).ok()?;
        let Info { position, flags, inode, mount } = info(&head[..read])?;
        let same = self.inode == inode && self.mount == mount && inode != 0;
        let mut about = self.file.as_ref().and_then(|file| file.metadata().ok());
        let one_name = about.as_ref().is_none_or(|about| about.nlink() == 1);
        if !(same && self.names == names && one_name) {
            let name = look::named(pid, fd)?;
            if !same || name != self.name {
                self.file = open(&name, inode);
                about = self.file.as_ref().and_then(|file| file.metadata().ok());
            }
            (self.inode, self.mount, self.names, self.name) = (inode, mount, names, name);
        }
        let len = about.map_or(0, |about| about.len());
        Some(Open { name: self.name.clone(), position, flags, len, file: self.file.clone() })
    }
}

/// Opens an ordinary file, if it is the one with that inode.
fn open(path: &str, inode: u64) -> Option<Rc<File>> {
    let meant = |about: &fs::Metadata| about.is_file() && about.ino() == inode;
    // A pipe would wait for somebody to write to it.
    fs::symlink_metadata(path).ok().filter(meant)?;
    let file = File::open(path).ok()?;
    file.metadata().is_ok_and(|about| meant(&about)).then(|| Rc::new(file))
}

/// The first lines of `fdinfo`; without an inode, which older kernels don't write, that is 0.
fn info(head: &[u8]) -> Option<Info> {
    let text = str::from_utf8(head).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let number = |name: &str| field(name).and_then(|text| text.parse().ok());
    Some(Info {
        position: number("pos:")?,
        flags: i32::from_str_radix(field("flags:")?, 8).ok()?,
        inode: number("ino:").unwrap_or(0),
        mount: number("mnt_id:").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::{Descriptors, Info, info};

    #[test]
    fn what_the_kernel_writes_is_read() {
        let known = Info { position: 7, flags: 0o102_001, inode: 12, mount: 24 };
        assert_eq!(info(b"pos:\t7\nflags:\t0102001\nmnt_id:\t24\nino:\t12\nlock:\t1: FLO"), Some(known));
        let older = Info { position: 7, flags: 1, inode: 0, mount: 0 };
        assert_eq!(info(b"pos:\t7\nflags:\t01\n"), Some(older));
        for cut in [&b""[..], b"pos:", b"pos:\t7\nflags:\t9", b"pos:\t-1\nflags:\t1\n", b"\xff"] {
            assert_eq!(info(cut), None, "{cut:?}");
        }
    }

    /// The number of a descriptor says nothing of what it is of.
    #[test]
    fn a_descriptor_is_looked_at_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().canonicalize().expect("its path").join(name);
        let own = nix::unistd::getpid();
        let mut known = Descriptors::default();
        let mut first = File::create(path("a")).expect("a file");
        let fd = first.as_raw_fd();
        let name = |known: &mut Descriptors| known.of(own, fd, true).map(|open| open.name);
        let wanted = |name: &str| Some(path(name).display().to_string());
        assert_eq!(name(&mut known), wanted("a"));
        first.write_all(b"five!").expect("it is written");
        let open = known.of(own, fd, true).expect("it is open");
        assert_eq!((open.position, open.file.is_some()), (5, true));
        // Another file under the same number.
        let second = File::create(path("b")).expect("a file");
        rustix::io::dup2(&second, &mut rustix::io::dup(&first).expect("a duplicate")).expect("it is there");
        drop(first);
        let third = File::create(path("c")).expect("a file");
        assert_eq!(third.as_raw_fd(), fd);
        assert_eq!(name(&mut known), wanted("c"));
        // Another name of the file.
        fs::rename(path("c"), path("d")).expect("it is renamed");
        known.renamed();
        assert_eq!(name(&mut known), wanted("d"));
        // With two names, or none, it is asked for each time.
        fs::hard_link(path("d"), path("e")).expect("a link");
        fs::rename(path("d"), path("f")).expect("it is renamed");
        assert_eq!(name(&mut known), wanted("f"));
        fs::remove_file(path("f")).expect("it is removed");
        known.removed(&path("f").display().to_string());
        assert!(name(&mut known).is_some_and(|name| name.starts_with("inode:")));
        drop(third);
        assert_eq!(name(&mut known), None);
    }
}
