//! Streams of writes: a trace over and over again, and attacks that try to wear a few cells out.

use device::Rng;
use serde::{Deserialize, Serialize};

/// A pattern of writes, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// One unit, again and again.
    Hammer,
    /// A random unit until it must have moved, then another: after enough of them two lie in the same place,
    /// as two of a few people have the same birthday.
    Birthday,
    /// Every unit equally often, at random.
    Uniform,
    /// All units in order.
    Sequential,
}

/// An endless stream of units to be written.
#[derive(Clone, Debug)]
pub struct Writes<'a> {
    kind: Kind<'a>,
    units: usize,
    rng: Rng,
    at: usize,
    left: u64,
}

#[derive(Clone, Debug)]
enum Kind<'a> {
    Trace(&'a [u32]),
    Attack(Attack),
}

impl<'a> Writes<'a> {
    /// The writes of a trace, from the start again after its end.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn of(trace: &'a [u32]) -> Self {
        assert!(!trace.is_empty(), "a trace of writes has writes");
        Writes { kind: Kind::Trace(trace), units: 0, rng: Rng::new(0), at: 0, left: 0 }
    }

    /// An attack on so many units.
    #[must_use]
    pub fn attack(attack: Attack, units: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let at = rng.below(units as usize);
        Writes { kind: Kind::Attack(attack), units: units as usize, rng, at, left: 0 }
    }

    /// The next one.
    #[inline(always)]
    pub fn next_unit(&mut self) -> u64 {
        match self.kind {
            Kind::Trace(trace) => {
                let unit = trace[self.at];
                self.at += 1;
                if self.at == trace.len() {
                    self.at = 0;
                }
                u64::from(unit)
            }
            Kind::Attack(Attack::Hammer) => self.at as u64,
            Kind::Attack(Attack::Uniform) => self.rng.below(self.units) as u64,
            Kind::Attack(Attack::Sequential) => {
                self.at = (self.at + 1) % self.units;
                self.at as u64
            }
            Kind::Attack(Attack::Birthday) => {
                if self.left == 0 {
                    // As long as a gap takes to come by in a region of moderate size.
                    self.left = 4096;
                    self.at = self.rng.below(self.units);
                }
                self.left -= 1;
                self.at as u64
            }
        }
    }
}
