//! The estimate as text and as JSON.

use event::SiteId;
use report::{Block, Cell, Table, human};
use serde_json::{Value, json};

use super::Worn;
use crate::error::Error;

/// Name and version of the document's layout.
const SCHEMA: &str = "strandline-wear-1";
/// Rows of tables of pages and of sites.
pub(super) const ROWS: usize = 10;

impl Worn {
    /// The estimate for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let found = &self.assessment;
        let mut text = format!("{}\n{}\n", human::plain(&self.subject), self.headline());
        for line in self.story() {
            text.push_str(&format!("{line}\n"));
        }
        for warning in &self.notes.warnings {
            text.push_str(&format!("warning: {}\n", human::plain(warning)));
        }
        text.push_str("\nWhat each counter-measure would give\n");
        for measure in &found.measures {
            let lifetime = self.lifetime(measure.lifetime);
            text.push_str(&format!("  {:<12}{:>14}  {}\n", measure.name, lifetime, measure.what));
        }
        text.push_str("\nWhat wears it\n");
        for site in found.sites.iter().take(ROWS) {
            text.push_str(&format!("  {:>7}  {}\n", human::percent(site.share), self.site(site.site)));
        }
        text.push_str("\nHottest pages\n");
        for page in found.hottest.iter().take(ROWS) {
            let share = human::percent(page.writes as f64 / found.writes.max(1) as f64);
            let by = page.sites.first().map(|site| self.site(site.0)).unwrap_or_default();
            text.push_str(&format!(
                "  {:>16x}{:>12}{:>8}  {by}\n",
                page.address,
                human::grouped(page.writes),
                share
            ));
        }
        if !self.accuracy.is_empty() {
            text.push_str(
                "\nEstimates from samples: hottest tenth found, RMS error with and without filters\n",
            );
            for at in &self.accuracy {
                text.push_str(&format!(
                    "  every {:<5}{:>8}{:>12.2}{:>12.2}\n",
                    at.interval,
                    human::percent(at.filtered.hottest),
                    at.filtered.rms,
                    at.unfiltered.rms
                ));
            }
        }
        text
    }

    /// The result in one sentence.
    #[must_use]
    pub fn headline(&self) -> String {
        let found = &self.assessment;
        if found.writes == 0 {
            return "Nothing was written to memory, so nothing wears.".to_owned();
        }
        let unlevelled = self.lifetime(found.lifetime_pages);
        let levelled = self.lifetime(found.best.seconds);
        let goal = match found.reaches_goal {
            Some(true) => format!("; {} can be reached", self.lifetime(found.question.goal)),
            Some(false) => format!("; nothing here reaches {}", self.lifetime(found.question.goal)),
            None => String::new(),
        };
        format!("1 % of the pages are worn out after {unlevelled}, with levelling after {levelled}{goal}.")
    }

    pub(super) fn story(&self) -> Vec<String> {
        let found = &self.assessment;
        let memory = if found.persistent { "persistent memory" } else { "memory" };
        // Samples of stores say nothing of the media.
        let media = if found.media_writes == 0 {
            String::new()
        } else {
            let units = human::grouped(found.media_writes);
            format!("; its media wrote {units} units of {} B", found.question.unit)
        };
        let mut story = vec![format!(
            "{} lines of 64 B reached {memory} on {}, {} of its {} pages{}.",
            human::grouped(found.writes),
            self.machine,
            human::grouped(found.written_pages),
            human::grouped(found.pages),
            media
        )];
        if let (Some(rate), Some(per_gib)) = (found.rate, found.rate_per_gib) {
            story.push(format!(
                "{} writes/s, {} per GiB; {} per GiB last for {} (time {}).",
                human::grouped(rate as u64),
                human::grouped(per_gib as u64),
                human::grouped(found.limit_per_gib as u64),
                self.lifetime(found.question.goal),
                self.clock
            ));
        } else {
            story.push(
                "The input has no clock: lifetimes are in runs; --duration says how long one takes."
                    .to_owned(),
            );
        }
        story.push(format!(
            "Cells survive {} writes. The first line is worn out after {}, 1 % of the lines after {}.",
            human::grouped(found.question.endurance.writes as u64),
            self.lifetime(found.lifetime_first),
            self.lifetime(found.lifetime_lines)
        ));
        if let Some(reserve) = found.reserve.filter(|reserve| reserve.extra > 0.0) {
            story.push(format!(
                "With levelling alone the goal takes {:.1} times the memory ({:.1} times more).",
                reserve.total, reserve.extra
            ));
        }
        story
    }

    /// A lifetime in words.
    pub(super) fn lifetime(&self, value: f64) -> String {
        report::lifetime(value, self.assessment.unit)
    }

    /// A site as its line of source.
    pub(super) fn site(&self, site: u32) -> String {
        human::plain(&self.notes.sites.label(SiteId(site)))
    }

    /// All numbers, as `docs/wear.md` describes them.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        let mut assessment = serde_json::to_value(&self.assessment)?;
        for page in assessment["hottest"].as_array_mut().into_iter().flatten() {
            let sites: Vec<(u32, u64)> = serde_json::from_value(page["sites"].take())?;
            page["sites"] = sites.iter().take(ROWS).map(|&(site, writes)| self.named(site, writes)).collect();
        }
        for site in assessment["sites"].as_array_mut().into_iter().flatten() {
            let number = site["site"].as_u64().unwrap_or(0) as u32;
            site["line"] = json!(self.site(number));
        }
        let allocations = self.assessment.allocations.iter();
        assessment["allocations"] = allocations.map(|&(site, writes)| self.named(site, writes)).collect();
        let answer = json!({
            "schema": SCHEMA,
            "subject": self.subject,
            "command": self.command,
            "machine": self.machine,
            "clock": self.clock,
            "headline": self.headline(),
            "devices": self.devices,
            "wear": assessment,
            "timeline": self.timeline,
            "accuracy": self.accuracy,
            "counts": self.notes.counts,
            "warnings": self.notes.warnings,
        });
        Ok(format!("{answer:#}\n"))
    }

    fn named(&self, site: u32, writes: u64) -> Value {
        json!({ "site": site, "line": self.site(site), "writes": writes })
    }

    /// Tables of the page.
    pub(super) fn tables(&self) -> Vec<Block> {
        let found = &self.assessment;
        let number =
            |value: f64, text: String| Cell::Number(text, if value.is_finite() { value } else { f64::MAX });
        let measures = found.measures.iter().map(|measure| {
            vec![
                Cell::Text(measure.what.clone()),
                number(measure.lifetime, self.lifetime(measure.lifetime)),
                number(measure.gain, human::ratio(Some(measure.gain).filter(|gain| gain.is_finite()))),
            ]
        });
        let sites = found.sites.iter().take(ROWS).map(|site| {
            vec![
                Cell::Code(self.site(site.site)),
                Cell::share(site.share),
                number(site.lifetime_without, self.lifetime(site.lifetime_without)),
            ]
        });
        let pages = found.hottest.iter().take(ROWS).map(|page| {
            vec![
                Cell::Code(format!("{:x}", page.address)),
                Cell::number(page.writes, human::grouped),
                Cell::Code(page.sites.first().map(|site| self.site(site.0)).unwrap_or_default()),
            ]
        });
        let allocations = found.allocations.iter().take(ROWS).map(|&(site, writes)| {
            vec![Cell::Code(self.site(site)), Cell::share(writes as f64 / found.writes.max(1) as f64)]
        });
        let table = |caption: &str, head: &[&str], rows: Vec<Vec<Cell>>| {
            let head = head.iter().map(|&name| name.to_owned()).collect();
            Block::Table(Table { caption: caption.to_owned(), head, rows })
        };
        let mut blocks = vec![
            table("What each counter-measure gives", &["measure", "lifetime", "gain"], measures.collect()),
            table("What wears the memory", &["site", "writes", "lifetime without it"], sites.collect()),
            table("Hottest pages", &["page", "lines written", "most by"], pages.collect()),
        ];
        if !found.allocations.is_empty() {
            let rows = allocations.collect();
            blocks.push(table("Who allocated what is worn", &["allocated by", "writes"], rows));
        }
        blocks
    }
}
