//! At which moments a crash is tried, and in which order.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::History;
use crate::history::Item;

/// Neighbouring points share most of their images, so they go to the same part of a search.
const BLOCK: usize = 16;
/// With so many points, the order matters: the search may be broken off.
const MANY: usize = 4096;
/// What the same code did before and did again is tried once, then twice more, then four times more, …: so many rounds.
const RARE: u32 = 6;
/// Then the rest in rounds that are each spread over the whole run: one of so many blocks, another one, two, four, …, the other half. Each round
/// goes through the run again, so there must not be many.
const SPREAD: u32 = 64;

/// The points of a run.
#[derive(Debug)]
pub(super) struct Points {
    /// Items before which a crash is tried, and the round in which it is.
    points: Vec<(usize, u32)>,
    /// So many neighbours go to one part.
    block: usize,
}

impl Points {
    /// Each barrier that demands something new, and the end of the run.
    ///
    /// Most of a long run repeats itself. Two points are alike if the same code stored, flushed and fenced in the same order since the
    /// point before; what happened seldom comes first.
    pub fn of(history: &History, hurried: bool) -> Self {
        let mut points = Vec::new();
        let mut seen: HashMap<u64, u32> = HashMap::new();
        let mut kind = DefaultHasher::new();
        let mut add = |at: usize, kind: u64| {
            let count = seen.entry(kind).or_insert(0);
            *count += 1;
            points.push((at, count.ilog2()));
        };
        for (at, &item) in history.items.iter().enumerate() {
            match item {
                Item::Atom(atom) => (0, history.atoms[atom as usize].site).hash(&mut kind),
                Item::Flush(flush) => (1, history.flushes[flush as usize].site).hash(&mut kind),
                Item::Mark(_) => 2.hash(&mut kind),
                Item::Bulk(_) => 4.hash(&mut kind),
                Item::Barrier(barrier) => {
                    let barrier = &history.barriers[barrier as usize];
                    (3, barrier.site, barrier.demands.len()).hash(&mut kind);
                    if barrier.fresh {
                        add(at, std::mem::take(&mut kind).finish());
                    }
                }
            }
        }
        add(history.items.len(), kind.finish());
        if points.len() <= MANY && !hurried {
            points.iter_mut().for_each(|(_, round)| *round = 0);
            return Points { points, block: BLOCK };
        }
        let block = (points.len() / SPREAD as usize).clamp(1, BLOCK);
        // Where nearly everything is rare, rarity says nothing.
        let rare = points.iter().filter(|&&(_, round)| round < RARE).count() <= points.len() / 4;
        for (number, (_, round)) in points.iter_mut().enumerate() {
            if !rare || *round >= RARE {
                // In the order 0, 32, 16, 48, 8, …: the first of them are far apart.
                let turn = (number / block) as u32 % SPREAD;
                let rank = turn.reverse_bits() >> (32 - SPREAD.trailing_zeros());
                *round = RARE + rank.checked_ilog2().map_or(0, |double| double + 1);
            }
        }
        Points { points, block }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// How many of them are the part's.
    pub fn len_of(&self, part: usize, parts: usize) -> usize {
        (0..self.len()).filter(|number| number / self.block % parts == part).count()
    }

    /// Rounds that a search goes through.
    pub fn rounds(&self) -> u32 {
        self.points.iter().map(|&(_, round)| round + 1).max().unwrap_or(0)
    }

    /// The points in the order of the run, each with the point before it.
    pub fn all(&self) -> impl Iterator<Item = (usize, usize)> {
        self.chosen(|_, _| true)
    }

    /// Those of a round and a part.
    pub fn round(&self, round: u32, part: usize, parts: usize) -> impl Iterator<Item = (usize, usize)> {
        self.chosen(move |number, own| own == round && number / self.block % parts == part)
    }

    fn chosen(&self, which: impl Fn(usize, u32) -> bool) -> impl Iterator<Item = (usize, usize)> {
        let points = self.points.iter().enumerate();
        points
            .filter(move |&(number, &(_, round))| which(number, round))
            .map(|(number, &(at, _))| (at, number.checked_sub(1).map_or(0, |before| self.points[before].0)))
    }
}
