//! `reproduce`: every published result beside ours.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use studies::{Hardware, Lab, Means, Outcome, Row, StudyError};

use crate::error::Error;
use crate::observer::{Observer, Progress};

/// Between two looks at what a row that takes long does.
const LOOK: Duration = Duration::from_secs(1);

/// Published results to be measured again.
#[derive(Clone, Debug, Default)]
pub struct Reproduce {
    /// Results by id, or all of a source; everything if none is named.
    pub names: Vec<String>,
    /// Seed of the machines' random choices; their files' if not given.
    pub seed: Option<u64>,
}

impl Reproduce {
    /// The results that are named.
    ///
    /// # Errors
    /// If a name is neither a result's nor a source's.
    pub fn rows(&self) -> Result<Vec<&'static Row>, Error> {
        Ok(studies::select(&self.names)?)
    }

    /// Judges the results on all cores. Calls `each` for every one, in their order, as soon as it and those
    /// before are done.
    ///
    /// # Errors
    /// If a name is none, a measurement fails, or `each` fails.
    pub fn run(
        &self,
        observer: &dyn Observer,
        mut each: impl FnMut(&Outcome) -> std::io::Result<()>,
    ) -> Result<Vec<Outcome>, Error> {
        let rows = self.rows()?;
        let (lab, next) = (Lab::new(self.seed), AtomicUsize::new(0));
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let outcomes = std::thread::scope(|scope| {
            let (out, judged) = channel();
            for _ in 0..workers {
                let (out, next, lab, rows) = (out.clone(), &next, &lab, &rows);
                scope.spawn(move || judge_next(rows, next, lab, &out));
            }
            drop(out);
            in_order(&rows, &judged, &lab, observer, &mut each)
        });
        observer.finished();
        outcomes
    }
}

/// A row's number and what came of it.
type Judged = (usize, Result<Outcome, StudyError>);

/// Judges the rows that no other worker has, until there are none or nobody takes the outcomes.
fn judge_next(rows: &[&'static Row], next: &AtomicUsize, lab: &Lab, out: &Sender<Judged>) {
    let hardware = hardware(rows);
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(row) = rows.get(at) else { return };
        if out.send((at, studies::judge(row, lab, hardware))).is_err() {
            return;
        }
    }
}

/// Hands the outcomes on in the order of the rows.
fn in_order(
    rows: &[&'static Row],
    judged: &Receiver<Judged>,
    lab: &Lab,
    observer: &dyn Observer,
    each: &mut dyn FnMut(&Outcome) -> std::io::Result<()>,
) -> Result<Vec<Outcome>, Error> {
    let report = |done: usize, name: &str| {
        observer.progress(&Progress::Steps { doing: "reproducing", done, all: rows.len(), name });
    };
    report(0, "");
    let mut early = BTreeMap::new();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut done = 0;
    loop {
        let (at, outcome) = match judged.recv_timeout(LOOK) {
            Ok(judged) => judged,
            Err(RecvTimeoutError::Timeout) => {
                let doing = lab.is_doing();
                if !doing.is_empty() {
                    report(done, &doing);
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        done += 1;
        let id = rows[at].id;
        early.insert(at, outcome.map_err(|source| Error::Row { id, source })?);
        report(done, id);
        while let Some(outcome) = early.remove(&outcomes.len()) {
            each(&outcome).map_err(Error::Output)?;
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

/// What this computer has, and whether nothing but times of its own is asked of it. Emulated persistent memory (`memmap=`) makes regions, but no DIMMs.
fn hardware(rows: &[&Row]) -> Hardware {
    let devices = std::fs::read_dir("/sys/bus/nd/devices").into_iter().flatten().flatten();
    let dimms = devices.into_iter().any(|device| device.file_name().to_string_lossy().starts_with("nmem"));
    Hardware { dimms, quiet: rows.iter().all(|row| matches!(row.means, Means::Here(_))) }
}
