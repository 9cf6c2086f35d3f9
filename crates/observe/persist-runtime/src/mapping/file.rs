//! Files by the C library's functions behind ours.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::real::real;

/// Which file: its device and number.
pub type Identity = (u64, u64);

/// An open file.
pub struct File(c_int);

fn checked(result: i64) -> Result<i64> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

/// Does it again as long as a signal comes between.
fn again(mut work: impl FnMut() -> i64) -> Result<i64> {
    loop {
        match checked(work()) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Which file a descriptor has, and all else that the system says of it.
pub fn status(fd: c_int) -> Result<libc::stat> {
    // SAFETY: zero bytes are a valid `stat`.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    let real = real!(c"fstat", fn(c_int, *mut libc::stat) -> c_int);
    // SAFETY: a place for it.
    checked(i64::from(unsafe { real(fd, &mut status) }))?;
    Ok(status)
}

/// The file of a name.
pub fn identity_of(name: &CStr) -> Result<Identity> {
    // SAFETY: zero bytes are a valid `stat`.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    let real = real!(c"stat", fn(*const c_char, *mut libc::stat) -> c_int);
    // SAFETY: a C string, and a place for it.
    checked(i64::from(unsafe { real(name.as_ptr(), &mut status) }))?;
    Ok((status.st_dev, status.st_ino))
}

/// Removes a file.
pub fn remove(name: &CStr) -> Result<()> {
    let real = real!(c"unlink", fn(*const c_char) -> c_int);
    // SAFETY: a C string.
    checked(i64::from(unsafe { real(name.as_ptr()) })).map(drop)
}

/// Makes a file's name durable.
pub fn sync_directory_of(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = File::open(&CString::new(parent.as_os_str().as_bytes())?, libc::O_RDONLY, 0)?;
    let real = real!(c"fsync", fn(c_int) -> c_int);
    // SAFETY: a descriptor of ours.
    again(|| i64::from(unsafe { real(directory.0) })).map(drop)
}

impl File {
    pub fn open(name: &CStr, flags: c_int, mode: c_uint) -> Result<File> {
        let real = real!(c"open64", fn(*const c_char, c_int, c_uint) -> c_int);
        // SAFETY: a C string.
        let fd = again(|| i64::from(unsafe { real(name.as_ptr(), flags | libc::O_CLOEXEC, mode) }))?;
        Ok(File(fd as c_int))
    }

    /// The file of a descriptor once more, for reading and writing and with no other flag.
    pub fn again(fd: c_int) -> Result<File> {
        let name = CString::new(format!("/proc/self/fd/{fd}"))?;
        File::open(&name, libc::O_RDWR, 0)
    }

    pub fn descriptor(&self) -> c_int {
        self.0
    }

    /// Which file it is, and its length.
    pub fn identity(&self) -> Result<(Identity, u64)> {
        let status = status(self.0)?;
        Ok(((status.st_dev, status.st_ino), status.st_size as u64))
    }

    /// Keeps other processes out, or says `WouldBlock`.
    pub fn lock(&self) -> Result<()> {
        // SAFETY: a descriptor of ours.
        again(|| i64::from(unsafe { libc::flock(self.0, libc::LOCK_EX | libc::LOCK_NB) })).map(drop)
    }

    /// Reads as much as there is; how much that was.
    pub fn read(&self, at: u64, to: &mut [u8]) -> Result<usize> {
        let real = real!(c"pread64", fn(c_int, *mut c_void, usize, i64) -> isize);
        let mut done = 0;
        while done < to.len() {
            let rest = &mut to[done..];
            let at = at as i64 + done as i64;
            // SAFETY: so many bytes are there.
            let got = again(|| unsafe { real(self.0, rest.as_mut_ptr().cast(), rest.len(), at) } as i64)?;
            if got == 0 {
                break;
            }
            done += got as usize;
        }
        Ok(done)
    }

    /// Writes all of it.
    pub fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let real = real!(c"pwrite64", fn(c_int, *const c_void, usize, i64) -> isize);
        let mut done = 0;
        while done < from.len() {
            let rest = &from[done..];
            let at = at as i64 + done as i64;
            // SAFETY: so many bytes are there.
            done += again(|| unsafe { real(self.0, rest.as_ptr().cast(), rest.len(), at) } as i64)? as usize;
        }
        Ok(())
    }

    /// Makes its data durable, and its length.
    pub fn sync(&self) -> Result<()> {
        let real = real!(c"fdatasync", fn(c_int) -> c_int);
        // SAFETY: a descriptor of ours.
        again(|| i64::from(unsafe { real(self.0) })).map(drop)
    }

    pub fn set_length(&self, length: u64) -> Result<()> {
        let real = real!(c"ftruncate64", fn(c_int, i64) -> c_int);
        // SAFETY: a descriptor of ours.
        again(|| i64::from(unsafe { real(self.0, length as i64) })).map(drop)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let real = real!(c"close", fn(c_int) -> c_int);
        // SAFETY: a descriptor of ours, used no more. What was written was synced, or is the system's to write.
        unsafe { real(self.0) };
    }
}
