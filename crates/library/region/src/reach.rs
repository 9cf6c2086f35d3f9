//! What in a pool can be reached, as far as that shows without types.

use space::{Env, Space};

use crate::inspect::Inspection;
use crate::pointer::OFFSET_BITS;

/// Blocks of a pool that was just [inspected](crate::inspect()) and that nothing seems to lead to: offset and
/// bytes.
///
/// What of an object is a pointer only the program knows. So every aligned word of the root object is taken
/// for one whose lower 48 bits lie in a block, its end excluded, and whose upper 16 are the pool's mark or
/// zeros; likewise every word of the blocks that are reached so. A number that looks like a pointer can hide
/// a leak. A block that is reported here is one that a program could not find again, unless its pointers are
/// not aligned, are changed in some way, or lie outside of the pool.
#[must_use]
pub fn unreached<E: Env>(env: &E, found: &Inspection) -> Vec<(u64, u64)> {
    let space = env.space();
    let blocks = &found.blocks;
    let mark = found.header.pool & (u64::MAX >> OFFSET_BITS);
    // The number of the block in which `offset` lies.
    let block_at = |offset: u64| {
        let number = blocks.partition_point(|&(begin, _)| begin <= offset).checked_sub(1)?;
        let (begin, bytes) = blocks[number];
        (offset - begin < bytes).then_some(number)
    };
    let mut reached = vec![false; blocks.len()];
    let mut next = Vec::new();
    let mut reach = |number: Option<usize>, next: &mut Vec<usize>| {
        if let Some(number) = number.filter(|&number| !reached[number]) {
            reached[number] = true;
            next.push(number);
        }
    };
    reach(block_at(found.root), &mut next);
    while let Some(number) = next.pop() {
        let (begin, bytes) = blocks[number];
        for word in (begin..begin + bytes).step_by(8).map(|at| space.load_u64(at)) {
            let (upper, offset) = (word >> OFFSET_BITS, word & ((1 << OFFSET_BITS) - 1));
            if upper == mark || upper == 0 {
                reach(block_at(offset), &mut next);
            }
        }
    }
    blocks.iter().zip(reached).filter(|(_, reached)| !reached).map(|(block, _)| *block).collect()
}
