//! What became of a litmus test.

use std::collections::BTreeSet;
use std::fmt;

use super::{Condition, Litmus, Values, operational, outcomes};

/// A test's outcomes, held against what it expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    litmus: Litmus,
    /// All outcomes, by the checker.
    pub outcomes: BTreeSet<Values>,
    /// Those that the test does not list.
    pub unexpected: Vec<Values>,
    /// Those that it lists and that did not come out.
    pub missing: Vec<Values>,
    /// What it allows and what did not come out.
    pub never: Vec<Condition>,
    /// What it forbids and what came out.
    pub happened: Vec<Condition>,
    /// Outcomes that only the operational definition has.
    pub operational_only: Vec<Values>,
    /// Outcomes that only the checker has.
    pub checker_only: Vec<Values>,
}

/// Computes a test's outcomes by both definitions and holds them against what it expects.
#[must_use]
pub fn check(litmus: &Litmus) -> Report {
    let found = outcomes(litmus);
    let moved = operational::outcomes(litmus);
    let but_not = |some: &BTreeSet<Values>, others: &BTreeSet<Values>| -> Vec<Values> {
        some.difference(others).cloned().collect()
    };
    let expected = litmus.exactly.as_ref().unwrap_or(&found);
    let comes_out = |condition: &&Condition| found.iter().any(|values| condition.holds(values));
    Report {
        unexpected: but_not(&found, expected),
        missing: but_not(expected, &found),
        never: litmus.allowed.iter().filter(|condition| !comes_out(condition)).cloned().collect(),
        happened: litmus.forbidden.iter().filter(comes_out).cloned().collect(),
        operational_only: but_not(&moved, &found),
        checker_only: but_not(&found, &moved),
        outcomes: found,
        litmus: litmus.clone(),
    }
}

impl Report {
    /// Whether everything is as the test expects it, and both definitions agree.
    #[must_use]
    pub fn holds(&self) -> bool {
        let faults = [&self.unexpected, &self.missing, &self.operational_only, &self.checker_only];
        faults.iter().all(|fault| fault.is_empty()) && self.never.is_empty() && self.happened.is_empty()
    }

    fn values(&self, values: &Values) -> String {
        self.litmus.condition(&Condition(values.iter().copied().enumerate().collect()))
    }
}

/// The test's name and whether it holds, its outcomes, and what is wrong with them.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds() { "holds" } else { "FAILS" };
        writeln!(
            f,
            "{} ({}): {verdict}, {} outcomes",
            self.litmus.name,
            self.litmus.platform,
            self.outcomes.len()
        )?;
        for values in &self.outcomes {
            writeln!(f, "  {}", self.values(values))?;
        }
        let lists = [
            ("not expected", &self.unexpected),
            ("expected, but does not come out", &self.missing),
            ("by the operational definition only", &self.operational_only),
            ("by the checker only", &self.checker_only),
        ];
        for (what, list) in lists {
            for values in list {
                writeln!(f, "  {what}: {}", self.values(values))?;
            }
        }
        let lists =
            [("allowed, but does not come out", &self.never), ("forbidden, but comes out", &self.happened)];
        for (what, list) in lists {
            for condition in list {
                writeln!(f, "  {what}: {}", self.litmus.condition(condition))?;
            }
        }
        Ok(())
    }
}
