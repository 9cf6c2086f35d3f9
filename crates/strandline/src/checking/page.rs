//! What a check says as a page: each finding with its code and a picture of the order in which things became durable.

use crash::{Checker, Finding, Picture, Platform, Witness};
use event::{Frame, Site, SiteId};
use report::human::shell;
use report::{Article, Block, Excerpt, Order, Page, Section};

use super::args::CheckArgs;
use super::lints::Noted;
use super::run::Run;
use super::{Checked, output};
use crate::sources::Sources;

/// Places of lost stores that are quoted.
const QUOTED_MAX: usize = 3;

/// The page of a check.
pub fn page(args: &CheckArgs, checked: &Checked) -> anyhow::Result<Page> {
    let Checked { run, outcome, .. } = checked;
    let findings = outcome.findings.len();
    let mut sections = Vec::new();
    if findings > 0 {
        let blocks = articles(args, run, &outcome.findings)?.into_iter().map(Block::Article).collect();
        sections.push(Section { id: "findings".to_owned(), title: "Findings".to_owned(), blocks });
    }
    sections.extend(run.lints.as_ref().and_then(Noted::section));
    Ok(Page {
        headline: match findings {
            0 => "Nothing found: recovery mended every image that was tried".to_owned(),
            1 => "A crash can leave what recovery does not mend".to_owned(),
            _ => format!("A crash can leave what recovery does not mend, in {findings} ways"),
        },
        story: vec![format!("{}.", output::examined(checked))],
        cautions: output::partly(args, outcome).into_iter().chain(run.warnings.iter().cloned()).collect(),
        sections,
        ..frame(args, run.history.platform())
    })
}

/// What pages of all checks have in common.
pub fn frame(args: &CheckArgs, platform: Platform) -> Page {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    Page {
        verb: "check".to_owned(),
        title: title(args),
        meta: vec![
            format!("{platform} rules"),
            format!("seed {}", args.seed),
            format!("strandline {}", env!("CARGO_PKG_VERSION")),
        ],
        command: ["strandline".to_owned()].into_iter().chain(arguments).collect(),
        ..Page::default()
    }
}

/// What was checked.
fn title(args: &CheckArgs) -> String {
    let words: Vec<String> = args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match &args.trace {
        Some(trace) => trace.display().to_string(),
        None if words.is_empty() => format!("The run in {}", args.out.display()),
        None => shell(&words),
    }
}

/// The command that tries a finding's image again.
fn again(args: &CheckArgs, finding: &Finding) -> Vec<String> {
    let mut words = vec!["strandline".to_owned(), "check".to_owned()];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    match &args.trace {
        Some(trace) => option("--trace", trace.display().to_string()),
        None => option("--out", args.out.display().to_string()),
    }
    if let Some(command) = &args.recover {
        option("--recover", command.clone());
    }
    option("--replay", finding.token.to_string());
    words
}

/// The findings, each with its story, its code, its picture and the command that repeats it.
pub fn articles(args: &CheckArgs, run: &Run, findings: &[Finding]) -> anyhow::Result<Vec<Article>> {
    let sources = Sources::default();
    let checker = Checker::new(&run.history, &run.contents);
    let article = |(at, finding): (usize, &Finding)| -> anyhow::Result<Article> {
        let mut blocks = vec![Block::List(finding.story(run.history.files(), run.history.table()))];
        blocks.extend(excerpts(run, finding, &sources).into_iter().map(Block::Excerpt));
        let picture = Picture::of(&checker, finding)?;
        blocks.push(Block::Order(Order::of(&picture, &run.history)));
        blocks.push(Block::Text(format!(
            "{}; the one of the picture is in {}. To try it again:",
            output::failing(finding),
            super::image_folder(&args.out, at + 1).display()
        )));
        blocks.push(Block::Command(again(args, finding)));
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
        let word = if missing.reason == crash::Reason::NotMade { "not made" } else { "lost" };
        Some((frame(missing.site)?, word))
    });
    let survived = match finding.witness {
        Some(Witness::Store { site, .. }) => frame(site),
        _ => None,
    };
    let places: Vec<(&Frame, &str)> = lost.chain(survived.map(|frame| (frame, "survived"))).collect();
    Excerpt::of_places(&places, &|file| sources.text(file))
}
