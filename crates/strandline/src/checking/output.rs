//! What a check says: a story per finding, and check.json.

use std::collections::BTreeSet;
use std::time::Instant;

use crash::files::is_contents;
use crash::{Finding, History, Outcome, Reason, Witness};
use event::SiteId;
use indicatif::ProgressBar;
use report::human::{grouped, plural};
use serde_json::{Value, json};

use super::Checked;
use super::args::CheckArgs;
use super::interrupt;
use super::page::page;
use super::run::Run;
use crate::progress::{QUIET, spinner};
use crate::sources::Sources;
use crate::{files, say};

/// Progress over all workers; silent in the first seconds.
pub struct Meter {
    points: usize,
    done: Vec<u64>,
    images: Vec<u64>,
    findings: Vec<usize>,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Meter {
    pub fn new(points: usize, parts: usize) -> Self {
        Meter {
            points,
            done: vec![0; parts],
            images: vec![0; parts],
            findings: vec![0; parts],
            started: Instant::now(),
            bar: None,
        }
    }

    /// A worker has come so far.
    pub fn show(&mut self, part: usize, outcome: &Outcome) {
        self.done[part] = outcome.points_done;
        self.images[part] = outcome.images;
        self.findings[part] = outcome.findings.len();
        if self.started.elapsed() > QUIET {
            let bar = self.bar.get_or_insert_with(spinner);
            let done: u64 = self.done.iter().sum();
            bar.set_message(format!(
                "checking: crash point {} of {}, {} images, {}",
                grouped(done),
                grouped(self.points as u64),
                grouped(self.images.iter().sum()),
                plural(self.findings.iter().sum(), "finding")
            ));
            bar.tick();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Writes check.json, and returns what is in it.
pub fn write(args: &CheckArgs, checked: &Checked) -> anyhow::Result<Value> {
    let answer = answer(args, checked);
    std::fs::create_dir_all(&args.out)?;
    let file = args.out.join("check.json");
    files::write(&file, &format!("{answer:#}\n"))?;
    Ok(answer)
}

/// Prints the result and writes check.json; whether nothing was found.
pub fn tell(args: &CheckArgs, checked: &Checked) -> anyhow::Result<bool> {
    let Checked { run, outcome, .. } = checked;
    let answer = write(args, checked)?;
    let html = args.html.then(|| args.out.join("check.html"));
    if let Some(file) = &html {
        let page = report::page(&page(args, checked)?);
        files::write(file, &page)?;
    }
    if args.json {
        say(&format!("{answer:#}\n"))?;
        return Ok(outcome.findings.is_empty());
    }
    let history = &run.history;
    let mut text = format!("{}\n", examined(checked));
    for partly in partly(args, outcome) {
        text.push_str(&format!("{partly}\n"));
    }
    text.push_str(&match outcome.findings.len() {
        0 if run.warnings.is_empty() => "nothing found\n".to_owned(),
        0 => "nothing found, as far as the warnings allow to say that\n".to_owned(),
        count => format!("{}\n", plural(count, "finding")),
    });
    text.push_str(&findings(args, history, &outcome.findings));
    if let Some(noted) = run.lints.as_ref().filter(|noted| !noted.lints.lints.is_empty()) {
        text.push_str(&format!("\nBeside that, from flushes and fences alone: {}", noted.text()));
    }
    if let Some(file) = html {
        text.push_str(&format!("\nThe page: {}\n", file.display()));
    }
    say(&text)?;
    Ok(outcome.findings.is_empty())
}

/// The findings. What the same code is at fault for follows its first story, without another one.
fn findings(args: &CheckArgs, history: &History, findings: &[Finding]) -> String {
    let sources = Sources::default();
    let mut text = String::new();
    let numbered: Vec<(usize, &Finding)> = (1..).zip(findings).collect();
    let first = |finding: &Finding| findings.iter().position(|other| other.is_of_same_code(finding));
    for &(number, finding) in numbered.iter().filter(|(number, finding)| first(finding) == Some(number - 1)) {
        let folder = super::image_folder(&args.out, number);
        text.push_str(&format!("\n{number}. {}\n", finding.message));
        text.push_str(&story(history, finding, &sources));
        text.push_str(&format!(
            "   {}; image in {}; again: strandline check --out {} --recover … --replay {}\n",
            failing(finding),
            folder.display(),
            args.out.display(),
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

/// What was examined, in a line.
pub fn examined(Checked { run, outcome, elapsed }: &Checked) -> String {
    format!(
        "{}: {} in {}, {}; {} examined in {:.1} s",
        run.history.platform(),
        plural(run.history.atoms().len(), "stored word"),
        plural(stored_to(&run.history), "file"),
        plural(outcome.points_done as usize, "crash point"),
        plural(outcome.images as usize, "image"),
        elapsed.as_secs_f64(),
    )
}

/// That not all was examined, if so.
pub fn partly(args: &CheckArgs, outcome: &Outcome) -> Vec<String> {
    let mut told = Vec::new();
    if outcome.points_done < outcome.points && outcome.findings.len() < args.findings as usize {
        let why = match args.time.filter(|_| !interrupt::stopped()) {
            Some(time) => format!("stopped after --time {}", humantime::format_duration(time)),
            None => "interrupted".to_owned(),
        };
        told.push(format!(
            "{why}: {} of {}, evenly over the run",
            grouped(outcome.points_done),
            plural(outcome.points as usize, "crash point"),
        ));
    }
    let points = match outcome.cut_short {
        0 => return told,
        1 => "1 crash point has".to_owned(),
        points => format!("{} crash points have", grouped(points)),
    };
    told.push(format!(
        "{points} more images than --images {} allows: a choice of them was examined",
        args.images
    ));
    told
}

/// How many images fail as this one.
pub fn failing(finding: &Finding) -> String {
    match finding.images {
        1 => "1 image fails like this".to_owned(),
        images => format!("{} images fail like this", grouped(images)),
    }
}

/// How many files the run stored to.
fn stored_to(history: &History) -> usize {
    if !history.platform().is_files() {
        return history.files().len();
    }
    let places = history.atoms().iter().map(|atom| atom.place);
    let files: BTreeSet<u16> = places.filter(|&place| is_contents(place)).map(crash::Place::file).collect();
    files.len()
}

/// Prints what became of one image; whether it is right.
pub fn replayed(args: &CheckArgs, run: &Run, finding: Option<&Finding>) -> anyhow::Result<bool> {
    if args.json {
        say(&format!("{:#}\n", json!({ "finding": finding.map(|finding| as_json(&run.history, finding)) })))?;
        return Ok(finding.is_none());
    }
    match finding {
        None => say("the image is right\n")?,
        Some(finding) => {
            say(&format!("{}\n{}", finding.message, story(&run.history, finding, &Sources::default())))?
        }
    }
    Ok(finding.is_none())
}

/// The story with the lines of source that it names.
fn story(history: &History, finding: &Finding, sources: &Sources) -> String {
    let mut text = String::new();
    let mut lines = finding.story(history.files(), history.table()).into_iter();
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

/// The line of source of a place; empty if it can't be read.
pub fn quoted(frame: &event::Frame, sources: &Sources) -> String {
    let source = sources.text(&frame.file);
    let line = source.as_deref().and_then(|source| source.lines().nth((frame.line as usize).wrapping_sub(1)));
    line.map_or_else(String::new, |line| format!("   {:>6} | {}\n", frame.line, line.trim()))
}

fn answer(args: &CheckArgs, checked: &Checked) -> Value {
    let Checked { run, outcome, elapsed } = checked;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": run.history.platform().name(),
        "seed": args.seed,
        "files": run.history.files(),
        "stored_words": run.history.atoms().len(),
        "crash_points": outcome.points,
        "crash_points_examined": outcome.points_done,
        "cuts": outcome.cuts,
        "cuts_short": outcome.cut_short,
        "images": outcome.images,
        "images_repeated": outcome.repeated,
        "images_failing": outcome.failing,
        "seconds": elapsed.as_secs_f64(),
        "warnings": run.warnings,
        "lints": run.lints.as_ref().map(|noted| noted.lints.json(&noted.table)),
        "findings": outcome.findings.iter().map(|finding| as_json(&run.history, finding)).collect::<Vec<_>>(),
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
        Reason::NotFenced(flush) => json!({ "kind": "not-fenced", "flush": flush.and_then(site) }),
        Reason::FencedLater { flush, fence } => {
            json!({ "kind": "fenced-later", "flush": flush.and_then(site), "fence": site(fence) })
        }
        Reason::FlushedApart(flush) => json!({ "kind": "flushed-apart", "flush": site(flush) }),
        Reason::FlushedLater(flush) => json!({ "kind": "flushed-later", "flush": site(flush) }),
        Reason::NotMade => json!({ "kind": "not-made" }),
        Reason::Unordered => json!({ "kind": "unordered" }),
    };
    let missing = |missing: &crash::Missing| {
        json!({
            "store": site(missing.site), "thread": missing.thread.0, "place": place(missing.place),
            "bytes": missing.bytes, "why": reason(missing.reason),
        })
    };
    let witness = finding.witness.map(|witness| match witness {
        Witness::Store { site: code, place: at, thread } => {
            json!({ "store": site(code), "thread": thread.0, "place": place(at) })
        }
        Witness::Ended { region } => json!({ "ended": region }),
        Witness::Begun { region } => json!({ "begun": region }),
    });
    json!({
        "message": finding.message,
        "missing": finding.missing.iter().map(missing).collect::<Vec<_>>(),
        "survived": witness,
        "next_fence": finding.next.and_then(site),
        "images": finding.images,
        "token": finding.token.to_string(),
        "story": finding.story(history.files(), history.table()),
    })
}
