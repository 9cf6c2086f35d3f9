//! Mappings, from `/proc/PID/smaps`.

use super::read_text;
use crate::error::Result;

/// A mapping as the kernel lists it.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// `PROT_*`.
    pub protection: i32,
    /// Whether it is shared.
    pub shared: bool,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Device and inode of the file; 0 for none.
    pub id: (u64, u64),
    /// The file's path or the mapping's name; empty for none.
    pub name: String,
    /// Two-letter flags (`man 5 proc_pid_smaps`).
    pub flags: Vec<String>,
}

impl Mapping {
    /// Whether it has a flag.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|one| one == flag)
    }
}

/// The mappings of a process, by address.
///
/// # Errors
/// If it is gone or may not be read.
pub fn mappings(pid: i32) -> Result<Vec<Mapping>> {
    let text = read_text(pid, "smaps")?;
    let mut all: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags: ") {
            if let Some(last) = all.last_mut() {
                last.flags = flags.split_whitespace().map(str::to_owned).collect();
            }
        } else if let Some(mapping) = head(line) {
            all.push(mapping);
        }
    }
    Ok(all)
}

/// The same of a process that was looked at shortly before. What the kernel says of a mapping only after a walk over all of
/// its pages is taken from then, where the mapping is the same or has only grown. What lies in `ours` is left out.
///
/// # Errors
/// As [`mappings`].
pub fn mappings_after(pid: i32, before: &[Mapping], ours: (u64, u64)) -> Result<Vec<Mapping>> {
    let text = read_text(pid, "maps")?;
    let mut all: Vec<Mapping> = text.lines().filter_map(head).collect();
    all.retain(|one| one.start < ours.0 || ours.1 < one.end);
    for mapping in &mut all {
        let after = before.partition_point(|one| one.start <= mapping.start);
        let known =
            [after.wrapping_sub(1), after].into_iter().filter_map(|index| before.get(index)).find(|one| {
                let ends = one.start == mapping.start || one.end == mapping.end;
                let same = one.protection == mapping.protection && one.shared == mapping.shared;
                ends && same && one.id == mapping.id && one.name == mapping.name
            });
        let Some(known) = known else { return mappings(pid) };
        mapping.flags.clone_from(&known.flags);
    }
    Ok(all)
}

/// The mappings of a process, by address, without their flags, which take the kernel longer.
///
/// # Errors
/// If it is gone or may not be read.
pub fn mapping_lines(pid: i32) -> Result<Vec<Mapping>> {
    Ok(read_text(pid, "maps")?.lines().filter_map(head).collect())
}

/// The mapping with this name, which is the kernel's.
///
/// # Errors
/// If the process is gone.
pub fn mapping_named(pid: i32, name: &str) -> Result<Option<Mapping>> {
    Ok(read_text(pid, "maps")?.lines().filter_map(head).find(|one| one.name == name))
}

/// `start-end rwxp offset major:minor inode   name`
fn head(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let (access, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (device, rest) = rest.split_once(' ')?;
    let (inode, name) = rest.split_once(' ').unwrap_or((rest, ""));
    let (major, minor) = device.split_once(':')?;
    let (major, minor) = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let mut protection = 0;
    for (letter, bit) in access.chars().zip([libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC]) {
        if letter != '-' {
            protection |= bit;
        }
    }
    Some(Mapping {
        start,
        end,
        protection,
        shared: access.ends_with('s'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        id: (libc::makedev(major, minor), inode.parse().ok()?),
        name: name.trim_start().replace("\\012", "\n"),
        flags: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_mappings() {
        let own = std::process::id().cast_signed();
        let found = mappings(own).unwrap();
        let here = reads_its_own_mappings as *const () as u64;
        let code = found.iter().find(|one| (one.start..one.end).contains(&here)).unwrap();
        assert!(
            code.protection & libc::PROT_EXEC != 0 && code.has("ex") && code.name.starts_with('/'),
            "{code:?}"
        );
        assert!(found.iter().any(|one| one.name == "[stack]" && one.has("gd")));
        let again = mappings_after(own, &found, (0, 0)).unwrap();
        assert!(again.iter().all(|one| !one.flags.is_empty()), "{again:?}");
        let unknown = mappings_after(own, &found[1..], (0, 0)).unwrap();
        assert!(unknown.iter().all(|one| !one.flags.is_empty()), "what is not known is asked for");
        assert!(mapping_named(own, "[vdso]").unwrap().is_some_and(|one| one.start < one.end));
        assert!(head("Rss:                   4 kB").is_none());
    }
}
