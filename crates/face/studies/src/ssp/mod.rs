//! Shadow sub-paging (Ni 2022, chapter 3), the part of it that software can do: what its regions write,
//! against undo and redo.
//!
//! The source compares hardware. These rows compare the engines of `region` as they are, which differ from it
//! in more than that: the table in each row's note.

mod counting;

use region::{Atomicity, Redo, Ssp, Undo};

use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};
pub(crate) use counting::Written;
use counting::{Keys, written};
use workload::transactions::{BTree, Hash, RbTree, Structure, Swaps};

/// The source's machine, its table 3.1.
const MACHINE: &str = "table-3.1";
/// What is done in all rows.
const METHOD: &str = "library engines on table-3.1, counting dirty lines that reach memory, by the code that stored them: 20,000 regions of a \
                      red-black tree, a B+-tree and a hashtable (131,072 scattered keys, half of them there), each with random and zipfian keys \
                      (80 % to 15 % of the keys), and swaps in an array of a million elements; 1.4 MiB for logs, which is 261 spare pages";
/// What differs from the source in all rows.
const NOTE: &str = "The source's logs are hardware's and hold a line or a value per store; redo here logs words, several to a line, and flushes lines \
                    that many regions write now and then, undo logs a line per word. The source brings a page home when no TLB holds it, the library when it needs \
                    a spare page. Its sizes are not published";

/// Why the totals are others.
const SIZES: &str = "Half of the lines that SSP writes here are copies on their way home, because the structures have more pages than there are spare \
                     ones; with four times as many it would save 35 % of undo's writes. And this redo flushes lines that many regions write now and \
                     then, so that such a line reaches memory once for several of them; the source's writes the lines of each region back";

/// Results S4 to S8.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Ssp,
        id: "S4",
        claim: "SSP writes 7.6 times less for logging than undo and 4.7 times less than redo",
        expected: "7.6, 4.7",
        tolerance: "shape: less in each workload; 35 %: what a log entry holds is not published",
        method: METHOD,
        calibration: "",
        note: NOTE,
        means: Means::Model(logging),
        lacks: "A record takes a line at least, as redo's does; a page that goes home adds an entry to the journal, and sooner or later a line of the \
                table. The structures write fewer lines in a region (5, 3, 2.5 and 2 on average) than the source's (12, 10, 3 and 2), so there is less \
                for undo and redo to log",
    },
    Row {
        source: Source::Ssp,
        id: "S5",
        claim: "SSP saves 45 % of undo's writes and 28 % of redo's",
        expected: "0.45, 0.28",
        tolerance: "shape: it saves, and more against undo; ten points: sizes are not published",
        method: METHOD,
        calibration: "",
        note: NOTE,
        means: Means::Model(|lab| saved(lab, |_| true, [0.45, 0.28])),
        lacks: SIZES,
    },
    Row {
        source: Source::Ssp,
        id: "S6",
        claim: "With zipfian keys SSP saves 56 % of undo's writes and 42 % of redo's",
        expected: "0.56, 0.42",
        tolerance: "as S5",
        method: METHOD,
        calibration: "",
        note: NOTE,
        means: Means::Model(|lab| saved(lab, |keys| keys == Keys::Zipf, [0.56, 0.42])),
        lacks: SIZES,
    },
    Row {
        source: Source::Ssp,
        id: "S7",
        claim: "With random keys SSP saves 43 % of undo's writes and 23 % of redo's",
        expected: "0.43, 0.23",
        tolerance: "as S5",
        method: METHOD,
        calibration: "",
        note: NOTE,
        means: Means::Model(|lab| saved(lab, |keys| keys == Keys::Random, [0.43, 0.23])),
        lacks: SIZES,
    },
    Row {
        source: Source::Ssp,
        id: "S8",
        claim: "Consolidation writes less than the data but with SPS, and next to nothing with zipfian keys",
        expected: "below 1, SPS above; about 0",
        tolerance: "shape: a tenth at most with zipfian keys",
        method: METHOD,
        calibration: "",
        note: NOTE,
        means: Means::Model(consolidation),
        lacks: "Hot keys are scattered over more pages than there are spare ones. With four times as many there is no consolidation but with SPS, \
                whose lines are so many that hardly any is written a second time before it goes home: then the copies are as many as the data, not more",
    },
];

/// What a workload's regions write with each engine.
#[derive(Clone, Debug)]
struct Workload {
    name: String,
    keys: Keys,
    undo: Written,
    redo: Written,
    ssp: Written,
}

/// All workloads.
fn workloads(lab: &Lab) -> Result<Vec<Workload>, StudyError> {
    fn one<S: Structure, A: Atomicity>(lab: &Lab, keys: Keys) -> Result<Written, StudyError> {
        lab.writes(format!("{} {keys:?} {}", S::TITLE, A::NAME), || {
            written::<S, A>(&lab.config(MACHINE, None)?, keys)
        })
    }
    fn all<S: Structure>(lab: &Lab, keys: Keys) -> Result<Workload, StudyError> {
        Ok(Workload {
            name: format!("{}-{keys:?}", S::TITLE),
            keys,
            undo: one::<S, Undo>(lab, keys)?,
            redo: one::<S, Redo>(lab, keys)?,
            ssp: one::<S, Ssp>(lab, keys)?,
        })
    }
    Ok(vec![
        all::<RbTree>(lab, Keys::Random)?,
        all::<BTree>(lab, Keys::Random)?,
        all::<Hash>(lab, Keys::Random)?,
        all::<Swaps>(lab, Keys::Random)?,
        all::<RbTree>(lab, Keys::Zipf)?,
        all::<BTree>(lab, Keys::Zipf)?,
        all::<Hash>(lab, Keys::Zipf)?,
    ])
}

/// Counts far below 2^52.
#[allow(clippy::cast_precision_loss)]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

#[allow(clippy::cast_precision_loss)]
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn least(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

fn logging(lab: &Lab) -> Result<Evidence, StudyError> {
    let workloads = workloads(lab)?;
    let against = |other: fn(&Workload) -> Written| {
        let ratios = workloads.iter().map(|one| ratio(other(one).logging, one.ssp.logging));
        ratios.collect::<Vec<f64>>()
    };
    let (undo, redo) = (against(|one| one.undo), against(|one| one.redo));
    Ok(Evidence::of(vec![
        Check::at_least("undo over SSP, least", 1.0, least(&undo)),
        Check::at_least("redo over SSP, least", 1.0, least(&redo)),
        Check::near("undo over SSP", 7.6, 0.35, mean(&undo)),
        Check::near("redo over SSP", 4.7, 0.35, mean(&redo)),
    ]))
}

/// Writes saved in those workloads, against undo and redo.
fn saved(lab: &Lab, which: fn(Keys) -> bool, published: [f64; 2]) -> Result<Evidence, StudyError> {
    let workloads: Vec<Workload> = workloads(lab)?.into_iter().filter(|one| which(one.keys)).collect();
    let against = |other: fn(&Workload) -> Written| {
        let saved = workloads.iter().map(|one| 1.0 - ratio(one.ssp.total(), other(one).total()));
        mean(&saved.collect::<Vec<f64>>())
    };
    let (undo, redo) = (against(|one| one.undo), against(|one| one.redo));
    let near = |what: &str, published: f64, got| Check::within(what, published - 0.1, published + 0.1, got);
    Ok(Evidence::of(vec![
        Check::at_least("saved of redo's writes", 0.0, redo),
        Check::at_least("saved of undo's, over those of redo's", 0.0, undo - redo),
        near("saved of undo's writes", published[0], undo),
        near("saved of redo's writes", published[1], redo),
    ]))
}

fn consolidation(lab: &Lab) -> Result<Evidence, StudyError> {
    let checks = workloads(lab)?.into_iter().map(|one| {
        let share = ratio(one.ssp.consolidation, one.ssp.data);
        let what = format!("{}: consolidation over data", one.name);
        match one.keys {
            Keys::Zipf => Check::at_most(&what, 0.1, share),
            Keys::Random if one.name.starts_with(Swaps::TITLE) => Check::at_least(&what, 1.0, share),
            Keys::Random => Check::at_most(&what, 1.0, share),
        }
    });
    Ok(Evidence::of(checks.collect()))
}
