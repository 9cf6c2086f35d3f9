//! Wear levelling and heat: what makes one access in ten thousand a hundred times slower.

use std::collections::BTreeMap;

use super::config::{Thermal, Wear};
use crate::{LINE_BYTES, Rng, Stall, Time};

/// Blocks whose counts are always kept.
const COUNTS_MIN: usize = 1024;

#[derive(Clone, Debug)]
pub(super) struct Leveller {
    config: Wear,
    /// Units written since the gap moved.
    since_gap: u32,
    /// By block: since when bytes have been counted, and how many came.
    counts: BTreeMap<u64, (Time, u64)>,
    /// Blocks above which counts are dropped that are too old to matter.
    counts_max: usize,
    /// Blocks that are being moved, and until when.
    moving: Vec<(u64, Time)>,
    pub(super) stalls: Stall,
}

impl Leveller {
    pub(super) fn new(config: &Wear) -> Self {
        Leveller {
            config: config.clone(),
            since_gap: 0,
            counts: BTreeMap::new(),
            counts_max: COUNTS_MIN,
            moving: Vec::new(),
            stalls: Stall::default(),
        }
    }

    /// A line of the block of address `addr` comes. Returns from when on it can be taken, and how many bytes
    /// have to be moved because of it.
    pub(super) fn arrives(&mut self, at: Time, addr: u64) -> (Time, u64) {
        let epoch = self.config.epoch;
        if self.counts.len() > self.counts_max {
            self.counts.retain(|_, (since, _)| at.since(*since) < epoch);
            self.counts_max = COUNTS_MIN.max(2 * self.counts.len());
        }
        let block = addr / self.config.block.0;
        let free = self.free(at, addr);
        self.stalls.waited(at, free);
        let (since, bytes) = self.counts.entry(block).or_insert((at, 0));
        if at.since(*since) >= epoch {
            (*since, *bytes) = (at, 0);
        }
        *bytes += LINE_BYTES;
        if *bytes < self.config.hot.0 {
            return (free, 0);
        }
        self.counts.remove(&block);
        self.moving.push((block, free + self.config.stall));
        (free, self.config.block.0)
    }

    /// From when on the block of address `addr` can be accessed.
    pub(super) fn free(&mut self, at: Time, addr: u64) -> Time {
        if self.moving.is_empty() {
            return at;
        }
        self.moving.retain(|(_, until)| *until > at);
        let block = addr / self.config.block.0;
        self.moving.iter().find(|(moving, _)| *moving == block).map_or(at, |(_, until)| *until)
    }

    /// A unit is written. Whether another one is moved with it.
    pub(super) fn gap_moves(&mut self) -> bool {
        self.since_gap += 1;
        let moves = self.since_gap == self.config.gap_interval;
        self.since_gap = if moves { 0 } else { self.since_gap };
        moves
    }
}

/// Pauses of the whole DIMM, at times that are decided by chance.
#[derive(Clone, Debug)]
pub(super) struct Heat {
    config: Thermal,
    left: u32,
    until: Time,
    rng: Rng,
    pub(super) stalls: Stall,
}

impl Heat {
    pub(super) fn new(config: &Thermal, rng: Rng) -> Self {
        let mut heat =
            Heat { config: config.clone(), left: 0, until: Time::ZERO, rng, stalls: Stall::default() };
        heat.draw();
        heat
    }

    /// Between nothing and twice the mean.
    fn draw(&mut self) {
        self.left = 1 + self.rng.below(2 * self.config.interval as usize) as u32;
    }

    /// A unit is written at `at`.
    pub(super) fn written(&mut self, at: Time) {
        self.left -= 1;
        if self.left == 0 {
            self.until = at + self.config.stall;
            self.draw();
        }
    }

    /// From when on something can be accessed.
    pub(super) fn free(&mut self, at: Time) -> Time {
        self.stalls.waited(at, self.until.max(at));
        self.until.max(at)
    }
}
