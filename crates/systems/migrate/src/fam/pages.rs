//! The memory of the process that migrates, as its source reads it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Error;
use super::memory::Memory;

/// Pages of a process that does not run.
pub trait Pages: Send + Sync {
    /// Reads bytes at an address.
    ///
    /// # Errors
    /// The process is gone, or nothing is mapped there.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Error>;

    /// The same into shared memory, without a copy in between where that is possible.
    ///
    /// # Errors
    /// As [`Pages::read`].
    fn read_to(&self, address: u64, memory: &Memory, offset: u64, bytes: u64) -> Result<(), Error> {
        let mut buffer = vec![0; bytes as usize];
        self.read(address, &mut buffer)?;
        memory.write(offset, &buffer);
        Ok(())
    }
}

/// Another process, read through the kernel.
#[derive(Debug)]
pub struct Remote {
    pid: i32,
    /// For pages that the process itself must not read.
    memory: File,
}

impl Remote {
    /// A process by pid.
    ///
    /// # Errors
    /// It is gone, or of another user.
    pub fn of(pid: u32) -> Result<Remote, Error> {
        let path = format!("/proc/{pid}/mem");
        let memory = File::open(&path).map_err(Error::os(path))?;
        Ok(Remote { pid: pid as i32, memory })
    }

    /// # Safety
    /// `into` is writable for `bytes`.
    unsafe fn copy(&self, address: u64, into: *mut u8, bytes: usize) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes {
            // SAFETY: inside of what the caller promises.
            let here = unsafe { into.add(done) };
            let local = libc::iovec { iov_base: here.cast(), iov_len: bytes - done };
            let remote =
                libc::iovec { iov_base: (address + done as u64) as *mut libc::c_void, iov_len: bytes - done };
            // SAFETY: both vectors live during the call.
            let got =
                unsafe { libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0) };
            if got > 0 {
                done += got as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::ESRCH) {
                return Err(Error::SourceLost { missing: (bytes - done) as u64 });
            }
            let mut page = [0; 4096];
            let now = (bytes - done).min(page.len());
            self.memory.read_exact_at(&mut page[..now], address + done as u64).map_err(Error::os(
                format!("memory of process {} at {:#x}", self.pid, address + done as u64),
            ))?;
            // SAFETY: as above, `now` bytes of it.
            unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), here, now) };
            done += now;
        }
        Ok(())
    }
}

impl Pages for Remote {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Error> {
        // SAFETY: a slice of ours.
        unsafe { self.copy(address, into.as_mut_ptr(), into.len()) }
    }

    fn read_to(&self, address: u64, memory: &Memory, offset: u64, bytes: u64) -> Result<(), Error> {
        // SAFETY: `address` checks the range; the vector's lock is held.
        unsafe { self.copy(address, memory.address(offset, bytes), bytes as usize) }
    }
}
