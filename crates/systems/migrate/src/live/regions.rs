//! Which pages of a process may come on demand, looked up before the stop and again, in less time, after it.

use std::sync::LazyLock;

use fam::Region;

use super::lazy::may_wait;
use crate::error::{Error, Result};
use crate::freeze::own_pages;
use crate::image::Vma;
use crate::inspect::Layout;
use crate::proc::{Pagemap, Range};

/// Above so many ranges in a mapping, one look at all of it takes less than one at each hole.
const HOLES: usize = 64;

/// The same after the stop: what the process had before is taken as it is (what it has given back since reads as zeros, as it
/// must), and only the rest of its mappings is looked at.
///
/// # Errors
/// As [`regions`].
pub fn regions_after(pid: i32, layout: &Layout, known: &[Region]) -> Result<Vec<Region>> {
    let (pages, mut found) = (Pagemap::open(pid)?, Vec::new());
    for vma in layout.vmas.iter().filter(|vma| may_wait(vma)) {
        let whole = layout.whole.contains(&(vma.start, vma.end));
        let first = known.partition_point(|region| region.start + region.bytes <= vma.start);
        let past = known.partition_point(|region| region.start < vma.end).max(first);
        let inside = if whole || past - first > HOLES { &[] } else { &known[first..past] };
        let mut at = vma.start;
        for region in inside {
            let (start, end) = (region.start.max(vma.start), (region.start + region.bytes).min(vma.end));
            if at < start {
                look(&pages, &Vma { start: at, end: start, ..vma.clone() }, &[], &mut found)?;
            }
            found.push(Region { start, bytes: end - start });
            at = end;
        }
        if at == vma.start {
            look(&pages, vma, &layout.whole, &mut found)?;
        } else if at < vma.end {
            look(&pages, &Vma { start: at, ..vma.clone() }, &[], &mut found)?;
        }
    }
    Ok(found)
}

fn look(pages: &Pagemap, vma: &Vma, whole: &[(u64, u64)], found: &mut Vec<Region>) -> Result<()> {
    for ranges in pieces(pages, vma, whole)? {
        found.extend(ranges.into_iter().map(|(start, end)| Region { start, bytes: end - start }));
    }
    Ok(())
}

/// The pages of a process that may come on demand.
pub fn regions(pid: i32, layout: &Layout) -> Result<Vec<Region>> {
    let (pages, mut found) = (Pagemap::open(pid)?, Vec::new());
    for vma in layout.vmas.iter().filter(|vma| may_wait(vma)) {
        look(&pages, vma, &layout.whole, &mut found)?;
    }
    Ok(found)
}

/// The own pages of a mapping, looked up by several threads where it is large: the process stands meanwhile.
fn pieces(pages: &Pagemap, vma: &Vma, whole: &[(u64, u64)]) -> Result<Vec<Vec<Range>>> {
    const LARGE: u64 = 64 << 20;
    // The library reads several files for an answer, which takes longer than a look at a small mapping.
    static CORES: LazyLock<u64> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from).min(8) as u64);
    if vma.end - vma.start < LARGE || *CORES == 1 || whole.contains(&(vma.start, vma.end)) {
        return Ok(vec![own_pages(pages, vma, whole)?]);
    }
    let piece = ((vma.end - vma.start) / *CORES).next_multiple_of(fam::VECTOR);
    let starts = (vma.start..vma.end).step_by(piece as usize);
    std::thread::scope(|scope| {
        let threads: Vec<_> = starts
            .map(|start| {
                let part = Vma { start, end: (start + piece).min(vma.end), ..vma.clone() };
                scope.spawn(move || own_pages(pages, &part, &[]))
            })
            .collect();
        let ended = || Error::Unfit("a thread that looks for pages ended".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(ended()))).collect()
    })
}
