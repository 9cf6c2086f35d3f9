//! Buffers to their places: short pieces through the cache, long ones past it.

use space::{LINE, Space};

use super::buffers::Buffer;

/// Lines from the first on that follow each other and were written whole.
fn stretch(lines: &[Buffer]) -> usize {
    let follows = |(at, line): &(u64, &Buffer)| line.is_whole() && line.offset == lines[0].offset + at * LINE;
    (0..).zip(lines).take_while(follows).count()
}

/// Writes lines, which are in order, to their places: stretches of at least `threshold` bytes by non-temporal
/// stores, and all else by stores and, if `flushes`, a flush of each line right behind them. Does not fence.
pub(super) fn write_back<S: Space>(space: &S, mut lines: &[Buffer], threshold: u64, flushes: bool) {
    while !lines.is_empty() {
        let whole = stretch(lines);
        let (now, later) = lines.split_at(whole.max(1));
        let past = whole > 0 && whole as u64 * LINE >= threshold;
        for line in now {
            if past {
                space.store_nt(line.offset, line.bytes().as_flattened());
                continue;
            }
            line.written().for_each(|(offset, value)| space.store_u64(offset, value));
            if flushes {
                space.flush(line.offset, LINE);
            }
        }
        lines = later;
    }
}
