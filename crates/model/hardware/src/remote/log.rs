//! The replicated log as litmus tests: what a crash may lose.
//!
//! The primary writes a record and then the log's end into the replica's memory, makes them durable in one of several ways, and
//! acknowledges the record to its client. [`losses`] enumerates what a crash of the replica may leave ([`crate::litmus::machines`]) and
//! counts the acknowledged records that are gone and the ends that name a record which is not there. [`super::timing`] has what it takes.
//!
//! | way | without DDIO | with DDIO |
//! |---|---|---|
//! | acknowledge at the NIC's completion | loses | loses |
//! | a read behind the writes, wait for it | right | loses: data are in the replica's cache |
//! | a flush behind the writes, wait for it | right | the end may survive without its record until the flush |
//! | a flush behind the record, wait; the end, a flush, wait | right | right |

use std::collections::BTreeSet;

use crate::litmus::{Design, Instruction, Litmus, Values, machines};

/// How an append is made durable before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// At the completion of the writes.
    Completion,
    /// A read behind them.
    Read,
    /// A flush behind them.
    Flush,
    /// A flush between record and end, too.
    FlushBoth,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 4] = [Way::Completion, Way::Read, Way::Flush, Way::FlushBoth];
}

/// What a crash may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Outcomes in which an acknowledged record, or its end, is not there.
    pub lost: usize,
    /// Outcomes in which the end names a record that is not there.
    pub torn: usize,
    /// All outcomes.
    pub outcomes: usize,
}

/// The program of so many appends: record n is location 2n, the end is location 1, the client remembers in location 0.
#[must_use]
pub fn replicated_log(appends: u64, way: Way, ddio: bool) -> Litmus {
    let mut program = Vec::new();
    for append in 1..=appends {
        program.push(Instruction::Write(1 + append as usize, append));
        if way == Way::FlushBoth {
            program.extend([Instruction::Flush, Instruction::Wait]);
        }
        program.push(Instruction::Write(1, append));
        match way {
            Way::Completion => {}
            Way::Read => program.push(Instruction::Read),
            Way::Flush | Way::FlushBoth => program.push(Instruction::Flush),
        }
        program.extend([Instruction::Wait, Instruction::Ack(0, append)]);
    }
    let names = ["client".to_owned(), "end".to_owned()].into_iter();
    Litmus {
        name: "replicated log".to_owned(),
        design: Design::Remote { ddio },
        locations: names.chain((1..=appends).map(|append| format!("record{append}"))).collect(),
        locks: Vec::new(),
        threads: vec![program],
        exactly: None,
        allowed: Vec::new(),
        forbidden: Vec::new(),
    }
}

/// What a crash of the replica may leave of so many appends.
#[must_use]
pub fn losses(appends: u64, way: Way, ddio: bool) -> Losses {
    let outcomes: BTreeSet<Values> = machines::outcomes(&replicated_log(appends, way, ddio));
    let has = |values: &Values, up_to: u64| (1..=up_to).all(|record| values[1 + record as usize] == record);
    Losses {
        lost: outcomes.iter().filter(|values| values[1] < values[0] || !has(values, values[0])).count(),
        torn: outcomes.iter().filter(|values| !has(values, values[1])).count(),
        outcomes: outcomes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrong_ways_are_caught_and_the_right_ones_lose_nothing() {
        let of = |way, ddio| {
            let Losses { lost, torn, outcomes } = losses(2, way, ddio);
            assert!(outcomes > 3);
            (lost > 0, torn > 0)
        };
        assert_eq!(of(Way::Completion, false), (true, false), "in their order, but not there");
        assert_eq!(of(Way::Completion, true), (true, true));
        assert_eq!(of(Way::Read, false), (false, false));
        assert_eq!(of(Way::Read, true), (true, true), "the replica's cache is volatile");
        assert_eq!(of(Way::Flush, false), (false, false));
        assert_eq!(of(Way::Flush, true), (false, true), "nothing that was acknowledged");
        assert_eq!(of(Way::FlushBoth, true), (false, false));
    }
}
