//! What a run's decisions were, so short that it fits into a token, and so that a replay notices when the
//! program asks for other decisions.

use std::fmt;
use std::str::FromStr;

use super::rng::mix;
use super::schedule::number;

/// Bits of the digest that are kept after 1, 2, 4, … decisions: three hexadecimal digits.
const CHECK: u64 = 0xFFF;

/// The number of a run's decisions and a digest of what there was to decide, what was chosen, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Decisions.
    pub decisions: u64,
    digest: u64,
    /// Low bits of the digest after 1, 2, 4, … decisions.
    checks: Vec<u16>,
}

/// One decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision<'a> {
    /// What kind of event asks for it.
    pub kind: u8,
    /// The thread that ran up to here.
    pub current: u32,
    /// Those that could go on, in the order of their numbers.
    pub candidates: &'a [u32],
    /// The one that does.
    pub chosen: u32,
    /// Events of the run so far.
    pub clock: u64,
}

impl Seen {
    /// Adds a decision.
    pub fn add(&mut self, decision: &Decision<'_>) {
        let first = u64::from(decision.kind) << 32 | u64::from(decision.current);
        let last = u64::from(decision.chosen) << 32 | decision.candidates.len() as u64;
        let candidates = decision.candidates.iter().map(|&thread| u64::from(thread));
        for part in [first, decision.clock].into_iter().chain(candidates).chain([last]) {
            self.digest = mix(self.digest.wrapping_mul(3) ^ part);
        }
        self.decisions += 1;
        if self.decisions.is_power_of_two() {
            self.checks.push((self.digest & CHECK) as u16);
        }
    }

    /// Whether `now`, a run that is as far as a check or further, is another one than this up to the last
    /// check; then, after how many decisions they were the same, and after how many not any more.
    pub fn differs(&self, now: &Seen) -> Option<(u64, u64)> {
        let at = self.checks.iter().zip(&now.checks).position(|(own, other)| own != other)?;
        Some((if at == 0 { 0 } else { 1 << (at - 1) }, 1 << at))
    }

    /// The same for two runs of equal length at their ends.
    pub fn differs_at_end(&self, now: &Seen) -> Option<(u64, u64)> {
        let last = self.checks.len().checked_sub(1).map_or(0, |at| 1 << at);
        let end = (self.short() != now.short()).then_some((last, self.decisions));
        self.differs(now).or(end)
    }

    /// The part of the digest that a token has.
    fn short(&self) -> u32 {
        (self.digest >> 32) as u32
    }
}

/// As far as a token distinguishes them.
impl PartialEq for Seen {
    fn eq(&self, other: &Seen) -> bool {
        (self.decisions, self.short(), &self.checks) == (other.decisions, other.short(), &other.checks)
    }
}

impl Eq for Seen {}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.decisions)?;
        self.checks.iter().try_for_each(|check| write!(f, "{check:03x}"))?;
        write!(f, ".{:08x}", self.short())
    }
}

impl FromStr for Seen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not what a run has seen");
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or_else(bad);
        let (decisions, checks, digest) = (number::<u64>(part()?)?, part()?, part()?);
        let count = decisions.checked_ilog2().map_or(0, |log| log as usize + 1);
        let hexadecimal = |text: &str| text.bytes().all(|c| c.is_ascii_hexdigit());
        let lengths = (checks.len(), digest.len()) == (3 * count, 8);
        if part().is_ok() || !lengths || !hexadecimal(checks) || !hexadecimal(digest) {
            return Err(bad());
        }
        let check = |at: usize| u16::from_str_radix(&checks[3 * at..3 * at + 3], 16).map_err(|_| bad());
        let digest = u32::from_str_radix(digest, 16).map_err(|_| bad())?;
        let checks = (0..count).map(check).collect::<Result<_, _>>()?;
        Ok(Seen { decisions, digest: u64::from(digest) << 32, checks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(decisions: u64, other: Option<u64>) -> Seen {
        let mut seen = Seen::default();
        for number in 0..decisions {
            let chosen = u32::from(other == Some(number));
            seen.add(&Decision { kind: 1, current: 0, candidates: &[0, 1], chosen, clock: number });
        }
        seen
    }

    #[test]
    fn it_fits_into_a_token_and_comes_back() {
        for decisions in [0, 1, 2, 3, 4, 1000] {
            let seen = run(decisions, None);
            let back: Seen = seen.to_string().parse().expect("what was printed can be read");
            assert_eq!(back.to_string(), seen.to_string());
            assert_eq!(back, seen);
            assert_eq!(back.differs_at_end(&seen), None);
        }
        for text in ["", "1", "1.abc", "1.abcd.01234567", "1.abc.0123456", "0.abc.01234567", "1.äc.01234567"]
        {
            assert!(text.parse::<Seen>().is_err(), "{text}");
        }
        assert!("1.abc.01234567.1".parse::<Seen>().is_err());
    }

    #[test]
    fn another_decision_is_noticed_between_two_checks() {
        let seen = run(1000, None);
        for (other, expected) in [(0, (0, 1)), (1, (1, 2)), (5, (4, 8)), (100, (64, 128)), (700, (512, 1000))]
        {
            assert_eq!(seen.differs_at_end(&run(1000, Some(other))), Some(expected), "decision {other}");
        }
    }
}
