//! `FileView`: a file in memory that a program reads, and may store to, through a pointer.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// A mapping of the first bytes of a file. Private: stores are seen here alone, and never reach the file.
/// Shared: they are the file's.
///
/// The program has the address and does with the memory as it likes, so nothing here makes a reference into
/// it. Whoever reads through the pointer while
/// bytes are stored by [`FileView::store`] may see a mixture, as with any memory that threads share without
/// a lock.
#[derive(Debug)]
pub struct FileView {
    base: NonNull<u8>,
    len: usize,
    shared: bool,
}

// SAFETY: the mapping belongs to the value and is tied to no thread; it is accessed by copies through raw
// pointers only.
unsafe impl Send for FileView {}
// SAFETY: as above; who stores where others read is the program's choice, and no reference can see it.
unsafe impl Sync for FileView {}

impl FileView {
    /// Maps the first `len` bytes of a file that is at least that long, and must stay so.
    ///
    /// # Errors
    /// The system's; or if `len` is 0 or more than the file has.
    pub fn map(file: &File, len: u64, shared: bool) -> io::Result<FileView> {
        if len == 0 || file.metadata()?.len() < len {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the file is shorter than what is to be mapped of it",
            ));
        }
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let flags = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE | MapFlags::NORESERVE };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, flags, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(FileView { base, len, shared })
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Whether there is none; never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.base.as_ptr().addr()
    }

    fn check(&self, offset: u64, count: usize) -> usize {
        space::check_range(self.len as u64, offset, count as u64);
        offset as usize
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If they are not inside the view.
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        let at = self.check(offset, bytes.len());
        // SAFETY: the range is inside the mapping, which no reference leads into.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) }
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If they are not inside the view.
    pub fn load(&self, offset: u64, bytes: &mut [u8]) {
        let at = self.check(offset, bytes.len());
        // SAFETY: as in `store`.
        unsafe { ptr::copy_nonoverlapping(self.base.as_ptr().add(at), bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Waits until the pages of a range of a shared view are in the file, durably.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Panics
    /// If the range is not inside the view, or the view is private.
    pub fn sync(&self, range: Range<u64>) -> io::Result<()> {
        assert!(self.shared, "a private view has nothing that could reach its file");
        let page = rustix::param::page_size() as u64;
        let from = range.start - range.start % page;
        let at = self.check(from, (range.end - from) as usize);
        // SAFETY: the pages are mapped.
        unsafe { msync(self.base.as_ptr().add(at).cast(), (range.end - from) as usize, MsyncFlags::SYNC) }?;
        Ok(())
    }

    /// The pages, of 4 KiB, that this process has copies of its own of: the ones of a private view that were
    /// ever stored to. `None` if the system
    /// does not say.
    #[must_use]
    pub fn own_pages(&self) -> Option<Vec<u64>> {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        const FILE: u64 = 1 << 61;
        if rustix::param::page_size() != 4096 {
            return None;
        }
        let map = File::open("/proc/self/pagemap").ok()?;
        let pages = self.len.div_ceil(4096);
        let mut words = vec![0; 8 * pages.min(1 << 14)];
        let mut own = Vec::new();
        let mut page = 0;
        while page < pages {
            let count = (pages - page).min(words.len() / 8);
            let bytes = &mut words[..8 * count];
            map.read_exact_at(bytes, ((self.address() / 4096 + page) * 8) as u64).ok()?;
            for (at, word) in (page as u64..).zip(bytes.as_chunks::<8>().0) {
                let word = u64::from_ne_bytes(*word);
                if word & SWAPPED != 0 || word & PRESENT != 0 && word & FILE == 0 {
                    own.push(at);
                }
            }
            page += count;
        }
        Some(own)
    }
}

impl Drop for FileView {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which is this value's.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can always be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(&[7; 10_000], 0).expect("a small file");
        file
    }

    #[test]
    fn a_private_view_keeps_its_stores() {
        let file = file();
        let view = FileView::map(&file, 10_000, false).expect("a mapping");
        assert_eq!(view.own_pages(), Some(vec![]));
        view.store(5000, b"abc");
        let (mut seen, mut kept) = ([0; 3], [0; 3]);
        view.load(5000, &mut seen);
        file.read_exact_at(&mut kept, 5000).expect("a file");
        assert_eq!((&seen, kept), (b"abc", [7; 3]));
        assert_eq!(view.own_pages(), Some(vec![1]));
    }

    #[test]
    fn a_shared_view_is_the_file() {
        let file = file();
        let view = FileView::map(&file, 10_000, true).expect("a mapping");
        view.store(9_997, b"abc");
        view.sync(9_000..10_000).expect("a sync");
        let mut kept = [0; 3];
        file.read_exact_at(&mut kept, 9_997).expect("a file");
        assert_eq!(&kept, b"abc");
    }

    #[test]
    fn more_than_the_file_has_is_refused() {
        assert!(FileView::map(&file(), 10_001, false).is_err());
    }

    #[test]
    #[should_panic(expected = "outside the space")]
    fn a_store_behind_the_end() {
        FileView::map(&file(), 100, false).expect("a mapping").store(99, b"ab");
    }
}
