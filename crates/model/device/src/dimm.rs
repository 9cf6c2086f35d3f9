//! One DIMM: media that is read and written in units, behind a small write-combining buffer.
//!
//! The controller speaks in lines of 64 B, the media in units (256 B on 3D XPoint). A line that arrives waits
//! in the buffer for the rest of its unit. If the rest comes in time, the unit is written once and whole; if
//! the unit has to make room first, what is missing must be read from the media before the unit can be
//! written, and the lines that come later cost another media write. Reads bring their unit into the same
//! buffer and so push others out. Write amplification is nothing but the count of these media writes.

use crate::{Buffer as BufferConfig, Cache, DeviceConfig, LINE_BYTES, Rng, Traffic, WriteOut};

/// A unit in the buffer, one bit per line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unit {
    /// Lines that the controller wrote and the media has not.
    new: u64,
    /// Of these, lines of which some bytes are still the media's.
    partial: u64,
    /// Whether the rest of the unit is here as well, so that nothing need be read to write it.
    present: bool,
}

#[derive(Clone, Debug)]
struct Buffer {
    units: Cache<Unit>,
    /// Per slot and line of the unit: who stored it.
    sites: Box<[u32]>,
    write_out: WriteOut,
}

/// The media and the count of what went to it.
#[derive(Clone, Debug)]
struct Media {
    unit_bytes: u64,
    traffic: Traffic,
    fill: Box<[u64]>,
    lines_out: u64,
}

/// The accounts of code sites, which share what media writes cost.
pub trait Shares {
    /// A site's part of a media write, in bytes; `partial` if not all of the unit was new.
    fn media_written(&mut self, site: u32, bytes: u64, partial: bool);

    /// The media writes unit `unit`, numbered within the DIMM.
    fn unit_written(&mut self, _unit: u64) {}
}

/// A DIMM without time.
#[derive(Clone, Debug)]
pub struct Dimm {
    media: Media,
    buffer: Option<Buffer>,
    /// Lines per unit, as a shift.
    unit_shift: u32,
    lines_in: u64,
    /// Of these, onto a line that was waiting already.
    lines_absorbed: u64,
}

impl Dimm {
    /// An empty buffer before `device`'s media.
    #[must_use]
    pub fn new(device: &DeviceConfig, rng: Rng) -> Self {
        let unit_lines = (device.unit.0 / LINE_BYTES) as usize;
        let buffer = |config: &BufferConfig| Buffer {
            units: Cache::new(1, config.lines as usize, config.replacement, rng),
            sites: vec![0; config.lines as usize * unit_lines].into(),
            write_out: config.write_out,
        };
        Dimm {
            media: Media {
                unit_bytes: device.unit.0,
                traffic: Traffic::default(),
                fill: vec![0; unit_lines].into(),
                lines_out: 0,
            },
            buffer: device.buffer.as_ref().map(buffer),
            unit_shift: unit_lines.trailing_zeros(),
            lines_in: 0,
            lines_absorbed: 0,
        }
    }

    /// The controller reads a line; lines are numbered within the DIMM.
    pub fn read(&mut self, line: u64, shares: &mut impl Shares) {
        self.media.traffic.controller_read_bytes += LINE_BYTES;
        let unit = line >> self.unit_shift;
        let Some(buffer) = &mut self.buffer else {
            self.media.read();
            return;
        };
        let (slot, _) = buffer.make_resident(unit, &mut self.media, shares);
        let held = &mut buffer.units.slots[slot].item;
        let bit = 1 << (line & self.media.line_mask());
        if held.present || held.new & !held.partial & bit != 0 {
            self.media.traffic.buffer_hits += 1;
        } else {
            self.media.read();
            held.present = true;
        }
    }

    /// The controller writes a line that `site` stored, all of it or (`whole` is false) a part.
    pub fn write(&mut self, line: u64, whole: bool, site: u32, shares: &mut impl Shares) {
        self.media.traffic.controller_write_bytes += LINE_BYTES;
        self.lines_in += 1;
        let within = line & self.media.line_mask();
        let bit = 1 << within;
        let Some(buffer) = &mut self.buffer else {
            let mut sites = [0; 64];
            sites[within as usize] = site;
            let mut alone = Unit { new: bit, partial: if whole { 0 } else { bit }, present: false };
            self.media.write(line >> self.unit_shift, &mut alone, &sites, shares);
            return;
        };
        let unit = line >> self.unit_shift;
        let (slot, resident) = buffer.make_resident(unit, &mut self.media, shares);
        self.media.traffic.buffer_hits += u64::from(resident);
        let held = &mut buffer.units.slots[slot].item;
        self.lines_absorbed += u64::from(held.new & bit != 0);
        let was_whole = held.present || held.new & !held.partial & bit != 0;
        held.new |= bit;
        if whole {
            held.partial &= !bit;
        } else if !was_whole {
            held.partial |= bit;
        }
        let first = slot << self.unit_shift;
        buffer.sites[first + within as usize] = site;
        if buffer.write_out == WriteOut::OnCompletion && self.media.complete(held) {
            self.media.write(unit, held, &buffer.sites[first..], shares);
        }
    }

    /// Writes everything that waits in the buffer to the media.
    pub fn drain(&mut self, shares: &mut impl Shares) {
        let Some(buffer) = &mut self.buffer else { return };
        for (slot, held) in buffer.units.slots.iter_mut().enumerate().filter(|(_, held)| held.item.new != 0) {
            let sites = &buffer.sites[slot << self.unit_shift..];
            self.media.write(held.tag, &mut held.item, sites, shares);
        }
    }

    /// Bytes moved so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.media.traffic
    }

    /// Media writes by lines that were new in them, from 1.
    #[must_use]
    pub fn fill(&self) -> &[u64] {
        &self.media.fill
    }

    /// Lines that wait for their media write.
    #[must_use]
    pub fn held_lines(&self) -> u64 {
        let new = |buffer: &Buffer| {
            buffer.units.slots.iter().map(|held| u64::from(held.item.new.count_ones())).sum()
        };
        self.buffer.as_ref().map_or(0, new)
    }

    /// The two sides of this component's balances, with what they are about.
    #[must_use]
    pub fn balances(&self) -> [(&'static str, u64, u64); 2] {
        let Media { traffic, lines_out, fill, unit_bytes } = &self.media;
        [
            (
                "lines in = absorbed + out + held",
                self.lines_in,
                self.lines_absorbed + lines_out + self.held_lines(),
            ),
            ("media bytes = units written", traffic.media_write_bytes, fill.iter().sum::<u64>() * unit_bytes),
        ]
    }
}

impl Buffer {
    /// The slot of `unit`, and whether it was here already. If not, it comes in; what has to leave is written
    /// out.
    fn make_resident(&mut self, unit: u64, media: &mut Media, shares: &mut impl Shares) -> (usize, bool) {
        if let Some(slot) = self.units.find(unit) {
            self.units.touch(slot);
            return (slot, true);
        }
        let (slot, evicted) = self.units.insert(unit, Unit::default());
        if let Some((tag, mut old)) = evicted.filter(|(_, old)| old.new != 0) {
            media.write(tag, &mut old, &self.sites[slot * media.fill.len()..], shares);
        }
        (slot, false)
    }
}

impl Media {
    fn line_mask(&self) -> u64 {
        self.fill.len() as u64 - 1
    }

    fn complete(&self, unit: &Unit) -> bool {
        unit.new.count_ones() as usize == self.fill.len() && unit.partial == 0
    }

    fn read(&mut self) {
        self.traffic.media_read_bytes += self.unit_bytes;
    }

    /// Writes a unit with something new in it; `sites` has the storing site of each line. The sites share the
    /// cost by the lines they contributed.
    fn write(&mut self, number: u64, unit: &mut Unit, sites: &[u32], shares: &mut impl Shares) {
        shares.unit_written(number);
        let complete = self.complete(unit);
        if !complete && !unit.present {
            self.read();
            self.traffic.read_modify_writes += 1;
        }
        self.traffic.media_write_bytes += self.unit_bytes;
        let lines = u64::from(unit.new.count_ones());
        self.lines_out += lines;
        self.fill[lines as usize - 1] += 1;
        let (share, mut rest) = (self.unit_bytes / lines, self.unit_bytes % lines);
        let mut left = unit.new;
        while left != 0 {
            let site = sites[left.trailing_zeros() as usize];
            shares.media_written(site, share + u64::from(rest > 0), !complete);
            rest = rest.saturating_sub(1);
            left &= left - 1;
        }
        *unit = Unit { new: 0, partial: 0, present: true };
    }
}
