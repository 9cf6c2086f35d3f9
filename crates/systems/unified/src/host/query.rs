//! TPC-H Q1 and Q6 over a chunk of rows, in integers of 64 bits.

use std::sync::atomic::AtomicU32;

use super::{load, store};

/// Groups of Q1: three flags by two states.
pub const GROUPS: usize = 6;
/// Words of a group's partial sums: the count, then five sums of two words, low first.
pub const GROUP_WORDS: usize = 11;

/// The rows of a chunk.
fn rows(id: u32, p: &[u32; 12]) -> std::ops::Range<usize> {
    let from = (id as usize * p[1] as usize).min(p[0] as usize);
    from..(from + p[1] as usize).min(p[0] as usize)
}

fn store_wide(sums: &[AtomicU32], at: usize, value: u64) {
    store(sums, at, value as u32);
    store(sums, at + 1, (value >> 32) as u32);
}

/// The kernel `query1`.
pub fn first(id: u32, p: &[u32; 12], columns: &[AtomicU32], sums: &[AtomicU32]) {
    let count = p[0] as usize;
    let mut own = [[0u64; 6]; GROUPS];
    for row in rows(id, p) {
        let column = |number: usize| u64::from(load(columns, number * count + row));
        if column(5) > u64::from(p[2]) {
            continue;
        }
        let (quantity, price, discount, tax) = (column(0), column(1), column(2), column(3));
        let reduced = price * (100 - discount);
        let group = &mut own[column(4) as usize % GROUPS];
        let row = [1, quantity, price, reduced, reduced * (100 + tax), discount];
        group.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    for (number, group) in own.iter().enumerate() {
        let at = (id as usize * GROUPS + number) * GROUP_WORDS;
        store(sums, at, group[0] as u32);
        group[1..].iter().enumerate().for_each(|(sum, &value)| store_wide(sums, at + 1 + 2 * sum, value));
    }
}

/// The kernel `query6`.
pub fn sixth(id: u32, p: &[u32; 12], columns: &[AtomicU32], sums: &[AtomicU32]) {
    let count = p[0] as usize;
    let mut sum = 0u64;
    for row in rows(id, p) {
        let column = |number: usize| load(columns, number * count + row);
        let (day, discount) = (column(5), column(2));
        if day >= p[2] && day < p[3] && discount >= p[4] && discount <= p[5] && column(0) < p[6] {
            sum += u64::from(column(1)) * u64::from(discount);
        }
    }
    store_wide(sums, id as usize * 2, sum);
}
