//! The memory that wears, beside DRAM, and pages that move between them under the program's threads.
//!
//! As *frames*: the program's pages are mappings of frames of two files, one that stands for the memory that
//! wears, one in DRAM. A page moves so: its writers are held (`userfaultfd`), its contents copied, its
//! address mapped to the new frame, its writers woken. As *nodes*: the kernel moves pages between two NUMA
//! nodes.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

use pmem::levelled::{Freezer, Watcher};

use crate::settings::Settings;

const LINE: u64 = 64;
/// Of a page that is in DRAM.
const FAR: u32 = u32::MAX;

/// Where the program's pages are.
pub struct Memory {
    base: *mut u8,
    bytes: u64,
    page: u64,
    kind: Kind,
    /// By page: its frame, or [`FAR`]. As nodes, a page's frame is the page.
    frames: Vec<u32>,
    /// Frames that no page lies in.
    free: Vec<u32>,
    /// By frame: lines written to it, copies included.
    pub worn: Vec<u64>,
    /// Lines that were written by copying pages there.
    pub copied: u64,
    watcher: Watcher,
}

enum Kind {
    Frames { near: File, far: File, near_base: *mut u8, far_base: *mut u8, freezer: Freezer },
    Nodes { near: i32, far: i32 },
}

// SAFETY: the pointers are to mappings that stay as long as the process; whoever moves pages holds the value
// alone.
unsafe impl Send for Memory {}

fn map(at: *mut u8, bytes: u64, flags: i32, file: Option<&File>, offset: u64) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let fd = file.map_or(-1, AsRawFd::as_raw_fd);
    let offset = offset as libc::off_t;
    // SAFETY: a new mapping at an address of the kernel's choice, or one of this module's own pages, whose
    // new frame has the same bytes.
    let mapped = unsafe { libc::mmap(at.cast(), bytes as usize, protection, flags, fd, offset) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped.cast()) }
}

fn memfd(name: &str, bytes: u64) -> io::Result<File> {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: a name in C's form; the descriptor is new and nobody else's.
    let file = unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.set_len(bytes)?;
    Ok(file)
}

impl Memory {
    /// The memory that is asked for, all of it near.
    pub fn new(settings: &Settings) -> io::Result<Memory> {
        let (bytes, page) = (settings.bytes, settings.page);
        let pages = (bytes / page) as u32;
        // As much more as lets the first page begin at a multiple of its size.
        let reserve = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let area = map(ptr::null_mut(), bytes + page, reserve, None, 0)?;
        let base = area.wrapping_add(area.addr().next_multiple_of(page as usize) - area.addr());
        let kind = match settings.nodes {
            Some((near, far)) => {
                prefer(base, bytes, near)?;
                Kind::Nodes { near: near as i32, far: far as i32 }
            }
            None => {
                // A frame more, through which pages are exchanged.
                let room = bytes + page;
                let near = match &settings.pm {
                    Some(path) => {
                        let file = OpenOptions::new()
                            .read(true)
                            .write(true)
                            .create(true)
                            .truncate(false)
                            .open(path)?;
                        if file.metadata()?.is_file() {
                            file.set_len(room)?;
                        }
                        file
                    }
                    None => memfd("strandline-pm", room)?,
                };
                let far = memfd("strandline-dram", bytes)?;
                let near_base = map(ptr::null_mut(), room, libc::MAP_SHARED, Some(&near), 0)?;
                let far_base = map(ptr::null_mut(), bytes, libc::MAP_SHARED, Some(&far), 0)?;
                map(base, bytes, libc::MAP_SHARED | libc::MAP_FIXED, Some(&near), 0)?;
                Kind::Frames { near, far, near_base, far_base, freezer: Freezer::new()? }
            }
        };
        let unsupported = |source| io::Error::other(format!("this memory's writers can't be held: {source}"));
        if let Kind::Frames { freezer, .. } = &kind {
            freezer.freeze(base, page).map_err(unsupported)?;
            freezer.thaw(base, page)?;
            freezer.forget(base, page)?;
        }
        let unsupported = |source| io::Error::other(format!("written pages can't be found: {source}"));
        let watcher = Watcher::new().map_err(unsupported)?;
        watcher.watch(base, bytes).map_err(unsupported)?;
        let frames: Vec<u32> = (0..pages).collect();
        let worn = vec![0; pages as usize + 1];
        Ok(Memory { base, bytes, page, kind, frames, free: vec![pages], worn, copied: 0, watcher })
    }

    /// Where the pages are mapped.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The pages.
    pub fn pages(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Whether a page lies in DRAM.
    pub fn is_far(&self, page: u32) -> bool {
        self.frames[page as usize] == FAR
    }

    /// Whether pages can change frames, or only between nodes.
    pub fn has_frames(&self) -> bool {
        matches!(self.kind, Kind::Frames { .. })
    }

    /// The program wrote so many lines of a page.
    pub fn written(&mut self, page: u32, lines: u64) {
        let frame = self.frames[page as usize];
        if frame != FAR {
            self.worn[frame as usize] += lines;
        }
    }

    /// Calls `written` with each small page (4 KiB) of the first `used` pages that was written since the last
    /// call, as its address.
    pub fn scan(&self, used: u32, mut written: impl FnMut(*const u8)) -> io::Result<()> {
        let (base, bytes) = (self.base, u64::from(used) * self.page);
        self.watcher.scan(base, bytes, |start, end| {
            for at in (start..end).step_by(4096) {
                written(base.wrapping_add((at - base.addr() as u64) as usize));
            }
        })
    }

    fn address(&self, page: u32) -> *mut u8 {
        self.base.wrapping_add(page as usize * self.page as usize)
    }

    /// Moves a page to a frame, or to DRAM.
    fn move_to(&mut self, page: u32, frame: u32) -> io::Result<()> {
        let (address, bytes, size) = (self.address(page), self.page, self.page as usize);
        let old = self.frames[page as usize];
        match &self.kind {
            Kind::Nodes { near, far } => move_page(address, bytes, if frame == FAR { *far } else { *near })?,
            Kind::Frames { near, far, near_base, far_base, freezer } => {
                let place = |frame: u32| match frame {
                    FAR => far_base.wrapping_add(page as usize * size),
                    frame => near_base.wrapping_add(frame as usize * size),
                };
                let (file, at) = match frame {
                    FAR => (far, u64::from(page) * bytes),
                    frame => (near, u64::from(frame) * bytes),
                };
                // One descriptor at a time can watch a page: the one that holds writers takes over.
                self.watcher.forget(address, bytes)?;
                if let Err(error) = freezer.freeze(address, bytes) {
                    self.watcher.watch(address, bytes)?;
                    return Err(error);
                }
                // SAFETY: both frames are this module's, of a page each, and not the same; nobody writes to
                // the old one while its page is frozen, and nobody has the new one.
                unsafe { ptr::copy_nonoverlapping(place(old).cast_const(), place(frame), size) };
                let mapped = map(address, bytes, libc::MAP_SHARED | libc::MAP_FIXED, Some(file), at);
                let watched = mapped.and_then(|_| self.watcher.watch(address, bytes));
                freezer.wake(address, bytes)?;
                if watched.is_err() {
                    freezer.thaw(address, bytes).ok();
                }
                watched?;
                if old == FAR {
                    release(far, u64::from(page) * bytes, bytes);
                }
            }
        }
        self.frames[page as usize] = frame;
        if frame != FAR {
            let lines = bytes / LINE;
            self.worn[frame as usize] += lines;
            self.copied += lines;
        }
        Ok(())
    }

    /// Moves a page to DRAM.
    pub fn out(&mut self, page: u32) -> io::Result<()> {
        let old = self.frames[page as usize];
        self.move_to(page, FAR)?;
        self.free.push(old);
        Ok(())
    }

    /// Moves a page back from DRAM.
    pub fn home(&mut self, page: u32) -> io::Result<()> {
        let Some(frame) = self.free.pop() else { return Ok(()) };
        self.move_to(page, frame).inspect_err(|_| self.free.push(frame))
    }

    /// Exchanges two pages, both near, through a free frame.
    pub fn exchange(&mut self, first: u32, second: u32) -> io::Result<()> {
        let Some(spare) = self.free.pop() else { return Ok(()) };
        let [left, last] = [first, second].map(|page| self.frames[page as usize]);
        self.move_to(first, spare).inspect_err(|_| self.free.push(spare))?;
        self.move_to(second, left).inspect_err(|_| self.free.push(left))?;
        self.free.push(last);
        Ok(())
    }

    /// In the child of a fork: what the parent does must not be seen, so the first `used` pages become a
    /// copy.
    pub fn make_private(&self, used: u32) -> io::Result<()> {
        if !self.has_frames() {
            return Ok(());
        }
        let bytes = u64::from(used) * self.page;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        if bytes > 0 {
            let copy = map(ptr::null_mut(), bytes, flags, None, 0)?;
            // SAFETY: a new mapping of so many bytes; the program's pages are mapped, and of this child's
            // threads only this one is left.
            let moved = unsafe {
                ptr::copy_nonoverlapping(self.base.cast_const(), copy, bytes as usize);
                let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                libc::mremap(
                    copy.cast(),
                    bytes as usize,
                    bytes as usize,
                    how,
                    self.base.cast::<libc::c_void>(),
                )
            };
            if moved == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        let rest = self.base.wrapping_add(bytes as usize);
        if self.bytes > bytes {
            map(rest, self.bytes - bytes, flags | libc::MAP_FIXED, None, 0)?;
        }
        Ok(())
    }
}

/// Gives memory of a file back; that it stays does no harm.
fn release(file: &File, at: u64, bytes: u64) {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: of a frame that no page lies in.
    unsafe { libc::fallocate(file.as_raw_fd(), how, at as libc::off_t, bytes as libc::off_t) };
}

/// Lets memory come from a node, as long as it has some.
fn prefer(base: *mut u8, bytes: u64, node: u32) -> io::Result<()> {
    const MPOL_PREFERRED: i32 = 1;
    let mask = [1u64.checked_shl(node).ok_or(io::ErrorKind::InvalidInput)?];
    // SAFETY: a policy for this module's own pages; the mask has as many bits as are named.
    let result =
        unsafe { libc::syscall(libc::SYS_mbind, base, bytes, MPOL_PREFERRED, mask.as_ptr(), 64usize, 0u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves the small pages of a page to a node.
fn move_page(address: *mut u8, bytes: u64, node: i32) -> io::Result<()> {
    const MPOL_MF_MOVE: i32 = 2;
    let pages: Vec<*mut u8> = (0..bytes).step_by(4096).map(|at| address.wrapping_add(at as usize)).collect();
    let nodes = vec![node; pages.len()];
    let mut status = vec![0i32; pages.len()];
    // SAFETY: three lists of so many entries each; the pages are this module's.
    let result = unsafe {
        let (pages, nodes) = (pages.as_ptr(), nodes.as_ptr());
        libc::syscall(libc::SYS_move_pages, 0, status.len(), pages, nodes, status.as_mut_ptr(), MPOL_MF_MOVE)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // A page that was never touched is nowhere.
    let failed = status.iter().find(|&&status| status < 0 && status != -libc::ENOENT);
    failed.map_or(Ok(()), |&status| Err(io::Error::from_raw_os_error(-status)))
}
