//! Flash as memory: dies that read and program pages, each with a register of one page.
//!
//! A line is read from the register of its die; another page must be loaded into it first. A written line
//! goes into the register, too, and the page is programmed when the register is wanted for another or all of
//! the page is new. A page of which a part was written is completed by a read before. Consecutive pages lie
//! on different dies.
//!
//! Not modelled: erasing and garbage collection (the mapping of a log-structured translation layer), wear,
//! the channels between dies and controller beyond one common bandwidth.

use serde::{Deserialize, Serialize};

use crate::timetable::{Direction, Timetable, Turnaround};
use crate::{Device, Fault, LINE_BYTES, Size, Time, Traffic, check_times};

/// Lines of the largest page.
const PAGE_LINES_MAX: usize = 256;

/// The numbers of a flash device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Dies that work side by side, 1 to 4096.
    pub dies: u32,
    /// Bytes that are read or programmed at once, 64 B to 16 KiB; a power of two.
    pub page: Size,
    /// From the media into the register.
    pub read: Time,
    /// From the register into the media.
    pub program: Time,
    /// 64 B between controller and dies.
    pub line: Time,
}

/// A register.
#[derive(Clone, Debug, Default)]
struct Die {
    /// The page in the register.
    page: Option<u64>,
    /// Whether all of it was read or written, not only the new lines.
    complete: bool,
    /// Lines that the media does not have.
    new: [u64; PAGE_LINES_MAX / 64],
    /// When the media is done with what was asked of it.
    free: Time,
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct FlashDevice {
    config: Flash,
    page_lines: u64,
    dies: Vec<Die>,
    bus: Timetable,
    traffic: Traffic,
}

impl Flash {
    pub(super) fn check(&self) -> Result<(), Fault> {
        if !(1..=4096).contains(&self.dies) {
            return Err(Fault::new("dies", self.dies, "use 1 to 4096"));
        }
        let largest = PAGE_LINES_MAX as u64 * LINE_BYTES;
        if !self.page.0.is_power_of_two() || !(LINE_BYTES..=largest).contains(&self.page.0) {
            return Err(Fault::new("page", self.page, "use a power of two from 64B to 16KiB"));
        }
        check_times(&[("read", self.read), ("program", self.program), ("line", self.line)])
    }
}

impl Die {
    fn new_lines(&self) -> u64 {
        self.new.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

impl FlashDevice {
    pub(crate) fn new(config: &Flash) -> Self {
        FlashDevice {
            page_lines: config.page.0 / LINE_BYTES,
            dies: vec![Die::default(); config.dies as usize],
            bus: Timetable::new(Turnaround::default()),
            traffic: Traffic::default(),
            config: config.clone(),
        }
    }

    /// Die, page and line within the page.
    fn place(&self, line: u64) -> (usize, u64, u64) {
        let page = line / self.page_lines;
        ((page % self.dies.len() as u64) as usize, page, line % self.page_lines)
    }

    /// Programs what is new in the register. Returns when the register is free.
    fn program(&mut self, at: Time, die: usize) -> Time {
        let register = &mut self.dies[die];
        let mut ready = at.max(register.free);
        let new = register.new_lines();
        if new == 0 {
            return ready;
        }
        if new < self.page_lines && !register.complete {
            self.traffic.read_modify_writes += 1;
            self.traffic.media_read_bytes += self.config.page.0;
            ready += self.config.read;
        }
        self.traffic.media_write_bytes += self.config.page.0;
        ready += self.config.program;
        register.new = Default::default();
        register.complete = true;
        register.free = ready;
        ready
    }

    fn transfer(&mut self, now: Time, ready: Time, direction: Direction) -> Time {
        self.bus.reserve(now, ready, self.config.line, direction) + self.config.line
    }
}

impl Device for FlashDevice {
    fn read(&mut self, at: Time, line: u64) -> Time {
        self.traffic.controller_read_bytes += LINE_BYTES;
        let (die, page, within) = self.place(line);
        let register = &self.dies[die];
        let bit = register.new[(within / 64) as usize] >> (within % 64) & 1;
        let there = register.page == Some(page) && (register.complete || bit == 1);
        self.traffic.buffer_hits += u64::from(there);
        if !there {
            // A page that is there in part is completed by what the media has.
            let mut ready = at.max(register.free);
            if register.page != Some(page) {
                ready = self.program(at, die);
            }
            self.traffic.media_read_bytes += self.config.page.0;
            let register = &mut self.dies[die];
            register.page = Some(page);
            register.complete = true;
            register.free = ready + self.config.read;
        }
        let ready = self.dies[die].free.max(at);
        self.transfer(at, ready, Direction::Read)
    }

    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time {
        self.traffic.controller_write_bytes += LINE_BYTES;
        let (die, page, within) = self.place(line);
        let mut ready = at.max(self.dies[die].free);
        if self.dies[die].page != Some(page) {
            ready = self.program(at, die);
            self.dies[die].page = Some(page);
            self.dies[die].complete = false;
        }
        if !whole && !self.dies[die].complete {
            self.traffic.read_modify_writes += 1;
            self.traffic.media_read_bytes += self.config.page.0;
            ready += self.config.read;
            self.dies[die].complete = true;
            self.dies[die].free = ready;
        }
        let taken = self.transfer(at, ready, Direction::Write);
        let register = &mut self.dies[die];
        register.new[(within / 64) as usize] |= 1 << (within % 64);
        register.free = register.free.max(taken);
        if register.new_lines() == self.page_lines {
            self.program(taken, die);
        }
        taken
    }

    fn advance_to(&mut self, _at: Time) {}

    fn drain(&mut self, at: Time) -> Time {
        let dies = 0..self.dies.len();
        dies.map(|die| self.program(at, die)).max().unwrap_or(at).max(self.bus.last())
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn held_bytes(&self) -> u64 {
        self.dies.iter().map(Die::new_lines).sum::<u64>() * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Time = |us| Time::from_ns(us * 1000);

    /// Two dies, pages of four lines.
    fn flash() -> FlashDevice {
        FlashDevice::new(&Flash { dies: 2, page: Size(256), read: US(40), program: US(400), line: US(1) })
    }

    #[test]
    fn a_page_is_loaded_once_for_all_its_lines() {
        let mut device = flash();
        assert_eq!(device.read(US(1000), 0), US(1000 + 40 + 1));
        assert_eq!(device.read(US(2000), 3), US(2000 + 1));
        assert_eq!(device.read(US(3000), 8), US(3000 + 40 + 1), "the next page of the same die");
        assert_eq!(device.traffic().media_read_bytes, 512);
    }

    #[test]
    fn a_full_page_is_programmed_at_once_and_a_partial_one_completed_first() {
        let mut device = flash();
        for line in 0..4 {
            assert_eq!(device.write(US(1000 + line), line, true), US(1001 + line));
        }
        assert_eq!((device.held_bytes(), device.traffic().media_write_bytes), (0, 256));
        assert_eq!(device.write(US(1010), 8, true), US(1004 + 400 + 1), "the die is busy");
        assert_eq!(device.held_bytes(), 64);
        assert_eq!(device.drain(US(2000)), US(2000 + 40 + 400));
        let traffic = device.traffic();
        assert_eq!((traffic.read_modify_writes, traffic.media_write_bytes), (1, 512));
    }

    #[test]
    fn dies_work_side_by_side() {
        let mut device = flash();
        device.read(US(1000), 0);
        assert_eq!(device.read(US(1000), 4), US(1000 + 40 + 2), "only the bus is shared");
    }

    #[test]
    fn what_was_just_written_is_read_from_the_register() {
        let mut device = flash();
        device.write(US(1000), 1, true);
        assert_eq!(device.read(US(1005), 1), US(1006));
        assert_eq!(device.read(US(1010), 2), US(1010 + 40 + 1), "its neighbour is on the media");
        device.drain(US(5000));
        assert_eq!(device.traffic().read_modify_writes, 0, "the page was complete by then");
    }
}
