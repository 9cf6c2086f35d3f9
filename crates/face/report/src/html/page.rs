//! The page's frame: header, summary, and the run at its end.

use maud::{Markup, html};

use crate::content::Cell;
use crate::digest::{Digest, share};
use crate::html::table::table;
use crate::human::{self, bytes, count, percent, plain, ratio};
use crate::model::Exit;

/// Title, what ran, and where on the page things are.
pub fn header(digest: &Digest<'_>) -> Markup {
    let run = &digest.report.run;
    html! {
        header {
            p class="brand" { "Strandline " span { "profile" } }
            h1 { (digest.subject()) }
            p class="meta" {
                "machine " b { (plain(&digest.report.figures.machine)) }
                @if let Some(seed) = run.seed { span { "seed " (seed) } }
                span { "strandline " (plain(&run.version)) }
                @if !run.date.is_empty() { span { (plain(&run.date)) } }
                @if !run.host.is_empty() { span { (plain(&run.host)) } }
            }
            nav aria-label="Sections" {
                a href="#summary" { "Summary" }
                @if digest.has_traffic() {
                    a href="#traffic" { "Traffic" }
                    a href="#functions" { "Functions" }
                    a href="#writes" { "Writes" }
                    a href="#machine" { "Machine" }
                }
                @if !digest.report.findings.is_empty() { a href="#findings" { "Findings" } }
                @if digest.report.crash_lints.is_some() { a href="#crashes" { "Crashes" } }
                @if digest.report.prestores.as_ref().is_some_and(|prestores| prestores.advised().next().is_some()) {
                    a href="#pre-stores" { "Pre-stores" }
                }
                @if digest.report.wear.as_ref().is_some_and(|wear| wear.assessment.writes > 0) {
                    a href="#wear" { "Wear" }
                }
                a href="#run" { "Run" }
            }
        }
    }
}

/// What is wrong, what to do, what it explains; then the key figures.
pub fn summary(digest: &Digest<'_>) -> Markup {
    let story = [digest.story(), digest.scope()].join(" ");
    let story = story.trim();
    html! {
        section id="summary" {
            h2 class="headline" { (digest.headline()) }
            @if !story.is_empty() { p class="story" { (story) } }
            @for caution in digest.cautions() { p class="caution" { (caution) } }
            @if !digest.report.findings.is_empty() { (brief(digest)) }
            @if digest.report.counts.events > 0 { (tiles(digest)) }
        }
    }
}

/// The findings in brief, each a link to its evidence.
fn brief(digest: &Digest<'_>) -> Markup {
    html! {
        ol class="brief" {
            @for (number, finding) in (1..).zip(&digest.report.findings) {
                li {
                    div class="what" {
                        a href=(format!("#finding-{number}")) { (plain(&finding.title)) }
                        @if let Some(first) = finding.sites.first() {
                            div class="where" { code { (digest.label(first.site)) } }
                        }
                        div class="remedy" { (plain(&finding.remedy)) }
                    }
                    (share_bar(finding.share, &finding.share_of))
                }
            }
        }
        @if digest.report.findings.len() > 1 {
            p class="note" { "Shares may overlap: two findings can explain the same bytes." }
        }
    }
}

/// A share as bar and number.
pub fn share_bar(share: f64, of: &str) -> Markup {
    let width = format!("width:{:.1}%", if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 });
    html! {
        div class="share" {
            div class="bar" aria-hidden="true" { div style=(width) {} }
            div { b { (percent(share)) } " of the " (plain(of)) }
        }
    }
}

/// The key figures, each with what it means.
fn tiles(digest: &Digest<'_>) -> Markup {
    let total = digest.total();
    let figures = &digest.report.figures;
    let tile = |name: &str, value: &str, note: &str| {
        html! {
            div class="tile" { dt { (name) } dd { (value) } dd class="note" { (note) } }
        }
    };
    html! {
        dl class="tiles" {
            @if figures.unit_bytes > 64 { (tile("Effective write ratio", &ratio(total.ewr()), "bytes from the controller per byte written to media; below 1 is amplification")) }
            (tile("Written to media", &bytes(total.media_write_bytes), &format!("for {} from the controller", bytes(total.controller_write_bytes))))
            (tile("Read", &bytes(total.controller_read_bytes), &format!("through the controller; {} from media", bytes(total.media_read_bytes))))
            @if let Some(last) = figures.caches.last() {
                @let all = last.hits.saturating_add(last.misses);
                (tile(&format!("{} hit rate", plain(&last.level)), &if all == 0 { "-".to_owned() } else { percent(share(last.hits, all)) }, &format!("of {} accesses that reached it", count(all))))
            }
            (tile("Events", &count(digest.report.counts.events), &format!("of {}", human::plural(figures.threads as usize, "thread"))))
        }
    }
}

/// How the run was made and how to repeat it.
pub fn run(digest: &Digest<'_>) -> Markup {
    let report = digest.report;
    let omissions = digest.omissions();
    html! {
        section id="run" {
            h2 { "The run" }
            @if !report.run.reproduce.is_empty() {
                p { "To make this report again:" }
                pre class="command" { code { (plain(&human::shell(&report.run.reproduce))) } }
            }
            dl class="facts" {
                @for (name, value) in facts(digest) { dt { (name) } dd { (value) } }
            }
            @if !omissions.is_empty() {
                h3 { "Not done" }
                ul { @for (what, why) in omissions { li { b { (what) } ": " (why) } } }
            }
            (counts(digest))
            p class="note" { "All numbers of this page and more are in " code { "report.json" } " beside it." }
        }
    }
}

fn facts(digest: &Digest<'_>) -> Vec<(&'static str, String)> {
    let report = digest.report;
    let exit = match &report.run.exit {
        Exit::None => None,
        Exit::Status { code } => Some(format!("status {code}")),
        Exit::Signal { number, name } => Some(format!("{} (signal {number})", plain(name))),
    };
    let capabilities = report.source.capabilities.words().to_lowercase().replace('_', "-");
    let instructions = match report.source.instructions {
        event::InstructionCounts::Unknown => None,
        event::InstructionCounts::Estimated => Some("estimated from the code between two events".to_owned()),
        event::InstructionCounts::Exact => Some("counted".to_owned()),
    };
    let capture = report.capture.as_ref();
    [
        Some(("Observed", digest.subject())),
        exit.map(|exit| ("Ended with", exit)),
        Some(("Duration", human::duration(report.run.duration))),
        Some(("Events from", plain(&report.source.producer))),
        Some(("The source sees", capabilities)),
        instructions.map(|how| ("Instruction counts", how)),
        capture.filter(|c| c.processes > 1).map(|c| ("Processes", c.processes.to_string())),
        capture.and_then(|c| c.trace_bytes).map(|size| ("Trace file", bytes(size))),
    ]
    .into_iter()
    .flatten()
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

fn counts(digest: &Digest<'_>) -> Markup {
    let c = &digest.report.counts;
    let rows = [
        ("Loads", c.loads, Some(c.load_bytes)),
        ("Stores", c.stores, Some(c.store_bytes)),
        ("Non-temporal stores", c.nt_stores, Some(c.nt_bytes)),
        ("Flushes", c.flushes, None),
        ("Demotions", c.demotes, None),
        ("Fences", c.fences, None),
        ("Synchronisations", c.syncs, None),
        ("Allocations", c.allocs, None),
        ("Frees", c.frees, None),
        ("Instructions between events", c.instructions, None),
        ("All events", c.events, None),
    ];
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .filter(|(_, number, _)| *number > 0)
        .map(|(name, number, size)| {
            let size = size.map_or(Cell::Number(String::new(), -1.0), |size| Cell::number(size, bytes));
            vec![Cell::Text(name.to_owned()), Cell::number(number, human::grouped), size]
        })
        .collect();
    if rows.is_empty() {
        return html! {};
    }
    table("What the program did, to whatever memory", &["event", "count", "size"], &rows)
}
