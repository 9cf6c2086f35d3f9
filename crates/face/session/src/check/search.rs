//! The search: recovery looks at the images of a run, on several threads.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use crash::{Bounds, Checker, Finding, Outcome, lint};
use reboot::{Rebooted, Reboots};

use super::command::RecoveryCommand;
use super::doubt::Doubt;
use super::images::Images;
use super::known::Known;
use super::limit::Limit;
use super::noted::Noted;
use super::pace::Pace;
use super::recovery::Recovery;
use super::run::Run;
use super::{Check, CheckError, Checked, boot_id, cover, reproducer};
use crate::error::Error;
use crate::observer::{Observer, Progress};

/// The search as the options have it.
pub fn checker<'r>(check: &Check, run: &'r Run) -> Checker<'r> {
    let mut checker = Checker::new(&run.history, &run.contents);
    checker.bounds = Bounds {
        per_cut: check.images,
        findings: check.findings as usize,
        hurried: check.time.is_some(),
        ..Bounds::default()
    };
    checker.strategy = check.strategy;
    checker.seed = check.seed;
    checker
}

/// Lets recovery look at the images of a run, and keeps the failing ones: at none if the run was not seen
/// whole, and at no other than the undisturbed one if recovery rejects that.
pub fn examine(
    check: &Check,
    command: &RecoveryCommand,
    run: Run,
    observer: &dyn Observer,
) -> Result<Checked, Error> {
    let reboots = Reboots::new(check.reboot, check.seed);
    let pace = Pace::new(check.timeout);
    let known = Known::default();
    let search = Search {
        check,
        command,
        run: &run,
        checker: checker(check, &run),
        reboots: &reboots,
        known: &known,
        pace: &pace,
        limit: run.limit.unwrap_or_else(|| Limit::from_now(check.time)),
        observer,
    };
    let started = Instant::now();
    observer.progress(&search.progress(&[]));
    let found = if run.doubts.is_empty() { search.images() } else { Ok(Searched::default()) };
    observer.finished();
    let Searched { mut outcome, notes, rejected, contradicted } = found?;
    if let Some(Noted { lints, .. }) = &run.lints {
        lint::explain(&mut outcome.findings, run.history.files(), &lints.lints, &lints.files);
    }
    search.keep_images(&outcome.findings)?;
    let mut run = run;
    run.warnings.extend(notes);
    run.doubts.extend(rejected);
    let interrupted = observer.stopped();
    let rebooted = reboots.state();
    let (ran, equivalent) = known.counts();
    let elapsed = started.elapsed();
    let uncovered = cover::uncovered(check, &run, &outcome, interrupted, contradicted);
    let place = run.files.as_ref().and_then(|files| files.places.chosen());
    let laid = place.map(|place| (place.sharing(), place.on_disk().map(Path::to_owned)));
    Ok(Checked { run, outcome, uncovered, ran, equivalent, laid, elapsed, rebooted, check: check.clone() })
}

struct Search<'r> {
    check: &'r Check,
    command: &'r RecoveryCommand,
    run: &'r Run,
    checker: Checker<'r>,
    reboots: &'r Reboots,
    known: &'r Known,
    pace: &'r Pace,
    limit: Limit,
    observer: &'r dyn Observer,
}

/// What a search comes to.
#[derive(Default)]
struct Searched {
    outcome: Outcome,
    /// What the reader has to know.
    notes: Vec<String>,
    /// That there was no search, because recovery rejects the undisturbed result.
    rejected: Option<Doubt>,
    /// Images that recovery called wrong and then right.
    contradicted: usize,
}

/// What one worker has done.
#[derive(Clone, Copy, Default)]
struct Done {
    points: u64,
    images: u64,
    findings: usize,
}

impl Search<'_> {
    fn recovery(&self) -> Result<Recovery<'_>, Error> {
        Recovery::new(self.command, self.pace, self.reboots, self.run, self.observer)
    }

    fn progress(&self, done: &[Done]) -> Progress<'static> {
        Progress::Images {
            points_done: done.iter().map(|done| done.points).sum(),
            points: self.checker.point_count() as u64,
            images: done.iter().map(|done| done.images).sum(),
            findings: done.iter().map(|done| done.findings).sum(),
        }
    }

    /// Asks recovery of the undisturbed result, searches, and repeats findings.
    fn images(&self) -> Result<Searched, Error> {
        if self.limit.is_over() {
            let mut none = Searched::default();
            none.outcome.points = self.checker.point_count() as u64;
            return Ok(none);
        }
        let mut searched = Searched { rejected: self.rejected()?, ..Searched::default() };
        if searched.rejected.is_some() {
            return Ok(searched);
        }
        if self.reboots.state() != Rebooted::Yes {
            let name = self.check.program().and_then(|program| program.command.first());
            searched.notes.extend(boot_id::warning(name.map(OsString::as_os_str), self.run.history.files()));
        }
        searched.outcome = self.parts(self.check.parallel())?;
        if self.observer.stopped() {
            let note = "the search was interrupted; crash points that were not looked at may have more";
            searched.notes.push(note.to_owned());
        } else {
            searched.contradicted = self.confirm(&mut searched.outcome)?;
            searched.notes.extend(cover::contradicted(searched.contradicted));
        }
        searched.notes.iter().for_each(|text| self.observer.warn(text));
        Ok(searched)
    }

    /// What recovery says of the complete image, from which nothing is missing, if it is not in order.
    fn rejected(&self) -> Result<Option<Doubt>, Error> {
        let Some((ending, printed)) = self.rejected_with(self.reboots)? else { return Ok(None) };
        let as_it_is = Reboots::new(false, self.check.seed);
        // It may be the reboot that it does not stand.
        let by_reboot = self.reboots.state() == Rebooted::Yes && self.rejected_with(&as_it_is)?.is_none();
        Ok(Some(Doubt::rejected(self.command.text(), &ending, &printed, by_reboot)))
    }

    /// How recovery ends on the complete image, and the end of what it prints, if it does not succeed.
    fn rejected_with(&self, reboots: &Reboots) -> Result<Option<(String, Vec<String>)>, Error> {
        let mut recovery = Recovery::new(self.command, self.pace, reboots, self.run, self.observer)?;
        let judged = self.checker.undisturbed(&self.run.left(), &mut recovery);
        if let Some(error) = recovery.error.take() {
            return Err(CheckError::Recovery(error).into());
        }
        Ok(judged.err().map(|_| recovery.failure.take().unwrap_or_default()))
    }

    /// All parts of the search, each with an image of its own.
    fn parts(&self, jobs: usize) -> Result<Outcome, Error> {
        let done = Mutex::new(vec![Done::default(); jobs]);
        let work = |part: usize| -> Result<Outcome, Error> {
            let recovery = self.recovery()?.knowing(self.known);
            let mut recovery = recovery.until(self.limit);
            let outcome = self.checker.part(part, jobs, &mut recovery, &mut |outcome| {
                if let Ok(mut done) = done.lock() {
                    let findings = outcome.findings.len();
                    done[part] = Done { points: outcome.points_done, images: outcome.images, findings };
                    self.observer.progress(&self.progress(&done));
                }
                !self.observer.stopped() && !self.limit.is_over()
            });
            match recovery.error {
                Some(error) => Err(CheckError::Recovery(error).into()),
                None => Ok(outcome),
            }
        };
        let work = &work;
        let parts: Vec<Result<Outcome, Error>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|part| scope.spawn(move || work(part))).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let mut whole = Outcome::default();
        for part in parts {
            whole.merge(part?);
        }
        Ok(whole)
    }

    /// Repeats each finding, as its token would, and drops those whose image recovery does not call wrong
    /// again. Returns how many these are.
    fn confirm(&self, outcome: &mut Outcome) -> Result<usize, Error> {
        let before = outcome.findings.len();
        let mut confirmed = Vec::new();
        for finding in outcome.findings.drain(..) {
            let mut recovery = self.recovery()?.sure();
            if self.checker.fails(&finding.token, &mut recovery)? {
                confirmed.push(finding);
            }
            if let Some(error) = recovery.error {
                return Err(CheckError::Recovery(error).into());
            }
        }
        outcome.findings = confirmed;
        Ok(before - outcome.findings.len())
    }

    /// Leaves each finding's image where a debugger can look at it, in place of those of an earlier check.
    fn keep_images(&self, findings: &[Finding]) -> Result<(), Error> {
        let mut number = 1;
        while self.check.image_folder(number).is_dir() {
            std::fs::remove_dir_all(self.check.image_folder(number)).ok();
            number += 1;
        }
        for (number, finding) in (1..).zip(findings) {
            let mut images = Images::new(self.run)?;
            images.apply(&self.checker.image(&finding.token)?);
            let folder = self.check.image_folder(number);
            images.save(&folder).map_err(Error::file("write", &folder))?;
        }
        let to = self.check.reproducer_folder();
        match findings.first() {
            Some(finding) if self.command.function().is_none() => {
                reproducer::write(self.check, &self.checker, self.run, self.command, finding, &to)
            }
            _ => {
                // An earlier check's would be taken for this one's. What somebody else put there stays.
                if self.check.reproducer.is_none() {
                    reproducer::clear_own(&to).ok();
                }
                Ok(())
            }
        }
    }
}
