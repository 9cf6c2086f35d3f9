//! What the order of stores, flushes and fences, or of calls on files, says about crashes, without images.

use crash::Platform;
use crash::lint::Lints;
use report::Page;
use serde_json::{Value, json};

use super::doubt::Doubt;
use super::noted::Noted;
use super::ordinary::Ordinary;
use super::run::{self, Run};
use super::{Check, CheckError, cover, page, warnings};
use crate::error::Error;
use crate::files;
use crate::input::Input;
use crate::observer::Observer;
use crate::play::cut_short;

/// What a check without a recovery command found.
#[derive(Debug)]
pub struct Linted {
    /// What was found.
    pub noted: Noted,
    /// What a reader has to know before trusting it.
    pub warnings: Vec<String>,
    /// Why nothing can be said of the run; empty if it was seen whole.
    pub no_verdict: Vec<Doubt>,
    /// That a part of the run was not looked at, if so: to have found nothing is no verdict then.
    uncovered: Option<Doubt>,
    /// What was found about ordinary files, if the check is of these.
    pub ordinary: Option<Ordinary>,
    /// By whose rules.
    platform: Platform,
    check: Check,
}

/// A check without a recovery command.
pub fn alone(check: &Check, observer: &dyn Observer) -> Result<Linted, Error> {
    if !check.files.is_empty() || check.platform.is_some_and(Platform::is_files) {
        return of_files(check, observer);
    }
    if check.platform.unwrap_or_default() != Platform::ADR {
        return Err(CheckError::LintsOfAdr.into());
    }
    let (noted, warnings, no_verdict, uncovered) = if check.program().is_some() {
        let run = Run::record(check, observer)?;
        (run.lints.unwrap_or_else(|| Lints::new().into()), run.warnings, run.doubts, None)
    } else {
        let trace = run::trace(check, None, observer)?;
        let mut lints = Lints::new();
        let input = Input::Trace(trace.clone());
        let played = input.play("looking at flushes and fences", observer, &mut lints, &mut [])?;
        let (mut warnings, doubts) = warnings::kept(&trace);
        let cut = played.trace.as_ref().and_then(cut_short);
        warnings.extend(cut.clone().filter(|cut| !warnings.contains(cut)));
        warnings.iter().for_each(|warning| observer.warn(warning));
        (lints.into(), warnings, doubts, cover::of_trace(cut))
    };
    let (ordinary, platform) = (None, Platform::ADR);
    let linted = Linted { noted, warnings, no_verdict, uncovered, ordinary, platform, check: check.clone() };
    if linted.noted.lints.files.is_empty() {
        return Err(CheckError::NothingPersistent { ordinary: false }.into());
    }
    linted.save()
}

/// Of ordinary files.
fn of_files(check: &Check, observer: &dyn Observer) -> Result<Linted, Error> {
    let run = Run::get(check, None, observer)?;
    if run.doubts.is_empty() && run.history.atoms().is_empty() {
        return Err(CheckError::NoFileChanged.into());
    }
    let trace = match &check.input {
        Some(Input::Trace(trace)) => trace.clone(),
        _ => run::recorded_in(check),
    };
    let mut lints = writes::Lints::new(run.lengths_before());
    Input::Trace(trace).play("looking at calls on files", observer, &mut lints, &mut [])?;
    let linted = Linted {
        noted: Lints::new().into(),
        warnings: run.warnings,
        no_verdict: run.doubts,
        uncovered: cover::of_trace(run.cut_short),
        ordinary: Some(lints.into()),
        platform: run.history.platform(),
        check: check.clone(),
    };
    linted.save()
}

impl Linted {
    fn save(self) -> Result<Linted, Error> {
        files::make_folder(&self.check.out)?;
        files::write(&super::in_folder(&self.check, "check.json"), &format!("{:#}\n", self.json()))?;
        Ok(self)
    }

    /// Why there is no verdict, if nothing was found and a part of the run was not looked at.
    #[must_use]
    pub fn uncovered(&self) -> Option<&Doubt> {
        self.uncovered.as_ref().filter(|_| self.no_verdict.is_empty() && self.is_right())
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_right(&self) -> bool {
        match &self.ordinary {
            Some(ordinary) => ordinary.findings.is_empty(),
            None => self.noted.lints.lints.is_empty(),
        }
    }

    /// The lints for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        if let Some(ordinary) = &self.ordinary {
            let hint = "Whether a crash does harm is known with a command that recovers: --recover './app --recover POOL'";
            return format!("{}\n{hint}\n", ordinary.text());
        }
        let hint = "Whether a crash does harm is known with a command that recovers: --recover './app --recover POOL'";
        format!("{}\n{hint}\n", self.noted.text())
    }

    /// The lints as a self-contained HTML page; `command` is the command line that makes it again.
    #[must_use]
    pub fn html(&self, command: Vec<String>) -> String {
        if let Some(ordinary) = &self.ordinary {
            return report::page(&Page {
                headline: ordinary.headline(),
                story: vec!["Calls on files were followed one by one; no crash image was tried.".to_owned()],
                cautions: self.warnings.clone(),
                sections: ordinary.section().into_iter().collect(),
                ..page::frame(&self.check, self.platform, command)
            });
        }
        report::page(&Page {
            headline: self.noted.lints.headline(),
            story: vec![
                "Stores, flushes and fences of the run were followed line by line; no crash image was tried."
                    .to_owned(),
            ],
            cautions: self.warnings.clone(),
            sections: self.noted.section().into_iter().collect(),
            ..page::frame(&self.check, Platform::ADR, command)
        })
    }

    /// The fields of `check.json`; those of a search are null.
    #[must_use]
    pub fn json(&self) -> Value {
        answer(self)
    }
}

fn answer(linted: &Linted) -> Value {
    let Linted { noted, warnings, no_verdict, ordinary, platform, .. } = linted;
    let seen = no_verdict.is_empty();
    let reasons: Vec<&Doubt> = no_verdict.iter().chain(linted.uncovered()).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": platform.name(),
        "seed": null,
        "files": match ordinary {
            Some(ordinary) => ordinary.findings.iter().map(|finding| finding.path.clone()).collect(),
            None => noted.lints.files.clone(),
        },
        "stored_words": null,
        "crash_points": null,
        "crash_points_examined": null,
        "share_examined": null,
        "cuts": null,
        "cuts_short": null,
        "images": null,
        "images_repeated": null,
        "images_expected": null,
        "images_failing": null,
        "images_equivalent": null,
        "recoveries": null,
        "rebooted": null,
        "reboot_refused": null,
        "seconds": null,
        "warnings": warnings,
        "no_verdict": (!reasons.is_empty()).then_some(reasons),
        "lints": seen.then(|| match ordinary {
            Some(ordinary) => json!(ordinary.json()),
            None => json!(noted.lints.json(&noted.table)),
        }),
        "findings": null,
    })
}
