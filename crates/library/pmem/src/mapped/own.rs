//! Words of one process.

use std::ptr;
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::io::Result;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// How many there are.
const WORDS: usize = 512;

/// A page of zeros for the rest of the process. A child of `fork` finds zeros there again, whatever was written before, where the kernel
/// can do that (Linux 4.14). So who keeps a mark there knows whether it is still in the process that made it, and nothing has to be asked.
///
/// # Errors
/// If there is no memory.
pub fn own_words() -> Result<&'static [AtomicU64]> {
    let (bytes, protection) = (8 * WORDS, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
    // SAFETY: the advice is for the mapping just made. A kernel that does not know it leaves the words as they are.
    _ = unsafe { madvise(page, bytes, Advice::LinuxWipeOnFork) };
    // SAFETY: so many words, aligned to a page, zero, in a mapping that is never given back and that nobody else knows.
    Ok(unsafe { slice::from_raw_parts(page.cast(), WORDS) })
}
