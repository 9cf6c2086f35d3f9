//! Memory that processes share: a mapped file, read and written by copies, its words atomically.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::Error;

/// A file mapped shared, for reading and writing. Others may write to it at any time, so nothing is ever borrowed from it.
#[derive(Debug)]
pub struct Memory {
    at: NonNull<u8>,
    bytes: u64,
}

// SAFETY: a mapping belongs to the process; all access is by copies and atomic words.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps the first `bytes` of a file.
    ///
    /// # Errors
    /// The file can't be mapped.
    pub fn map(file: &File, bytes: u64) -> Result<Memory, Error> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(address) if at != libc::MAP_FAILED => Ok(Memory { at: address, bytes }),
            _ => Err(Error::last("mmap of the lazy-page file")),
        }
    }

    /// Bytes mapped.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills page tables (and pages of memory that is not there yet), so that writing faults no more. Helps only.
    pub fn populate(&self) {
        /// Since Linux 5.14.
        const MADV_POPULATE_WRITE: i32 = 23;
        // SAFETY: our own mapping; contents stay.
        unsafe { libc::madvise(self.at.as_ptr().cast(), self.bytes as usize, MADV_POPULATE_WRITE) };
    }

    /// Address of a range of it, for system calls.
    ///
    /// # Panics
    /// The range is outside.
    #[must_use]
    pub fn address(&self, offset: u64, bytes: u64) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{offset:#x}+{bytes:#x} is outside of {:#x}",
            self.bytes
        );
        // SAFETY: inside of the mapping.
        unsafe { self.at.as_ptr().add(offset as usize) }
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        // SAFETY: aligned, inside, and only ever used atomically or before it is published.
        unsafe { &*self.address(offset, 8).cast::<AtomicU64>() }
    }

    fn half(&self, offset: u64) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        // SAFETY: as above.
        unsafe { &*self.address(offset, 4).cast::<AtomicU32>() }
    }

    /// A word, with what was stored before it was published.
    #[must_use]
    pub fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Publishes a word.
    pub fn store(&self, offset: u64, value: u64) {
        #[cfg(test)]
        crate::publish::note(self, Some((offset, &value.to_le_bytes())));
        self.word(offset).store(value, Ordering::Release);
    }

    /// Half a word.
    #[must_use]
    pub fn load_half(&self, offset: u64) -> u32 {
        self.half(offset).load(Ordering::Acquire)
    }

    /// Publishes half a word.
    pub fn store_half(&self, offset: u64, value: u32) {
        #[cfg(test)]
        crate::publish::note(self, Some((offset, &value.to_le_bytes())));
        self.half(offset).store(value, Ordering::Release);
    }

    /// Copies out.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let from = self.address(offset, into.len() as u64);
        // SAFETY: checked range; `into` is ours alone.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    /// Copies in.
    pub fn write(&self, offset: u64, from: &[u8]) {
        #[cfg(test)]
        crate::publish::note(self, Some((offset, from)));
        let to = self.address(offset, from.len() as u64);
        // SAFETY: checked range; who writes holds the lock of the vector.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Copies in by non-temporal stores; [`Memory::fence`] makes them durable where the memory is.
    pub fn write_nt(&self, offset: u64, from: &[u8]) {
        let to = self.address(offset, from.len() as u64);
        // SAFETY: as `write`.
        unsafe { crate::batch::nt::copy(to, from.as_ptr(), from.len()) };
    }

    /// Orders all that was written before what is published next.
    pub fn fence(&self) {
        #[cfg(test)]
        crate::publish::note(self, None);
        crate::batch::nt::store_fence();
        fence(Ordering::SeqCst);
    }

    /// CRC-32 of a range.
    #[must_use]
    pub fn checksum(&self, offset: u64, bytes: u64) -> u32 {
        let mut hash = crc32fast::Hasher::new();
        let mut buffer = vec![0; 32 << 10];
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(buffer.len() as u64) as usize;
            self.read(offset + done, &mut buffer[..now]);
            hash.update(&buffer[..now]);
            done += now as u64;
        }
        hash.finalize()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our mapping, of which nobody has an address any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes as usize) };
    }
}
