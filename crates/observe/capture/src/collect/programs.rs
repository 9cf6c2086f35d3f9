//! The code of real processes, by way of the session's module table and the modules' files.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use event::Site;

use super::code::{Code, Place};
use crate::session::SessionFile;
use crate::symbols::{Image, RUNTIME, Resolver};
use abi::MODULES;

/// A file with code, however often it is loaded.
struct File {
    path: PathBuf,
    /// None if it can't be read.
    image: Option<Image>,
}

/// A file in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loaded {
    addresses: Range<u64>,
    bias: u64,
    file: u32,
}

/// The processes of a session.
pub struct Programs {
    session: Rc<SessionFile>,
    files: Vec<File>,
    by_path: HashMap<PathBuf, u32>,
    processes: HashMap<u32, Vec<Loaded>>,
    /// Entries of the module table that were read.
    read: usize,
    resolver: Resolver,
}

impl Programs {
    /// The processes of `session`.
    #[must_use]
    pub fn new(session: Rc<SessionFile>) -> Self {
        Programs {
            session,
            files: Vec::new(),
            by_path: HashMap::new(),
            processes: HashMap::new(),
            read: 0,
            resolver: Resolver::default(),
        }
    }

    fn file(&mut self, path: &Path) -> u32 {
        if let Some(&file) = self.by_path.get(path) {
            return file;
        }
        let file = self.files.len() as u32;
        self.files.push(File { path: path.to_owned(), image: Image::open(path).ok() });
        self.by_path.insert(path.to_owned(), file);
        file
    }

    /// Reads what was added to the module table.
    fn refresh(&mut self) {
        let session = Rc::clone(&self.session);
        while self.read < MODULES {
            let Some(module) = session.module(self.read) else { break };
            self.read += 1;
            if module.parent != 0 {
                let inherited = self.processes.get(&module.parent).cloned().unwrap_or_default();
                self.processes.insert(module.pid, inherited);
                continue;
            }
            let path = module.path.get(..module.path_len as usize).unwrap_or_default();
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            let file = self.file(path);
            self.load(module.pid, Loaded { addresses: module.start..module.end, bias: module.bias, file });
        }
    }

    /// Notes a loaded file in place of whatever was at these addresses before.
    fn load(&mut self, pid: u32, new: Loaded) {
        let loaded = self.processes.entry(pid).or_default();
        loaded.retain(|old| {
            old.addresses.end <= new.addresses.start || new.addresses.end <= old.addresses.start
        });
        loaded.push(new);
    }

    /// Files of the first process, those in the system's folders left out, with what is added to their
    /// addresses.
    pub fn own(&mut self) -> Vec<(PathBuf, u64)> {
        self.refresh();
        let first = self.session.module(0).map_or(0, |module| module.pid);
        let mut all: Vec<(PathBuf, u64)> = Vec::new();
        for loaded in self.processes.get(&first).into_iter().flatten() {
            let path = &self.files[loaded.file as usize].path;
            let system = ["/usr/lib", "/lib"].iter().any(|folder| path.starts_with(folder));
            let ours = path.file_name().is_some_and(|name| name == RUNTIME);
            if !system && !ours && !all.iter().any(|known| known.0 == *path) {
                all.push((path.clone(), loaded.bias));
            }
        }
        all
    }

    fn known(&self, pid: u32, address: u64) -> Option<&Loaded> {
        self.processes.get(&pid)?.iter().find(|loaded| loaded.addresses.contains(&address))
    }

    /// Asks the system, for code that the program loaded without the runtime having seen it.
    fn ask_system(&mut self, pid: u32, address: u64) -> Option<()> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        for line in maps.lines() {
            let Some((addresses, offset, path)) = code_mapping(line) else { continue };
            if addresses.contains(&address) && path.is_absolute() {
                let file = self.file(path);
                let in_file = self.files[file as usize].image.as_ref()?.address_of(offset)?;
                let bias = addresses.start.wrapping_sub(in_file);
                self.load(pid, Loaded { addresses, bias, file });
                return Some(());
            }
        }
        None
    }
}

/// Addresses, file offset and path of a line of `/proc/PID/maps` about executable memory.
fn code_mapping(line: &str) -> Option<(Range<u64>, u64, &Path)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.next().filter(|access| access.contains('x')).and_then(|_| words.next())?;
    let path = words.nth(2).unwrap_or_default().trim_start();
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?..number(end)?, number(offset)?, Path::new(path)))
}

impl Code for Programs {
    fn place(&mut self, pid: u32, address: u64) -> Place {
        self.refresh();
        if self.known(pid, address).is_none() {
            // What it finds, `known` finds next; what it does not find stays a bare address.
            let _ = self.ask_system(pid, address);
        }
        match self.known(pid, address) {
            Some(loaded) => Place::Module { module: loaded.file, address: address.wrapping_sub(loaded.bias) },
            None => Place::Memory { pid, address },
        }
    }

    fn read(&mut self, place: Place, into: &mut [u8]) -> usize {
        match place {
            Place::Module { module, address } => {
                self.files[module as usize].image.as_ref().map_or(0, |image| image.read(address, into))
            }
            Place::Memory { pid, address } => read_memory(pid, address, into),
        }
    }

    fn site(&mut self, place: Place) -> Site {
        match place {
            Place::Module { module, address } => {
                self.resolver.site(&self.files[module as usize].path, address)
            }
            Place::Memory { address, .. } => Site { frames: Vec::new(), module: String::new(), address },
        }
    }
}

/// Copies from the memory of a living process of the same user.
fn read_memory(pid: u32, address: u64, into: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` is the caller's buffer; the kernel checks `remote`, which is not our memory.
    let read = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_memory_map_is_taken_apart() {
        let line = "7f0010000000-7f0010021000 r-xp 00002000 fe:01 1234    /opt/a b/libx.so.1";
        let (addresses, offset, path) = code_mapping(line).unwrap();
        assert_eq!(addresses, 0x7f00_1000_0000..0x7f00_1002_1000);
        assert_eq!((offset, path), (0x2000, Path::new("/opt/a b/libx.so.1")));
        assert_eq!(code_mapping("7f00-7f01 rwxp 00000000 00:00 0").unwrap().2, Path::new(""));
        assert_eq!(code_mapping("7f00-7f01 rw-p 00000000 00:00 0"), None);
    }

    #[test]
    fn memory_of_a_process_can_be_read() {
        let here = *b"something to read";
        let mut read = [0; 17];
        assert_eq!(read_memory(std::process::id(), here.as_ptr() as u64, &mut read), 17);
        assert_eq!(read, here);
        assert_eq!(read_memory(std::process::id(), 8, &mut read), 0);
    }
}
