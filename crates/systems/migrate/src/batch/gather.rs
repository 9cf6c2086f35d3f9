//! Ranges of memory into a file: by `writev`, or by pairs of `vmsplice` and `splice`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What one call of the kernel writes at most.
pub const BY_CALL: usize = 0x7fff_f000;
/// What a pair of `vmsplice` and `splice` moves: a larger pipe may not be had.
pub const PIECE: usize = 2 << 20;
/// Ranges that one call takes.
const IOV_MAX: usize = 1024;

/// A range of this process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: usize,
    /// Bytes.
    pub bytes: usize,
}

/// Writes ranges to a file, one after the other, from its current position on. Returns the calls that it took.
///
/// # Errors
/// The file can't be written, or a range not be read.
///
/// # Safety
/// Nobody writes to the ranges meanwhile (a frozen process: the parasite in it calls this).
pub unsafe fn write_all(file: &File, ranges: &[Range]) -> io::Result<usize> {
    let (mut calls, mut first, mut skip) = (0, 0, 0);
    let mut vectors: Vec<libc::iovec> = Vec::with_capacity(ranges.len().min(IOV_MAX));
    while first < ranges.len() {
        if ranges[first].bytes == skip {
            (first, skip) = (first + 1, 0);
            continue;
        }
        vectors.clear();
        let mut left = BY_CALL;
        for (index, range) in ranges[first..].iter().enumerate().take(IOV_MAX) {
            let skip = if index == 0 { skip } else { 0 };
            let bytes = (range.bytes - skip).min(left);
            vectors.push(libc::iovec { iov_base: (range.start + skip) as *mut _, iov_len: bytes });
            left -= bytes;
            if left == 0 {
                break;
            }
        }
        // SAFETY: the vectors live during the call; the kernel checks the ranges.
        let wrote = unsafe { libc::writev(file.as_raw_fd(), vectors.as_ptr(), vectors.len() as i32) };
        calls += 1;
        if wrote < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if wrote == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        // The kernel may have written less than all.
        let mut wrote = wrote as usize;
        while wrote > 0 {
            let now = (ranges[first].bytes - skip).min(wrote);
            (wrote, skip) = (wrote - now, skip + now);
            if skip == ranges[first].bytes {
                (first, skip) = (first + 1, 0);
            }
        }
    }
    Ok(calls)
}

/// The same by pairs of `vmsplice` and `splice`: 2 MiB each where the process may have such a pipe (`CAP_SYS_RESOURCE`, or
/// `/proc/sys/fs/pipe-max-size`), less else.
///
/// # Errors
/// As [`write_all`]; no pipe is to be had.
///
/// # Safety
/// As [`write_all`]; nobody writes to the ranges before the file is read, either.
pub unsafe fn splice_all(file: &File, ranges: &[Range]) -> io::Result<usize> {
    let (from, to) = pipe()?;
    let mut calls = 0;
    for range in ranges {
        let mut done = 0;
        while done < range.bytes {
            let piece = libc::iovec {
                iov_base: (range.start + done) as *mut _,
                iov_len: (range.bytes - done).min(PIECE),
            };
            // SAFETY: as above.
            let moved = unsafe { libc::vmsplice(to.as_raw_fd(), &raw const piece, 1, 0) };
            calls += 1;
            if moved <= 0 {
                return Err(io::Error::last_os_error());
            }
            let mut left = moved as usize;
            while left > 0 {
                // SAFETY: descriptors of ours; no offsets.
                let wrote = unsafe {
                    libc::splice(
                        from.as_raw_fd(),
                        std::ptr::null_mut(),
                        file.as_raw_fd(),
                        std::ptr::null_mut(),
                        left,
                        libc::SPLICE_F_MOVE,
                    )
                };
                calls += 1;
                if wrote <= 0 {
                    return Err(io::Error::last_os_error());
                }
                left -= wrote as usize;
            }
            done += moved as usize;
        }
    }
    Ok(calls)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: fills two descriptors, which nobody else owns.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        let (from, to) = (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]));
        widen(to.as_raw_fd());
        Ok((from, to))
    }
}

/// Makes a pipe hold [`PIECE`], or as much of it as this process may have. Returns bytes.
pub fn widen(pipe: RawFd) -> usize {
    let mut bytes = PIECE;
    // SAFETY: system calls without pointers.
    while unsafe { libc::fcntl(pipe, libc::F_SETPIPE_SZ, bytes as i32) } < 0 && bytes > 4096 {
        bytes /= 2;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn both_ways_write_the_same_bytes_in_order() {
        // More ranges than a call takes, of all lengths, some empty.
        let memory: Vec<u8> = (0..9_000_000u32).map(|at| (at / 3) as u8).collect();
        let mut random = fastrand::Rng::with_seed(38);
        let ranges: Vec<Range> = (0..3000)
            .map(|_| {
                let start = random.usize(0..memory.len() - 9000);
                Range { start: memory.as_ptr() as usize + start, bytes: random.usize(0..9000) }
            })
            .collect();
        let expected: Vec<u8> = ranges
            .iter()
            .flat_map(|range| {
                let start = range.start - memory.as_ptr() as usize;
                memory[start..start + range.bytes].to_vec()
            })
            .collect();
        for way in [write_all, splice_all] {
            let mut file = tempfile::tempfile().expect("file");
            // SAFETY: nobody writes to `memory`.
            let calls = unsafe { way(&file, &ranges) }.expect("written");
            let mut got = Vec::new();
            std::io::Seek::rewind(&mut file).expect("rewound");
            file.read_to_end(&mut got).expect("read");
            assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
            assert!(calls >= 3, "{calls} calls for 3000 ranges");
        }
    }

    #[test]
    fn a_range_that_is_not_mapped_is_an_error() {
        let file = tempfile::tempfile().expect("file");
        let nowhere = [Range { start: 0x10, bytes: 4096 }];
        // SAFETY: the kernel refuses it.
        assert!(unsafe { write_all(&file, &nowhere) }.is_err());
        // SAFETY: as above.
        assert!(unsafe { splice_all(&file, &nowhere) }.is_err());
    }
}
