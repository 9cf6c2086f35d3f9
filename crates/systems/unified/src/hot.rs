//! A small table of the hottest keys for the CPU, the rest for the accelerator, and the policy that moves
//! keys between them.
//!
//! A key is in one of both tables. A lookup tries the hot table, and what is not there goes to the device
//! in one batch. One of a few lookups is counted. After each window the counts are halved, so that what was
//! hot long ago is forgotten, and keys that are much hotter than the coldest residents take their places.
//! Keys whose signature and buckets are another's never displace it in a migration: they stay where they are.
//! Migrations are two batches of the device and CPU changes, and there is a bound per window, so that a
//! uniform load does not churn.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Accelerator, Answer, Change, CpuTable, Error, Hashed, Mix, NONE, Outcome, Shape, Table};

/// When keys move.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Keys in the hot table, at most.
    pub capacity: usize,
    /// Lookups of a window.
    pub window: u64,
    /// One of so many lookups is counted.
    pub sample: u64,
    /// By what factor a newcomer has to be hotter than the resident that it replaces.
    pub factor: f64,
    /// Keys that move in after a window, at most.
    pub moves: usize,
}

/// What the counts say of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// A hot table serves more than its share: keep it.
    Skewed,
    /// Accesses are nearly uniform: two copies of the whole table serve better, if there is memory for them.
    Uniform,
    /// Too few lookups yet.
    Unknown,
}

/// Both tables.
pub struct HotCold {
    hot: Table,
    cold: Table,
    policy: Policy,
    residents: HashMap<u64, f64>,
    counts: HashMap<u64, f64>,
    random: Mix,
    seen: u64,
    keys: usize,
    from_hot: u64,
    from_cold: u64,
    moved: u64,
}

impl HotCold {
    /// Empty tables: the hot one in memory of `cpu`, which must be mapped, the cold one in that of `device`.
    ///
    /// # Errors
    /// If there is no room, or the CPU can't use its table.
    pub fn new(
        cpu: Arc<dyn Accelerator>,
        device: Arc<dyn Accelerator>,
        cold: Shape,
        policy: Policy,
    ) -> Result<HotCold, Error> {
        if policy.window == 0 || policy.sample == 0 || policy.capacity == 0 {
            let got = format!("{policy:?}");
            return Err(Error::Request {
                what: "policy",
                got,
                expected: "a capacity, a window and a sampling above 0",
            });
        }
        let hot = Table::new(cpu, Shape::for_keys(policy.capacity as u64 * 2)?)?;
        hot.cpu()?;
        Ok(HotCold {
            hot,
            cold: Table::new(device, cold)?,
            policy,
            residents: HashMap::new(),
            counts: HashMap::new(),
            random: Mix::seeded(1),
            seen: 0,
            keys: 0,
            from_hot: 0,
            from_cold: 0,
            moved: 0,
        })
    }

    /// Lookups that the hot table served, and those that the device served.
    #[must_use]
    pub fn served(&self) -> (u64, u64) {
        (self.from_hot, self.from_cold)
    }

    /// Keys that moved into the hot table.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Forgets what was served until now.
    pub fn restart_counts(&mut self) {
        (self.from_hot, self.from_cold) = (0, 0);
    }

    /// What the load looks like: whether the residents get at least twice their share of the counted lookups.
    #[must_use]
    pub fn skew(&self) -> Skew {
        let all: f64 = self.counts.values().chain(self.residents.values()).sum();
        if all < 100.0 || self.keys == 0 {
            return Skew::Unknown;
        }
        let share = self.residents.values().sum::<f64>() / all;
        let fair = self.residents.len() as f64 / self.keys as f64;
        if share >= 2.0 * fair { Skew::Skewed } else { Skew::Uniform }
    }

    /// Inserts keys with locations, or replaces their locations. The answers are in the order of the pairs,
    /// as those of [`Table::change`]: a table knows signatures only, so if one was replaced whose former
    /// location has another key, the caller has to keep that key elsewhere.
    ///
    /// # Errors
    /// If a location is [`NONE`], nothing has changed. If the device fails, its table is undefined. If keys
    /// find no room, their number is in the message, and the others are in.
    pub fn insert(&mut self, pairs: &[(u64, u32)]) -> Result<Vec<Answer>, Error> {
        pairs.iter().try_for_each(|&(_, location)| Change::Insert(location).check())?;
        let hot = self.hot.cpu()?;
        let mut answers = vec![Answer { outcome: Outcome::Full, former: NONE }; pairs.len()];
        let (mut rest, mut places) = (Vec::new(), Vec::new());
        for (place, &(key, location)) in pairs.iter().enumerate() {
            if self.residents.contains_key(&key) {
                answers[place] = hot.change(self.hot.shape().hash(key), Change::Insert(location))?;
            } else {
                rest.push((self.cold.shape().hash(key), Change::Insert(location)));
                places.push(place);
            }
        }
        for (place, answer) in places.into_iter().zip(self.cold.change(&rest)?) {
            self.keys += usize::from(answer.outcome == Outcome::Inserted);
            answers[place] = answer;
        }
        match answers.iter().filter(|answer| answer.outcome == Outcome::Full).count() {
            0 => Ok(answers),
            full => {
                let got = format!("{full} without room beside {}", self.keys);
                Err(Error::Request {
                    what: "keys of a table",
                    got,
                    expected: "fewer keys, or a larger table",
                })
            }
        }
    }

    /// The locations of keys, [`NONE`] where there is none. Moves keys at the end of a window.
    ///
    /// # Errors
    /// If the device fails.
    pub fn lookup(&mut self, keys: &[u64]) -> Result<Vec<u32>, Error> {
        let (hot, shape) = (self.hot.cpu()?, self.hot.shape());
        let mut found: Vec<u32> = keys.iter().map(|&key| hot.search(shape.hash(key))).collect();
        for (key, location) in keys.iter().zip(&mut found) {
            // The signature may be a resident's.
            if *location != NONE && !self.residents.contains_key(key) {
                *location = NONE;
            }
        }
        let missed: Vec<usize> = (0..keys.len()).filter(|&at| found[at] == NONE).collect();
        let hashed: Vec<_> = missed.iter().map(|&at| self.cold.shape().hash(keys[at])).collect();
        for (&at, location) in missed.iter().zip(self.cold.search(&hashed)?) {
            found[at] = location;
        }
        self.from_cold += missed.len() as u64;
        self.from_hot += (keys.len() - missed.len()) as u64;
        for (&key, &location) in keys.iter().zip(&found) {
            if location != NONE && self.random.below(self.policy.sample) == 0 {
                self.count(key);
            }
            self.seen += 1;
            if self.seen.is_multiple_of(self.policy.window) {
                self.migrate()?;
            }
        }
        Ok(found)
    }

    fn count(&mut self, key: u64) {
        if let Some(count) = self.residents.get_mut(&key) {
            *count += 1.0;
            return;
        }
        // Space-saving in its simplest form: a full list drops what was seen once.
        if self.counts.len() >= 8 * self.policy.capacity && !self.counts.contains_key(&key) {
            self.counts.retain(|_, count| *count > 1.0);
        }
        *self.counts.entry(key).or_insert(0.0) += 1.0;
    }

    /// Moves the hottest keys in, and as many of the coldest out.
    fn migrate(&mut self) -> Result<(), Error> {
        let sorted = |counts: &HashMap<u64, f64>| {
            let mut all: Vec<(u64, f64)> = counts.iter().map(|(&key, &count)| (key, count)).collect();
            all.sort_by(|one, two| two.1.total_cmp(&one.1).then(one.0.cmp(&two.0)));
            all
        };
        let coming = sorted(&self.counts);
        let mut coldest = sorted(&self.residents);
        let (mut moves_in, mut moves_out) = (Vec::new(), Vec::new());
        let mut room = self.policy.capacity.saturating_sub(self.residents.len());
        for &(key, count) in coming.iter().take(self.policy.moves).filter(|(_, count)| *count >= 2.0) {
            if room > 0 {
                room -= 1;
            } else {
                match coldest.pop() {
                    Some((out, cold)) if count >= self.policy.factor * cold.max(0.5) => moves_out.push(out),
                    _ => break,
                }
            }
            moves_in.push((key, count));
        }
        self.exchange(&moves_in, &moves_out)?;
        for counts in [&mut self.residents, &mut self.counts] {
            counts.values_mut().for_each(|count| *count /= 2.0);
        }
        self.counts.retain(|_, count| *count >= 0.5);
        Ok(())
    }

    /// A key that moves is in both tables for a moment, never in none.
    fn exchange(&mut self, moves_in: &[(u64, f64)], moves_out: &[u64]) -> Result<(), Error> {
        let (hot, shape) = (self.hot.cpu()?, self.hot.shape());
        let mut out = Vec::new();
        for &key in moves_out {
            out.push((self.cold.shape().hash(key), Change::Insert(hot.search(shape.hash(key)))));
        }
        let mut back = Vec::new();
        for ((&key, &(hashed, _)), answer) in moves_out.iter().zip(&out).zip(self.cold.change(&out)?) {
            match answer.outcome {
                // A cold table without room keeps the key in the hot one.
                Outcome::Full => {}
                // The entry of another key, which gets it back.
                Outcome::Replaced => back.push((hashed, Change::Insert(answer.former))),
                _ => {
                    hot.change(shape.hash(key), Change::Delete(NONE))?;
                    self.residents.remove(&key);
                }
            }
        }
        // Two keys that move out may displace one another: the first one's entry comes back last.
        back.reverse();
        self.cold.change(&back)?;
        let hashed: Vec<_> = moves_in.iter().map(|(key, _)| self.cold.shape().hash(*key)).collect();
        let locations = self.cold.search(&hashed)?;
        let mut gone = Vec::new();
        for ((&(key, count), &hashed), location) in moves_in.iter().zip(&hashed).zip(locations) {
            self.counts.remove(&key);
            let full = self.residents.len() >= self.policy.capacity;
            if location != NONE && !full && admit(&hot, shape.hash(key), location)? {
                self.residents.insert(key, count);
                gone.push((hashed, Change::Delete(NONE)));
                self.moved += 1;
            }
        }
        self.cold.change(&gone)?;
        Ok(())
    }
}

/// Puts a key into the hot table, unless its entry there would be another resident's.
fn admit(hot: &CpuTable<'_>, hashed: Hashed, location: u32) -> Result<bool, Error> {
    let answer = hot.change(hashed, Change::Insert(location))?;
    if answer.outcome == Outcome::Replaced {
        hot.change(hashed, Change::Insert(answer.former))?;
    }
    Ok(answer.outcome == Outcome::Inserted)
}
