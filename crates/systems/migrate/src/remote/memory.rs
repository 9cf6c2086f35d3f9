//! The memory of another process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::error::{Error, Result};

/// Reads as many bytes at `address` of process `pid` as can be read.
///
/// # Errors
/// If not even the first can be read.
pub fn read(pid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: into.len() };
    // SAFETY: the kernel writes at most `into.len()` bytes into `into`.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Reads exactly `into.len()` bytes at `address` of process `pid`.
///
/// # Errors
/// If they cannot all be read.
pub fn read_exact(pid: i32, address: u64, into: &mut [u8]) -> Result<()> {
    let wanted = into.len();
    let what = || format!("to read {wanted} bytes of memory at {address:#x}");
    match read(pid, address, into) {
        Ok(len) if len == wanted => Ok(()),
        Ok(_) => Err(Error::Call { pid, what: what(), source: io::Error::from_raw_os_error(libc::EFAULT) }),
        Err(source) => Err(Error::Call { pid, what: what(), source }),
    }
}

/// Writes `bytes` at `address` of process `pid`.
///
/// # Errors
/// If they cannot all be written.
pub fn write(pid: i32, address: u64, bytes: &[u8]) -> Result<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    // SAFETY: the kernel only reads `bytes`; what it writes is another process's memory.
    let written = unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    if usize::try_from(written) == Ok(bytes.len()) {
        super::kill_points::changed();
        return Ok(());
    }
    Err(Error::call(pid, format!("to write {} bytes of memory at {address:#x}", bytes.len())))
}

/// The same of a process that we trace; a stack grows down to `address` if need be.
///
/// # Errors
/// If they cannot all be written.
pub fn poke(pid: i32, address: u64, bytes: &[u8]) -> Result<()> {
    let path = format!("/proc/{pid}/mem");
    let written = File::options().write(true).open(&path).and_then(|file| file.write_all_at(bytes, address));
    written.map_err(|error| Error::file(path, "cannot be written", error))?;
    super::kill_points::changed();
    Ok(())
}
