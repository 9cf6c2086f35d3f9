//! Passes over a region.

use std::time::Duration;

use pmem::Mapped;
use pmem::probe::{self, Access, Move, Wait};
use space::Space;

use super::accesses::Plan;
use super::bytes_of;
use crate::figures::Figures;
use crate::offsets::Random;
use crate::task::{LINE, Op, Pattern, Raw};

/// The first half of every unit, then the second half of every unit, again and again for `runtime`.
pub fn buffer_probe(plan: &Plan<'_>, runtime: Duration) -> Figures {
    let (task, clock) = (plan.task, plan.clock);
    let half = task.access_size / 2;
    let access = Access { len: half, ..Access::of_line(Move::StoreEvict) };
    let passes: Vec<Vec<u64>> = [0, half]
        .map(|start| {
            (0..task.region / task.access_size).map(|unit| unit * task.access_size + start).collect()
        })
        .to_vec();
    let round = || {
        for offsets in &passes {
            plan.memory.access(&access, offsets, &mut 0);
            probe::wait(Wait::All);
        }
    };
    round();
    let (start, limit) = (clock.ticks(), clock.to_ticks(runtime.as_secs_f64() * 1e9));
    let mut rounds = 0u64;
    while rounds == 0 || clock.ticks() - start < limit {
        round();
        rounds += 1;
    }
    let mut figures = Figures {
        seconds: clock.ns(clock.ticks() - start) / 1e9,
        write_bytes: rounds * passes[0].len() as u64 * task.access_size,
        ..Figures::default()
    };
    figures.rate();
    figures.line_ns = Some(figures.seconds * 1e9 / (figures.write_bytes / LINE) as f64);
    figures
}

/// Lines written, then read, again and again for `runtime`.
pub fn read_after_write(plan: &Plan<'_>, runtime: Duration) -> Figures {
    let (task, clock, memory) = (plan.task, plan.clock, plan.memory);
    let count = u32::try_from(task.region / LINE).unwrap_or(u32::MAX);
    let order: Vec<u32> = if task.pattern == Pattern::Random {
        Random(plan.seed).permutation(count)
    } else {
        (0..count).collect()
    };
    let order: Vec<u64> = order.into_iter().map(|line| u64::from(line) * LINE).collect();
    // Each line points to the next one, the last one to the first.
    let chain: Vec<(u64, u64)> = order.iter().copied().zip(order.iter().copied().cycle().skip(1)).collect();
    let (mut write_ticks, mut read_ticks, mut rounds) = (0, 0, 0u64);
    let limit = clock.to_ticks(runtime.as_secs_f64() * 1e9);
    // The first round warms up.
    let mut warm = true;
    while rounds == 0 || write_ticks + read_ticks < limit {
        let start = clock.ticks();
        if task.raw == Raw::Combined {
            for &(at, next) in &chain {
                write(memory, task.op, at, next);
                probe::wait(Wait::All);
                memory.access(&Access { wait: Wait::All, ..Access::of_line(Move::Load) }, &[at], &mut 0);
            }
        } else {
            chain.iter().for_each(|&(at, next)| write(memory, task.op, at, next));
            probe::wait(Wait::All);
        }
        let written = clock.ticks();
        match task.raw {
            Raw::Combined => {}
            Raw::Separate => memory.access(&Access::of_line(Move::Load), &order, &mut 0),
            // Where it ends is where it began; asking keeps the loads.
            Raw::Chase => {
                assert_eq!(memory.chase(order[0], chain.len() as u64), order[0], "the chain is closed")
            }
        }
        probe::wait(Wait::All);
        let end = clock.ticks();
        if !warm {
            write_ticks += written - start;
            read_ticks += end - written;
            rounds += 1;
        }
        warm = false;
    }
    let lines = rounds * chain.len() as u64;
    let per_line = |ticks| clock.ns(ticks) / lines as f64;
    let apart = task.raw != Raw::Combined;
    Figures {
        seconds: clock.ns(write_ticks + read_ticks) / 1e9,
        read_bytes: bytes_of(lines),
        write_bytes: bytes_of(lines),
        line_ns: Some(per_line(if apart { read_ticks } else { write_ticks })),
        write_ns: apart.then(|| per_line(write_ticks)),
        ..Figures::default()
    }
}

/// Writes the line at `at` with `next` in its first word.
fn write(memory: &Mapped, op: Op, at: u64, next: u64) {
    if op == Op::Ntstore {
        let mut line = [0; LINE as usize];
        line[..8].copy_from_slice(&next.to_le_bytes());
        memory.store_nt(at, &line);
        return;
    }
    memory.store_u64(at, next);
    if op == Op::StoreClwb {
        memory.flush(at, 8);
    }
}
