//! What the order of stores, flushes and fences says about crashes, without images.

use crash::Platform;
use crash::lint::Lints;
use report::Page;
use serde_json::{Value, json};

use super::doubt::Doubt;
use super::noted::Noted;
use super::run::{self, Run};
use super::{Check, CheckError, page, warnings};
use crate::error::Error;
use crate::files;
use crate::input::Input;
use crate::observer::Observer;

/// What a check without a recovery command found.
#[derive(Debug)]
pub struct Linted {
    /// What was found.
    pub noted: Noted,
    /// What a reader has to know before trusting it.
    pub warnings: Vec<String>,
    /// Why nothing can be said of the run; empty if it was seen whole.
    pub no_verdict: Vec<Doubt>,
    check: Check,
}

/// A check without a recovery command.
pub fn alone(check: &Check, observer: &dyn Observer) -> Result<Linted, Error> {
    if check.platform.unwrap_or_default() != Platform::ADR || !check.files.is_empty() {
        return Err(CheckError::LintsOfAdr.into());
    }
    let (noted, warnings, no_verdict) = if check.program().is_some() {
        let run = Run::record(check, observer)?;
        (run.lints.unwrap_or_else(|| Lints::new().into()), run.warnings, run.doubts)
    } else {
        let trace = run::trace(check, None, observer)?;
        let mut lints = Lints::new();
        let input = Input::Trace(trace.clone());
        input.play("looking at flushes and fences", observer, &mut lints, &mut [])?;
        let (warnings, doubts) = warnings::kept(&trace);
        warnings.iter().for_each(|warning| observer.warn(warning));
        (lints.into(), warnings, doubts)
    };
    let linted = Linted { noted, warnings, no_verdict, check: check.clone() };
    if linted.noted.lints.files.is_empty() {
        return Err(CheckError::NothingPersistent { ordinary: false }.into());
    }
    files::make_folder(&check.out)?;
    files::write(&super::in_folder(check, "check.json"), &format!("{:#}\n", linted.json()))?;
    Ok(linted)
}

impl Linted {
    /// The lints for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let hint = "Whether a crash does harm is known with a command that recovers: --recover './app --recover POOL'";
        format!("{}\n{hint}\n", self.noted.text())
    }

    /// The lints as a self-contained HTML page; `command` is the command line that makes it again.
    #[must_use]
    pub fn html(&self, command: Vec<String>) -> String {
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

fn answer(Linted { noted, warnings, no_verdict, .. }: &Linted) -> Value {
    let seen = no_verdict.is_empty();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": Platform::ADR.name(),
        "seed": null,
        "files": noted.lints.files,
        "stored_words": null,
        "crash_points": null,
        "crash_points_examined": null,
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
        "no_verdict": (!seen).then_some(no_verdict),
        "lints": seen.then(|| noted.lints.json(&noted.table)),
        "findings": null,
    })
}
