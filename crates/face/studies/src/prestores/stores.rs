//! Key-value stores under YCSB's A: half of the operations read a value, half craft one in memory that is
//! used over and over in random order, and put it.
//!
//! The two indexes differ in what they read before and in their fences. The hash table's operation looks at
//! one line, and its writer takes a lock in it by an atomic operation. The tree's looks at nodes on the way
//! down (two lines each of the three levels that no cache holds), checks a version before and after each with
//! a fence between, where the machine needs one: Arm's `dmb`, which waits for accesses and not for cleans, as
//! atomic operations do.

use event::{Event, FenceKind};

use super::{After, volume, write};
use crate::pattern::{self, Draw, LINE, Pattern, after, fence, load, store};
use crate::{Lab, StudyError};

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    Hash,
    Tree,
}

/// Threads that the source found to be the best.
const THREADS: u32 = 10;
/// Bytes of all values: far more than caches hold.
const VALUES: u64 = 4 << 30;
/// First byte of the index, and its bytes (of the tree's lowest level).
const INDEX: u64 = pattern::PERSISTENT + VALUES;
const INDEX_BYTES: u64 = 1 << 30;
/// Instructions to draw and hash a key, and to craft a line of a value.
const PER_KEY: u32 = 200;
const PER_LINE: u32 = 16;
/// Levels of the tree that are not in the caches, of 100 million keys and 15 in a node.
const LEVELS: u64 = 3;

/// Runs YCSB A with values of so many bytes.
pub(super) fn ycsb_a(
    lab: &Lab,
    machine: &'static str,
    index: Index,
    value: u64,
    after: After,
) -> Result<pattern::Run, StudyError> {
    let key = [index as u64, value, after as u64];
    let fences = machine != super::MACHINE_A;
    lab.pattern("ycsb a", &key, machine, || {
        let (warm, put) = volume(machine);
        let operations = |bytes: u64| 2 * bytes / value / u64::from(THREADS);
        let thread = |thread: u32| {
            let mut client = Client { draw: Draw::new(u64::from(thread)), index, value, after, fences };
            Pattern::new(operations(put), move |events| client.operation(events)).warm(operations(warm))
        };
        (0..THREADS).map(thread).collect()
    })
}

/// One thread.
struct Client {
    draw: Draw,
    index: Index,
    value: u64,
    after: After,
    /// Whether the machine needs a fence to keep two loads in order.
    fences: bool,
}

impl Client {
    fn operation(&mut self, events: &mut Vec<Event>) {
        let keys = VALUES / self.value;
        // The octave of the rank first, then the rank in it: one over the rank, in integers.
        let octave = 1u64 << self.draw.below(u64::from(keys.ilog2()));
        let rank = octave + self.draw.below(octave);
        let key = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
        if self.draw.below(2) == 0 {
            self.get(events, key);
        } else {
            self.put(events, key);
        }
    }

    fn get(&mut self, events: &mut Vec<Event>, key: u64) {
        self.find(events, key);
        let at = pattern::PERSISTENT + key * self.value;
        events.extend((at..at + self.value).step_by(LINE as usize).map(|line| load(line, LINE)));
    }

    fn put(&mut self, events: &mut Vec<Event>, key: u64) {
        // Memory of a value that was replaced before.
        let at = pattern::PERSISTENT + self.draw.below(VALUES / self.value) * self.value;
        write(events, at, self.value, PER_LINE, self.after);
        if self.index == Index::Hash {
            // The lock is in the bucket.
            let bucket = bucket(key);
            events.push(after(PER_KEY, load(bucket, 8)));
            events.push(fence(FenceKind::Locked));
            events.push(store(bucket, 1));
            events.extend([load(bucket + 8, 8), store(bucket + 32, 8), store(bucket, 1)]);
        } else {
            self.find(events, key);
            let leaf = node(key, LEVELS - 1);
            events.extend([load(leaf, 8), fence(FenceKind::Locked), store(leaf, 8)]);
            events.extend([store(leaf + LINE, 8), store(leaf, 8)]);
        }
    }

    /// The way to a key.
    fn find(&self, events: &mut Vec<Event>, key: u64) {
        match self.index {
            Index::Hash => events.extend([after(PER_KEY, load(bucket(key), 8)), load(bucket(key) + 8, 24)]),
            Index::Tree => {
                for level in 0..LEVELS {
                    let node = node(key, level);
                    events.push(after(PER_KEY / 2, load(node, 8)));
                    events.extend(self.fences.then(|| fence(FenceKind::Locked)));
                    events.push(load(node + LINE, 64));
                    events.extend(self.fences.then(|| fence(FenceKind::Locked)));
                    events.push(load(node, 8));
                }
            }
        }
    }
}

/// The bucket of a key.
fn bucket(key: u64) -> u64 {
    INDEX + key.wrapping_mul(0xd6e8_feb8_6659_fd93) % (INDEX_BYTES / LINE) * LINE
}

/// The node on a level of the way to a key; 15 times as many on each.
fn node(key: u64, level: u64) -> u64 {
    let nodes = INDEX_BYTES / 512 / 15u64.pow((LEVELS - 1 - level) as u32);
    INDEX + level * INDEX_BYTES + (key.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 16) % nodes * 512
}
