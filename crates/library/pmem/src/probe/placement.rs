//! Memory to measure: where it lies, and in which pages.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;

use persistency::Domain;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::mapped::{MapError, Mapped, backing};

/// Size of a huge page on the processors that we know.
const HUGE_PAGE: u64 = 2 << 20;

/// Where memory is to come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Memory that no file backs.
    Anonymous,
    /// A new file, on a file system with DAX for persistent memory.
    File(PathBuf),
    /// A DAX device such as `/dev/dax0.0`, whose contents are overwritten.
    Device(PathBuf),
}

/// What memory is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where from.
    pub placement: Placement,
    /// Bytes, a multiple of 8.
    pub len: u64,
    /// The NUMA node that anonymous memory is taken from; `None` leaves it to the kernel.
    pub node: Option<u32>,
}

/// Which pages hold the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Pages of 2 MiB that an administrator set aside.
    Reserved,
    /// So many bytes of it are in transparent pages of 2 MiB, the rest in small ones.
    Transparent {
        /// Bytes in huge pages.
        huge_bytes: u64,
    },
    /// As the file system or device has them.
    Given,
}

/// Memory that was got, each page of it present.
#[derive(Debug)]
pub struct Placed {
    /// The memory.
    pub memory: Mapped,
    /// Its pages.
    pub pages: Pages,
    /// A file that goes when this value goes.
    scratch: Option<PathBuf>,
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Some(path) = &self.scratch {
            // A file that can't be removed stays: no caller is left to report it to.
            let _ = fs::remove_file(path);
        }
    }
}

/// Gets the memory and touches each page, so that no fault disturbs what is measured.
///
/// # Errors
/// If the system has not that much, the node does not exist, the file exists already, or the device is none.
pub fn place(request: &Request) -> Result<Placed, MapError> {
    let mut placed = match &request.placement {
        Placement::Anonymous => anonymous(request)?,
        Placement::File(path) => {
            let memory = Mapped::create(path, request.len)?;
            Placed { memory, pages: Pages::Given, scratch: Some(path.clone()) }
        }
        Placement::Device(path) => {
            Placed { memory: device(path, request.len)?, pages: Pages::Given, scratch: None }
        }
    };
    placed.memory.populate();
    if matches!(placed.pages, Pages::Transparent { .. }) {
        placed.pages = Pages::Transparent { huge_bytes: huge_bytes(placed.memory.address()) };
    }
    Ok(placed)
}

fn anonymous(request: &Request) -> Result<Placed, MapError> {
    let error = |source: io::Error| MapError::Anonymous { bytes: request.len, source };
    let len = request.len.next_multiple_of(HUGE_PAGE);
    let bytes = usize::try_from(len).map_err(|_| error(io::ErrorKind::InvalidInput.into()))?;
    if request.len == 0 {
        return Err(error(io::ErrorKind::InvalidInput.into()));
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let map = |bytes, flags| {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE | flags) }
    };
    let (base, pages) = match map(bytes, MapFlags::HUGETLB | MapFlags::HUGE_2MB) {
        Ok(base) => (base.cast::<u8>(), Pages::Reserved),
        Err(_) => {
            // As much more as it takes to start at a huge page.
            let more = bytes + HUGE_PAGE as usize;
            let base = map(more, MapFlags::NORESERVE).map_err(|errno| error(errno.into()))?.cast::<u8>();
            let skip = base.addr().next_multiple_of(HUGE_PAGE as usize) - base.addr();
            // SAFETY: both pieces are parts of the mapping just made, which nobody uses; between them lie
            // the `bytes` that are kept. Nothing is unmapped if a piece is empty.
            let aligned = unsafe {
                let aligned = base.add(skip);
                for (piece, len) in [(base, skip), (aligned.add(bytes), HUGE_PAGE as usize - skip)] {
                    if len > 0 {
                        munmap(piece.cast(), len).map_err(|errno| error(errno.into()))?;
                    }
                }
                aligned
            };
            // SAFETY: the range is the mapping; the advice changes no contents. Small pages if it is not taken.
            let _ = unsafe { madvise(aligned.cast(), bytes, Advice::LinuxHugepage) };
            (aligned, Pages::Transparent { huge_bytes: 0 })
        }
    };
    let memory = Mapped::over(base, len, Domain::Volatile.into(), PathBuf::new());
    if let Some(node) = request.node {
        bind(&memory, node).map_err(error)?;
    }
    Ok(Placed { memory, pages, scratch: None })
}

/// Has the kernel take the pages of `memory`, none of which is there yet, from `node` alone.
fn bind(memory: &Mapped, node: u32) -> io::Result<()> {
    let mut mask = [0u64; 16];
    let word = mask.get_mut(node as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
    *word |= 1 << (node % 64);
    // SAFETY: the range is the mapping, and the mask has the number of bits that is passed (the kernel wants one more).
    let failed = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            memory.address() as *const u8,
            space::Space::len(memory),
            libc::MPOL_BIND,
            mask.as_ptr(),
            mask.len() * 64 + 1,
            0,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Maps the first `len` bytes of a DAX device.
fn device(path: &Path, len: u64) -> Result<Mapped, MapError> {
    let error = |action, remedy, source| MapError::File { action, path: path.to_owned(), remedy, source };
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|source| error("open", "; a DAX device is a file such as /dev/dax0.0", source))?;
    let device = backing::device(&file).ok_or_else(|| {
        error("map", "; it is not a DAX device (for a file system, name a new file)", invalid())
    })?;
    let len = len.next_multiple_of(HUGE_PAGE);
    if len > device.len {
        return Err(MapError::Length { path: path.to_owned(), bytes: len });
    }
    let bytes = usize::try_from(len).map_err(|_| error("map", "", invalid()))?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let base = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, &file, 0) }
        .map_err(|errno| error("map", "", errno.into()))?;
    Ok(Mapped::over(base.cast(), len, device.domain.into(), path.to_owned()))
}

/// Bytes in huge pages of the mapping that starts at or before `address`, as the kernel reports.
fn huge_bytes(address: usize) -> u64 {
    let Ok(text) = fs::read_to_string("/proc/self/smaps") else { return 0 };
    let mut inside = false;
    for line in text.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let parse = |text: &str| usize::from_str_radix(text, 16).ok();
        if let Some((start, end)) = range.and_then(|(start, end)| Some((parse(start)?, parse(end)?))) {
            inside = (start..end).contains(&address);
        } else if let Some(size) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
            let kib = size.trim().trim_end_matches("kB").trim().parse::<u64>();
            return kib.unwrap_or(0) * 1024;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use space::Space;

    fn anonymous_request(len: u64, node: Option<u32>) -> Request {
        Request { placement: Placement::Anonymous, len, node }
    }

    #[test]
    fn anonymous_memory_starts_at_a_huge_page_and_is_all_there() {
        let placed = place(&anonymous_request(5 << 20, None)).expect("5 MiB");
        assert_eq!(placed.memory.address() % HUGE_PAGE as usize, 0);
        assert!(placed.memory.len() >= 5 << 20);
        if let Pages::Transparent { huge_bytes } = placed.pages {
            assert!(huge_bytes <= placed.memory.len());
        }
    }

    #[test]
    fn a_node_that_is_there_gives_memory_and_one_that_is_not_does_not() {
        match place(&anonymous_request(1 << 20, Some(0))) {
            Ok(placed) => assert!(placed.memory.len() >= 1 << 20),
            // Kernels without NUMA, and sandboxes that forbid the call.
            Err(error) => assert!(error.to_string().contains("anonymous memory"), "{error}"),
        }
        assert!(place(&anonymous_request(1 << 20, Some(900))).is_err());
    }

    #[test]
    fn a_file_is_new_and_goes_when_it_is_no_longer_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("scratch");
        let request = Request { placement: Placement::File(path.clone()), len: 8192, node: None };
        let placed = place(&request).expect("two pages");
        assert!(path.exists());
        assert!(place(&request).is_err(), "an existing file is not taken");
        drop(placed);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_dax_device_is_refused() {
        let request = Request { placement: Placement::Device("/dev/null".into()), len: 4096, node: None };
        let refused = place(&request).expect_err("no DAX device");
        assert!(refused.to_string().contains("not a DAX device"), "{refused}");
    }
}
