//! What was found, for a terminal and as JSON.

use report::human;
use serde_json::{Value, json};

use super::{FaultSite, FaultTrial, FaultsFound};
use crate::ending::ending;
use crate::error::Error;

/// Name and version of the document's layout.
const SCHEMA: &str = "strandline-faults-1";
/// Sites that the terminal shows.
const SHOWN: usize = 8;
/// Share of the run time below which it does not show another.
const LEAST: f64 = 0.001;

impl FaultsFound {
    /// Share of the run time that faults take, at most 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        (self.cost / 1e9 / self.whole()).min(1.0)
    }

    /// Seconds of the run without what reports took.
    fn seconds(&self) -> f64 {
        (self.elapsed.as_secs_f64() - self.reporting / 1e9).max(1e-9)
    }

    /// Seconds of all processors that the program used: faults of several threads take none of the run at a
    /// time.
    pub(super) fn whole(&self) -> f64 {
        self.seconds() * self.parallel
    }

    /// The result for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} ended with {} after {:.3} s ({:.3} s user, {:.3} s kernel)\n",
            human::plain(&human::shell(&self.command)),
            ending(self.status),
            self.elapsed.as_secs_f64(),
            self.cpu.0.as_secs_f64(),
            self.cpu.1.as_secs_f64()
        );
        text.push_str(&format!(
            "{} page faults, {} of them with reading from a disk; about {:.1} % of the time\n",
            human::grouped(self.minor + self.major),
            human::grouped(self.major),
            100.0 * self.share()
        ));
        text.push_str(&self.kinds_text());
        text.push_str(&self.machine());
        let share = |site: &&FaultSite| site.cost / 1e9 / self.whole();
        let shown = self.sites.iter().take_while(|site| share(site) >= LEAST).count().clamp(1, SHOWN);
        for site in self.sites.iter().take(shown) {
            text.push_str(&self.site(site));
        }
        if let Some(more) = self.sites.len().checked_sub(shown).filter(|more| *more > 0) {
            let rest: f64 = self.sites[shown..].iter().map(|site| share(&site)).sum();
            let all = if more == 1 { "site more" } else { "sites more" };
            text.push_str(&format!("\n{:>5.1} %  {more} {all} (--json has them)\n", 100.0 * rest));
        }
        text.push_str(&self.tried());
        text.push_str(&format!(
            "\nAn offload engine ({:.0} ns a fault) would save {:.1} % of the time by the source's formula, {:.1} % if cold \
             pages and background work count; reads would take {} pages more\n",
            self.engine,
            100.0 * self.formula / 1e9 / self.whole(),
            100.0 * self.saved.saved / 1e9 / self.whole(),
            human::grouped(self.saved.pages)
        ));
        for warning in &self.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
        text
    }

    /// How exact counts by kind and site are.
    fn counted(&self) -> String {
        let estimated = |why: &str| format!("estimated, +- {:.1} % of all: {why}", 100.0 * self.uncertain());
        if self.exact {
            "exact".to_owned()
        } else if self.samples < self.reported {
            let every = capture::EVERY;
            estimated(&format!(
                "{} reports stand for all, one fault in {every} was reported where there are many",
                human::grouped(self.samples)
            ))
        } else if self.lost > 0 {
            estimated("the kernel lost reports")
        } else {
            "exact by site; kinds are those of the faulting instructions".to_owned()
        }
    }

    /// Two standard deviations of a count by kind or site, as a share of all faults, at most: of the faults
    /// that stand for others half may be of one kind.
    fn uncertain(&self) -> f64 {
        if self.exact {
            return 0.0;
        }
        let all = self.reported.max(1) as f64;
        let sampled = self.reported.saturating_sub(self.samples) as f64 / (capture::EVERY - 1) as f64;
        let counted = sampled.sqrt() * capture::EVERY as f64 / all;
        (counted + self.lost as f64 / all).min(1.0)
    }

    /// What the faults were, and where.
    fn kinds_text(&self) -> String {
        let (kinds, mut text) = (&self.kinds, String::new());
        if self.reported > 0 {
            text.push_str(&format!(
                "{} reported: {} first writes, {} first reads, {} writes to pages that were read first, {} copies, {} of files \
                 and code, {} huge, {} unknown\n",
                human::grouped(self.reported),
                human::grouped(kinds.write),
                human::grouped(kinds.read),
                human::grouped(kinds.upgrade),
                human::grouped(kinds.copy),
                human::grouped(kinds.file),
                human::grouped(kinds.huge),
                human::grouped(kinds.unknown)
            ));
        }
        if self.reported > 0 {
            text.push_str(&format!("Counts by kind and site are {}\n", self.counted()));
        }
        if self.reported > 0 {
            let of = &self.origins;
            text.push_str(&format!(
                "Of these {} in large blocks of malloc, {} in mapped memory, {} in the heap, {} elsewhere in anonymous memory, \
                 {} on stacks, {} in files\n",
                human::grouped(of.malloc),
                human::grouped(of.mmap),
                human::grouped(of.heap),
                human::grouped(of.anonymous),
                human::grouped(of.stack),
                human::grouped(of.file)
            ));
        }
        text
    }

    fn machine(&self) -> String {
        let costs = &self.costs;
        let huge = costs.huge.map_or("none".to_owned(), |times| format!("{:.1} us", times.mean / 1e3));
        format!(
            "Here a first write costs {:.0} ns (10 % below {:.0}, 10 % above {:.0}; cold memory {:.0}), {:.0} of that zeroing; \
             a first read {:.0}, a copy {:.0}, 2 MiB {huge}; populating {} a page. Huge pages: {}\n",
            costs.write.mean,
            costs.write.p10,
            costs.write.p90,
            costs.write_cold.mean,
            costs.zero,
            costs.read.mean,
            costs.copy.mean,
            costs.populate.map_or("is not possible".to_owned(), |time| format!("{time:.0} ns")),
            self.huge_pages
        )
    }

    fn site(&self, site: &FaultSite) -> String {
        let all = &site.site;
        let mut text = format!(
            "\n{:>5.1} %  {} ({} faults",
            100.0 * site.cost / 1e9 / self.whole(),
            human::plain(&site.name),
            human::grouped(all.kinds.total())
        );
        if site.key.is_some() {
            text.push_str(&format!(
                "; {} blocks, {} pages, {} of them new, {:.1} % of these used",
                human::grouped(all.blocks),
                human::grouped(all.pages),
                human::grouped(all.fresh()),
                100.0 * all.density().min(1.0)
            ));
        }
        text.push_str(")\n");
        for (stack, count) in &site.stacks {
            text.push_str(&format!("         {:>9}  {}\n", human::grouped(*count), human::plain(stack)));
        }
        for one in &site.remedies {
            let gain = 100.0 * one.gain / 1e9 / self.whole();
            let against = match &one.against {
                Some(why) => format!("  not advised: {why}"),
                None if gain < 100.0 * super::trial::WORTH => "  too little for a try".to_owned(),
                None => String::new(),
            };
            text.push_str(&format!("         {:<9} {gain:>+6.1} % predicted{against}\n", one.remedy.name()));
        }
        text
    }

    fn tried(&self) -> String {
        let mut text = String::new();
        let line = |trial: &FaultTrial| {
            let remedies =
                trial.remedies.iter().map(|(_, remedy)| remedy.name()).collect::<Vec<_>>().join("+");
            format!(
                "  {remedies:<9} {:>+6.1} % predicted, {:>+6.1} % measured (+-{:.1}), faults {} -> {}, memory {} -> {}  {}  {}\n",
                100.0 * trial.predicted,
                100.0 * trial.gained,
                100.0 * trial.noise,
                human::grouped(trial.faults.0),
                human::grouped(trial.faults.1),
                human::bytes(trial.peak_kib.0 << 10),
                human::bytes(trial.peak_kib.1 << 10),
                if trial.kept { "kept" } else { "dropped" },
                human::plain(&trial.place)
            )
        };
        if !self.trials.is_empty() {
            text.push_str("\nTried:\n");
            self.trials.iter().for_each(|trial| text.push_str(&line(trial)));
        }
        if let Some(all) = &self.combined {
            text.push_str("Together, measured anew against the program as it is:\n");
            text.push_str(&line(all));
            if !all.kept {
                text.push_str("Nothing of it gains when it is measured again.\n");
            }
            let mut said = Vec::new();
            for (_, remedy) in all.remedies.iter().filter(|_| all.kept) {
                if !said.contains(remedy) {
                    text.push_str(&format!("  do: {}\n", remedy.how()));
                    said.push(*remedy);
                }
            }
        } else if !self.trials.is_empty() {
            text.push_str("Nothing that was tried gains.\n");
        }
        for refused in self.trials.iter().flat_map(|trial| &trial.refused) {
            text.push_str(&format!("  {refused}\n"));
        }
        text
    }

    /// All numbers. Times are in seconds where the name does not say otherwise.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        let sites: Vec<Value> =
            self.sites.iter().map(|site| self.site_json(site)).collect::<Result<_, Error>>()?;
        let answer = json!({
            "schema": SCHEMA,
            "command": self.command,
            "ended": ending(self.status),
            "elapsed": self.elapsed.as_secs_f64(),
            "user": self.cpu.0.as_secs_f64(),
            "system": self.cpu.1.as_secs_f64(),
            "faults": {
                "minor": self.minor,
                "major": self.major,
                "reported": self.reported,
                "lost": self.lost,
                "samples": self.samples,
                "recorded": self.recorded,
                "exact": self.exact,
                "uncertain": self.uncertain(),
                "scale": self.scale,
                "reporting_seconds": self.reporting / 1e9,
                "kinds_known": self.kinds_known,
                "kinds": serde_json::to_value(self.kinds)?,
                "origins": serde_json::to_value(self.origins)?,
                "seconds": self.cost / 1e9,
                "share": self.share(),
            },
            "machine": {
                "huge_pages": self.huge_pages,
                "processors": self.processors,
                "costs_ns": serde_json::to_value(&self.costs)?,
            },
            "sites": sites,
            "trials": serde_json::to_value(&self.trials)?,
            "combined": serde_json::to_value(&self.combined)?,
            "engine": {
                "fault_ns": self.engine,
                "formula_seconds": self.formula / 1e9,
                "formula_share": self.formula / 1e9 / self.whole(),
                "seconds": self.saved.saved / 1e9,
                "share": self.saved.saved / 1e9 / self.whole(),
                "background_seconds": self.saved.background / 1e9,
                "pages_for_reads": self.saved.pages,
            },
            "warnings": self.warnings,
        });
        Ok(format!("{answer:#}\n"))
    }

    fn site_json(&self, site: &FaultSite) -> Result<Value, Error> {
        let all = &site.site;
        let remedies = site.remedies.iter().map(|one| {
            json!({
                "remedy": one.remedy.name(),
                "seconds": one.gain / 1e9,
                "share": one.gain / 1e9 / self.whole(),
                "advised": one.against.is_none(),
                "against": one.against,
                "how": one.remedy.how(),
            })
        });
        let stacks = site.stacks.iter().map(|(stack, faults)| json!({ "frames": stack, "faults": faults }));
        Ok(json!({
            "key": site.key.map(|key| format!("{key:016x}")),
            "name": site.name,
            "way": site.key.map(|_| if site.heap { "malloc" } else { "mmap" }),
            "kinds": serde_json::to_value(all.kinds)?,
            "seconds": site.cost / 1e9,
            "share": site.cost / 1e9 / self.whole(),
            "blocks": all.blocks,
            "pages": all.pages,
            "peak_pages": all.peak_pages,
            "new_pages": all.fresh(),
            "density": all.density().min(1.0),
            "stacks": stacks.collect::<Vec<_>>(),
            "remedies": remedies.collect::<Vec<_>>(),
        }))
    }
}
