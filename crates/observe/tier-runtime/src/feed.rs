//! What `strandline plan` sees from outside while the program runs, given to the sites here: only the process itself knows at every moment
//! which of them has an address.
//!
//! The file grows. A line `s ADDRESS` is a sample of a load that missed. Lines `r START END USED OF` are regions, of which a look
//! found a page used in `USED` of `OF` tries, and a line `.` ends them. Addresses are hexadecimal.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::page::PAGE;
use crate::referenced::Referenced;
use crate::sites::{REST, State};

/// Windows of regions are of this length; `strandline plan` has the kernel look so often.
const WINDOW: usize = 1;

/// The file, and what was read of it.
pub struct Feed {
    file: File,
    rest: Vec<u8>,
    looked: BTreeMap<usize, Looked>,
}

/// A site in the regions of one look.
#[derive(Clone, Copy, Default)]
struct Looked {
    pages: f64,
    used: f64,
    tries: f64,
}

impl Feed {
    /// This process's.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn open(path: &Path) -> io::Result<Feed> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let file = File::options().read(true).append(true).create(true).open(name)?;
        Ok(Feed { file, rest: Vec::new(), looked: BTreeMap::new() })
    }

    /// Takes what came since.
    pub fn take(&mut self, state: &mut State, views: &Referenced, tick: u32) {
        // A part of a line waits for the other.
        if self.file.read_to_end(&mut self.rest).is_err() {
            return;
        }
        let whole = self.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        for line in lines.split(|&byte| byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            let words: Vec<&str> = line.split(' ').collect();
            let hex = |word: &str| usize::from_str_radix(word, 16).ok();
            match words[..] {
                ["s", address] => {
                    if let Some(address) = hex(address) {
                        sample(state, views, address, tick);
                    }
                }
                ["r", start, end, used, of] => {
                    let numbers = (hex(start), hex(end), used.parse(), of.parse());
                    if let (Some(start), Some(end), Ok(used), Ok(of)) = numbers {
                        self.region(state, views, start..end, used, of);
                    }
                }
                ["."] => self.end(state, tick),
                _ => {}
            }
        }
    }

    /// Shares of a region by site.
    fn region(
        &mut self,
        state: &State,
        views: &Referenced,
        range: std::ops::Range<usize>,
        used: f64,
        of: f64,
    ) {
        let all = range.len() as f64 / PAGE as f64;
        if all < 1.0 || of < 1.0 {
            return;
        }
        let mut add = |site: usize, pages: f64| {
            let one = self.looked.entry(site).or_default();
            one.pages += pages;
            one.used += pages * (used / of).clamp(0.0, 1.0);
            one.tries += of * pages / all;
        };
        let mut known = 0.0;
        let before = state.blocks.range(..range.start).next_back();
        for (&at, block) in before.into_iter().chain(state.blocks.range(range.clone())) {
            let shared = (at + block.len).min(range.end).saturating_sub(at.max(range.start));
            if shared > 0 {
                let pages = block.weight * shared as f64 / PAGE as f64;
                known += pages;
                add(block.site, pages);
            }
        }
        if all > known {
            add(views.unowned(range.start).unwrap_or(REST), all - known);
        }
    }

    /// The look is over.
    fn end(&mut self, state: &mut State, tick: u32) {
        for (site, one) in std::mem::take(&mut self.looked) {
            let share = one.used / one.pages.max(1e-9);
            state.used(WINDOW, site, one.tries * share, one.tries, true);
            state.slice(tick, site, one.used);
        }
    }
}

/// Gives a sample to the site that has the address. One allocation that stands for others counts for them, and what nobody noted for so
/// many less.
fn sample(state: &mut State, views: &Referenced, address: usize, tick: u32) {
    let unowned = views.unowned(address).unwrap_or(REST);
    let found = state.blocks.range(..=address).next_back().filter(|(at, block)| address - **at < block.len);
    let (site, weight) = found.map_or((unowned, 1.0), |(_, block)| (block.site, block.weight));
    state.sites[site].hits += weight;
    state.sites[unowned].hits -= weight - 1.0;
    state.slice(tick, site, weight);
}
