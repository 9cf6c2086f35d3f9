//! Locks of files, from `fdinfo`.

use crate::image::RangeLock;

/// A lock that a file descriptor shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// `flock(2)`, as its operation.
    Whole(i32),
    /// `fcntl(2)`.
    Range(RangeLock),
    /// A lease, or one that this program does not know.
    Other,
}

/// The locks that file descriptor `fd` shows: those of its open file, and those that its process has of the file.
pub fn locks(fd: i32, info: &str) -> impl Iterator<Item = Lock> + '_ {
    info.lines().filter_map(|line| line.strip_prefix("lock:")).map(move |line| lock(fd, line))
}

/// `1: POSIX  ADVISORY  WRITE 4711 08:01:131 0 EOF`
fn lock(fd: i32, line: &str) -> Lock {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, kind, _, access, _, _, first, last] = words[..] else { return Lock::Other };
    let write = access == "WRITE";
    if kind == "FLOCK" {
        return Lock::Whole(if write { libc::LOCK_EX } else { libc::LOCK_SH });
    }
    let start = first.parse().unwrap_or(0);
    let len = if last == "EOF" { 0 } else { last.parse::<u64>().map_or(0, |last| last - start + 1) };
    match kind {
        "POSIX" => Lock::Range(RangeLock { fd, of_open_file: false, write, start, len }),
        "OFDLCK" => Lock::Range(RangeLock { fd, of_open_file: true, write, start, len }),
        _ => Lock::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_read() {
        let info = "pos:\t0\nlock:\t1: FLOCK  ADVISORY  READ 7 08:01:131 0 EOF\n\
                    lock:\t2: POSIX  ADVISORY  WRITE 7 08:01:131 10 19\n\
                    lock:\t3: OFDLCK ADVISORY  READ -1 08:01:131 5 EOF\n\
                    lock:\t4: LEASE  ACTIVE    READ 7 08:01:131 0 EOF\n";
        let range = |of_open_file, write, start, len| {
            Lock::Range(RangeLock { fd: 4, of_open_file, write, start, len })
        };
        let wanted =
            [Lock::Whole(libc::LOCK_SH), range(false, true, 10, 10), range(true, false, 5, 0), Lock::Other];
        assert_eq!(locks(4, info).collect::<Vec<_>>(), wanted);
    }
}
