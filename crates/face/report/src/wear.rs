//! Wear in the report: when the memory is worn out under the measured rate, what wears it, what would help.

use event::{SiteId, SiteTable};
use maud::{Markup, html};
use serde::Serialize;
use wear::Assessment;
use wear::estimate::PageWear;

use crate::content::Cell;
use crate::html::table;
use crate::human::{grouped, percent, plain, shell};

/// Pages and lines of source that are listed.
const LISTED: usize = 10;

/// The answer, and how to ask for more.
#[derive(Clone, Debug)]
pub struct Wear {
    /// What wears, how fast, and what each counter-measure would give.
    pub assessment: Assessment,
    /// The command line that shows curves and more; empty if there is none.
    pub command: Vec<String>,
}

/// A lifetime in words: seconds, or runs where nobody knows how long one takes (`unit` is then `runs`).
#[must_use]
pub fn lifetime(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "never".to_owned();
    }
    if unit == "runs" {
        return format!("{} runs", grouped(value as u64));
    }
    match value {
        value if value >= wear::YEAR => format!("{:.1} years", value / wear::YEAR),
        value if value >= wear::YEAR / 12.0 => format!("{:.1} months", value * 12.0 / wear::YEAR),
        value if value >= 86_400.0 => format!("{:.1} days", value / 86_400.0),
        value if value >= 3600.0 => format!("{:.1} hours", value / 3600.0),
        value => format!("{value:.1} s"),
    }
}

impl Wear {
    fn words(&self, value: f64) -> String {
        lifetime(value, self.assessment.unit)
    }

    /// The answer in a sentence or two.
    pub(crate) fn headline(&self) -> String {
        let found = &self.assessment;
        let memory = if found.persistent { "persistent memory" } else { "memory" };
        let rate = match found.rate {
            Some(rate) => format!(" At {} lines a second", grouped(rate as u64)),
            None => " Without a clock lifetimes are in runs;".to_owned(),
        };
        format!(
            "{} lines reached {memory} (also those cached at the end), {} pages of it.{rate} 1 % of the \
             pages are worn out after {}, \
             shuffled after {} (cells survive {} writes).",
            grouped(found.writes),
            grouped(found.written_pages),
            self.words(found.lifetime_pages),
            self.words(found.best.seconds),
            grouped(found.question.endurance.writes as u64)
        )
    }

    /// What each counter-measure gives: its name, the lifetime, in words.
    pub(crate) fn measures(&self) -> impl Iterator<Item = (&'static str, String, &str)> {
        let measures = self.assessment.measures.iter();
        measures.map(|measure| (measure.name, self.words(measure.lifetime), measure.what.as_str()))
    }

    /// The hottest pages: address, lines written, share of all, the site that stored most of them.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (&PageWear, f64, Option<SiteId>)> {
        let all = self.assessment.writes.max(1) as f64;
        let pages = self.assessment.hottest.iter().take(LISTED);
        pages.map(move |page| (page, page.writes as f64 / all, page.sites.first().map(|site| SiteId(site.0))))
    }

    /// How to see more.
    pub(crate) fn more(&self) -> String {
        if self.command.is_empty() {
            return String::new();
        }
        format!("Curves, allocations and 2 MiB pages: {}", plain(&shell(&self.command)))
    }
}

/// The name of a site, empty if there is none.
pub(crate) fn name(site: Option<SiteId>, sites: &SiteTable) -> String {
    site.map(|site| plain(&sites.label(site))).unwrap_or_default()
}

/// The section of the page, or nothing.
pub(crate) fn section(wear: Option<&Wear>, sites: &SiteTable) -> Markup {
    let Some(wear) = wear.filter(|wear| wear.assessment.writes > 0) else { return html! {} };
    let found = &wear.assessment;
    let measures: Vec<Vec<Cell>> = found
        .measures
        .iter()
        .map(|measure| {
            let life = |value: f64| if value.is_finite() { value } else { f64::MAX };
            vec![
                Cell::Text(measure.what.clone()),
                Cell::Number(wear.words(measure.lifetime), life(measure.lifetime)),
            ]
        })
        .collect();
    let pages: Vec<Vec<Cell>> = wear
        .pages()
        .map(|(page, share, site)| {
            vec![
                Cell::Code(format!("{:x}", page.address)),
                Cell::number(page.writes, grouped),
                Cell::share(share),
                Cell::Code(name(site, sites)),
            ]
        })
        .collect();
    let lines: Vec<Vec<Cell>> = found
        .sites
        .iter()
        .take(LISTED)
        .map(|site| {
            let without = wear.words(site.lifetime_without);
            let order = if site.lifetime_without.is_finite() { site.lifetime_without } else { f64::MAX };
            vec![
                Cell::Code(name(Some(SiteId(site.site)), sites)),
                Cell::share(site.share),
                Cell::Number(without, order),
            ]
        })
        .collect();
    html! {
        section id="wear" {
            h2 { "Wear" }
            p { (wear.headline()) }
            (table("What each counter-measure gives", &["measure", "lifetime"], &measures))
            (table("Hottest pages", &["page", "lines written", "of all", "most by"], &pages))
            (table("What wears the memory", &["site", "writes", "lifetime without it"], &lines))
            @if !wear.command.is_empty() { p class="note" { (wear.more()) } }
        }
    }
}

/// What `report.json` says of it. A lifetime that does not end is null.
#[derive(Serialize)]
pub(crate) struct WearJson<'a> {
    unit: &'static str,
    endurance: f64,
    page_bytes: u64,
    persistent: bool,
    writes: u64,
    media_writes: u64,
    written_pages: u64,
    rate_per_second: Option<f64>,
    lifetime_pages: f64,
    lifetime_lines: f64,
    lifetime_ideal: f64,
    lifetime_shuffled: f64,
    measures: Vec<MeasureJson<'a>>,
    hottest: Vec<PageJson>,
    lines: Vec<LineJson>,
    command: &'a [String],
}

#[derive(Serialize)]
struct MeasureJson<'a> {
    measure: &'static str,
    what: &'a str,
    lifetime: f64,
    gain: f64,
}

#[derive(Serialize)]
struct PageJson {
    address: u64,
    writes: u64,
    share: f64,
    site: Option<u32>,
    label: String,
}

#[derive(Serialize)]
struct LineJson {
    site: u32,
    label: String,
    share: f64,
    lifetime_without: f64,
}

impl<'a> WearJson<'a> {
    pub(crate) fn new(wear: &'a Wear, sites: &SiteTable) -> Self {
        let found = &wear.assessment;
        let measures = found.measures.iter().map(|measure| MeasureJson {
            measure: measure.name,
            what: &measure.what,
            lifetime: measure.lifetime,
            gain: measure.gain,
        });
        let hottest = wear.pages().map(|(page, share, site)| PageJson {
            address: page.address,
            writes: page.writes,
            share,
            site: site.map(|site| site.0),
            label: name(site, sites),
        });
        let lines = found.sites.iter().take(LISTED).map(|site| LineJson {
            site: site.site,
            label: name(Some(SiteId(site.site)), sites),
            share: site.share,
            lifetime_without: site.lifetime_without,
        });
        WearJson {
            unit: found.unit,
            endurance: found.question.endurance.writes,
            page_bytes: found.question.endurance.page,
            persistent: found.persistent,
            writes: found.writes,
            media_writes: found.media_writes,
            written_pages: found.written_pages,
            rate_per_second: found.rate,
            lifetime_pages: found.lifetime_pages,
            lifetime_lines: found.lifetime_lines,
            lifetime_ideal: found.lifetime_ideal,
            lifetime_shuffled: found.best.seconds,
            measures: measures.collect(),
            hottest: hottest.collect(),
            lines: lines.collect(),
            command: &wear.command,
        }
    }
}

/// Lines for the terminal: the answer, what would help, what wears it.
pub(crate) fn terminal(wear: &Wear, sites: &SiteTable) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, lifetime, what) in wear.measures().filter(|measure| measure.0 != "lines") {
        lines.push(format!("{name:<10}{lifetime:>16}  {what}"));
    }
    for (page, share, site) in wear.pages().take(3) {
        lines.push(format!(
            "page {:x}: {} of the lines, {}",
            page.address,
            percent(share),
            name(site, sites)
        ));
    }
    lines
}
