//! Files and entries that some step of a run joins: a renaming, an exchange.

use super::names::entry_place;
use super::rules::{Order, Rules};
use super::steps::{Step, What};

/// The journal's cell, where there is one: no other has this bit.
pub const JOURNAL: u64 = 1;

/// Of each file the first one of those whose names an exchange joins with its own.
pub fn exchanged(files: usize, steps: &[Step]) -> Vec<u16> {
    let mut first: Vec<u16> = (0..files).map(|file| file as u16).collect();
    for step in steps {
        let What::Names { changes, files, .. } = &step.what else { continue };
        // A renaming leaves nothing at the old name.
        if let ([one, other], true) = (&files[..], changes.iter().all(|change| change.word != 0)) {
            let (a, b) = (first[usize::from(*one)], first[usize::from(*other)]);
            first.iter_mut().filter(|file| **file == a.max(b)).for_each(|file| *file = a.min(b));
        }
    }
    first
}

/// The cell of each entry: the journal, or one for all entries that some change joins.
pub fn entry_cells(rules: Rules, entries: usize, steps: &[Step]) -> Vec<u64> {
    if rules.names == Order::All {
        return vec![JOURNAL; entries];
    }
    let mut leader: Vec<u32> = (0..entries as u32).collect();
    let find = |leader: &mut Vec<u32>, mut at: u32| {
        while leader[at as usize] != at {
            leader[at as usize] = leader[leader[at as usize] as usize];
            at = leader[at as usize];
        }
        at
    };
    for step in steps {
        let What::Names { changes, .. } = &step.what else { continue };
        for pair in changes.windows(2) {
            let (a, b) = (find(&mut leader, pair[0].entry), find(&mut leader, pair[1].entry));
            leader[a.max(b) as usize] = a.min(b);
        }
    }
    (0..entries as u32).map(|entry| entry_place(find(&mut leader, entry)).0).collect()
}
