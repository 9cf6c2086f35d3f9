//! Lines on their way home. What is stored here is what consolidation costs: who counts writes by the code
//! that made them finds it by this file.

use space::{LINE, Space};

use super::active::offsets;
use super::parts::Parts;
use super::table::Slot;

/// Copies the lines of a slot's page home that are in the spare. Flushes them if it is to, does not fence.
pub(super) fn copy_home<S: Space>(space: &S, parts: &Parts, slot: u32, from: Slot, flush: bool) {
    for offset in offsets(from.lines) {
        let home = parts.home(from.page) + offset;
        space.copy(parts.spare(slot) + offset, home, LINE);
        if flush {
            space.flush(home, LINE);
        }
    }
}
