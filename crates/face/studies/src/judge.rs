//! Which rows there are, and what comes of one.

use machine::ConfigError;

use crate::{
    Evidence, Lab, Means, Row, Source, Verdict, counter_rows, cxl_rows, designs, fault_rows, hare_rows,
    index, kv, migrate_rows, prestores, sfr_rows, ssp, tmc, unified_rows, vnvm, vnvm_rows, wear_rows, xpoint,
};

/// All groups of rows, in the order in which they are printed.
const GROUPS: &[&[Row]] = &[
    xpoint::latency::ROWS,
    xpoint::bandwidth::ROWS,
    xpoint::sizes::ROWS,
    xpoint::load::ROWS,
    xpoint::buffer::ROWS,
    xpoint::instructions::ROWS,
    xpoint::contention::ROWS,
    xpoint::numa::ROWS,
    xpoint::structures::ROWS,
    xpoint::applications::ROWS,
    xpoint::placement::ROWS,
    xpoint::micro_buffer::ROWS,
    prestores::listings::ROWS,
    prestores::applications::ROWS,
    prestores::ordering::ROWS,
    prestores::applications::LAST_ROWS,
    kv::UPDATES,
    kv::TRANSACTIONS,
    kv::RECOVERY,
    kv::MIXES,
    index::LOAD,
    index::NODES,
    index::LOGS,
    index::RECOVERY,
    index::TABLE,
    index::FINDINGS,
    ssp::ROWS,
    designs::strand::ROWS,
    tmc::ROWS,
    vnvm_rows::ROWS,
    vnvm::ROWS,
    migrate_rows::ROWS,
    fault_rows::ROWS,
    wear_rows::LIFETIME,
    wear_rows::REDUCTION,
    wear_rows::ESTIMATION,
    wear_rows::COST,
    hare_rows::ROWS,
    sfr_rows::ROWS,
    unified_rows::ROWS,
    cxl_rows::CALIBRATION,
    cxl_rows::CARDS,
    cxl_rows::MIXES,
    cxl_rows::TIERS,
    counter_rows::ROWS,
];

/// Why a row could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A machine's description.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The simulation stopped.
    #[error(transparent)]
    Sink(#[from] event::SinkError),
    /// A measurement stopped.
    #[error(transparent)]
    Measure(#[from] measure::MeasureError),
    /// A key-value store on which something is measured.
    #[error(transparent)]
    Store(#[from] ::kv::Error),
    /// A device, or what runs on it.
    #[error(transparent)]
    Device(#[from] unified::Error),
    /// A map on which something is measured.
    #[error(transparent)]
    Index(#[from] ::index::Error),
    /// A pool on which something is measured.
    #[error(transparent)]
    Region(#[from] region::Error),
    /// An estimate that can't be made.
    #[error(transparent)]
    Estimate(#[from] wear::estimate::AlgorithmError),
    /// A pool of programs with locks.
    #[error(transparent)]
    Sfr(#[from] ::sfr::Error),
    /// Virtualised NVM on which something is measured.
    #[error(transparent)]
    Vnvm(#[from] ::vnvm::Error),
    /// Transactions on which something is measured.
    #[error(transparent)]
    Transactions(#[from] workload::WorkloadError),
    /// A design that is to be measured.
    #[error(transparent)]
    Design(#[from] hardware::UnknownDesign),
    /// A migration on which something is measured.
    #[error("{0}")]
    Migrate(String),
    /// A plan on which something is measured.
    #[error("{0}")]
    Plan(String),
    /// A page-fault offload engine in time.
    #[error(transparent)]
    Faults(#[from] faults::timing::TimingError),
    /// Programs on which something is measured.
    #[error(transparent)]
    Kernels(#[from] crate::kernels::KernelError),
    /// This computer counts nothing to hold the model against.
    #[error("this computer's processor counts nothing: {0}")]
    NoCounters(String),
    /// The machine can't do what a row asks of it.
    #[error("{machine}: {reason}")]
    Skipped {
        /// The machine.
        machine: String,
        /// Why not.
        reason: String,
    },
    /// No row and no source of that name.
    #[error("no result `{asked}`: give an id (`strandline reproduce --list` shows them) or one of {sources}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// The sources.
        sources: String,
    },
}

/// What the computer has, for rows that take hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Persistent DIMMs.
    pub dimms: bool,
    /// Whether nothing else is asked of it now, so that its times may be measured.
    pub quiet: bool,
}

/// What came of a row.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The row.
    pub row: &'static Row,
    /// The verdict.
    pub verdict: Verdict,
    /// What was measured; empty if nothing could be.
    pub evidence: Evidence,
    /// What the model lacks, which hardware it takes, or what is missing; empty if all is well.
    pub reason: String,
}

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().copied().flatten()
}

/// The rows with the ids and of the sources that are named, in the order of [`rows`]; all if none is.
/// Capitals do not matter.
///
/// # Errors
/// [`StudyError::Unknown`] for the first name that is neither.
pub fn select<S: AsRef<str>>(names: &[S]) -> Result<Vec<&'static Row>, StudyError> {
    let is = |row: &Row, name: &str| {
        row.id.eq_ignore_ascii_case(name) || row.source.name().eq_ignore_ascii_case(name)
    };
    if let Some(name) = names.iter().map(AsRef::as_ref).find(|name| !rows().any(|row| is(row, name))) {
        let sources = Source::ALL.map(Source::name).join(", ");
        return Err(StudyError::Unknown { asked: name.to_owned(), sources });
    }
    let wanted = |row: &&Row| names.is_empty() || names.iter().any(|name| is(row, name.as_ref()));
    Ok(rows().filter(wanted).collect())
}

/// Measures a row and judges it.
///
/// # Errors
/// If the measurement stops.
pub fn judge(row: &'static Row, lab: &Lab, hardware: Hardware) -> Result<Outcome, StudyError> {
    let without = |verdict, reason: String| Outcome { row, verdict, evidence: Evidence::default(), reason };
    Ok(match row.means {
        Means::Later(what) => without(Verdict::NotYet, format!("missing: {what}")),
        Means::Hardware(what) if hardware.dimms => without(
            Verdict::NotYet,
            format!("the DIMMs are here, a measurement with them is not written: {what}"),
        ),
        Means::Hardware(what) => without(Verdict::NeedsHardware, what.to_owned()),
        Means::Here(_) if !hardware.quiet => without(
            Verdict::NeedsHardware,
            format!("times of a quiet computer: `strandline reproduce {}` measures them there", row.id),
        ),
        Means::Model(measure) | Means::Here(measure) => {
            let evidence = match measure(lab) {
                Err(StudyError::Config(ConfigError::Unknown { asked })) => {
                    return Ok(without(Verdict::NotYet, format!("missing: the machine {asked}")));
                }
                Err(error @ StudyError::NoCounters(_)) => {
                    return Ok(without(Verdict::NeedsHardware, error.to_string()));
                }
                other => other?,
            };
            let verdict = Verdict::of(&evidence.checks);
            let reason = if verdict == Verdict::Matched { String::new() } else { row.lacks.to_owned() };
            Outcome { row, verdict, evidence, reason }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_of_the_sources_has_a_row() {
        let ids: Vec<&str> = rows().map(|row| row.id).collect();
        for number in 1..=26 {
            assert!(ids.contains(&format!("xpoint-{number}").as_str()), "xpoint-{number}");
        }
        for number in 1..=15 {
            assert!(ids.contains(&format!("B-R{number}").as_str()), "B-R{number}");
        }
        for number in 1..=22 {
            assert!(ids.contains(&format!("S{number}").as_str()), "S{number}");
        }
        for number in 1..=10 {
            assert!(ids.contains(&format!("W{number}").as_str()), "W{number}");
        }
        for number in 1..=28 {
            assert!(ids.contains(&format!("I{number}").as_str()), "I{number}");
        }
        for number in 1..=7 {
            assert!(ids.contains(&format!("F{number}").as_str()), "F{number}");
        }
        let mut once = ids.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "an id stands for one row");
    }

    #[test]
    fn rows_say_what_they_claim_and_why_they_tolerate() {
        for row in rows() {
            for text in [row.claim, row.expected, row.tolerance, row.method] {
                assert!(!text.is_empty() && !text.contains("  "), "{}: `{text}`", row.id);
            }
        }
    }

    #[test]
    fn results_that_constants_were_chosen_on_say_so() {
        for id in ["xpoint-1", "xpoint-5", "xpoint-10", "xpoint-s-threads-one", "xpoint-s-power"] {
            let row = select(&[id]).unwrap()[0];
            assert!(row.is_input(), "{id}");
            let outcome = Outcome {
                row,
                verdict: Verdict::Matched,
                evidence: Evidence::default(),
                reason: String::new(),
            };
            let outcomes = [outcome];
            for text in
                [crate::markdown(&outcomes), crate::entry(&outcomes[0], 80), crate::summary(&outcomes)]
            {
                assert!(text.contains("calibration input"), "{text}");
            }
            assert!(crate::json(&outcomes).contains("\"calibration_input\": \""), "{id}");
        }
        assert!(select(&["xpoint-19"]).unwrap().iter().all(|row| !row.is_input()));
    }

    #[test]
    fn rows_are_chosen_by_id_and_source() {
        let ids =
            |names: &[&str]| select(names).map(|rows| rows.iter().map(|row| row.id).collect::<Vec<_>>());
        assert_eq!(ids(&["b-r2", "xpoint-9"]).unwrap(), ["xpoint-9", "B-R2"]);
        assert_eq!(ids(&["prestores"]).unwrap().len(), 15);
        assert_eq!(ids(&[]).unwrap().len(), rows().count());
        let refused = ids(&["xpoint-99"]).unwrap_err().to_string();
        assert!(
            refused.contains("xpoint-99") && refused.contains("--list") && refused.contains("prestores"),
            "{refused}"
        );
    }
}
