//! Which crash points of a long run are built.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::steps::{Step, What};
use crate::history::Clocks;

/// What is pending at one point, in parts of the whole: a large one has the last bytes of it only, and at
/// least its last write.
const PARTS: u64 = 32;
/// How many writes before a point are looked at.
const BACK: usize = 8192;
/// So many points of each kind come before all others.
const RARE: u32 = 4;
/// Points that are built at most.
const POINTS: usize = 4096;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// By number of step: whether a write stays whole.
    bulk: Vec<bool>,
    /// Whether a sync is a crash point.
    chosen: Vec<bool>,
    /// Crash points that are not built.
    pub left_out: u64,
    /// Steps that were looked at, in all loops.
    pub visited: u64,
}

struct Written {
    step: u32,
    len: u64,
    /// The step that makes it durable.
    until: u32,
}

/// A moment at which a crash is worth trying.
struct Point {
    step: u32,
    /// How many writes came before.
    writes: usize,
    /// How often the same was done before.
    repeated: u32,
    /// Whether names changed, or the program said something, since the point before.
    printed: bool,
}

impl Plan {
    /// A plan for at most `room` bytes in atoms.
    pub fn new(steps: &[Step], room: u64) -> Plan {
        let written = |step: &Step| match &step.what {
            What::Write { bytes, .. } => bytes.len() as u64,
            _ => 0,
        };
        if steps.iter().map(written).sum::<u64>() <= room {
            return Plan { visited: steps.len() as u64, ..Plan::default() };
        }
        let (writes, points) = seen(steps);
        let mut plan = Plan {
            bulk: vec![false; steps.len()],
            chosen: vec![false; steps.len()],
            left_out: points.len() as u64,
            visited: 2 * steps.len() as u64,
        };
        for write in &writes {
            plan.bulk[write.step as usize] = true;
        }
        let (mut left, mut built) = (room, 0);
        // The end is always a point.
        let end = Point { step: steps.len() as u32, writes: writes.len(), repeated: 0, printed: true };
        left -= plan.take(&writes, &end, left, room / PARTS);
        for at in order(&points) {
            if left == 0 || built == POINTS {
                break;
            }
            left -= plan.take(&writes, &points[at], left, room / PARTS);
            plan.chosen[points[at].step as usize] = true;
            plan.left_out -= 1;
            built += 1;
        }
        plan
    }

    /// Makes atoms of what is pending at the point, the last first, and says how many bytes that are: of more
    /// than `part` the last write, of more than `left` none.
    fn take(&mut self, writes: &[Written], point: &Point, left: u64, part: u64) -> u64 {
        let mut taken = 0;
        for write in writes[..point.writes].iter().rev().take(BACK) {
            self.visited += 1;
            let bulk = &mut self.bulk[write.step as usize];
            if write.until < point.step || !*bulk {
                continue;
            }
            if taken + write.len > left || (taken > 0 && taken + write.len > part) {
                break;
            }
            taken += write.len;
            *bulk = false;
        }
        taken
    }

    pub fn is_bulk(&self, step: usize) -> bool {
        self.bulk.get(step).copied().unwrap_or(false)
    }

    /// Whether a crash is tried before the sync.
    pub fn is_chosen(&self, step: usize) -> bool {
        self.chosen.get(step).copied().unwrap_or(true)
    }

    /// Whether everything is built.
    pub fn is_all(&self) -> bool {
        self.bulk.is_empty()
    }
}

/// The writes of a run with the sync that makes each durable, and the syncs that make anything durable.
fn seen(steps: &[Step]) -> (Vec<Written>, Vec<Point>) {
    let mut clocks = Clocks::new(false);
    let (mut writes, mut points): (Vec<Written>, Vec<Point>) = Default::default();
    let mut open: HashMap<u16, Vec<(usize, crate::history::Stamp)>> = HashMap::new();
    let mut kinds: HashMap<u64, u32> = HashMap::new();
    let (mut kind, mut printed) = (DefaultHasher::new(), false);
    let mut named = false;
    for (at, step) in steps.iter().enumerate() {
        let number = at as u32;
        let synced: Option<Vec<u16>> = match &step.what {
            What::Write { file, bytes, .. } => {
                if !bytes.is_empty() {
                    open.entry(*file).or_default().push((writes.len(), clocks.tick(step.thread)));
                    writes.push(Written { step: number, len: bytes.len() as u64, until: u32::MAX });
                }
                None
            }
            What::Names { .. } | What::Truncate { .. } | What::Shift { .. } => {
                (named, printed) = (true, true);
                None
            }
            What::Store { .. } => {
                named = true;
                None
            }
            What::Mark(_) => {
                printed = true;
                None
            }
            What::Synchronise(op) => {
                clocks.synchronise(step.thread, op);
                continue;
            }
            What::Read { .. } => continue,
            What::Sync { file, .. } => Some(vec![*file]),
            // Which writes lie in it is not asked: they count as durable, and are in no image that lacks
            // them.
            What::SyncRange { file, .. } => Some(vec![*file]),
            What::SyncFolder { .. } => Some(Vec::new()),
            What::SyncAll => Some(open.keys().copied().collect()),
        };
        (std::mem::discriminant(&step.what), step.site).hash(&mut kind);
        let Some(files) = synced else { continue };
        let mut any = std::mem::take(&mut named);
        for (write, stamp) in files.iter().filter_map(|file| open.remove(file)).flatten() {
            any = true;
            // What the thread does not know of is never durable for certain.
            if clocks.known(step.thread, stamp) {
                writes[write].until = number;
            }
        }
        if any {
            let count = kinds.entry(std::mem::take(&mut kind).finish()).or_insert(0);
            let printed = std::mem::take(&mut printed);
            points.push(Point { step: number, writes: writes.len(), repeated: *count, printed });
            *count += 1;
        }
    }
    (writes, points)
}

/// What is done seldom first, before that where names changed or something was said; then all over the run.
fn order(points: &[Point]) -> Vec<usize> {
    let bits = usize::BITS - points.len().leading_zeros();
    let spread = |at: usize| at.reverse_bits() >> (usize::BITS - bits.max(1));
    let mut order: Vec<usize> = (0..points.len()).collect();
    // Where nearly everything is rare, rarity says nothing.
    let rare = |point: &Point| point.repeated < RARE;
    let few = points.iter().filter(|point| rare(point)).count() <= points.len() / 4;
    order.sort_by_key(|&at| {
        let point = &points[at];
        let first = few && rare(point);
        (!first, !(first && point.printed), spread(at))
    });
    order
}
