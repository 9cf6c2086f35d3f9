//! Where accesses are: one sequence per thread, the same on real and on modelled memory.

use machine::Size;

use crate::task::{LINE, Pattern, Task};

/// The widest alignment of random accesses.
const ALIGN_MAX: u64 = 4096;

/// How addresses are spread over DIMMs, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleave {
    /// DIMMs, at least 1; offset 0 of the measured memory is on the first.
    pub dimms: u64,
    /// Consecutive bytes on one DIMM, a multiple of 64.
    pub bytes: u64,
}

/// The offsets of one thread's accesses within the measured memory; never ends.
#[derive(Clone, Debug)]
pub struct Offsets {
    /// Start of the thread's region.
    base: u64,
    region: u64,
    access: u64,
    pattern: Pattern,
    step: u64,
    /// Of a sequential pattern: of the next access, within the region.
    next: u64,
    random: Random,
    bound: Option<Bound>,
}

/// Those DIMMs that a thread keeps to.
#[derive(Clone, Copy, Debug)]
struct Bound {
    first: u64,
    count: u64,
    interleave: Interleave,
}

impl Offsets {
    /// The sequence of thread `thread` of `task`. A thread that keeps to some DIMMs needs to know how
    /// addresses are spread; without `interleave` it uses all.
    #[must_use]
    pub fn new(task: &Task, thread: u32, seed: u64, interleave: Option<Interleave>) -> Offsets {
        let mut random = Random(seed ^ (u64::from(thread) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.draw();
        let base = if task.shared { 0 } else { u64::from(thread) * task.region };
        let bound = interleave.filter(|_| task.dimms > 0).map(|interleave| Bound {
            first: u64::from(thread) * u64::from(task.dimms) % interleave.dimms,
            count: u64::from(task.dimms).min(interleave.dimms),
            interleave,
        });
        let mut offsets = Offsets {
            base,
            region: task.region,
            access: task.access_size,
            pattern: task.pattern,
            step: task.step(),
            next: 0,
            random,
            bound,
        };
        // Threads that start at the same offset of their regions would stay in step, on the same DIMM at the
        // same time, which no real threads do for long.
        if thread > 0 && task.step() > 0 {
            offsets.next = offsets.anywhere();
        }
        offsets
    }

    /// An offset within the region, aligned as LATTester's scripts do: to the next power of two, but to 4 KiB
    /// at most.
    fn anywhere(&mut self) -> u64 {
        let align = self.access.next_power_of_two().min(ALIGN_MAX);
        self.random.below((self.region - self.access) / align + 1) * align
    }

    /// The next access's offset. For ever under way if [`Offsets::obstacle`] has something to say.
    pub fn advance(&mut self) -> u64 {
        match (self.pattern, self.bound) {
            (Pattern::Random, None) => self.base + self.anywhere(),
            (Pattern::Random, Some(bound)) => self.on_bound(bound),
            (Pattern::Sequential, None) => self.base + self.step_on(),
            (Pattern::Sequential, Some(bound)) => loop {
                let offset = self.base + self.step_on();
                if bound.holds(offset) {
                    return offset;
                }
            },
        }
    }

    /// The next offset of a sequential pattern, within the region.
    fn step_on(&mut self) -> u64 {
        let at = self.next;
        self.next += self.step;
        if self.next + self.access > self.region {
            self.next = 0;
        }
        at
    }

    /// Why some thread of `task` would have no access at all: it keeps to DIMMs that its steps never come to.
    #[must_use]
    pub fn obstacle(task: &Task, interleave: Option<Interleave>) -> Option<String> {
        if task.pattern != Pattern::Sequential {
            return None;
        }
        let lost = (0..task.threads).find(|thread| !Offsets::new(task, *thread, 0, interleave).arrives())?;
        let first = interleave.map_or(0, |i| u64::from(lost) * u64::from(task.dimms) % i.dimms);
        Some(format!(
            "thread {lost} keeps to the {} DIMM(s) from number {first} on, which steps of {} in a region of {} never come to: \
             use a larger region or another stride",
            task.dimms,
            Size(task.step()),
            Size(task.region)
        ))
    }

    /// Whether the steps from the region's start come to a DIMM that the thread keeps to.
    fn arrives(&self) -> bool {
        let Some(bound) = self.bound else { return true };
        // Offsets repeat, as far as DIMMs go, after as many steps as a stripe has lines at most.
        let lines = bound.interleave.dimms * bound.interleave.bytes / LINE;
        let room = self.region - self.access;
        let steps = room.checked_div(self.step).unwrap_or(0).min(lines);
        (0..=steps).any(|step| bound.holds(self.base + step * self.step))
    }

    /// A random access on one of the DIMMs of `bound`.
    fn on_bound(&mut self, bound: Bound) -> u64 {
        let Interleave { dimms, bytes } = bound.interleave;
        let stripe = dimms * bytes;
        let stripes = (self.region / stripe).max(1);
        let dimm = (bound.first + self.random.below(bound.count)) % dimms;
        let first = self.base.next_multiple_of(stripe);
        let within = self.random.below((bytes / self.access.min(bytes)).max(1)) * self.access;
        first + self.random.below(stripes) * stripe + dimm * bytes + within
    }

    /// Bytes of memory that the sequence may touch, from offset 0, for all threads of `task` together.
    #[must_use]
    pub fn reach(task: &Task, interleave: Option<Interleave>) -> u64 {
        let slack = interleave.filter(|_| task.dimms > 0).map_or(0, |i| 2 * i.dimms * i.bytes);
        task.footprint().saturating_add(slack).next_multiple_of(LINE)
    }
}

impl Bound {
    fn holds(self, offset: u64) -> bool {
        let dimm = offset / self.interleave.bytes % self.interleave.dimms;
        (dimm + self.interleave.dimms - self.first) % self.interleave.dimms < self.count
    }
}

/// A small generator of random numbers (SplitMix64). LATTester's shift register moves by one bit from number
/// to number, so that an offset nearly determines the next one.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of a 128-bit product: no division, and as even as the generator.
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }

    /// 0 to `count - 1` in random order.
    #[must_use]
    pub fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count).collect();
        for last in (1..numbers.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            numbers.swap(last, other);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(task: &Task, thread: u32, count: usize) -> Vec<u64> {
        let mut offsets = Offsets::new(task, thread, 1, None);
        (0..count).map(|_| offsets.advance()).collect()
    }

    #[test]
    fn sequential_accesses_follow_each_other_and_start_again() {
        let task = Task { access_size: 256, region: 1024, ..Task::default() };
        assert_eq!(first(&task, 0, 6), [0, 256, 512, 768, 0, 256]);
        let strided = Task { stride: Some(512), ..task.clone() };
        assert_eq!(first(&strided, 0, 3), [0, 512, 0]);
        let in_place = Task { stride: Some(0), ..task };
        assert_eq!(first(&in_place, 0, 3), [0, 0, 0]);
        assert_eq!(first(&in_place, 1, 2), [1024, 1024]);
    }

    #[test]
    fn steps_that_miss_the_dimms_of_a_thread_are_reported() {
        let interleave = Some(Interleave { dimms: 6, bytes: 4096 });
        let good = Task { dimms: 1, threads: 2, region: 1 << 20, ..Task::default() };
        assert_eq!(Offsets::obstacle(&good, interleave), None);
        assert_eq!(
            Offsets::obstacle(&Task { dimms: 0, stride: Some(24 << 10), ..good.clone() }, interleave),
            None
        );
        for bad in [
            Task { stride: Some(24 << 10), ..good.clone() },
            Task { region: 4096, dimms: 3, ..good.clone() },
            Task { region: 4096, shared: true, ..good.clone() },
            Task { stride: Some(0), ..good.clone() },
        ] {
            let reason = Offsets::obstacle(&bad, interleave).expect("thread 1 has nothing to do");
            assert!(reason.starts_with("thread 1 "), "{reason}");
            let random = Task { pattern: Pattern::Random, ..bad };
            assert_eq!(Offsets::obstacle(&random, interleave), None);
        }
    }

    #[test]
    fn random_accesses_reach_the_whole_region() {
        let task = Task { access_size: 64, region: 64 * 64, pattern: Pattern::Random, ..Task::default() };
        let mut seen = first(&task, 0, 2000);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 64);
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut numbers = Random(7).permutation(1000);
        assert_ne!(numbers[..3], [0, 1, 2]);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1000));
    }

    proptest! {
        #[test]
        fn accesses_stay_in_their_regions_and_on_their_dimms(
            pattern in prop::sample::select(Pattern::ALL),
            lines in 1u64..64,
            region_pages in 64u64..256,
            thread in 0u32..8,
            shared: bool,
            dimms in 0u32..4,
            seed: u64,
        ) {
            let task = Task {
                pattern,
                access_size: lines * 64,
                region: region_pages * 4096,
                threads: 8,
                shared,
                dimms,
                ..Task::default()
            };
            let interleave = Interleave { dimms: 6, bytes: 4096 };
            let mut offsets = Offsets::new(&task, thread, seed, Some(interleave));
            for _ in 0..200 {
                let offset = offsets.advance();
                prop_assert!(offset.is_multiple_of(64));
                prop_assert!(offset + task.access_size <= Offsets::reach(&task, Some(interleave)));
                if dimms > 0 {
                    let first = thread * dimms % 6;
                    let dimm = (offset / 4096 % 6) as u32;
                    prop_assert!((dimm + 6 - first) % 6 < dimms, "dimm {} of {}+{}", dimm, first, dimms);
                } else {
                    let base = if shared { 0 } else { u64::from(thread) * task.region };
                    prop_assert!(offset >= base && offset + task.access_size <= base + task.region);
                }
            }
        }
    }
}
