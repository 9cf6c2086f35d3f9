//! The journal of failure-atomic `msync` on a disk that loses, at a crash, any sectors that were not synced: after recovery
//! the file is as after one of the commits, and not an earlier one than the last that had returned. Broken twins are caught,
//! and damaged journals say so or are cut where they are damaged.

mod disk;

use std::io::Result;

use disk::{Disks, Drive, Random};
use proptest::prelude::*;
use sfr::journal::{Fault, Journal, Limits, Range};

/// Bytes of the file at its begin.
const BYTES: u64 = 6000;

/// What the file is after each commit.
type States = Vec<Vec<u8>>;

/// One run: commits, and after each operation on the disk a few images.
struct Run {
    disks: Disks,
    limits: Limits,
    states: States,
    random: Random,
}

impl Run {
    fn new(seed: u64, fault: Option<Fault>) -> Run {
        let limits = Limits { full: 12 << 10, ahead: if seed.is_multiple_of(3) { 0 } else { 3000 }, fault };
        let disks = Disks::default();
        disks.data().write_all(&vec![0; BYTES as usize]);
        Run { disks, limits, states: vec![vec![0; BYTES as usize]], random: Random(seed) }
    }

    /// Ranges of one commit, sorted and apart, and the file after it.
    fn change(&mut self) -> (Vec<Range>, Vec<u8>, Vec<u8>) {
        let mut state = self.states.last().expect("the first").clone();
        if self.random.below(8) == 0 {
            state.resize(state.len() + 64 * self.random.below(40) as usize, 0);
        }
        let (mut ranges, mut data, mut at) = (Vec::new(), Vec::new(), 0);
        let most = if self.random.below(4) == 0 { 3000 } else { 130 };
        loop {
            at += self.random.below(2000);
            let bytes = (1 + self.random.below(most)).min((state.len() as u64).saturating_sub(at));
            if bytes == 0 {
                break;
            }
            let stamp = self.states.len() as u8;
            state[at as usize..(at + bytes) as usize].fill(stamp);
            data.extend(std::iter::repeat_n(stamp, bytes as usize));
            ranges.push(Range { offset: at, bytes });
            at += bytes + 1;
        }
        (ranges, data, state)
    }

    /// Commits, as the runtime does; says what is wrong with the first image that is.
    fn commits(&mut self, count: u32) -> std::result::Result<u64, String> {
        let mut journal =
            Journal::recover(self.disks.journal(), &self.disks.data(), self.limits).map_err(said)?;
        let mut images = 0;
        for _ in 0..count {
            let (ranges, data, state) = self.change();
            let done = self.states.len() - 1;
            if ranges.is_empty() {
                continue;
            }
            self.states.push(state);
            self.disks.watch();
            let file = self.disks.data();
            let length = self.states[done + 1].len() as u64;
            let result: Result<()> = (|| {
                sfr_set_length(&file, length)?;
                if journal.is_full() {
                    journal.retire(&file)?;
                }
                journal.append(&ranges, &data, length)?;
                self.disks.mark();
                let mut from = 0;
                for range in &ranges {
                    sfr::journal::Disk::write(&file, range.offset, &data[from..from + range.bytes as usize])?;
                    from += range.bytes as usize;
                }
                Ok(())
            })();
            result.map_err(said)?;
            images += self.look(done)?;
        }
        Ok(images)
    }

    /// Looks at images of the crash points of the last commit.
    fn look(&mut self, done: usize) -> std::result::Result<u64, String> {
        let points = self.disks.watched();
        for (returned, point) in &points {
            for _ in 0..3 {
                let image = point.crash(&mut self.random);
                self.recovers(&image, done + usize::from(*returned), 0)?;
            }
        }
        Ok(3 * points.len() as u64)
    }

    /// Recovers an image, and images of the recovery of that.
    fn recovers(&mut self, image: &Disks, least: usize, depth: u32) -> std::result::Result<(), String> {
        image.watch();
        Journal::recover(image.journal(), &image.data(), self.limits).map_err(said)?;
        let found = image.data().bytes();
        let is = |state: &Vec<u8>| {
            // A length may be there before the commit that needs it.
            let (short, long) = if state.len() < found.len() { (state, &found) } else { (&found, state) };
            long[..short.len()] == short[..] && long[short.len()..].iter().all(|byte| *byte == 0)
        };
        if !self.states[least..].iter().any(is) {
            let earlier = self.states[..least].iter().rposition(is);
            return Err(match earlier {
                Some(earlier) => format!("commit {earlier} is left of {least}"),
                None => format!("a mixture is left where {least} commits were"),
            });
        }
        let points = image.watched();
        if depth == 0 && !points.is_empty() {
            let point = &points[self.random.below(points.len() as u64) as usize].1;
            let again = point.crash(&mut self.random);
            self.recovers(&again, least, 1)?;
        }
        Ok(())
    }
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}

fn sfr_set_length(file: &Drive, length: u64) -> Result<()> {
    if sfr::journal::Disk::length(file)? < length {
        sfr::journal::Disk::set_length(file, length)?;
    }
    Ok(())
}

#[test]
fn what_survives_is_a_commit_and_none_before_the_last_that_returned() {
    let mut images = 0;
    for seed in 1..=40 {
        images += Run::new(seed, None).commits(20).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(images > 10_000, "{images}");
}

#[test]
fn broken_twins_are_caught() {
    for fault in [
        Fault::RecordNotSynced,
        Fault::MarkFirst,
        Fault::RangeDropped,
        Fault::TornTail,
        Fault::FileNotSynced,
        Fault::GenerationNotSynced,
        Fault::AnyGeneration,
        Fault::CopyNotSynced,
    ] {
        let caught = (1..=60).find_map(|seed| Run::new(seed, Some(fault)).commits(20).err());
        assert!(caught.is_some(), "{fault:?} is not found");
    }
}

/// A journal with a few records, its file before them, and all states that it can lead to.
fn some(seed: u64) -> (Vec<u8>, Vec<u8>, States) {
    let mut run = Run::new(seed, None);
    run.limits.full = 1 << 20;
    let mut journal = Journal::recover(run.disks.journal(), &run.disks.data(), run.limits).expect("a disk");
    for _ in 0..4 {
        let (ranges, data, state) = run.change();
        if !ranges.is_empty() {
            journal.append(&ranges, &data, state.len() as u64).expect("a disk");
            run.states.push(state);
        }
    }
    (run.disks.journal().bytes(), run.disks.data().bytes(), run.states)
}

proptest! {
    /// Whatever bytes are changed, or cut off: an error, or a number of whole records.
    #[test]
    fn damage_leaves_whole_commits_or_is_said(
        seed in 1..20_u64,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut journal, data, states) = some(seed);
        for (place, byte) in damage {
            let place = place.index(journal.len());
            journal[place] = byte;
        }
        if let Some(cut) = cut {
            journal.truncate(cut.index(journal.len()));
        }
        let disks = Disks::of(journal, data);
        if Journal::recover(disks.journal(), &disks.data(), Limits::default()).is_ok() {
            let found = disks.data().bytes();
            prop_assert!(states.contains(&found), "{} bytes", found.len());
        } else {
            prop_assert_eq!(&disks.data().bytes(), &states[0]);
        }
    }

    /// Any bytes at all are taken, or refused, in bounded time and memory.
    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..6000), headed in any::<bool>()) {
        let mut journal = bytes;
        if headed {
            // With a header that is right, the records are looked at.
            let (whole, _, _) = some(1);
            let begin = whole.len().min(4096 + 64);
            journal.splice(..journal.len().min(begin), whole[..begin].iter().copied());
        }
        let disks = Disks::of(journal, vec![0; 100]);
        _ = Journal::recover(disks.journal(), &disks.data(), Limits::default());
        prop_assert_eq!(disks.data().bytes(), vec![0; 100]);
    }
}
