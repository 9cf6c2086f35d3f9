//! What `/proc` says of a process in lines and words.

use std::fs;

use crate::error::{Error, Result};

/// A file of `/proc/PID` as text.
///
/// # Errors
/// If the process is gone or may not be looked at.
pub fn read_text(pid: i32, name: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{name}");
    match fs::read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {
            Err(Error::NoProcess(pid))
        }
        Err(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(Error::NotAllowed { pid, source })
        }
        Err(error) => Err(Error::file(path, "cannot be read", error)),
    }
}

/// `/proc/PID/status`.
#[derive(Clone, Debug)]
pub struct Status(String);

impl Status {
    /// Of process or thread `pid`.
    ///
    /// # Errors
    /// If it is gone.
    pub fn read(pid: i32) -> Result<Self> {
        read_text(pid, "status").map(Self)
    }

    /// What stands behind `name:`; empty if nothing.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim()
    }

    /// The first number, decimal, behind `name:`; 0 if none.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        self.get(name).split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// The numbers behind `name:`.
    #[must_use]
    pub fn numbers(&self, name: &str) -> Vec<u32> {
        self.get(name).split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }

    /// The number in base `base` behind `name:`; 0 if none.
    #[must_use]
    pub fn radix(&self, name: &str, base: u32) -> u64 {
        u64::from_str_radix(self.get(name), base).unwrap_or(0)
    }
}

/// The threads of a process.
///
/// # Errors
/// If it is gone.
pub fn threads(pid: i32) -> Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Error::NoProcess(pid))?;
    let mut found: Vec<i32> =
        entries.flatten().filter_map(|one| one.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable_by_key(|tid| (*tid != pid, *tid));
    Ok(found)
}

/// The children of a process, of all its threads.
///
/// # Errors
/// If it is gone.
pub fn children(pid: i32) -> Result<Vec<i32>> {
    let mut found = Vec::new();
    for tid in threads(pid)? {
        let text = read_text(pid, &format!("task/{tid}/children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    Ok(found)
}

/// The words of `/proc/PID/stat` from the third (the state) on: word `n` of its manual page is `[n - 3]`.
///
/// # Errors
/// If the process is gone.
pub fn stat_words(pid: i32) -> Result<Vec<String>> {
    let text = read_text(pid, "stat")?;
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    Ok(rest.split_whitespace().map(str::to_owned).collect())
}

/// The auxiliary vector, as pairs of words.
///
/// # Errors
/// If the process is gone or may not be read.
pub fn auxiliary(pid: i32) -> Result<Vec<u64>> {
    let path = format!("/proc/{pid}/auxv");
    let bytes = fs::read(&path).map_err(|error| Error::file(path, "cannot be read", error))?;
    Ok(bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect())
}
