//! What must hold when all actors have ended.

use super::layout::{
    ENABLED, FIRST_HUGE, FREE, FREE_HUGE, HUGE, PRESENT, RW, Scope, USED, USERS, VALID, field, is_locked,
    table_frame, table_tgid, written,
};

/// The broken invariant of a system at rest, if there is one. `word` gives the words.
///
/// # Errors
/// - a page of memory is in two places, or in none (mapped, in a table, free);
/// - a mapping count or a process's count of resident pages differs from what is mapped, with the pages
///   that wait for delayed work counted in;
/// - an entry is locked, or a page that is accounted for is charged to no memory group;
/// - the enable bit and the number of processes that use the engine do not fit each other;
/// - a page that was written does not hold what was written;
/// - memory that two processes have may be written by one of them;
/// - a table's entries that the kernel and the walker will come to next do not fit each other.
pub fn at_rest(scope: &Scope, word: impl Fn(u64) -> u64) -> Result<(), String> {
    let mut mapped = [0_u64; 64];
    let mut waiting = [0_u64; 64];
    let mut held = [0_u64; 64];
    let mut writable = [false; 64];
    let mut later = vec![0_u64; scope.processes as usize];
    for ring in scope.rings() {
        for number in 1..=ring.entries() {
            let entry = word(ring.entry(number) + 1);
            let frame = table_frame(entry) as usize;
            if entry & VALID != 0 {
                held[frame] += 1;
            }
            if entry & USED != 0 {
                waiting[frame] += 1;
                let owner =
                    (0..scope.processes).find(|&process| word(scope.tgid(process)) == table_tgid(entry));
                let owner =
                    owner.ok_or_else(|| format!("memory {frame} waits for a process that is gone"))?;
                later[owner as usize] += 1;
            }
        }
        order(&ring, &word)?;
    }
    if (word(USERS) > 0) != (word(ENABLED) != 0) {
        return Err(format!(
            "{} processes use the engine, whose enable bit is {}",
            word(USERS),
            word(ENABLED)
        ));
    }
    for process in 0..scope.processes {
        let mut resident = 0;
        let upper = scope.upper(process);
        for slot in std::iter::once(upper).chain((0..scope.pages).map(|page| scope.entry(process, page))) {
            let entry = word(slot);
            if is_locked(entry) {
                return Err(format!("an entry of process {process} stays locked"));
            }
            if entry & PRESENT == 0 || slot == upper && entry & HUGE == 0 {
                continue;
            }
            resident += 1;
            mapped[field(entry) as usize] += 1;
            writable[field(entry) as usize] |= entry & RW != 0;
        }
        let counted = word(scope.counter(process)).wrapping_add(later[process as usize]);
        if counted != resident {
            return Err(format!(
                "process {process} has {resident} pages, the kernel counts {}",
                counted as i64
            ));
        }
        for page in 0..scope.pages {
            let (entry, upper) = (word(scope.entry(process, page)), word(upper));
            let entry = if upper & HUGE != 0 { upper } else { entry };
            let bytes = word(scope.content(field(entry)));
            if entry & PRESENT != 0
                && word(scope.wrote(process, page)) != 0
                && bytes & written(process, page) == 0
            {
                return Err(format!("what process {process} wrote to page {page} is lost"));
            }
        }
    }
    if let Some(frame) = (0..mapped.len()).find(|&frame| mapped[frame] > 1 && writable[frame]) {
        return Err(format!("memory {frame} is shared, and one of its processes may write to it"));
    }
    frames(scope, &word, &mapped, &waiting, &held)
}

fn frames(
    scope: &Scope,
    word: &impl Fn(u64) -> u64,
    mapped: &[u64; 64],
    waiting: &[u64; 64],
    held: &[u64; 64],
) -> Result<(), String> {
    let small = (1..=scope.frames).map(|number| (number, FREE, number));
    let huge = (1..=scope.huge_frames).map(|number| (number + FIRST_HUGE, FREE_HUGE, number));
    for (frame, set, number) in small.chain(huge) {
        let at = frame as usize;
        let free = word(set) >> number & 1;
        let places = free + held[at] + u64::from(mapped[at] > 0);
        if places != 1 {
            let (held, mapped) = (held[at], mapped[at]);
            return Err(format!("memory {frame}: free {free}, in tables {held}, mapped {mapped}"));
        }
        if mapped[at] > waiting[at] && word(scope.charged(frame)) == 0 {
            return Err(format!("memory {frame} is mapped and charged to nobody"));
        }
        let counted = word(scope.mappings(frame)).wrapping_add(waiting[at]);
        if counted != mapped[at] {
            let mapped = mapped[at];
            return Err(format!(
                "memory {frame} is mapped {mapped} times, the kernel counts {}",
                counted as i64
            ));
        }
    }
    Ok(())
}

/// The walker takes pages in the order in which the kernel puts them: from the tail on, all valid entries
/// in a row.
fn order(ring: &super::layout::Ring, word: &impl Fn(u64) -> u64) -> Result<(), String> {
    let mut at = word(ring.tail);
    let mut gap = false;
    for _ in 1..=ring.entries() {
        let valid = word(ring.entry(at) + 1) & VALID != 0;
        if valid && gap {
            return Err("a table has a page that the walker can't reach".to_owned());
        }
        gap |= !valid;
        at = ring.next(at);
    }
    Ok(())
}
