//! What all three forms of a report share: which memory it is about, sites folded into functions, and the
//! sentences at its top.

use std::collections::BTreeMap;

use event::{Frame, Sampling, Site, SiteId};
use machine::{MemoryFigures, SiteFigures, SiteMemory, Traffic};

use crate::crashes::CrashFindings;
use crate::human::{self, bytes, elide, percent, plain, plural, ratio};
use crate::lints::CrashLints;
use crate::model::{Exit, Report, Subject};

/// C++ has names of kilobytes; `report.json` has them whole.
const LABEL_COLUMNS_MAX: usize = 160;

/// A report with what was derived from it.
pub struct Digest<'a> {
    pub report: &'a Report,
    /// The memory that the run is about.
    pub memory: &'a MemoryFigures,
    /// Functions with traffic there, the most media bytes first.
    pub functions: Vec<Row>,
    /// Sites with traffic there, in the same order.
    pub sites: Vec<Row>,
}

/// What a function or a site did.
#[derive(Clone, Debug)]
pub struct Row {
    /// Function and place, `leaf_insert (btree.c:212)`; of a function, its line with the most traffic.
    pub label: String,
    /// The function alone.
    pub function: String,
    /// `btree.c:212`; empty if unknown.
    pub place: String,
    /// How many sites are in it.
    pub sites: usize,
    /// Loads, stores and flushes, to whatever memory.
    pub all: SiteFigures,
    /// Traffic at the memory that the run is about.
    pub memory: SiteMemory,
}

impl Row {
    /// Bytes this row's writes had when the controller sent them, over what they became on media.
    pub fn ewr(&self) -> Option<f64> {
        let media = self.memory.media_write_bytes;
        (media > 0).then(|| self.memory.controller_write_bytes as f64 / media as f64)
    }

    fn new(site: Option<&Site>, label: String, all: SiteFigures, memory: SiteMemory) -> Row {
        let frame = site.and_then(Site::frame);
        let function = frame.map_or_else(|| label.clone(), |frame| plain(&frame.function));
        let place = frame.and_then(Frame::place).map_or_else(String::new, |place| plain(&place));
        Row { label, function, place, sites: 1, all, memory }
    }

    fn absorb(&mut self, other: &Row) {
        self.sites += other.sites;
        let (a, b) = (&mut self.all, &other.all);
        a.loads = a.loads.saturating_add(b.loads);
        a.stores = a.stores.saturating_add(b.stores);
        a.store_bytes = a.store_bytes.saturating_add(b.store_bytes);
        a.nt_bytes = a.nt_bytes.saturating_add(b.nt_bytes);
        a.flushes = a.flushes.saturating_add(b.flushes);
        a.clean_flushes = a.clean_flushes.saturating_add(b.clean_flushes);
        let (a, b) = (&mut self.memory, &other.memory);
        a.read_bytes = a.read_bytes.saturating_add(b.read_bytes);
        a.controller_write_bytes = a.controller_write_bytes.saturating_add(b.controller_write_bytes);
        a.evicted_bytes = a.evicted_bytes.saturating_add(b.evicted_bytes);
        a.media_write_bytes = a.media_write_bytes.saturating_add(b.media_write_bytes);
        a.partial_media_bytes = a.partial_media_bytes.saturating_add(b.partial_media_bytes);
    }
}

/// Bytes written elsewhere from which the report says that they are left out.
const LEFT_OUT_MIN: u64 = 1 << 20;

/// What to know of figures that are about a part of the events.
#[must_use]
pub fn of_sampling(sampling: Sampling) -> String {
    format!(
        "Events were sampled in bursts, {} of every {}: figures are about what was kept, and caches start cold at each burst.",
        human::count(sampling.recorded),
        human::count(sampling.period)
    )
}

impl<'a> Digest<'a> {
    /// Derives what the forms share.
    pub fn new(report: &'a Report) -> Digest<'a> {
        let mut sites = Vec::new();
        let mut functions: BTreeMap<(String, String), Row> = BTreeMap::new();
        for (number, all) in (0u32..).zip(&report.figures.sites) {
            let memory = *report.figures.site_focus(all);
            if memory == SiteMemory::default() {
                continue;
            }
            let id = SiteId(number);
            let site = report.sites.site(id);
            sites.push(Row::new(site, label(report, id), *all, memory));
        }
        sites.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.label.cmp(&b.label)));
        for row in &sites {
            let file = row.place.split(':').next().unwrap_or_default().to_owned();
            // Rows come with the hottest first, so the first one's line stands for the function.
            functions
                .entry((row.function.clone(), file))
                .and_modify(|function| function.absorb(row))
                .or_insert_with(|| row.clone());
        }
        let mut functions: Vec<Row> = functions.into_values().collect();
        functions.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.label.cmp(&b.label)));
        Digest { report, memory: report.figures.focus(), functions, sites }
    }

    /// All traffic of the memory that the run is about.
    pub fn total(&self) -> &'a Traffic {
        &self.memory.total
    }

    /// Whether anything reached that memory.
    pub fn has_traffic(&self) -> bool {
        *self.total() != Traffic::default()
    }

    /// The memory's name in a sentence.
    pub fn memory_name(&self) -> &'static str {
        if self.report.figures.mapped_persistent { "persistent memory" } else { "memory" }
    }

    /// What ran, as a heading.
    pub fn subject(&self) -> String {
        match &self.report.run.subject {
            Subject::Program { command } => plain(&human::shell(command)),
            Subject::Workload { name } => format!("{} (built-in workload)", plain(name)),
            Subject::Trace { path, command } if command.is_empty() => format!("trace {}", plain(path)),
            Subject::Trace { path, command } => {
                format!("{} (trace {})", plain(&human::shell(command)), plain(path))
            }
        }
    }

    /// How a table or plot names a site.
    pub fn label(&self, id: SiteId) -> String {
        label(self.report, id)
    }

    /// The one line that a reader in a hurry takes away: what can lose data comes first.
    pub fn headline(&self) -> String {
        let crashes = self.report.crash_findings.as_ref().filter(|crashes| !crashes.findings.is_empty());
        let dangers = self.report.crash_lints.as_ref().filter(|lints| lints.are_dangers());
        match crashes.map(CrashFindings::headline).or_else(|| dangers.map(CrashLints::headline)) {
            Some(alarm) => format!("{alarm}. {}", self.of_traffic()),
            None => self.of_traffic(),
        }
    }

    /// What the rules say.
    fn of_traffic(&self) -> String {
        let findings = &self.report.findings;
        if self.report.counts.events == 0 {
            return match &self.report.samples {
                Some(_) => "Only functions were sampled: the program's memory accesses could not be seen.",
                None => "No memory events were recorded.",
            }
            .to_owned();
        }
        if findings.is_empty() {
            if !self.has_traffic() {
                return format!("Nothing reached {}: the caches answered every access.", self.memory_name());
            }
            let applied = if self.report.withheld.is_empty() { "" } else { " that could be applied" };
            return format!("None of the rules on traffic{applied} is broken.");
        }
        let number = plural(findings.len(), "finding");
        let measured = findings.iter().filter(|finding| finding.share.is_finite());
        let Some(largest) = measured.max_by(|a, b| a.share.total_cmp(&b.share)) else {
            return format!("{number}.");
        };
        let what = if findings.len() == 1 { "it explains" } else { "the largest explains" };
        format!("{number}; {what} {} of the {}.", percent(largest.share), plain(&largest.share_of))
    }

    /// What became of the bytes, in a sentence; empty without traffic.
    pub fn story(&self) -> String {
        let total = self.total();
        let (sent, media) = (total.controller_write_bytes, total.media_write_bytes);
        if !self.has_traffic() {
            return String::new();
        }
        if sent == 0 {
            let read = bytes(total.controller_read_bytes);
            let counts = &self.report.counts;
            if counts.stores + counts.nt_stores > 0 {
                return format!(
                    "Nothing was written back to {}: what was stored there, if anything, stayed in the caches to the \
                     end. {read} were read through the controller.",
                    self.memory_name()
                );
            }
            return format!("The program only read {}: {read} through the controller.", self.memory_name());
        }
        let written = format!("{} written to {}", bytes(sent), self.memory_name());
        if media == 0 {
            return format!("{written} never left the device's buffer.");
        }
        if self.report.figures.unit_bytes <= 64 {
            return format!("{written}, {} read from it.", bytes(total.controller_read_bytes));
        }
        let became = format!("{written} became {} on its media (EWR {})", bytes(media), ratio(total.ewr()));
        if media > sent {
            format!("{became}: {} of that is write amplification.", bytes(media - sent))
        } else if media < sent {
            format!("{became}: the device's buffer merged the rest.")
        } else {
            format!("{became}: no write amplification.")
        }
    }

    /// Which memory all figures are about; empty if there are none.
    pub fn scope(&self) -> String {
        let figures = &self.report.figures;
        if self.report.counts.events == 0 {
            return String::new();
        }
        let machine = format!(
            "{} ({}, units of {} B)",
            plain(&figures.machine),
            plural(figures.dimms as usize, "DIMM"),
            figures.unit_bytes
        );
        if figures.machine == "host" {
            let state = if figures.mapped_persistent {
                "Its"
            } else {
                "The program mapped no persistent memory, so its"
            };
            return format!(
                "{state} memory is judged on this machine, `host`: caches and cores as the system states them."
            );
        }
        if figures.mapped_persistent {
            format!(
                "Figures are about the ranges that the program mapped as persistent, on a modelled {machine}."
            )
        } else {
            format!(
                "The program mapped no persistent memory. Figures show all of its memory as if it were on {machine}."
            )
        }
    }

    /// A sentence if the program did not end well.
    pub fn failure(&self) -> Option<String> {
        let until_then = "the figures cover what it did until then";
        match &self.report.run.exit {
            Exit::None | Exit::Status { code: 0 } => None,
            Exit::Status { code } => Some(format!("The program ended with status {code}; {until_then}.")),
            Exit::Signal { number, name } => {
                Some(format!("The program was ended by {} (signal {number}); {until_then}.", plain(name)))
            }
        }
    }

    /// A sentence if only part of the events was kept.
    pub fn sampling(&self) -> Option<String> {
        self.report.source.sampling.map(of_sampling)
    }

    /// All that qualifies the figures, most important first.
    pub fn cautions(&self) -> Vec<String> {
        let warnings = self.report.run.warnings.iter().map(|warning| plain(warning));
        self.failure().into_iter().chain(self.sampling()).chain(self.left_out()).chain(warnings).collect()
    }

    /// A sentence if nearly all that was written went to memory that the figures are not about.
    fn left_out(&self) -> Option<String> {
        let figures = &self.report.figures;
        let (here, there) =
            (figures.persistent.total.controller_write_bytes, figures.volatile.total.controller_write_bytes);
        (figures.mapped_persistent && there > LEFT_OUT_MIN && here < there / 100).then(|| {
            format!(
                "Nearly all writes, {} that left the caches, went to memory that was not mapped as persistent, and the \
                 figures leave them out. A file that is mapped for reading and written with `write` is such a case.",
                bytes(there)
            )
        })
    }

    /// What was not done, with reasons: skipped steps and withheld rules.
    pub fn omissions(&self) -> Vec<(String, String)> {
        let skipped = self.report.run.skipped.iter().map(|s| (plain(&s.what), plain(&s.reason)));
        let withheld =
            self.report.withheld.iter().map(|w| (format!("rule {}", plain(&w.rule)), plain(&w.reason)));
        skipped.chain(withheld).collect()
    }
}

fn label(report: &Report, id: SiteId) -> String {
    let label = report.sites.label(id);
    let caller = report.costs.as_ref().and_then(|costs| costs.caller(id, &report.sites));
    let label = caller.map_or_else(|| label.clone(), |caller| format!("{caller}, by {label}"));
    elide(&plain(&label), LABEL_COLUMNS_MAX)
}

/// Share of a whole; 0 of nothing.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A sum that stays at the largest number instead of wrapping.
pub fn sum(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::saturating_add)
}

/// Most media bytes first; among programs that only read, most bytes read.
fn rank(row: &Row) -> (u64, u64, u64) {
    (row.memory.media_write_bytes, row.memory.controller_write_bytes, row.memory.read_bytes)
}
