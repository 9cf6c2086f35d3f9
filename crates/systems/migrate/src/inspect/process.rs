//! A tree of processes, and what a process as a whole has that cannot move.

use std::fs;
use std::io::Read as _;

use super::files::{Options, look_at_files};
use super::memory::look_at_memory;
use super::obstacle::Report;
use crate::error::{Error, Result};
use crate::proc::{Status, children, read_text};

/// The process and all that descend from it: parents before children.
///
/// # Errors
/// If the root is gone.
pub fn tree(root: i32) -> Result<Vec<i32>> {
    tree_by(root, children)
}

fn tree_by(root: i32, children: impl Fn(i32) -> Result<Vec<i32>>) -> Result<Vec<i32>> {
    let mut all = vec![root];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        match children(pid) {
            Ok(found) => {
                all.extend(found);
                next += 1;
            }
            Err(error) if pid == root => return Err(error),
            // It ended meanwhile; the next one has its place.
            Err(_) => drop(all.remove(next)),
        }
    }
    Ok(all)
}

/// All that hinders the tree of `root` from being saved.
///
/// # Errors
/// If the process is gone, a zombie, traced, or somebody else's.
pub fn inspect(root: i32, options: &Options) -> Result<Report> {
    check_root(root)?;
    let mut report = Report { processes: tree(root)?, ..Report::default() };
    for pid in report.processes.clone() {
        if has_ended(pid) {
            let remedy = "let its parent wait for it, and try again";
            report.add(pid, None, "has ended, and its parent has not asked for its status", remedy);
            continue;
        }
        check_process(pid, &mut report)?;
        look_at_memory(pid, &mut report)?;
    }
    look_at_files(&report.processes.clone(), options, &mut report)?;
    Ok(report)
}

/// Whether a process is a zombie.
#[must_use]
pub fn has_ended(pid: i32) -> bool {
    Status::read(pid).is_ok_and(|status| status.get("State").starts_with(['Z', 'X']))
}

/// What makes it senseless to look further.
fn check_root(pid: i32) -> Result<()> {
    let status = Status::read(pid)?;
    let tracer = status.number("TracerPid") as i32;
    match status.get("State").chars().next() {
        Some('Z' | 'X') => return Err(Error::Zombie(pid)),
        _ if tracer != 0 => return Err(Error::Traced { pid, tracer }),
        _ => {}
    }
    if status.number("Tgid") as i32 != pid {
        let group = status.number("Tgid");
        let what = format!("is a thread of process {group}; name that one. Nothing changed");
        return Err(Error::Changed { pid, what });
    }
    if read_text(pid, "cmdline")?.is_empty() && fs::read_link(format!("/proc/{pid}/exe")).is_err() {
        let source = std::io::Error::other("a thread of the kernel, or another user's process");
        return Err(Error::NotAllowed { pid, source });
    }
    Ok(())
}

/// What of process `pid` as a whole cannot move.
///
/// # Errors
/// If it is gone.
pub fn check_process(pid: i32, report: &mut Report) -> Result<()> {
    let status = Status::read(pid)?;
    match status.get("State").chars().next() {
        Some('Z' | 'X') => {
            report.add(pid, None, "has ended, and its parent has not asked for it", "try again when it has");
            return Ok(());
        }
        Some('t') => report.add(pid, None, "is stopped by a debugger", "detach the debugger"),
        _ => {}
    }
    if status.number("TracerPid") != 0 {
        report.add(
            pid,
            None,
            format!("is traced by process {}", status.get("TracerPid")),
            "detach the tracer",
        );
    }
    if status.number("Seccomp") != 0 {
        report.add(pid, None, "has a seccomp filter", "run it without its sandbox");
    }
    let mut head = [0_u8; 20];
    let program = fs::File::open(format!("/proc/{pid}/exe")).and_then(|mut file| file.read_exact(&mut head));
    if let Err(source) = program {
        return Err(Error::NotAllowed { pid, source });
    }
    if head[..4] != *b"\x7fELF" || head[4] != 2 {
        report.add(pid, None, "is not a 64-bit program", "only x86-64 programs can be saved");
    }
    for space in ["mnt", "net", "ipc", "uts", "user", "pid", "cgroup", "time"] {
        let theirs = fs::read_link(format!("/proc/{pid}/ns/{space}")).ok();
        if theirs.is_some() && theirs != fs::read_link(format!("/proc/self/ns/{space}")).ok() {
            let what = format!("lives in another {space} namespace");
            report.add(
                pid,
                None,
                what,
                "run strandline inside the same container (nsenter --target PID --all)",
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_ends_meanwhile_hides_no_children_of_the_next() {
        let children = |pid| match pid {
            1 => Ok(vec![2, 3, 4]),
            3 => Ok(vec![5, 6]),
            2 | 5 => Err(Error::NoProcess(pid)),
            _ => Ok(Vec::new()),
        };
        assert_eq!(tree_by(1, children).expect("the root is there"), [1, 3, 4, 6]);
        assert!(tree_by(2, children).is_err());
    }
}
