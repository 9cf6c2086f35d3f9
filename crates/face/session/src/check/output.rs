//! A check as text, as a page and as JSON.

use crash::{Ending, Finding, History, Reason, Witness};
use event::SiteId;
use reboot::Rebooted;
use report::human::plural;
use serde_json::{Value, json};

use super::page::page;
use super::words::{examined, failing, partly, quoted};
use super::{Check, Checked, Replayed, cover};
use crate::error::Error;
use crate::files;
use crate::sources::Sources;

impl Checked {
    /// Writes `check.json` into the check's folder.
    pub(super) fn save(&self) -> Result<(), Error> {
        files::make_folder(&self.check.out)?;
        files::write(&super::in_folder(&self.check, "check.json"), &format!("{:#}\n", self.json()))
    }

    /// The fields of `check.json`, as `docs/check-json.md` describes them.
    #[must_use]
    pub fn json(&self) -> Value {
        answer(self)
    }

    /// The check as a self-contained HTML page; `command` is the command line that makes it again.
    ///
    /// # Errors
    /// If a finding's token is not of this run.
    pub fn html(&self, command: Vec<String>) -> Result<String, Error> {
        Ok(report::page(&page(self, command)?))
    }

    /// The findings for a terminal, each with its story.
    #[must_use]
    pub fn text(&self) -> String {
        let Checked { run, outcome, check, .. } = self;
        let mut text = format!("{}\n", examined(self));
        let checked = self;
        for partly in partly(checked) {
            text.push_str(&format!("{partly}\n"));
        }
        text.push_str(&match outcome.findings.len() {
            0 if !checked.uncovered.is_empty() => {
                "nothing found in what was examined: no verdict\n".to_owned()
            }
            0 if run.warnings.is_empty() => "nothing found\n".to_owned(),
            0 => "nothing found, as far as the warnings allow to say that\n".to_owned(),
            count => format!("{}\n", plural(count, "finding")),
        });
        text.push_str(&findings(check, &run.history, &outcome.findings));
        let script = check.reproducer_folder().join("run.sh");
        if !outcome.findings.is_empty() && script.is_file() {
            text.push_str(&format!("\nThe first one without this tool: sh {}\n", script.display()));
        }
        if let Some(noted) = run.lints.as_ref().filter(|noted| !noted.lints.lints.is_empty()) {
            text.push_str(&format!("\nBeside that, from flushes and fences alone: {}", noted.text()));
        }
        text
    }
}

impl Replayed {
    /// What is wrong with the image, for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = match &self.finding {
            None => "the image is right\n".to_owned(),
            Some(finding) => {
                format!("{}\n{}", finding.message, story(&self.run.history, finding, &Sources::default()))
            }
        };
        if let Some(laid_out) = &self.laid_out {
            text.push_str(&format!(
                "The image is in {}. Recovery runs on it by\n{}\n",
                laid_out.folder.display(),
                laid_out.command
            ));
        }
        text
    }

    /// The same as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "finding": self.finding.as_ref().map(|finding| as_json(&self.run.history, finding)),
            "image": self.laid_out.as_ref().map(|laid_out| &laid_out.folder),
            "command": self.laid_out.as_ref().map(|laid_out| &laid_out.command),
        })
    }
}

/// The findings. What the same code is at fault for follows its first story, without another one.
fn findings(check: &Check, history: &History, findings: &[Finding]) -> String {
    let sources = Sources::default();
    let mut text = String::new();
    let numbered: Vec<(usize, &Finding)> = (1..).zip(findings).collect();
    let first = |finding: &Finding| findings.iter().position(|other| other.is_of_same_code(finding));
    for &(number, finding) in numbered.iter().filter(|(number, finding)| first(finding) == Some(number - 1)) {
        let folder = check.image_folder(number);
        text.push_str(&format!("\n{number}. {}\n", finding.message));
        text.push_str(&story(history, finding, &sources));
        text.push_str(&format!(
            "   {}; image in {}; again: strandline check --out {} --recover … --replay {}\n",
            failing(finding),
            folder.display(),
            check.out.display(),
            finding.token
        ));
        let more: Vec<&(usize, &Finding)> =
            numbered.iter().skip(number).filter(|(_, other)| first(other) == Some(number - 1)).collect();
        if !more.is_empty() {
            text.push_str("   the same code also leads to:\n");
        }
        for (number, other) in more {
            let (message, token) = (&other.message, &other.token);
            text.push_str(&format!("   {number}. {message}; {}; --replay {token}\n", failing(other)));
        }
    }
    text
}

/// The story with the lines of source that it names.
fn story(history: &History, finding: &Finding, sources: &Sources) -> String {
    let mut text = String::new();
    let mut lines = finding.story(history).into_iter();
    let mut add = |line: Option<String>, site: Option<SiteId>| {
        let Some(line) = line else { return };
        text.push_str(&format!("   {line}\n"));
        let site = site.and_then(|site| history.table().site(site));
        // The innermost function, and who called it if both are one piece of code.
        for frame in site.into_iter().flat_map(|site| site.frame().into_iter().chain(site.callers()).take(2))
        {
            text.push_str(&quoted(frame, sources));
        }
    };
    for missing in &finding.missing {
        add(lines.next(), Some(missing.site));
    }
    if finding.missing.is_empty() {
        add(lines.next(), None);
    }
    if let Some(witness) = finding.witness {
        let site = match witness {
            Witness::Store { site, .. } => Some(site),
            Witness::Ended { .. } | Witness::Begun { .. } => None,
        };
        add(lines.next(), site);
    }
    text
}

fn answer(checked: &Checked) -> Value {
    let Checked { run, outcome, ran, equivalent, laid, elapsed, check, rebooted, .. } = checked;
    let refused = match rebooted {
        Rebooted::Refused(why) => Some(why),
        Rebooted::Yes | Rebooted::NotWanted => None,
    };
    let seen = checked.is_searched();
    let reasons = checked.no_verdict();
    let findings = outcome.findings.iter().map(|finding| as_json(&run.history, finding));
    let number = |number: u64| seen.then_some(number);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": run.history.platform().name(),
        "seed": check.seed,
        "files": run.history.files(),
        "stored_words": run.history.atoms().len(),
        "crash_points": number(outcome.points),
        "crash_points_examined": number(outcome.points_done),
        "share_examined": seen.then(|| cover::fraction(outcome)),
        "cuts": number(outcome.cuts),
        "cuts_short": number(outcome.cut_short),
        "images": number(outcome.images),
        "images_repeated": number(outcome.repeated),
        "images_expected": number(outcome.expected),
        "images_failing": number(outcome.failing),
        "images_equivalent": number(*equivalent),
        "recoveries": number(*ran),
        "images_share": laid.as_ref().filter(|_| seen).map(|(sharing, _)| sharing.name()),
        "rebooted": seen.then_some(*rebooted == Rebooted::Yes),
        "reboot_refused": refused,
        "seconds": seen.then_some(elapsed.as_secs_f64()),
        "warnings": run.warnings,
        "no_verdict": (!reasons.is_empty()).then_some(reasons),
        "lints": run.lints.as_ref().filter(|_| seen).map(|noted| noted.lints.json(&noted.table)),
        "findings": seen.then(|| findings.collect::<Vec<_>>()),
    })
}

fn as_json(history: &History, finding: &Finding) -> Value {
    let site = |site: SiteId| {
        let frame = |frame: &event::Frame| json!({ "function": frame.function, "file": frame.file, "line": frame.line });
        let site = history.table().site(site)?;
        let mut code = frame(site.frame()?);
        code["callers"] = site.frames.iter().skip(1).map(frame).collect();
        Some(code)
    };
    let place = |place: crash::Place| json!({ "file": history.files().get(usize::from(place.file())), "offset": place.offset() });
    let reason = |reason: Reason| match reason {
        Reason::NeverFlushed => json!({ "kind": "never-flushed" }),
        Reason::PointerFlushed(flush) => json!({ "kind": "pointer-flushed", "flush": site(flush) }),
        Reason::NotFenced(flush) => json!({ "kind": "not-fenced", "flush": flush.and_then(site) }),
        Reason::FencedLater { flush, fence } => {
            json!({ "kind": "fenced-later", "flush": flush.and_then(site), "fence": site(fence) })
        }
        Reason::FlushedApart(flush) => json!({ "kind": "flushed-apart", "flush": site(flush) }),
        Reason::FlushedLater(flush) => json!({ "kind": "flushed-later", "flush": site(flush) }),
        Reason::SyncedLater(sync, file) => {
            let file = history.files().get(usize::from(file));
            json!({ "kind": "flushed-later", "flush": site(sync), "synced": file })
        }
        Reason::NotMade => json!({ "kind": "not-made" }),
        Reason::NotStored => json!({ "kind": "not-stored" }),
        Reason::Unordered => json!({ "kind": "unordered" }),
    };
    let part = |part: Option<crash::Part>| {
        part.map(|part| json!({ "from": part.from, "to": part.to, "bytes": part.bytes, "of": part.of }))
    };
    let missing = |missing: &crash::Missing| {
        json!({
            "store": site(missing.site), "thread": missing.thread.0, "place": place(missing.place),
            "bytes": missing.bytes, "count": missing.count, "part": part(missing.part),
            "change": history.change(missing.atom), "why": reason(missing.reason),
        })
    };
    let witness = finding.witness.map(|witness| match witness {
        Witness::Store { site: code, atom, place: at, part: bytes, thread } => json!({
            "store": site(code), "thread": thread.0, "place": place(at), "part": part(bytes),
            "change": history.change(atom),
        }),
        Witness::Ended { region } => json!({ "ended": region }),
        Witness::Begun { region } => json!({ "begun": region }),
    });
    let ending = match finding.ending {
        Ending::Failed => "failed",
        Ending::Crashed => "crashed",
        Ending::Hung => "hung",
    };
    json!({
        "message": finding.message,
        "ending": ending,
        "missing": finding.missing.iter().map(missing).collect::<Vec<_>>(),
        "survived": witness,
        "next_fence": finding.next.and_then(site),
        "images": finding.images,
        "token": finding.token.to_string(),
        "story": finding.story(history),
    })
}
