//! A plan carried out: kinds of memory by site, and the calls that put allocations there.
//!
//! The file has a line per site: its key, a kind, and the share of each allocation that goes there (1 if not given). Kinds are
//! `fast`, `slow`, `interleave`, or memkind's names for them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

pub use abi::kinds::Kind;

use crate::page::PAGE;

/// Kinds by site, and the nodes that they stand for.
#[derive(Debug, Default)]
pub struct Kinds {
    of: BTreeMap<u64, (Kind, f64)>,
    nodes: (u32, u32),
}

/// What was done for a site.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placed {
    /// Allocations, and bytes of their whole pages.
    pub count: u64,
    /// See above.
    pub bytes: u64,
    /// Calls that the kernel refused, and the last error's number.
    pub refused: u64,
    /// See above.
    pub error: i32,
}

impl Placed {
    /// Counts one.
    pub fn add(&mut self, bytes: usize, done: io::Result<()>) {
        self.count += 1;
        self.bytes += bytes as u64;
        if let Err(error) = done {
            self.refused += 1;
            self.error = error.raw_os_error().unwrap_or(0);
        }
    }
}

impl Kinds {
    /// From a file. Lines that make no sense are left out; who wrote the file has checked it.
    pub fn read(path: &Path, nodes: (u32, u32)) -> Kinds {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.split('#').next()?.split_whitespace();
            let key = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = Kind::named(words.next()?)?;
            let share = words.next().and_then(|share| share.parse().ok()).unwrap_or(1.0f64);
            Some((key, (kind, share.clamp(0.0, 1.0))))
        };
        Kinds { of: text.lines().filter_map(line).collect(), nodes }
    }

    /// A site's.
    pub fn of(&self, key: u64) -> Option<(Kind, f64)> {
        self.of.get(&key).copied()
    }

    /// Puts the last `share` of whole pages where a kind says; pages that are there already stay.
    pub fn place(&self, kind: Kind, share: f64, start: usize, end: usize) -> io::Result<()> {
        const PREFERRED: libc::c_long = 1;
        const INTERLEAVE: libc::c_long = 3;
        const WEIGHTED: libc::c_long = 6;
        let pages = end.saturating_sub(start) / PAGE;
        let from = end.saturating_sub((pages as f64 * share).round() as usize * PAGE);
        if from >= end {
            return Ok(());
        }
        let bit = |node: u32| 1u64 << node.min(63);
        let (fast, slow) = (bit(self.nodes.0), bit(self.nodes.1));
        let call = |mode: libc::c_long, nodes: u64| {
            // SAFETY: a policy for pages of a block that lives; it changes no byte. The mask is one word.
            let done =
                unsafe { libc::syscall(libc::SYS_mbind, from, end - from, mode, &raw const nodes, 65, 0) };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        match kind {
            Kind::Fast => call(PREFERRED, fast),
            Kind::Slow => call(PREFERRED, slow),
            Kind::Interleave => call(WEIGHTED, fast | slow).or_else(|_| call(INTERLEAVE, fast | slow)),
        }
    }
}
