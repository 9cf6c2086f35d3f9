//! A 3D XPoint DIMM, from its mechanisms.
//!
//! ```text
//!   channel ── combining queue ── buffer ── indirection ── media
//!              lines wait for     units     table          partitions, power
//!              the rest of        that were
//!              their unit         used last
//! ```
//!
//! **Writes** go into the combining queue, where lines of one unit find each other, and leave it by age or
//! because others need the room. What others push out is written to the media at once, whole or not. What
//! leaves by age goes into the buffer: if all lines of the unit are new then, it is written, and if not, it
//! waits there until the missing lines have come too or it has to make room. Whatever of a unit is neither
//! new nor in the buffer when it is written is fetched before (read-modify-write).
//!
//! **Reads** bring their whole unit into the buffer; the line that was asked for comes first. Slots whose
//! unit is being fetched, or is being written and stays readable, can't make room; the slot of a changed unit
//! that is written in order to make room is free when that write begins. So many streams, each with units
//! under way, leave little room for what they will want next.
//!
//! **The media** read faster than they write, have one way to the controller, and take power: the budget, and
//! nothing else, limits sustained writing. Every access first asks the indirection table, whose entries for a
//! part of the media are in DRAM on the DIMM.
//!
//! **Wear levelling** moves one unit after every so many (which costs bytes and power) and a whole block when
//! it gets hot (which stops whoever wants something of it). Heat pauses the DIMM now and then.
//!
//! This is not the buffer of `dimm.rs` with clocks. That one decides by the order of accesses alone, must
//! account for every line's code site, and lets any unit leave at any time; here it is time that decides what
//! has left already and what can't yet.
//!
//! Not modelled: what the controller of the real DIMM does is known from outside only. That partial units are
//! written at once if they were pushed out and kept if they left by age is an inference: bandwidth falls from
//! five writers on, as if sixteen units could be distinguished, while the halves of sixty-four units that are
//! written one after the other find each other. Nor do those who measured the device describe the combining
//! queue: public simulators have one.

mod buffer;
mod choice;
mod combining;
mod config;
mod media;
#[cfg(test)]
mod tests;
mod wear;

pub use config::{Combining, Media as XpointMedia, Power, Thermal, Translation, Wear, Xpoint};

use crate::timetable::{Direction, Timetable, Turnaround};
use crate::{
    Cache, Device, DeviceConfig, DeviceCounters, LINE_BYTES, Replacement, Rng, Time, Traffic, WriteOut,
};

use buffer::{Buffer, Room, Slot};
use combining::{Group, Queue};
use media::Media;
use wear::{Heat, Leveller};

/// Ways of a set of the indirection table's entries in DRAM.
const TRANSLATION_WAYS: u64 = 16;

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct XpointDevice {
    config: Xpoint,
    /// Lines per unit, as a shift.
    unit_shift: u32,
    on_completion: bool,
    channel: Timetable,
    queue: Queue,
    buffer: Buffer,
    table: Cache<()>,
    /// Units per entry of the table, as a shift.
    entry_shift: u32,
    media: Media,
    wear: Option<Leveller>,
    heat: Option<Heat>,
    traffic: Traffic,
    counters: DeviceCounters,
    lines: Lines,
}

/// The account of written lines.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    /// From the controller.
    taken: u64,
    /// Of these, onto a line that waited already.
    absorbed: u64,
    /// To the media.
    written: u64,
}

impl XpointDevice {
    pub(crate) fn new(device: &DeviceConfig, config: &Xpoint, seed: u64) -> Self {
        let unit_shift = (device.unit.0 / LINE_BYTES).trailing_zeros();
        let (units, write_out) = device
            .buffer
            .as_ref()
            .map_or((1, WriteOut::OnCompletion), |buffer| (buffer.lines, buffer.write_out));
        let entries = config.translation.buffer.0 / config.translation.entry.0;
        let ways = entries.min(TRANSLATION_WAYS);
        let rng = |part: u64| Rng::new(seed ^ part << 48);
        XpointDevice {
            unit_shift,
            on_completion: write_out == WriteOut::OnCompletion,
            channel: Timetable::new(Turnaround::default()),
            queue: Queue::new(&config.combining, rng(1)),
            buffer: Buffer::new(units as usize, config.buffer_replacement, rng(2)),
            table: Cache::new((entries / ways) as usize, ways as usize, Replacement::Lru, rng(3)),
            entry_shift: (config.translation.entry.0 / device.unit.0).max(1).trailing_zeros(),
            media: Media::new(&config.media, config.power.as_ref()),
            wear: config.wear.as_ref().map(Leveller::new),
            heat: config.thermal.as_ref().map(|thermal| Heat::new(thermal, rng(4))),
            traffic: Traffic::default(),
            counters: DeviceCounters::default(),
            lines: Lines::default(),
            config: config.clone(),
        }
    }

    /// Number of the unit of a line, and the line's bit in it.
    fn unit(&self, line: u64) -> (u64, u64) {
        (line >> self.unit_shift, 1 << (line & self.unit_mask()))
    }

    fn unit_mask(&self) -> u64 {
        (1 << self.unit_shift) - 1
    }

    /// The bits of all lines of a unit.
    fn whole(&self) -> u64 {
        u64::MAX >> (64 - (1u32 << self.unit_shift))
    }

    fn unit_bytes(&self) -> u64 {
        LINE_BYTES << self.unit_shift
    }

    /// Until when the table has said where `unit` is, if asked at `at`.
    fn translate(&mut self, at: Time, unit: u64) -> Time {
        let entry = unit >> self.entry_shift;
        let known = at + self.config.translation.lookup;
        if let Some(slot) = self.table.find(entry) {
            self.table.touch(slot);
            return known;
        }
        self.counters.translation_misses += 1;
        self.table.insert(entry, ());
        known + self.config.translation.miss
    }

    /// A slot for `unit`, and when it is free.
    fn allocate(&mut self, mut at: Time, unit: u64) -> (usize, Time) {
        loop {
            match self.buffer.room(at) {
                Room::Unused => return (self.buffer.put(None, unit), at),
                Room::Later(when) => at = when,
                Room::Of(slot) => {
                    if self.buffer.slot(slot).new != 0 {
                        self.counters.dirty_evictions += 1;
                        at = self.write_out(slot, at);
                    }
                    return (self.buffer.put(Some(slot), unit), at);
                }
            }
        }
    }

    /// Fetches the rest of the unit in `slot`; its line `within` first. `to_write` says that it is then
    /// written.
    fn fetch(&mut self, at: Time, slot: usize, within: u64, to_write: bool) {
        let unit = self.buffer.slot(slot).unit;
        let known = self.translate(at, unit);
        let arrival = self.media.read(known, unit, self.unit_mask() + 1, to_write);
        self.traffic.media_read_bytes += self.unit_bytes();
        let held = self.buffer.slot(slot);
        (held.present, held.partial) = (true, 0);
        held.here = held.here.max(arrival.all);
        held.first = (within, arrival.first);
        held.busy = held.busy.max(arrival.all);
    }

    /// Writes the unit in `slot` to the media; what is missing of it is fetched first. Returns when the media
    /// can begin, so that who waits for room may go on.
    fn write_out(&mut self, slot: usize, at: Time) -> Time {
        let begun = self.media.writable(at);
        if !self.complete(slot) {
            self.traffic.read_modify_writes += 1;
            self.fetch(begun, slot, 0, true);
        }
        let held = *self.buffer.slot(slot);
        // A unit is not written twice at the same time.
        let done = self.media.write(begun.max(held.here).max(held.busy), held.unit);
        self.traffic.media_write_bytes += self.unit_bytes();
        self.lines.written += u64::from(held.new.count_ones());
        let held = self.buffer.slot(slot);
        (held.new, held.partial, held.present, held.busy) = (0, 0, true, done);
        if self.wear.as_mut().is_some_and(Leveller::gap_moves) {
            self.media.moved(begun);
            self.traffic.media_read_bytes += self.unit_bytes();
            self.traffic.media_write_bytes += self.unit_bytes();
            self.counters.moved_bytes += self.unit_bytes();
        }
        if let Some(heat) = &mut self.heat {
            heat.written(begun);
        }
        begun
    }

    /// Whether nothing of the unit in `slot` need be fetched to write it.
    fn complete(&mut self, slot: usize) -> bool {
        let whole = self.whole();
        let held = self.buffer.slot(slot);
        held.present || held.new == whole && held.partial == 0
    }

    /// What left the queue goes on: into the buffer, and from there to the media if the unit is new as a
    /// whole or if others pushed it out of the queue (`for_room`). Returns when its place in the queue is
    /// free.
    fn pass_on(&mut self, at: Time, group: Group, for_room: bool) -> Time {
        let (slot, free) = match self.buffer.find(group.unit) {
            Some(slot) => (slot, at),
            None => self.allocate(at, group.unit),
        };
        self.buffer.touch(slot);
        let whole = self.whole();
        let held = self.buffer.slot(slot);
        self.lines.absorbed += u64::from((held.new & group.new).count_ones());
        if !held.present {
            let known = held.new & !held.partial;
            held.partial = (held.partial | group.partial & !known) & !(group.new & !group.partial);
        }
        held.new |= group.new;
        held.here = held.here.max(free);
        let all_new = held.new == whole && held.partial == 0;
        if for_room || all_new && self.on_completion { self.write_out(slot, free) } else { free }
    }

    /// Lets out what is old enough.
    fn advance(&mut self, to: Time) {
        while let Some(due) = self.queue.due() {
            let begin = self.media.writable(due);
            if begin > to {
                break;
            }
            let Some(group) = self.queue.take_oldest() else { break };
            self.pass_on(begin, group, false);
        }
    }

    /// From when on the DIMM takes requests for a line.
    fn open(&mut self, at: Time, line: u64) -> Time {
        let at = self.heat.as_mut().map_or(at, |heat| heat.free(at));
        self.wear.as_mut().map_or(at, |wear| wear.free(at, line * LINE_BYTES))
    }

    /// The two sides of this device's balances, with what they are about.
    #[cfg(test)]
    fn balances(&self) -> [(&'static str, u64, u64); 2] {
        let held = self.held_bytes() / LINE_BYTES;
        [
            (
                "lines taken = absorbed + written + held",
                self.lines.taken,
                self.lines.absorbed + self.lines.written + held,
            ),
            (
                "controller bytes = lines taken",
                self.traffic.controller_write_bytes,
                self.lines.taken * LINE_BYTES,
            ),
        ]
    }
}

impl Device for XpointDevice {
    fn read(&mut self, at: Time, line: u64) -> Time {
        self.advance(at);
        self.traffic.controller_read_bytes += LINE_BYTES;
        let (unit, bit) = self.unit(line);
        let open = self.open(at, line) + self.config.controller;
        let within = line & self.unit_mask();
        let data = if self.queue.find(unit).is_some_and(|group| group.new & !group.partial & bit != 0) {
            self.traffic.buffer_hits += 1;
            open
        } else {
            let held = self.buffer.find(unit);
            let (slot, free) = held.map_or_else(|| self.allocate(open, unit), |slot| (slot, open));
            self.buffer.touch(slot);
            let held = self.buffer.slot(slot);
            if held.present || held.new & !held.partial & bit != 0 {
                self.traffic.buffer_hits += 1;
            } else {
                self.fetch(free, slot, within, false);
            }
            let held = self.buffer.slot(slot);
            if held.first.0 == within { open.max(held.first.1.min(held.here)) } else { open.max(held.here) }
        };
        let transfer = self.config.line_transfer;
        self.channel.reserve(at, data, transfer, Direction::Read) + transfer
    }

    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time {
        self.advance(at);
        self.traffic.controller_write_bytes += LINE_BYTES;
        self.lines.taken += 1;
        let (unit, bit) = self.unit(line);
        let mut open = self.heat.as_mut().map_or(at, |heat| heat.free(at));
        if let Some(wear) = &mut self.wear {
            let (free, moved) = wear.arrives(open, line * LINE_BYTES);
            open = free;
            self.traffic.media_read_bytes += moved;
            self.traffic.media_write_bytes += moved;
            self.counters.moved_bytes += moved;
        }
        let transfer = self.config.line_transfer;
        let mut taken = self.channel.reserve(at, open, transfer, Direction::Write) + transfer;
        self.advance(taken);
        while self.queue.full(unit, bit) {
            let begin = self.media.writable(taken);
            let Some(group) = self.queue.take_chosen() else { break };
            taken = self.pass_on(begin, group, true);
        }
        let absorbed = self.queue.put(taken, unit, bit, whole);
        self.traffic.buffer_hits += u64::from(absorbed);
        self.lines.absorbed += u64::from(absorbed);
        taken
    }

    fn advance_to(&mut self, at: Time) {
        self.advance(at);
    }

    fn drain(&mut self, at: Time) -> Time {
        while let Some(group) = self.queue.take_oldest() {
            let begin = self.media.writable(at);
            self.pass_on(begin, group, true);
        }
        for slot in 0..self.buffer.slots().len() {
            if self.buffer.slot(slot).new != 0 {
                self.write_out(slot, at);
            }
        }
        self.media.quiet.max(at)
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn held_bytes(&self) -> u64 {
        let buffered: u32 = self.buffer.slots().iter().map(|slot| slot.new.count_ones()).sum();
        u64::from(self.queue.lines() + buffered) * LINE_BYTES
    }

    fn drain_time(&self) -> Time {
        let in_slot = |unit| self.buffer.slots().iter().find(|slot| slot.unit == unit);
        let known = |new, partial| new == self.whole() && partial == 0;
        let waiting = self.queue.groups().iter().map(|group| match in_slot(group.unit) {
            Some(slot) => {
                let partial = (group.partial & !slot.new)
                    | (slot.partial & !group.new)
                    | (group.partial & slot.partial);
                slot.present || known(group.new | slot.new, partial)
            }
            None => known(group.new, group.partial),
        });
        let alone = |slot: &&Slot| slot.new != 0 && self.queue.find(slot.unit).is_none();
        let buffered = self.buffer.slots().iter().filter(alone);
        let complete = waiting.chain(buffered.map(|slot| slot.present || known(slot.new, slot.partial)));
        // Each unit is written once; what is not here of it is read before.
        let (writes, reads) =
            complete.fold((0, 0), |(writes, reads), complete| (writes + 1, reads + u64::from(!complete)));
        self.media.time_for(writes, reads)
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters {
            wear: self.wear.as_ref().map_or_else(Default::default, |wear| wear.stalls),
            heat: self.heat.as_ref().map_or_else(Default::default, |heat| heat.stalls),
            ..self.counters
        }
    }
}
