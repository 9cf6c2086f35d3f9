//! What a check says as a page: each finding with its code and a picture of the order in which things became
//! durable.

use crash::{Finding, Picture, Platform, Witness};
use event::{Frame, Site, SiteId};
use report::human::shell;
use report::{Article, Block, Excerpt, Order, Page, Section};

use super::noted::Noted;
use super::run::Run;
use super::{Check, Checked, words};
use crate::error::Error;
use crate::input::Input;
use crate::sources::Sources;

/// Places of lost stores that are quoted.
const QUOTED_MAX: usize = 3;

/// The page of a check.
pub fn page(checked: &Checked, command: Vec<String>) -> Result<Page, Error> {
    let Checked { run, outcome, check, .. } = checked;
    let findings = outcome.findings.len();
    let mut sections = Vec::new();
    if findings > 0 {
        let blocks = articles(check, run, &outcome.findings)?.into_iter().map(Block::Article).collect();
        sections.push(Section { id: "findings".to_owned(), title: "Findings".to_owned(), blocks });
    }
    sections.extend(run.lints.as_ref().and_then(Noted::section));
    Ok(Page {
        headline: match findings {
            0 if !checked.uncovered.is_empty() => {
                "No verdict: nothing found, and not all was examined that was to be".to_owned()
            }
            0 => "Nothing found: recovery mended every image that was tried".to_owned(),
            1 => "A crash can leave what recovery does not mend".to_owned(),
            _ => format!("A crash can leave what recovery does not mend, in {findings} ways"),
        },
        story: vec![format!("{}.", words::examined(checked))],
        cautions: words::partly(checked).into_iter().chain(run.warnings.iter().cloned()).collect(),
        sections,
        ..frame(check, run.history.platform(), command)
    })
}

/// What pages of all checks have in common.
pub fn frame(check: &Check, platform: Platform, command: Vec<String>) -> Page {
    Page {
        verb: "check".to_owned(),
        title: title(check),
        meta: vec![
            format!("{platform} rules"),
            format!("seed {}", check.seed),
            format!("strandline {}", env!("CARGO_PKG_VERSION")),
        ],
        command,
        ..Page::default()
    }
}

/// What was checked.
fn title(check: &Check) -> String {
    match &check.input {
        Some(Input::Trace(trace)) => trace.display().to_string(),
        Some(Input::Program(program)) => shell(&program.words()),
        Some(Input::BuiltIn(built_in)) => built_in.name.clone(),
        None => format!("The run in {}", check.out.display()),
    }
}

/// The command that tries a finding's image again.
fn again(check: &Check, finding: &Finding) -> Vec<String> {
    let mut words = vec!["strandline".to_owned(), "check".to_owned()];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    match &check.input {
        Some(Input::Trace(trace)) => option("--trace", trace.display().to_string()),
        _ => option("--out", check.out.display().to_string()),
    }
    if let Some(command) = &check.recover {
        option("--recover", command.clone());
    }
    option("--replay", finding.token.to_string());
    words
}

/// The findings, each with its story, its code, its picture and the command that repeats it.
pub fn articles(check: &Check, run: &Run, findings: &[Finding]) -> Result<Vec<Article>, Error> {
    let sources = Sources::default();
    let checker = super::plain_checker(run);
    let article = |(at, finding): (usize, &Finding)| -> Result<Article, Error> {
        let mut blocks = vec![Block::List(finding.story(&run.history))];
        blocks.extend(excerpts(run, finding, &sources).into_iter().map(Block::Excerpt));
        let picture = Picture::of(&checker, finding)?;
        blocks.push(Block::Order(Order::of(&picture, &run.history)));
        blocks.push(Block::Text(format!(
            "{}; the one of the picture is in {}. To try it again:",
            words::failing(finding),
            check.image_folder(at + 1).display()
        )));
        blocks.push(Block::Command(again(check, finding)));
        Ok(Article {
            id: format!("finding-{}", at + 1),
            number: at + 1,
            title: finding.message.clone(),
            blocks,
        })
    };
    findings.iter().enumerate().map(article).collect()
}

/// The code that the story is about.
fn excerpts(run: &Run, finding: &Finding, sources: &Sources) -> Vec<Excerpt> {
    let frame = |site: SiteId| run.history.table().site(site).and_then(Site::frame);
    let lost = finding.missing.iter().take(QUOTED_MAX).filter_map(|missing| {
        let word = if matches!(missing.reason, crash::Reason::NotMade | crash::Reason::NotStored) {
            "not made"
        } else {
            "lost"
        };
        Some((frame(missing.site)?, word))
    });
    let survived = match finding.witness {
        Some(Witness::Store { site, .. }) => frame(site),
        _ => None,
    };
    let places: Vec<(&Frame, &str)> = lost.chain(survived.map(|frame| (frame, "survived"))).collect();
    Excerpt::of_places(&places, &|file| sources.text(file))
}
