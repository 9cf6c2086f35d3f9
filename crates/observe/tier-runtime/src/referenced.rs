//! Which mappings were used in a window: the kernel's referenced bits, cleared before and read after.
//!
//! A processor sets the bit when it looks a page up; what its buffer of translations holds it does not look up. Therefore they are
//! emptied after clearing, by taking rights from memory of our own.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ptr;

use crate::page::{PAGE, whole};
use crate::sites::{FILES, REST, SMALL, State, Way};

/// Pages whose change of rights makes the kernel empty the buffers as a whole: more than 33.
const OWN_PAGES: usize = 64;

/// A mapping after a window. Sizes are in pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    start: usize,
    end: usize,
    there: f64,
    used: f64,
    kind: Content,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Content {
    #[default]
    Plain,
    Heap,
    File,
}

impl Content {
    /// The site of what nobody noted in it.
    fn site(self) -> usize {
        match self {
            Content::File => FILES,
            Content::Heap => SMALL,
            Content::Plain => REST,
        }
    }
}

/// The bits.
pub struct Referenced {
    own: *mut libc::c_void,
    text: Vec<u8>,
    /// Mappings.
    pub views: Vec<View>,
    /// KiB of huge pages, at most.
    pub huge_kib: u64,
}

// SAFETY: memory of our own that nobody reads; one thread at a time has the value.
unsafe impl Send for Referenced {}

impl Referenced {
    /// If the kernel has them.
    ///
    /// # Errors
    /// If it has not, or the process may not use them.
    pub fn new() -> io::Result<Referenced> {
        let mut referenced = Referenced::reading()?;
        referenced.clear()?;
        referenced.read()?;
        Ok(referenced)
    }

    /// Only the mappings and their sizes; bits stay as they are.
    ///
    /// # Errors
    /// If the process has no memory for it.
    pub fn reading() -> io::Result<Referenced> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at an address of the kernel's choice.
        let own = unsafe { libc::syscall(libc::SYS_mmap, 0, OWN_PAGES * PAGE, protection, flags, -1, 0) };
        if own == -1 {
            return Err(io::Error::last_os_error());
        }
        let own = ptr::with_exposed_provenance_mut::<libc::c_void>(own as usize);
        // SAFETY: the memory above.
        unsafe { own.cast::<u8>().write_bytes(1, OWN_PAGES * PAGE) };
        Ok(Referenced { own, text: Vec::new(), views: Vec::new(), huge_kib: 0 })
    }

    /// Clears all bits.
    pub fn clear(&self) -> io::Result<()> {
        File::options().write(true).open("/proc/self/clear_refs")?.write_all(b"1")?;
        for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
            // SAFETY: memory of our own that nobody writes.
            unsafe { libc::mprotect(self.own, OWN_PAGES * PAGE, protection) };
        }
        Ok(())
    }

    /// Reads what was used since.
    pub fn read(&mut self) -> io::Result<()> {
        self.text.clear();
        File::open("/proc/self/smaps")?.read_to_end(&mut self.text)?;
        self.views.clear();
        let mut huge = 0;
        for line in self.text.split(|&byte| byte == b'\n') {
            let Some(colon) = line.iter().position(|&byte| byte == b':' || byte == b'-') else { continue };
            if line[colon] == b'-' {
                self.views.extend(header(line));
                continue;
            }
            let Some(view) = self.views.last_mut() else { continue };
            let kib = || number(&line[colon + 1..], 10);
            match &line[..colon] {
                b"Rss" => view.there = kib() as f64 / 4.0,
                b"Referenced" => view.used = kib() as f64 / 4.0,
                b"AnonHugePages" => huge += kib(),
                _ => {}
            }
        }
        self.huge_kib = self.huge_kib.max(huge as u64);
        Ok(())
    }

    /// Gives the pages used to the sites that have them.
    pub fn count(&self, state: &mut State, window: usize, tick: u32) {
        for view in self.views.iter().filter(|view| view.there > 0.0) {
            // Shares of blocks in the mapping. Small ones stand for others.
            let mut shares: Vec<(usize, f64)> = Vec::new();
            let before = state.blocks.range(..view.start).next_back();
            let after = state.blocks.range(view.start..view.end);
            let mut exact = false;
            for (&at, block) in before.into_iter().chain(after) {
                let (start, end) = if block.view { whole(at, block.len) } else { (at, at + block.len) };
                let shared = end.min(view.end).saturating_sub(start.max(view.start));
                if shared == 0 {
                    continue;
                }
                exact = (start, end.next_multiple_of(PAGE)) == (view.start, view.end);
                shares.push((block.site, block.weight * shared as f64 / PAGE as f64));
                if exact {
                    break;
                }
            }
            if exact {
                shares.drain(..shares.len() - 1);
                shares[0].1 = view.there;
            }
            let known: f64 = shares.iter().map(|share| share.1).sum();
            let all = known.max(view.there);
            shares.push((view.kind.site(), all - known));
            for (site, share) in shares {
                let part = share / all;
                state.used(window, site, view.used * part, view.there * part, exact);
                state.slice(tick, site, view.used * part);
            }
        }
    }

    /// The site of what nobody noted at an address; `None` if nothing was mapped there when last read.
    pub fn unowned(&self, address: usize) -> Option<usize> {
        let after = self.views.partition_point(|view| view.start <= address);
        let view = self.views[..after].last().filter(|view| address < view.end)?;
        Some(view.kind.site())
    }

    /// Bytes in memory that nobody noted, by site: the most that was seen is a site's size.
    pub fn sizes(&self, state: &mut State) {
        let mut pages = [0.0; 3];
        for view in &self.views {
            let blocks = state.blocks.range(view.start..view.end);
            let noted: f64 = blocks.map(|(_, block)| block.weight * block.len as f64 / PAGE as f64).sum();
            pages[view.kind.site()] += (view.there - noted).max(0.0);
        }
        for (site, pages) in state.sites.iter_mut().zip(pages) {
            site.peak = site.peak.max(pages * PAGE as f64);
        }
    }

    /// Large blocks, whose whole pages can be watched.
    pub fn watched(state: &State) -> Vec<(usize, usize, usize)> {
        let blocks = state.blocks.iter().filter(|(_, block)| block.view && block.way == Way::Heap);
        blocks
            .map(|(&at, block)| {
                let (start, end) = whole(at, block.len);
                (start, end, block.site)
            })
            .collect()
    }
}

fn header(line: &[u8]) -> Option<View> {
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let range = words.next()?;
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (start, end) = (number(&range[..dash], 16), number(&range[dash + 1..], 16));
    let kind = match words.nth(4) {
        Some(b"[heap]") => Content::Heap,
        Some(name) if name[0] == b'/' => Content::File,
        _ => Content::Plain,
    };
    Some(View { start, end, kind, ..View::default() })
}

/// The first number in some text.
fn number(text: &[u8], base: u32) -> usize {
    let digits =
        text.iter().skip_while(|byte| **byte == b' ').map_while(|&byte| char::from(byte).to_digit(base));
    digits.fold(0usize, |sum, digit| sum.wrapping_mul(base as usize).wrapping_add(digit as usize))
}
