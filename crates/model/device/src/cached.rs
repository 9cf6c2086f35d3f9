//! A device with a direct-mapped cache of faster memory before it: Memory mode, expanders with DRAM before
//! flash.
//!
//! Each block has one place in the near memory. Tags lie with the data (in the bits that error correction
//! leaves), so that even a write begins with a read of the near memory; or the controller has them and knows
//! at once ([`Cached::tags`]). A miss fetches the block, the wanted line first, and writes it into the near
//! memory when it is there; a dirty block whose place is taken is written to the far device first.
//!
//! What the cache holds and the far device lacks is not durable: [`Device::drain`] writes it back, as at an
//! orderly shutdown, and [`Device::durable_bytes`] leaves it out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::credits::Credits;
use crate::{
    Device, DeviceConfig, DeviceCounters, DeviceTiming, Fault, LINE_BYTES, Size, Time, Traffic, build,
};

/// The numbers of a cached device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cached {
    /// Bytes of the near memory; a multiple of the block.
    pub size: Size,
    /// Bytes that have one tag, 64 B to 4 KiB; a power of two.
    pub block: Size,
    /// Where the tags are.
    pub tags: Tags,
    /// Writes under way at once, 1 to 1024; the controller hands over the next when there is room.
    pub writes: u32,
    /// The cache.
    pub near: Box<DeviceTiming>,
    /// What is cached.
    pub far: Box<DeviceTiming>,
}

/// Where the tags of a [`Cached`] device are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tags {
    /// With the data: the near memory is read to see them.
    Near,
    /// In the controller, at once.
    Controller,
}

/// A place of the near memory that is in use.
#[derive(Clone, Copy, Debug)]
struct Held {
    block: u64,
    /// Lines that the far device has not got; bit `n` is line `n` of the block.
    dirty: u64,
}

/// The device.
#[derive(Debug)]
pub(crate) struct CachedDevice {
    tags: Tags,
    places: u64,
    block_lines: u64,
    near: Box<dyn Device>,
    far: Box<dyn Device>,
    /// By place. As many entries as blocks were touched, at most as there are places.
    held: BTreeMap<u64, Held>,
    dirty_lines: u64,
    writes: Credits,
    /// Lines on their way to the near memory, and when they arrive.
    arriving: BinaryHeap<Reverse<(Time, u64)>>,
    /// Blocks that are not complete, and when they will be.
    incomplete: VecDeque<(u64, Time)>,
    controller_read_bytes: u64,
    controller_write_bytes: u64,
    hits: u64,
}

impl Cached {
    pub(super) fn check(&self) -> Result<(), Fault> {
        let block = self.block.0;
        if !block.is_power_of_two() || !(LINE_BYTES..=64 * LINE_BYTES).contains(&block) {
            return Err(Fault::new("block", self.block, "use a power of two from 64B to 4KiB"));
        }
        if self.size.0 == 0 || !self.size.0.is_multiple_of(block) {
            return Err(Fault::new("size", self.size, "use a multiple of the block"));
        }
        if !(1..=1024).contains(&self.writes) {
            return Err(Fault::new("writes", self.writes, "use 1 to 1024"));
        }
        self.near.check_within("near")?;
        self.far.check_within("far")
    }
}

impl CachedDevice {
    pub(crate) fn new(device: &DeviceConfig, config: &Cached, seed: u64) -> Self {
        CachedDevice {
            tags: config.tags,
            places: config.size.0 / config.block.0,
            block_lines: config.block.0 / LINE_BYTES,
            near: build(device, &config.near, seed ^ (1 << 56)),
            far: build(device, &config.far, seed),
            held: BTreeMap::new(),
            dirty_lines: 0,
            writes: Credits::new(config.writes),
            arriving: BinaryHeap::new(),
            incomplete: VecDeque::new(),
            controller_read_bytes: 0,
            controller_write_bytes: 0,
            hits: 0,
        }
    }

    /// Block, its place, and the line's number in the near memory.
    fn place(&self, line: u64) -> (u64, u64, u64) {
        let block = line / self.block_lines;
        let place = block % self.places;
        (block, place, place * self.block_lines + line % self.block_lines)
    }

    /// When the tags are known, and with tags in the near memory, also the data there.
    fn look(&mut self, at: Time, near_line: u64) -> Time {
        match self.tags {
            Tags::Near => self.near.read(at, near_line),
            Tags::Controller => at,
        }
    }

    /// Whether the place holds the block; if so, when all of the block is there.
    fn find(&mut self, at: Time, block: u64, place: u64) -> Option<Time> {
        if self.held.get(&place)?.block != block {
            return None;
        }
        self.hits += 1;
        let complete = self.incomplete.iter().find(|(other, _)| *other == block);
        Some(complete.map_or(at, |(_, complete)| at.max(*complete)))
    }

    /// Empties a place: what is dirty goes to the far device. Returns when that has taken it.
    fn evict(&mut self, at: Time, place: u64) -> Time {
        let Some(old) = self.held.remove(&place) else { return at };
        if old.dirty == 0 {
            return at;
        }
        self.dirty_lines -= u64::from(old.dirty.count_ones());
        // The whole block, so that the far device need not put it together from two versions.
        let mut taken = at;
        for within in 0..self.block_lines {
            // A block of one line came with its tag.
            let known = self.block_lines == 1 && self.tags == Tags::Near;
            let read = if known { at } else { self.near.read(at, place * self.block_lines + within) };
            taken = taken.max(self.far.write(read, old.block * self.block_lines + within, true));
        }
        taken
    }

    /// Fetches a block, `line` first. Returns when that line is there.
    fn fetch(&mut self, at: Time, line: u64) -> Time {
        let (block, place, near_line) = self.place(line);
        let wanted = self.far.read(at, line);
        let mut complete = wanted;
        self.arriving.push(Reverse((wanted, near_line)));
        for within in (0..self.block_lines).filter(|within| block * self.block_lines + within != line) {
            let there = self.far.read(at, block * self.block_lines + within);
            self.arriving.push(Reverse((there, place * self.block_lines + within)));
            complete = complete.max(there);
        }
        if self.block_lines > 1 {
            self.incomplete.push_back((block, complete));
        }
        self.held.insert(place, Held { block, dirty: 0 });
        wanted
    }

    fn soil(&mut self, block: u64, place: u64, line: u64) {
        let entry = self.held.entry(place).or_insert(Held { block, dirty: 0 });
        let bit = 1 << (line % self.block_lines);
        self.dirty_lines += u64::from(entry.dirty & bit == 0);
        entry.dirty |= bit;
    }
}

impl Device for CachedDevice {
    fn read(&mut self, at: Time, line: u64) -> Time {
        self.advance_to(at);
        self.controller_read_bytes += LINE_BYTES;
        let (block, place, near_line) = self.place(line);
        let known = self.look(at, near_line);
        if let Some(complete) = self.find(at, block, place) {
            return match self.tags {
                Tags::Near => known.max(complete),
                Tags::Controller => self.near.read(at, near_line).max(complete),
            };
        }
        // The fetch does not wait for the block that leaves: a buffer holds that meanwhile.
        self.evict(known, place);
        self.fetch(known, line)
    }

    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time {
        self.advance_to(at);
        self.controller_write_bytes += LINE_BYTES;
        let (block, place, near_line) = self.place(line);
        let taken = self.writes.granted(at);
        let known = self.look(taken, near_line);
        let mut done = known;
        if self.find(at, block, place).is_none() {
            done = done.max(self.evict(known, place));
            if self.block_lines > 1 || !whole {
                done = done.max(self.fetch(known, line));
            }
        }
        done = done.max(self.near.write(known, near_line, whole));
        self.writes.returns(done);
        self.soil(block, place, line);
        taken
    }

    fn advance_to(&mut self, at: Time) {
        while let Some(&Reverse((there, near_line))) = self.arriving.peek() {
            if there > at {
                break;
            }
            self.arriving.pop();
            self.near.write(there, near_line, true);
        }
        self.incomplete.retain(|(_, complete)| *complete > at);
        self.near.advance_to(at);
        self.far.advance_to(at);
    }

    fn drain(&mut self, at: Time) -> Time {
        self.advance_to(at);
        let last = self.arriving.drain().map(|Reverse((there, _))| there).max();
        let mut done = last.map_or(at, |there| at.max(there));
        let dirty: Vec<u64> =
            self.held.iter().filter(|(_, held)| held.dirty != 0).map(|(place, _)| *place).collect();
        for place in dirty {
            done = done.max(self.evict(done, place));
        }
        self.near.drain(done).max(self.far.drain(done))
    }

    fn traffic(&self) -> Traffic {
        let far = self.far.traffic();
        Traffic {
            controller_read_bytes: self.controller_read_bytes,
            controller_write_bytes: self.controller_write_bytes,
            buffer_hits: self.hits,
            ..far
        }
    }

    fn held_bytes(&self) -> u64 {
        self.dirty_lines * LINE_BYTES + self.far.held_bytes()
    }

    fn durable_bytes(&self) -> u64 {
        self.far.durable_bytes()
    }

    fn drain_time(&self) -> Time {
        self.far.drain_time()
    }

    fn counters(&self) -> DeviceCounters {
        self.far.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Delay;

    const NS: fn(u64) -> Time = Time::from_ns;

    fn delay(read: u64, write: u64) -> Box<DeviceTiming> {
        let config = Delay { read_latency: NS(read), write_latency: NS(write), line_transfer: NS(1) };
        Box::new(DeviceTiming::Delay(config))
    }

    /// Four places.
    fn cached(block: u64, tags: Tags) -> CachedDevice {
        CachedDevice::new(
            &crate::DeviceConfig::plain(),
            &Cached {
                size: Size(4 * block),
                block: Size(block),
                tags,
                writes: 1,
                near: delay(50, 10),
                far: delay(300, 90),
            },
            1,
        )
    }

    #[test]
    fn a_miss_reads_both_and_a_hit_the_near_memory() {
        let mut memory_mode = cached(64, Tags::Near);
        assert_eq!(memory_mode.read(NS(1000), 7), NS(1000 + 51 + 301));
        assert_eq!(memory_mode.read(NS(2000), 7), NS(2000 + 51));
        assert_eq!(memory_mode.read(NS(3000), 11), NS(3000 + 51 + 301), "the same place");
        assert_eq!(memory_mode.read(NS(4000), 7), NS(4000 + 51 + 301), "pushed out");
        let mut known = cached(64, Tags::Controller);
        assert_eq!(known.read(NS(1000), 7), NS(1000 + 301));
        assert_eq!(known.read(NS(2000), 7), NS(2000 + 51));
        assert_eq!(known.traffic().buffer_hits, 1);
    }

    #[test]
    fn a_dirty_block_is_written_back_when_its_place_is_taken() {
        let mut device = cached(64, Tags::Near);
        assert_eq!(device.write(NS(1000), 7, true), NS(1000));
        assert_eq!(device.write(NS(1000), 7, true), NS(1000 + 51 + 11), "tag, then data");
        assert_eq!((device.held_bytes(), device.traffic().media_write_bytes), (64, 0));
        assert_eq!(device.durable_bytes(), 0, "lost when power fails");
        assert_eq!(device.traffic().media_read_bytes, 0, "a whole line is not fetched");
        device.read(NS(2000), 11);
        assert_eq!((device.held_bytes(), device.traffic().media_write_bytes), (0, 64));
        device.read(NS(3000), 15);
        assert_eq!(device.traffic().media_write_bytes, 64, "clean blocks are dropped");
    }

    #[test]
    fn a_part_of_a_line_is_fetched_before_it_is_changed() {
        let mut device = cached(64, Tags::Near);
        device.write(NS(1000), 7, false);
        assert_eq!(device.traffic().media_read_bytes, 64);
    }

    #[test]
    fn a_block_comes_with_the_wanted_line_first() {
        let mut device = cached(256, Tags::Controller);
        assert_eq!(device.read(NS(1000), 2), NS(1000 + 301));
        assert_eq!(device.traffic().media_read_bytes, 256);
        assert_eq!(device.read(NS(1001), 3), NS(1000 + 304), "waits for the whole block");
        assert_eq!(device.read(NS(2000), 0), NS(2051));
    }

    #[test]
    fn a_write_back_is_the_whole_block_and_repeated_writes_reach_the_media_once() {
        let mut device = cached(256, Tags::Controller);
        for n in 0..100 {
            device.write(NS(1000 * (n + 1)), n % 2, true);
        }
        assert_eq!(device.held_bytes(), 128);
        device.drain(NS(200_000));
        assert_eq!((device.held_bytes(), device.traffic().media_write_bytes), (0, 256));
        assert_eq!(device.traffic().ewr(), Some(25.0));
    }
}
