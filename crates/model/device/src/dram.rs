//! A channel of DRAM: ranks of banks, each with one open row, behind one data bus.
//!
//! An access to an open row is a column command and a burst on the bus. Another row has to be closed
//! (precharge) and opened (activate) first. Banks do this side by side; the bus takes one burst at a time,
//! and pauses when the direction changes. The scheduler therefore gathers writes and lets them out in
//! batches, row by row, while reads go at once. It may serve what is ready before what came first, but never
//! moves what it has promised.
//!
//! Consecutive lines take turns among the bank groups, because column commands to one group keep a larger
//! distance ([`Dram::t_ccd`]) than bursts take. Above them come the columns, then the banks of a group, then
//! the ranks. Which of all banks it is then also depends on all bits of the row, so that streams of equal
//! alignment do not meet in one bank.
//!
//! Not modelled: the command bus, the limit of activations per window (tFAW, tRRD), power-down.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::timetable::{Direction, Timetable, Turnaround};
use crate::{Device, Fault, LINE_BYTES, Size, Time, Traffic, check_times};

/// The numbers of a channel of DRAM, as data sheets call them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Ranks on the channel, all DIMMs together; a power of two.
    pub ranks: u32,
    /// Bank groups of a rank; a power of two.
    pub bank_groups: u32,
    /// Banks of a group; a power of two.
    pub banks: u32,
    /// Bytes of a row over all chips of a rank; a power of two.
    pub row: Size,
    /// tRCD: from opening a row to the column command.
    pub t_rcd: Time,
    /// tCL: from the column command of a read to its data.
    pub t_cl: Time,
    /// tCWL: from the column command of a write to its data.
    pub t_cwl: Time,
    /// tRP: to close a row.
    pub t_rp: Time,
    /// tRAS: a row stays open at least this long.
    pub t_ras: Time,
    /// tBL: 64 B on the data bus.
    pub t_bl: Time,
    /// tCCD_L: from one column command to the next in the same bank group.
    pub t_ccd: Time,
    /// tRTP: from the column command of a read to closing the row.
    pub t_rtp: Time,
    /// tWR: from the last datum of a write to closing the row.
    pub t_wr: Time,
    /// The bus is silent for so long between the data of a read and those of a write.
    pub read_to_write: Time,
    /// And between the data of a write and those of a read.
    pub write_to_read: Time,
    /// tRTRS: the bus is silent for so long between the data of two ranks. Default: 0.
    #[serde(default)]
    pub rank_to_rank: Time,
    /// tREFI: each rank is refreshed once in this time. Absent for media that need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_refi: Option<Time>,
    /// tRFC: and can't be used for so long, after which its rows are closed.
    #[serde(default)]
    pub t_rfc: Time,
    /// A row that was not used for so long is closed. Absent: rows stay open until another row of the bank is
    /// wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_timeout: Option<Time>,
    /// Writes that the scheduler holds, gathered or on their way to the chips, 1 to 1024.
    pub write_queue: u32,
    /// Writes that are gathered before they are let out together; 1 lets each out at once. At most
    /// [`Dram::write_queue`].
    pub write_batch: u32,
    /// But none waits longer than this.
    pub write_wait: Time,
    /// Whether a write to a line that is gathered already changes that one, instead of being gathered beside it.
    #[serde(default)]
    pub write_merge: bool,
}

/// What a bank is doing. All times are the earliest for the next command of that kind.
#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    /// The open row.
    row: Option<u64>,
    /// Refreshes of the rank before the row was opened.
    refreshes: u64,
    used: Time,
    activate: Time,
    column: Time,
    precharge: Time,
}

/// A gathered write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gathered {
    since: Time,
    line: u64,
    whole: bool,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: usize,
    group: usize,
    bank: usize,
    row: u64,
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct DramDevice {
    config: Dram,
    banks: Vec<Bank>,
    /// By bank group: the next column command.
    groups: Vec<Time>,
    bus: Timetable,
    gathered: Vec<Gathered>,
    /// When writes that were let out are through, earliest first.
    on_their_way: VecDeque<Time>,
    traffic: Traffic,
}

impl Dram {
    /// The first number that no device can have.
    fn check_times(&self) -> Result<(), Fault> {
        check_times(&[
            ("t_rcd", self.t_rcd),
            ("t_cl", self.t_cl),
            ("t_cwl", self.t_cwl),
            ("t_rp", self.t_rp),
            ("t_ras", self.t_ras),
            ("t_bl", self.t_bl),
            ("t_ccd", self.t_ccd),
            ("t_rtp", self.t_rtp),
            ("t_wr", self.t_wr),
            ("read_to_write", self.read_to_write),
            ("write_to_read", self.write_to_read),
            ("rank_to_rank", self.rank_to_rank),
            ("t_refi", self.t_refi.unwrap_or_default()),
            ("t_rfc", self.t_rfc),
            ("row_timeout", self.row_timeout.unwrap_or_default()),
            ("write_wait", self.write_wait),
        ])
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        self.check_times()?;
        let counts = [("ranks", self.ranks), ("bank_groups", self.bank_groups), ("banks", self.banks)];
        for (key, value) in counts {
            if !value.is_power_of_two() || value > 64 {
                return Err(Fault::new(key, value, "use a power of two, at most 64"));
            }
        }
        if !self.row.0.is_power_of_two() || !(LINE_BYTES..=1 << 20).contains(&self.row.0) {
            return Err(Fault::new("row", self.row, "use a power of two from 64B to 1MiB"));
        }
        if self.t_bl == Time::ZERO {
            return Err(Fault::new("t_bl", self.t_bl, "a burst takes time: 3ns are 21.3 GB/s"));
        }
        if self.t_refi.is_some_and(|interval| interval <= self.t_rfc) {
            return Err(Fault::new("t_rfc", self.t_rfc, "a refresh must be shorter than t_refi"));
        }
        if !(1..=1024).contains(&self.write_queue) {
            return Err(Fault::new("write_queue", self.write_queue, "use 1 to 1024"));
        }
        if !(1..=self.write_queue).contains(&self.write_batch) {
            return Err(Fault::new("write_batch", self.write_batch, "use 1 to write_queue"));
        }
        Ok(())
    }

    /// Where a line is; see the head of this file.
    fn place(&self, line: u64) -> Place {
        let mut rest = line;
        let mut take = |count: u64| {
            let part = rest % count;
            rest /= count;
            part
        };
        let (groups, banks, ranks) =
            (u64::from(self.bank_groups), u64::from(self.banks), u64::from(self.ranks));
        let group = take(groups);
        take(self.row.0 / LINE_BYTES);
        let bank = take(banks);
        let rank = take(ranks);
        let row = rest;
        // All counts are powers of two, so that exchanging bits keeps every place in its range.
        let mut unit = ((rank * banks + bank) * groups + group) ^ folded(row, groups * banks * ranks);
        let mut part = |count: u64| {
            let part = unit % count;
            unit /= count;
            part as usize
        };
        let (group, bank) = (part(groups), part(banks));
        Place { rank: part(ranks), group, bank, row }
    }

    /// How often `rank` was refreshed before `at`, and the end of a refresh that is going on then.
    fn refreshes(&self, rank: usize, at: Time) -> (u64, Option<Time>) {
        let Some(interval) = self.t_refi else { return (0, None) };
        // The ranks take turns.
        let phase = interval.0 * (rank as u64 + 1) / u64::from(self.ranks);
        let Some(past) = at.0.checked_sub(phase) else { return (0, None) };
        let begun = past / interval.0;
        let end = Time(phase + begun * interval.0) + self.t_rfc;
        (begun + 1, (at < end).then_some(end))
    }
}

/// All bits of a row's number in as few as `count`, a power of two, has.
fn folded(row: u64, count: u64) -> u64 {
    let (mut rest, mut fold) = (row, 0);
    while count > 1 && rest > 0 {
        fold ^= rest % count;
        rest /= count;
    }
    fold
}

impl DramDevice {
    pub(crate) fn new(config: &Dram) -> Self {
        let groups = (config.ranks * config.bank_groups) as usize;
        let turnaround = Turnaround {
            read_to_write: config.read_to_write,
            write_to_read: config.write_to_read,
            source: config.rank_to_rank,
        };
        DramDevice {
            banks: vec![Bank::default(); groups * config.banks as usize],
            groups: vec![Time::ZERO; groups],
            bus: Timetable::new(turnaround),
            gathered: Vec::with_capacity(config.write_batch as usize),
            on_their_way: VecDeque::with_capacity(config.write_queue as usize),
            traffic: Traffic::default(),
            config: config.clone(),
        }
    }

    /// One burst. Returns when its last datum is on the bus.
    fn burst(&mut self, now: Time, earliest: Time, line: u64, direction: Direction) -> Time {
        let place = self.config.place(line);
        let group = place.rank * self.config.bank_groups as usize + place.group;
        let at = group * self.config.banks as usize + place.bank;
        let command = self.open(at, place, earliest).max(self.groups[group]);
        let config = &self.config;
        let to_data = match direction {
            Direction::Read => config.t_cl,
            Direction::Write => config.t_cwl,
        };
        let data = self.bus.reserve_from(place.rank, now, command + to_data, config.t_bl, direction);
        let (command, done) = (data - to_data, data + config.t_bl);
        let bank = &mut self.banks[at];
        bank.used = command;
        bank.column = command + config.t_ccd;
        self.groups[group] = command + config.t_ccd;
        let closable = match direction {
            Direction::Read => command + config.t_rtp,
            Direction::Write => done + config.t_wr,
        };
        bank.precharge = bank.precharge.max(closable);
        done
    }

    /// Opens the row of `place` if it is not open. Returns when the bank can take the column command.
    fn open(&mut self, bank: usize, place: Place, at: Time) -> Time {
        let config = &self.config;
        let bank = &mut self.banks[bank];
        let column = at.max(bank.column);
        let (refreshes, _) = config.refreshes(place.rank, column);
        let timed_out = config.row_timeout.is_some_and(|timeout| bank.used + timeout < column);
        if bank.row == Some(place.row) && bank.refreshes == refreshes && !timed_out {
            return column;
        }
        let precharge = if bank.refreshes != refreshes {
            // Closed before the refresh.
            Time::ZERO
        } else if timed_out {
            config.row_timeout.map_or(Time::ZERO, |timeout| bank.precharge.max(bank.used + timeout))
        } else {
            bank.precharge.max(at)
        };
        let free = if bank.row.is_some() { precharge + config.t_rp } else { Time::ZERO };
        let mut activate = at.max(bank.activate).max(free);
        if let (_, Some(end)) = config.refreshes(place.rank, activate) {
            activate = end;
        }
        bank.row = Some(place.row);
        (bank.refreshes, _) = config.refreshes(place.rank, activate);
        bank.activate = activate + config.t_ras + config.t_rp;
        bank.precharge = activate + config.t_ras;
        bank.used = activate;
        activate + config.t_rcd
    }

    /// Lets all gathered writes out, row by row. Returns when the last of them is through.
    fn let_out(&mut self, at: Time) -> Time {
        let mut batch = std::mem::take(&mut self.gathered);
        // The sort is stable: writes to one line stay in order.
        batch.sort_by_key(|write| self.config.place(write.line));
        let mut last = at;
        for write in &batch {
            let mut ready = at;
            if !write.whole {
                // The error-correcting code is over more than the new bytes.
                self.traffic.read_modify_writes += 1;
                self.traffic.media_read_bytes += LINE_BYTES;
                ready = self.burst(at, ready, write.line, Direction::Read);
            }
            let done = self.burst(at, ready, write.line, Direction::Write);
            self.traffic.media_write_bytes += LINE_BYTES;
            let place = self.on_their_way.partition_point(|other| *other <= done);
            self.on_their_way.insert(place, done);
            last = last.max(done);
        }
        batch.clear();
        self.gathered = batch;
        last
    }
}

impl Device for DramDevice {
    fn read(&mut self, at: Time, line: u64) -> Time {
        self.advance_to(at);
        self.traffic.controller_read_bytes += LINE_BYTES;
        if self.gathered.iter().any(|write| write.line == line) {
            self.traffic.buffer_hits += 1;
            return at;
        }
        self.traffic.media_read_bytes += LINE_BYTES;
        self.burst(at, at, line, Direction::Read)
    }

    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time {
        self.advance_to(at);
        self.traffic.controller_write_bytes += LINE_BYTES;
        if self.config.write_merge
            && let Some(same) = self.gathered.iter_mut().find(|write| write.line == line)
        {
            same.whole |= whole;
            self.traffic.buffer_hits += 1;
            return at;
        }
        while self.on_their_way.front().is_some_and(|done| *done <= at) {
            self.on_their_way.pop_front();
        }
        let held = self.gathered.len() + self.on_their_way.len();
        let taken = match held.checked_sub(self.config.write_queue as usize) {
            None => at,
            Some(more) => self.on_their_way.get(more).map_or(at, |done| at.max(*done)),
        };
        self.gathered.push(Gathered { since: taken, line, whole });
        if self.gathered.len() == self.config.write_batch as usize {
            self.let_out(taken);
        }
        taken
    }

    fn advance_to(&mut self, at: Time) {
        let Some(oldest) = self.gathered.first() else { return };
        let due = oldest.since + self.config.write_wait;
        if due <= at {
            self.let_out(due);
        }
    }

    fn drain(&mut self, at: Time) -> Time {
        self.let_out(at).max(self.bus.last())
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn held_bytes(&self) -> u64 {
        self.gathered.len() as u64 * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NS: fn(u64) -> Time = Time::from_ns;

    /// Round numbers, one rank of two groups of two banks with rows of four lines, no refresh.
    fn small() -> Dram {
        Dram {
            ranks: 1,
            bank_groups: 2,
            banks: 2,
            row: Size(256),
            t_rcd: NS(14),
            t_cl: NS(13),
            t_cwl: NS(10),
            t_rp: NS(15),
            t_ras: NS(32),
            t_bl: NS(3),
            t_ccd: NS(5),
            t_rtp: NS(7),
            t_wr: NS(16),
            read_to_write: NS(2),
            write_to_read: NS(21),
            rank_to_rank: NS(0),
            t_refi: None,
            t_rfc: NS(0),
            row_timeout: None,
            write_queue: 64,
            write_batch: 1,
            write_wait: NS(1000),
            write_merge: false,
        }
    }

    /// Lines 0, 2, 4, 6 are one row of a bank of group 0; this one is of the same bank's next row.
    const OTHER_ROW: u64 = 17;

    #[test]
    fn lines_lie_where_the_head_of_the_file_says() {
        let place = |line| small().place(line);
        assert_eq!(place(0), Place { rank: 0, group: 0, bank: 0, row: 0 });
        assert_eq!(place(1).group, 1);
        assert_eq!(place(6), place(0));
        assert_eq!(place(8), Place { bank: 1, ..place(0) });
        assert_eq!(place(16), Place { group: 1, row: 1, ..place(0) });
        assert_eq!(place(OTHER_ROW), Place { row: 1, ..place(0) });
    }

    #[test]
    fn every_line_has_its_place_and_aligned_streams_have_different_banks() {
        let config = Dram { ranks: 2, bank_groups: 4, banks: 4, row: Size(8192), ..small() };
        let rows: std::collections::BTreeSet<_> = (0..1 << 16).map(|line| config.place(line)).collect();
        assert_eq!(rows.len(), (1 << 16) / 128, "rows of 128 lines, each full");
        let bank = |line| {
            let place = config.place(line);
            (place.rank, place.group, place.bank)
        };
        for alignment in [1 << 14, 1 << 20, 1 << 24] {
            let banks: std::collections::BTreeSet<_> =
                (0..32).map(|stream| bank(stream * alignment)).collect();
            assert_eq!(banks.len(), 32, "{alignment}");
        }
    }

    #[test]
    fn idle_latencies_are_sums_of_commands() {
        let mut device = DramDevice::new(&small());
        assert_eq!(device.read(NS(1000), 0), NS(1000 + 14 + 13 + 3), "closed");
        assert_eq!(device.read(NS(2000), 2), NS(2000 + 13 + 3), "open");
        assert_eq!(device.read(NS(3000), OTHER_ROW), NS(3000 + 15 + 14 + 13 + 3), "conflict");
        assert_eq!(device.traffic().media_read_bytes, 3 * 64);
    }

    #[test]
    fn a_row_closes_no_earlier_than_its_timings_let_it() {
        let conflict = |at| {
            let mut device = DramDevice::new(&small());
            device.read(NS(1000), 0);
            device.read(at, OTHER_ROW)
        };
        // Opened at 1000, so closed at 1032 at the earliest.
        assert_eq!(conflict(NS(1001)), NS(1032 + 15 + 14 + 16));
        assert_eq!(conflict(NS(1032)), NS(1032 + 45));
        assert_eq!(conflict(Time(1_032_001)), Time(1_077_001));
        // A write's last datum is there at 1027; 16 of write recovery are more than the 32 since opening.
        let mut device = DramDevice::new(&small());
        device.write(NS(1000), 0, true);
        assert_eq!(device.read(NS(1028), OTHER_ROW), NS(1027 + 16 + 15 + 14 + 16));
    }

    #[test]
    fn one_bank_group_is_slower_than_the_bus_and_two_fill_it() {
        let reads = |lines: &dyn Fn(u64) -> u64| {
            let mut device = DramDevice::new(&small());
            (0..4).map(|n| device.read(NS(1000), lines(n))).max()
        };
        assert_eq!(reads(&|n| 2 * n), Some(NS(1000 + 30 + 3 * 5)));
        assert_eq!(reads(&|n| n), Some(NS(1000 + 30 + 3 * 3)));
    }

    #[test]
    fn the_bus_pauses_between_ranks() {
        let config = Dram { ranks: 2, rank_to_rank: NS(2), ..small() };
        let of_rank = |rank| (0..64).find(|&line| config.place(line).rank == rank).unwrap();
        let mut device = DramDevice::new(&config);
        assert_eq!(device.read(NS(1000), of_rank(0)), NS(1030));
        assert_eq!(device.read(NS(1000), of_rank(1)), NS(1030 + 2 + 3));
    }

    #[test]
    fn a_change_of_direction_stops_the_bus() {
        let mut device = DramDevice::new(&small());
        device.read(NS(1000), 0);
        device.write(NS(2000), 1, true);
        // The write opens the row of group 1: data from 2024 to 2027; then 21 of silence.
        assert_eq!(device.read(NS(2000), 2), NS(2000 + 16), "goes before it: it may end until 2022");
        assert_eq!(device.read(NS(2007), 4), NS(2027 + 21 + 3), "would end at 2023");
    }

    #[test]
    fn writes_wait_for_a_batch_or_their_time_and_are_read_meanwhile() {
        let config = Dram { write_batch: 4, write_queue: 8, ..small() };
        let mut device = DramDevice::new(&config);
        for line in [0, OTHER_ROW, 2] {
            assert_eq!(device.write(NS(1000), line, true), NS(1000));
        }
        assert_eq!((device.held_bytes(), device.traffic().media_write_bytes), (192, 0));
        assert_eq!(device.read(NS(1001), 2), NS(1001), "from the scheduler");
        assert_eq!(device.write(NS(1002), 4, true), NS(1002));
        assert_eq!((device.held_bytes(), device.traffic().media_write_bytes), (0, 256));
        // Row by row: 0, 2, 4 open their row once.
        let row = [0, 5, 10].map(|after| NS(1002 + 14 + 10 + 3 + after));
        let other = row[2] + NS(16 + 15 + 14 + 10 + 3);
        assert_eq!(device.on_their_way, [row[0], row[1], row[2], other]);
        device.write(NS(3000), 0, true);
        device.advance_to(Time(3_999_999));
        assert_eq!(device.held_bytes(), 64);
        device.advance_to(NS(4000));
        assert_eq!(device.held_bytes(), 0);
    }

    #[test]
    fn a_full_scheduler_takes_a_write_when_another_is_through() {
        let config = Dram { write_queue: 2, ..small() };
        let mut device = DramDevice::new(&config);
        assert_eq!(device.write(NS(1000), 0, true), NS(1000));
        assert_eq!(device.write(NS(1000), 2, true), NS(1000));
        // Their last data are on the bus until 1027 and 1032.
        assert_eq!(device.write(NS(1000), 4, true), NS(1027));
        assert_eq!(device.write(NS(1000), 6, true), NS(1032));
        assert_eq!(device.write(NS(1036), 0, true), NS(1040), "the third was let out at 1027");
    }

    #[test]
    fn a_part_of_a_line_is_read_before_it_is_written() {
        let mut device = DramDevice::new(&small());
        device.write(NS(1000), 0, false);
        let traffic = device.traffic();
        assert_eq!((traffic.read_modify_writes, traffic.media_read_bytes), (1, 64));
        assert_eq!(device.drain(NS(1000)), NS(1000 + 30 + 10 + 3));
    }

    #[test]
    fn a_refresh_closes_rows_and_holds_its_rank() {
        let config = Dram { ranks: 2, t_refi: Some(NS(8000)), t_rfc: NS(350), ..small() };
        // Rank 0 is refreshed at 4000, 12000, …, rank 1 at 8000, 16000, …
        let second_read = |at| {
            let mut device = DramDevice::new(&config);
            device.read(NS(1000), 0);
            device.read(at, 2).since(at)
        };
        assert_eq!(second_read(Time(3_999_999)), NS(16), "still open");
        assert_eq!(second_read(NS(4000)), NS(350 + 30), "refreshed, then opened");
        assert_eq!(second_read(Time(4_349_999)), NS(30) + Time(1));
        assert_eq!(second_read(NS(4350)), NS(30));
        let rank_1 = (0..64).find(|&line| config.place(line).rank == 1).unwrap();
        assert_eq!(DramDevice::new(&config).read(NS(4000), rank_1), NS(4030), "the other rank works");
    }

    #[test]
    fn an_unused_row_closes_itself() {
        let config = Dram { row_timeout: Some(NS(100)), ..small() };
        let second_read = |at, line| {
            let mut device = DramDevice::new(&config);
            device.read(NS(1000), 0);
            device.read(at, line).since(at)
        };
        // Used last at 1014, when the column command went out.
        assert_eq!(second_read(NS(1114), 2), NS(16));
        assert_eq!(second_read(NS(1115), 2), NS(14 + 30), "closing takes until 1129");
        assert_eq!(second_read(NS(2000), OTHER_ROW), NS(30), "closed long before");
    }

    proptest! {
        /// No bus carries more than one burst at a time, whoever asks for what.
        #[test]
        fn the_bus_is_the_limit(lines in prop::collection::vec((0u64..200, any::<bool>()), 1..300)) {
            let mut device = DramDevice::new(&small());
            let mut last = Time::ZERO;
            for &(line, write) in &lines {
                if write {
                    device.write(NS(1), line, true);
                } else {
                    last = last.max(device.read(NS(1), line));
                }
            }
            last = last.max(device.drain(NS(1)));
            prop_assert!(last >= NS(1 + 3 * lines.len() as u64));
        }
    }
}
