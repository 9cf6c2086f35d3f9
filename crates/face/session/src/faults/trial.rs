//! Remedies tried: the program runs again with each, in turn with runs without, and what gains is kept.

use ::faults::advice::Remedy;
use serde::Serialize;

use super::run::Preload;
use super::{FROM, Faults, FaultsFound, by_key};
use crate::error::Error;
use crate::observer::{Observer, Progress};

/// Share of the run time below which nothing is tried.
pub(super) const WORTH: f64 = 0.005;
/// Remedies that are tried, at most.
const TRIED: usize = 8;
/// Share of the run time that a remedy has to gain.
const GAIN: f64 = 0.01;

/// What came of remedies.
#[derive(Clone, Debug, Serialize)]
pub struct FaultTrial {
    /// By site's key (none: the whole program).
    pub remedies: Vec<(Option<String>, Remedy)>,
    /// Where: the site's name.
    pub place: String,
    /// Share of the run time that was predicted to be gained.
    pub predicted: f64,
    /// Share of the run time that was gained, median of the rounds.
    pub gained: f64,
    /// How far apart rounds are: the median distance from the median.
    pub noise: f64,
    /// Share of the processor time that was gained.
    pub gained_cpu: f64,
    /// Faults without and with.
    pub faults: (u64, u64),
    /// KiB at most without and with.
    pub peak_kib: (u64, u64),
    /// Whether it is kept.
    pub kept: bool,
    /// What the kernel refused.
    pub refused: Vec<String>,
}

type Remedies = Vec<(Option<u64>, Remedy)>;

/// One run.
#[derive(Clone, Copy)]
struct Timed {
    elapsed: f64,
    cpu: f64,
    faults: u64,
    peak: u64,
    status: std::process::ExitStatus,
}

struct Candidate {
    remedies: Remedies,
    place: String,
    predicted: f64,
    runs: Vec<Timed>,
    refused: Vec<String>,
    /// A run ended in another way than without.
    ends_otherwise: bool,
}

impl Candidate {
    fn ran(&mut self, timed: Timed, refused: Vec<String>, expected: std::process::ExitStatus) {
        self.runs.push(timed);
        self.refused = refused;
        if timed.status != expected {
            self.refused
                .push(format!("with it the program ends with {}", crate::ending::ending(timed.status)));
            self.ends_otherwise = true;
        }
    }
}

pub(super) fn run(
    faults: &Faults,
    preload: &Preload,
    found: &mut FaultsFound,
    observer: &dyn Observer,
) -> Result<(), Error> {
    // Observing takes time, too: shares are of a run without.
    let one = || plain(faults);
    let bare = [one()?, one()?];
    let seconds = bare.iter().map(|run| run.elapsed).fold(f64::INFINITY, f64::min);
    let mut candidates = candidates(found);
    if candidates.is_empty() {
        found.warnings.push(format!(
            "nothing was tried: no remedy is predicted to gain {} % of {seconds:.3} s",
            100.0 * WORTH
        ));
        return Ok(());
    }
    let mut base = Vec::new();
    let all = faults.rounds * (candidates.len() + 1);
    let mut done = 0;
    let mut step = |name: &str| {
        observer.progress(&Progress::Steps { doing: "trying", done, all, name });
        done += 1;
    };
    for _ in 0..faults.rounds {
        step("the program as it is");
        base.push(with(faults, preload, &[])?.0);
        for one in &mut candidates {
            step(&one.place);
            let (timed, refused) = with(faults, preload, &one.remedies)?;
            one.ran(timed, refused, found.status);
            if observer.stopped() {
                return Ok(());
            }
        }
    }
    found.trials = candidates.iter().map(|one| judged(one, &base)).collect();
    observer.finished();
    together(faults, preload, found, candidates)
}

/// What is worth a try, the most promising first.
fn candidates(found: &FaultsFound) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut keep = 0.0;
    let mut kept = Vec::new();
    for site in &found.sites {
        for one in site.remedies.iter().filter(|one| one.against.is_none()) {
            // Of the same run as the share of faults, which no gain exceeds.
            let predicted = one.gain / 1e9 / found.whole();
            if one.remedy == Remedy::Keep {
                keep += predicted;
                kept.push(site.name.clone());
            } else if predicted >= WORTH {
                all.push(Candidate {
                    remedies: vec![(site.key, one.remedy)],
                    place: site.name.clone(),
                    predicted,
                    runs: Vec::new(),
                    refused: Vec::new(),
                    ends_otherwise: false,
                });
            }
        }
    }
    if keep >= WORTH {
        let (remedies, place) = (vec![(None, Remedy::Keep)], kept.join("; "));
        all.push(Candidate {
            remedies,
            place,
            predicted: keep,
            runs: Vec::new(),
            refused: Vec::new(),
            ends_otherwise: false,
        });
    }
    all.sort_by(|one, two| two.predicted.total_cmp(&one.predicted));
    all.truncate(TRIED);
    all
}

/// All that gained, together: the best of each site, or memory kept if that gains more than all of these.
fn together(
    faults: &Faults,
    preload: &Preload,
    found: &mut FaultsFound,
    candidates: Vec<Candidate>,
) -> Result<(), Error> {
    let mut best: std::collections::BTreeMap<Option<u64>, (f64, Remedy)> = std::collections::BTreeMap::new();
    for (one, trial) in candidates.iter().zip(&found.trials).filter(|(_, trial)| trial.kept) {
        let (key, remedy) = one.remedies[0];
        let held = best.entry(key).or_insert((trial.gained, remedy));
        if trial.gained > held.0 {
            *held = (trial.gained, remedy);
        }
    }
    let keep = best.remove(&None);
    let sites: f64 = best.values().map(|(gain, _)| gain).sum();
    let chosen: Remedies = match keep {
        Some((gain, remedy)) if gain >= sites => vec![(None, remedy)],
        _ => best.into_iter().map(|(key, (_, remedy))| (key, remedy)).collect(),
    };
    if chosen.is_empty() {
        return Ok(());
    }
    let mut base = Vec::new();
    let keys = by_key(&found.sites);
    let of = |key: &Option<u64>| key.and_then(|key| keys.get(&key)).map_or("the program", |site| &site.name);
    let place = chosen.iter().map(|(key, remedy)| format!("{} at {}", remedy.name(), of(key)));
    let place = place.collect::<Vec<_>>().join("; ");
    let predicted = candidates.iter().filter(|one| chosen.contains(&one.remedies[0]));
    let predicted = predicted.map(|one| one.predicted).sum();
    let mut all = Candidate {
        remedies: chosen,
        place,
        predicted,
        runs: Vec::new(),
        refused: Vec::new(),
        ends_otherwise: false,
    };
    for _ in 0..faults.rounds {
        base.push(plain(faults)?);
        let (timed, refused) = with(faults, preload, &all.remedies)?;
        all.ran(timed, refused, found.status);
    }
    // Of several that were tried, the best has gained by chance, too: only this run says by how much.
    let combined = judged(&all, &base);
    if !combined.kept {
        found.trials.iter_mut().for_each(|trial| trial.kept = false);
        found.warnings.push(
            "what gained in the trials did not gain when it was measured anew: nothing is kept".to_owned(),
        );
    }
    found.combined = Some(combined);
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[len / 2],
        len => (values[len / 2 - 1] + values[len / 2]) / 2.0,
    }
}

fn judged(one: &Candidate, base: &[Timed]) -> FaultTrial {
    // Rounds are compared pair by pair: what disturbs one mostly disturbs the other.
    let pairs = || base.iter().zip(&one.runs);
    let gains: Vec<f64> = pairs().map(|(without, with)| 1.0 - with.elapsed / without.elapsed).collect();
    let gained = median(gains.clone());
    let noise = median(gains.iter().map(|gain| (gain - gained).abs()).collect());
    let gained_cpu = median(pairs().map(|(without, with)| 1.0 - with.cpu / without.cpu.max(1e-9)).collect());
    let of =
        |runs: &[Timed], value: fn(&Timed) -> u64| median(runs.iter().map(|run| value(run) as f64).collect());
    let both = |value| (of(base, value) as u64, of(&one.runs, value) as u64);
    FaultTrial {
        remedies: one
            .remedies
            .iter()
            .map(|(key, remedy)| (key.map(|key| format!("{key:016x}")), *remedy))
            .collect(),
        place: one.place.clone(),
        predicted: one.predicted,
        gained,
        noise,
        gained_cpu,
        faults: both(|run| run.faults),
        peak_kib: both(|run| run.peak),
        kept: gained > GAIN && gained > 1.5 * noise && !one.ends_otherwise,
        refused: one.refused.clone(),
    }
}

/// The program with the library.
fn with(
    faults: &Faults,
    preload: &Preload,
    remedies: &[(Option<u64>, Remedy)],
) -> Result<(Timed, Vec<String>), Error> {
    let environment = preload.environment(FROM, remedies, false)?;
    let timed = timed(faults, &environment)?;
    Ok((timed, preload.left().map(|left| left.refused).unwrap_or_default()))
}

/// The program as it is.
fn plain(faults: &Faults) -> Result<Timed, Error> {
    timed(faults, &[])
}

fn timed(faults: &Faults, environment: &[(std::ffi::OsString, std::ffi::OsString)]) -> Result<Timed, Error> {
    let counts =
        capture::count_faults(&faults.program.command, environment, faults.program.stdout_to_stderr)?;
    Ok(Timed {
        elapsed: counts.elapsed.as_secs_f64(),
        cpu: (counts.cpu.0 + counts.cpu.1).as_secs_f64(),
        faults: counts.minor + counts.major,
        peak: counts.peak_kib,
        status: counts.status,
    })
}
