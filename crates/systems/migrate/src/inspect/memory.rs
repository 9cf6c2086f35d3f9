//! The mappings of a process, as an image has them, and those that cannot move.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::obstacle::Report;
use crate::error::Result;
use crate::image::{Shared, Vma, VmaKind};
use crate::proc::{Mapping, mappings, mappings_after};

/// The mappings of one process.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// As in the image; `VmaKind::Shared` counts in `shared`.
    pub vmas: Vec<Vma>,
    /// Memory that it shares with others.
    pub shared: Vec<Shared>,
    /// For each of `shared`, a mapping of it: the name in `/proc/PID/map_files`.
    pub sources: Vec<String>,
    /// Private mappings of files that are gone: all of their pages are the process's own now.
    pub whole: Vec<(u64, u64)>,
    /// Where the vDSO is.
    pub vdso: (u64, u64),
}

/// Advice by its letters in `VmFlags`, as the numbers of `madvise(2)`.
const ADVICE: [(&str, i32); 7] = [
    ("hg", libc::MADV_HUGEPAGE),
    ("nh", libc::MADV_NOHUGEPAGE),
    ("mg", libc::MADV_MERGEABLE),
    ("dc", libc::MADV_DONTFORK),
    ("wf", libc::MADV_WIPEONFORK),
    ("dd", libc::MADV_DONTDUMP),
    ("rr", libc::MADV_RANDOM),
];

/// The mappings of process `pid`; what cannot move goes into `report`.
///
/// # Errors
/// If the process is gone.
pub fn look_at_memory(pid: i32, report: &mut Report) -> Result<Layout> {
    look_again(pid, &[], (0, 0), false, report)
}

/// The same of a process that was looked at shortly before, which takes less time; without what lies in `ours`. With
/// `own_watch`, mappings that a userfaultfd watches are watched by us.
///
/// # Errors
/// As [`look_at_memory`].
pub fn look_again(
    pid: i32,
    before: &[Mapping],
    ours: (u64, u64),
    own_watch: bool,
    report: &mut Report,
) -> Result<Layout> {
    let mut layout = Layout::default();
    let all = if before.is_empty() { mappings(pid)? } else { mappings_after(pid, before, ours)? };
    for mut mapping in all {
        if own_watch {
            mapping.flags.retain(|flag| flag != "um" && flag != "uw");
        }
        if mapping.name == "[vsyscall]" {
            continue;
        }
        if let Some(kind) = kind(pid, &mapping, &mut layout, report) {
            layout.vmas.push(Vma {
                start: mapping.start,
                end: mapping.end,
                protection: mapping.protection,
                shared: mapping.shared,
                grows_down: mapping.has("gd"),
                no_reserve: mapping.has("nr"),
                locked: mapping.has("lo"),
                advice: ADVICE
                    .iter()
                    .filter(|(flag, _)| mapping.has(flag))
                    .map(|(_, advice)| *advice)
                    .collect(),
                kind,
            });
        }
    }
    Ok(layout)
}

fn kind(pid: i32, mapping: &Mapping, layout: &mut Layout, report: &mut Report) -> Option<VmaKind> {
    let at = format!("{:x}-{:x}", mapping.start, mapping.end);
    let mut hinder = |what: &str, remedy| {
        let name = if mapping.name.is_empty() { "memory" } else { mapping.name.as_str() };
        report.add(pid, None, format!("{name} at {at} is {what}"), remedy);
        None
    };
    match mapping.name.as_str() {
        "[vdso]" => {
            layout.vdso = (mapping.start, mapping.end);
            return Some(VmaKind::Vdso);
        }
        "[vvar]" | "[vvar_vclock]" => return Some(VmaKind::Vvar),
        _ => {}
    }
    if mapping.has("ht") || mapping.name.starts_with("/anon_hugepage") {
        return hinder("of huge pages from the pool", "use transparent huge pages (madvise)");
    }
    if mapping.has("um") || mapping.has("uw") {
        return hinder("watched by a userfaultfd", "end what serves its page faults");
    }
    if mapping.has("ss") {
        return hinder("a shadow stack", "run it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
    }
    if mapping.has("io") || mapping.has("pf") {
        return hinder("a device's", "close the device");
    }
    let (name, deleted) = match mapping.name.strip_suffix(" (deleted)") {
        Some(name) => (name, true),
        None => (mapping.name.as_str(), false),
    };
    if !name.starts_with('/') {
        if name.starts_with("[uprobes]") || name.starts_with("anon_inode") {
            return hinder("of the kernel's", "close what mapped it");
        }
        return Some(VmaKind::Anonymous);
    }
    if mapping.shared && (deleted || name.starts_with("/memfd:")) {
        return Some(shared(mapping, name, &at, layout));
    }
    if deleted || name.starts_with("/memfd:") {
        // A private mapping of a file that is gone: its pages, the file's too, become memory of its own.
        layout.whole.push((mapping.start, mapping.end));
        return Some(VmaKind::Anonymous);
    }
    let Ok(found) = fs::metadata(name) else {
        return hinder(
            "a file that cannot be found under that name",
            "restore the file, or restart the program",
        );
    };
    if found.ino() != mapping.id.1 {
        return hinder("a file that has been replaced", "restart the program, so that it uses the new one");
    }
    if !found.is_file() {
        return hinder("a device's", "close the device");
    }
    Some(VmaKind::File {
        path: name.to_owned(),
        offset: mapping.offset,
        len: found.len(),
        modified_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
        writable: mapping.has("mw"),
    })
}

/// Memory of no file, known by its inode.
fn shared(mapping: &Mapping, name: &str, at: &str, layout: &mut Layout) -> VmaKind {
    let known = layout.shared.iter().position(|one| one.id == mapping.id);
    let index = known.unwrap_or_else(|| {
        let sysv = name.starts_with("/SYSV").then(|| sysv(mapping.id.1)).flatten();
        let len = mapping.offset + (mapping.end - mapping.start);
        let name = name.strip_prefix("/memfd:").unwrap_or(name).to_owned();
        layout.shared.push(Shared { id: mapping.id, name, len, seals: 0, sysv, pages: Vec::new() });
        layout.sources.push(at.to_owned());
        layout.shared.len() - 1
    });
    VmaKind::Shared { index, offset: mapping.offset }
}

/// Key and mode of the System V segment with this number.
fn sysv(id: u64) -> Option<(i32, u32)> {
    let text = fs::read_to_string("/proc/sysvipc/shm").ok()?;
    let line = text
        .lines()
        .skip(1)
        .find(|line| line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()) == Some(id))?;
    let mut words = line.split_whitespace();
    let key = words.next()?.parse().ok()?;
    Some((key, u32::from_str_radix(words.nth(1)?, 8).ok()?))
}
