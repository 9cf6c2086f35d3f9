//! Pages that are there, and large, before the first access.

use std::ops::Range;

use persistency::Domain;
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use space::Space;

use super::area::page;
use super::{MapError, Mapped};

impl Mapped {
    /// Makes every page that holds a byte of the range present, and its blocks on the disk written: from then on a store
    /// meets no page that is not there, and a sync no block that was only reserved. Contents stay.
    ///
    /// Of memory that is none of a disk's or a device's, pages are put together to huge ones where the kernel does that (Linux 6.1), one to seven
    /// milliseconds for 2 MiB: small ones lie wherever there was room, and a program that goes to many of them waits for the processor to find them.
    ///
    /// # Errors
    /// If the system lacks memory, or the disk fails.
    ///
    /// # Panics
    /// If the range is not inside the space, or the space was opened to read only.
    pub fn prefault(&self, offset: u64, len: u64) -> Result<(), MapError> {
        self.check_storable(offset, len);
        if len == 0 {
            return Ok(());
        }
        let range = offset..offset + len;
        self.make_present(range.clone())?;
        if self.beneath == Domain::Volatile && self.join_pages(range.clone()).is_ok() {
            // Those that were put together have to be found anew. If they were not, they stay small.
            self.make_present(range.clone())?;
        }
        self.sync_range(range)
            .map_err(|errno| MapError::Sync { path: self.path.clone(), source: errno.into() })
    }

    /// Has every page of the range there.
    fn make_present(&self, range: Range<u64>) -> Result<(), MapError> {
        let (from, bytes) = self.pages_of(range.clone());
        // SAFETY: the pages are mapped, and touching them changes no contents.
        match unsafe { madvise(from.cast(), bytes, Advice::LinuxPopulateWrite) } {
            Ok(()) => Ok(()),
            // Linux before 5.14.
            Err(Errno::INVAL) => {
                self.touch(range);
                Ok(())
            }
            Err(errno) => {
                let remedy = "; the system lacks memory, or the file was cut off";
                let (path, source) = (self.path.clone(), errno.into());
                Err(MapError::File { action: "touch every page of", path, remedy, source })
            }
        }
    }

    /// Has the kernel put the pages of the range together to huge ones, as far as these lie in it.
    fn join_pages(&self, range: Range<u64>) -> std::io::Result<()> {
        let (from, bytes) = self.pages_of(range);
        // SAFETY: the pages are mapped, and the call changes no contents.
        match unsafe { libc::madvise(from.cast(), bytes, libc::MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Writes to every page that holds a byte of the range, without changing it.
    fn touch(&self, range: Range<u64>) {
        let page = page() as u64;
        for at in (range.start - range.start % page..range.end).step_by(page as usize) {
            let found = self.load_u64(at);
            // If it fails, somebody else has written.
            let _ = self.cas_u64(at, found, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the mapping at `address` that huge pages have.
    fn huge_bytes(address: usize) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel reports it");
        let lines = maps.lines().skip_while(|line| !line.starts_with(&format!("{address:x}-")));
        let sizes =
            lines.skip(1).take_while(|line| line.split(' ').next().is_some_and(|key| key.ends_with(':')));
        let huge = sizes.filter_map(|line| {
            let (key, size) = line.split_once(':')?;
            let kib: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
            matches!(key, "AnonHugePages" | "ShmemPmdMapped").then_some(kib << 10)
        });
        huge.sum()
    }

    #[test]
    fn pages_in_memory_are_huge_and_have_what_they_had() {
        const LEN: u64 = 8 << 20;
        let path = std::path::PathBuf::from(format!("/dev/shm/strandline-prefault-{}", std::process::id()));
        for (in_file, touched) in [(true, true), (false, true), (true, false), (false, false)] {
            let made = if in_file { Mapped::create(&path, LEN) } else { Mapped::anonymous(LEN) };
            let memory = made.expect("there is room");
            _ = std::fs::remove_file(&path);
            let value = |at: u64| if touched { at ^ 7 } else { 0 };
            let offsets = || (0..LEN).step_by(4096 - 8);
            offsets().filter(|_| touched).for_each(|at| memory.store_u64(at, value(at)));
            memory.prefault(0, LEN).expect("there is room");
            assert!(offsets().all(|at| memory.load_u64(at) == value(at)));
            let found = huge_bytes(memory.address());
            match memory.join_pages(0..LEN) {
                Ok(()) => assert_eq!(found, LEN, "in a file: {in_file}, touched: {touched}"),
                Err(why) => println!("skipped: the kernel has no huge pages for it: {why}"),
            }
        }
    }
}
