//! What the events of a run say about crashes when nobody judges images.

use std::path::Path;

use anyhow::bail;
use crash::Platform;
use crash::lint::Lints;
use event::trace::Reader;
use event::{Site, SiteTable};
use report::{Block, CrashLints, Page, Section};
use serde_json::{Value, json};

use super::args::CheckArgs;
use super::{page, run, warnings};
use crate::progress::Progress;
use crate::sources::Sources;
use crate::{files, say};

/// Lints with the names of their code.
pub struct Noted {
    pub lints: CrashLints,
    pub table: SiteTable,
}

impl From<Lints> for Noted {
    fn from(lints: Lints) -> Self {
        let found = CrashLints { lints: lints.findings(), files: lints.files().to_vec() };
        Noted { lints: found, table: lints.table().clone() }
    }
}

impl Noted {
    /// For people: each with its line of source and what to do.
    pub fn text(&self) -> String {
        let sources = Sources::default();
        let mut text = format!("{}\n", self.lints.headline());
        for lint in &self.lints.lints {
            text.push_str(&format!("\n- {}\n", lint.tell(&self.lints.files, &self.table)));
            if let Some(frame) = self.table.site(lint.site).and_then(Site::frame) {
                text.push_str(&super::output::quoted(frame, &sources));
            }
            text.push_str(&format!("  what to do: {}\n", lint.kind.remedy()));
        }
        text
    }

    /// A section of the page; none if there is nothing to say.
    pub fn section(&self) -> Option<Section> {
        let sources = Sources::default();
        let articles = self.lints.articles(&self.table, &|file| sources.text(file));
        let mut blocks = vec![Block::Text(format!(
            "{}. These come from the order of stores, flushes and fences alone.",
            self.lints.headline()
        ))];
        blocks.extend(articles.into_iter().map(Block::Article));
        let some = !self.lints.lints.is_empty();
        some.then(|| Section { id: "lints".to_owned(), title: "Lints".to_owned(), blocks })
    }
}

/// The lints of a recorded run.
fn of_trace(trace: &Path) -> anyhow::Result<Noted> {
    let mut lints = Lints::new();
    Reader::open(trace)?.replay(&mut Progress::new("looking at flushes and fences", &mut lints))?;
    Ok(lints.into())
}

/// A check without a recovery command; whether it found nothing.
pub fn alone(args: &CheckArgs) -> anyhow::Result<bool> {
    if args.replay.is_some() {
        bail!("to repeat an image, name the command that recovers it: --recover './app --recover POOL'");
    }
    let platform = args.platform.unwrap_or_default();
    if platform != Platform::Adr || !args.files.is_empty() {
        bail!(
            "without a recovery command, flushes and fences of persistent memory are looked at by the rules of adr; for ordinary files and \
             other platforms say --recover './app --recover POOL'"
        );
    }
    let (noted, warnings) = if args.program.is_empty() {
        let trace = run::trace(args)?;
        (of_trace(&trace)?, warnings::kept(&trace))
    } else {
        run::ready(args)?;
        let contents = run::before(args)?;
        let mut lints = Lints::new();
        let warnings = run::observe(args, &run::names(&contents), None, &mut lints)?;
        // A later check with a recovery command may go on from here.
        run::keep(args, lints.files(), &contents)?;
        (lints.into(), warnings)
    };
    warnings.iter().for_each(|warning| crate::warn(warning));
    if noted.lints.files.is_empty() {
        bail!(
            "the program mapped no persistent file; files under /dev/shm and on DAX mounts are, and those that --pmem PATH names"
        );
    }
    tell(args, &noted, &warnings)?;
    Ok(noted.lints.lints.is_empty())
}

fn tell(args: &CheckArgs, noted: &Noted, warnings: &[String]) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out)?;
    let answer = answer(noted, warnings);
    let file = args.out.join("check.json");
    files::write(&file, &format!("{answer:#}\n"))?;
    let html = args.html.then(|| args.out.join("check.html"));
    if let Some(file) = &html {
        files::write(file, &report::page(&page_of(args, noted, warnings)))?;
    }
    if args.json {
        return say(&format!("{answer:#}\n"));
    }
    let mut text = noted.text();
    text.push_str("\nWhether a crash does harm is told with a command that recovers: --recover './app --recover POOL'\n");
    if let Some(file) = html {
        text.push_str(&format!("The page: {}\n", file.display()));
    }
    say(&text)
}

/// The fields of `check.json`; those of the search are null.
fn answer(noted: &Noted, warnings: &[String]) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "platform": Platform::Adr.name(),
        "seed": null,
        "files": noted.lints.files,
        "stored_words": null,
        "crash_points": null,
        "crash_points_examined": null,
        "cuts": null,
        "cuts_short": null,
        "images": null,
        "images_repeated": null,
        "images_failing": null,
        "seconds": null,
        "warnings": warnings,
        "lints": noted.lints.json(&noted.table),
        "findings": null,
    })
}

fn page_of(args: &CheckArgs, noted: &Noted, warnings: &[String]) -> Page {
    Page {
        headline: noted.lints.headline(),
        story: vec![
            "Stores, flushes and fences of the run were followed line by line; no crash image was tried."
                .to_owned(),
        ],
        cautions: warnings.to_vec(),
        sections: noted.section().into_iter().collect(),
        ..page::frame(args, Platform::Adr)
    }
}
