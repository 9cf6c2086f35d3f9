//! How memory is opened: what is checked, locked and set aside before the first access.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;

use persistency::Domain;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use super::area::{Area, page};
use super::backing::{self, Device};
use super::lock::{Locked, lock};
use super::{Backing, Durability, MapError, Mapped};

/// Memory that the caller takes for persistent.
const FORCED: Durability = Durability { domain: Domain::Dax, forced: true };

/// Address space that is set aside where nobody says how much.
const MAX_LEN: u64 = 1 << 40;

/// What a process has of it, unless that is limited.
const ADDRESS_SPACE: u64 = 1 << 47;

/// Where files start in the address space, so that a file system that has huge pages can use them.
const ALIGN: usize = 2 << 20;

/// How to open memory. [`Mapped::create`], [`Mapped::open`] and [`Mapped::anonymous`] are the usual case.
///
/// ```no_run
/// # fn main() -> Result<(), pmem::MapError> {
/// let space = pmem::Options::new().max_len(64 << 30).open("/mnt/pmem/pool".as_ref())?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    max_len: Option<u64>,
    force: bool,
    at: Option<usize>,
    several: bool,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Its contents may change.
    Write,
    /// Nothing changes.
    Read,
    /// What changes is seen here only.
    Private,
}

impl Options {
    /// The usual case: nothing forced, and as much room to grow as can be had, up to 1 TiB. It is less in a process with many
    /// spaces or little address space.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// How many bytes the space can grow to while it is open ([`Mapped::grow`]). So much address space is set aside, which
    /// takes no memory.
    #[must_use]
    pub fn max_len(mut self, bytes: u64) -> Options {
        self.max_len = Some(bytes);
        self
    }

    /// Treats the memory as persistent although the system does not say so ([`Durability::forced`]): then nothing is ever
    /// synced. Right where power never fails, or where it is known better, such as a guest whose host has persistent memory;
    /// elsewhere data is lost with the power. Without effect on memory that is persistent.
    #[must_use]
    pub fn force(mut self, force: bool) -> Options {
        self.force = force;
        self
    }

    /// Several processes may have the memory open to write at the same time: it is locked against everybody who does not say the same.
    #[must_use]
    pub fn several(mut self, several: bool) -> Options {
        self.several = several;
        self
    }

    /// Maps at this address, a multiple of the page's size, and nowhere else: for what holds addresses of itself. Such a
    /// space does not grow.
    #[must_use]
    pub fn at(mut self, address: usize) -> Options {
        self.at = Some(address);
        self
    }

    /// `len` bytes of zero that no file backs.
    ///
    /// # Errors
    /// If `len` is 0, not a multiple of 8, or more than the system gives.
    pub fn anonymous(&self, len: u64) -> Result<Mapped, MapError> {
        let error = |source| MapError::Anonymous { bytes: len, source };
        if !fits(len) {
            return Err(error(io::ErrorKind::InvalidInput.into()));
        }
        let path = PathBuf::new();
        let area = self.area(&path, len, ALIGN)?.map_err(|errno| error(errno.into()))?;
        area.put_anonymous(0, len).map_err(|errno| error(errno.into()))?;
        let durability = if self.force { FORCED } else { Domain::Volatile.into() };
        Ok(Mapped::assemble(area, len, len, durability, path, Backing::Anonymous))
    }

    /// A new file of `len` bytes of zero, every block reserved, locked against other spaces. When it is there, the file and
    /// its name are on the disk. If it fails, no file is left.
    ///
    /// # Errors
    /// If the file exists, `len` is 0 or not a multiple of 8, or the disk has not that much room.
    pub fn create(&self, path: &Path, len: u64) -> Result<Mapped, MapError> {
        if !fits(len) {
            return Err(MapError::Length { path: path.to_owned(), bytes: len });
        }
        let error = |action, remedy, source| MapError::File { action, path: path.to_owned(), remedy, source };
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(|source| {
                let remedy = match source.kind() {
                    io::ErrorKind::AlreadyExists => "; open it, or remove it first",
                    io::ErrorKind::NotFound => "; its directory does not exist, make that first",
                    io::ErrorKind::NotADirectory => "; what should be its directory is a file",
                    io::ErrorKind::PermissionDenied => "; its directory must be writable",
                    io::ErrorKind::ReadOnlyFilesystem => "; choose a file system that can be written",
                    _ => "",
                };
                error("create", remedy, source)
            })?;
        let made = lock(file, path, self.several).and_then(|file| {
            let full = "; make room on that file system or ask for less";
            backing::extend(&file, 0, len).map_err(|source| error("reserve space for", full, source))?;
            file.sync_all().map_err(|source| MapError::Sync { path: path.to_owned(), source })?;
            let folder = "; its directory must be readable, so that it can be synced";
            backing::sync_folder_of(path)
                .map_err(|source| error("make durable the name of", folder, source))?;
            self.map(file, path, len, None, Access::Write)
        });
        if made.is_err() {
            // The first error is the one to tell; a file that can't be removed is at most empty space.
            let _ = fs::remove_file(path);
        }
        made
    }

    /// A place for something new: a new file as [`Options::create`] makes it, or a whole DAX device (`/dev/dax0.0`), which is there already. That one is
    /// opened as by [`Options::open`], at its length and with what it holds.
    ///
    /// # Errors
    /// As [`Options::create`], of a device as [`Options::open`].
    pub fn create_or_take(&self, path: &Path, len: u64) -> Result<Mapped, MapError> {
        let is_device = fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device());
        if is_device { self.open(path) } else { self.create(path, len) }
    }

    /// An existing file at its length, or a whole DAX device (`/dev/dax0.0`), locked against other spaces. Blocks that a
    /// file lacks (a copy may have holes) are reserved.
    ///
    /// # Errors
    /// If the file is not there, is neither a regular file nor a DAX device, can't be written, is open as a space already,
    /// has a length that no space has, or lacks blocks that the disk has no room for.
    pub fn open(&self, path: &Path) -> Result<Mapped, MapError> {
        self.open_to(path, Access::Write)
    }

    /// As [`Options::open`], to read only: stores panic, the file never changes, and others may read it at the same time.
    /// It can't grow.
    ///
    /// # Errors
    /// If the file is not there, is neither a regular file nor a DAX device, can't be read, is open as a space that may be
    /// written, or has a length that no space has.
    pub fn open_read_only(&self, path: &Path) -> Result<Mapped, MapError> {
        self.open_to(path, Access::Read)
    }

    /// As [`Options::open`], for this process alone: what is stored is seen here and nowhere else, and the file never changes. Others may read it at
    /// the same time. Only pages that are stored to are copied. It can't grow.
    ///
    /// # Errors
    /// As [`Options::open_read_only`], and for a whole DAX device, which has no such mapping.
    pub fn open_private(&self, path: &Path) -> Result<Mapped, MapError> {
        self.open_to(path, Access::Private)
    }

    fn open_to(&self, path: &Path, access: Access) -> Result<Mapped, MapError> {
        let write = access == Access::Write;
        let error = |action, remedy, source| MapError::File { action, path: path.to_owned(), remedy, source };
        // Not blocking, or a named pipe would keep us until somebody writes into it.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file =
            OpenOptions::new().read(true).write(write).custom_flags(flags).open(path).map_err(|source| {
                let remedy = match source.kind() {
                    io::ErrorKind::NotFound => "; create it first",
                    io::ErrorKind::PermissionDenied if write => "; it must be readable and writable",
                    io::ErrorKind::PermissionDenied => "; it must be readable",
                    io::ErrorKind::IsADirectory => "; name a file in it",
                    io::ErrorKind::NotADirectory => "; what should be its directory is a file",
                    io::ErrorKind::ReadOnlyFilesystem => "; open it for reading only, or copy it elsewhere",
                    _ => "",
                };
                error("open", remedy, source)
            })?;
        let metadata = file.metadata().map_err(|source| error("examine", "", source))?;
        let device = backing::device(&file);
        if device.is_none() && !metadata.is_file() {
            return Err(error("map", no_space(&metadata), io::ErrorKind::InvalidInput.into()));
        }
        if device.is_some() && access == Access::Private {
            let remedy = "; a whole DAX device has no mapping for one process alone, open it for writing";
            return Err(error("map", remedy, io::ErrorKind::Unsupported.into()));
        }
        let file = lock(file, path, !write || self.several)?;
        // The length under the lock: who held it before may have made the file longer.
        let metadata = file.metadata().map_err(|source| error("examine", "", source))?;
        let len = device.as_ref().map_or(metadata.len(), |device| device.len);
        if !fits(len) {
            return Err(MapError::Length { path: path.to_owned(), bytes: len });
        }
        if write && device.is_none() && metadata.blocks() < len / 512 {
            fill_holes(&file, len).map_err(|source| {
                error("reserve the missing blocks of", "; make room on that file system", source)
            })?;
        }
        self.map(file, path, len, device, access)
    }

    /// Maps all of `file`, with `MAP_SYNC` if it can be: then a page is only ever writable when its block is durably part
    /// of the file, so that flushes suffice.
    fn map(
        &self,
        file: Locked,
        path: &Path,
        len: u64,
        device: Option<Device>,
        access: Access,
    ) -> Result<Mapped, MapError> {
        let write = access == Access::Write;
        let error = |errno: Errno| {
            let remedy = match (self.at, errno) {
                (Some(_), Errno::EXIST) => "; something else is mapped at the address that it has to have",
                _ => "; the system lacks memory or address space for it",
            };
            MapError::File { action: "map", path: path.to_owned(), remedy, source: errno.into() }
        };
        let align = device.as_ref().map_or(ALIGN, |device| device.align.max(ALIGN as u64) as usize);
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write | Access::Private => ProtFlags::READ | ProtFlags::WRITE,
        };
        let grows = write && device.is_none();
        let area = if let Some(address) = self.at {
            Ok(Area::reserve_at(len as usize, address))
        } else if grows {
            self.area(path, len, align)
        } else {
            Ok(Area::reserve(len as usize, align))
        }?;
        let area = area.map_err(error)?;
        // A file that was opened to read takes no shared mapping for stores, but one for loads, of which the same holds.
        let shared = if access == Access::Private { ProtFlags::READ } else { protection };
        let sync = takes_sync(&file, len, device.as_ref(), shared);
        let beneath = match device {
            Some(device) => device.domain,
            None if sync => Domain::Dax,
            None if backing::in_memory(&file) => Domain::Volatile,
            None => Domain::Sync,
        };
        let durability = match beneath {
            _ if access == Access::Private => Domain::Volatile.into(),
            Domain::Dax => Domain::Dax.into(),
            _ if self.force => FORCED,
            other => other.into(),
        };
        let flags = match access {
            // No memory is set aside for pages that nobody stores to.
            Access::Private => MapFlags::PRIVATE | MapFlags::NORESERVE,
            _ if sync => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            _ => MapFlags::SHARED,
        };
        area.put_file(&*file, 0, len, protection, flags).map_err(error)?;
        let backing = match (write, grows) {
            (_, true) => Backing::File { file, flags },
            (true, _) => Backing::Fixed { _file: Some(file), reason: "it is a device" },
            (false, _) => Backing::Fixed {
                _file: Some(file),
                reason: match access {
                    Access::Private => "it was opened for this process alone; open it for writing",
                    _ => "it was opened for reading only; open it for writing",
                },
            },
        };
        let storable = if access == Access::Read { 0 } else { len };
        let space = Mapped::assemble(area, len, storable, durability, path.to_owned(), backing);
        Ok(Mapped { beneath, ..space })
    }

    /// Address space for a space of `len` bytes that may grow: as much as was asked for, or else as can be had.
    ///
    /// # Errors
    /// The outer one if it may not even become `len` bytes long, the inner one if the system refuses.
    fn area(&self, path: &Path, len: u64, align: usize) -> Result<rustix::io::Result<Area>, MapError> {
        let reserve = |bytes| usize::try_from(bytes).map_or(Err(Errno::NOMEM), |n| Area::reserve(n, align));
        if let Some(max) = self.max_len {
            if len > max {
                return Err(MapError::Limit { path: path.to_owned(), bytes: len, max });
            }
            return Ok(reserve(max));
        }
        // All spaces together leave half of the address space to the program, and each leaves most of that half to others.
        let half =
            getrlimit(Resource::As).current.map_or(ADDRESS_SPACE, |limit| limit.min(ADDRESS_SPACE)) / 2;
        let mut wish = (half.saturating_sub(Area::set_aside()) / 16).min(MAX_LEN).max(len);
        loop {
            match reserve(wish) {
                Err(_) if wish > len => wish = (wish / 16).max(len),
                result => return Ok(result),
            }
        }
    }
}

/// Whether a space can have that length.
pub(super) fn fits(len: u64) -> bool {
    len > 0 && len.is_multiple_of(8) && usize::try_from(len).is_ok()
}

/// What helps who gave something else than a file.
fn no_space(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "; it is a directory, name a file in it"
    } else if kind.is_char_device() {
        "; it is not a DAX device (for a file system, name a file)"
    } else if kind.is_block_device() {
        "; make a file system on it, mount that and name a file in it"
    } else {
        "; it is not a regular file"
    }
}

/// Reserves the blocks that are missing, where the file system can.
fn fill_holes(file: &File, len: u64) -> io::Result<()> {
    match rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, 0, len)) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether `file` can be mapped with `MAP_SYNC`, and the kernel agrees that it is DAX. Tried on a mapping of its own, because
/// a refusal over the area might leave a hole there.
fn takes_sync(file: &File, len: u64, device: Option<&Device>, protection: ProtFlags) -> bool {
    let bytes = device.map_or(page() as u64, |device| device.align).min(len) as usize;
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let Ok(tried) = (unsafe { mmap(ptr::null_mut(), bytes, protection, flags, file, 0) }) else {
        return false;
    };
    // SAFETY: exactly the mapping just made, which nobody has used.
    let unmapped = unsafe { munmap(tried, bytes) };
    debug_assert!(unmapped.is_ok(), "a whole mapping can always be unmapped");
    device.is_some() || backing::is_dax(file) != Some(false)
}
