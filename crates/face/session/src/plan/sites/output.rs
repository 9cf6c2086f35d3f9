//! The plan from use of pages as text, as a page and as JSON.

use ::plan::sites::SiteAnswer;
use report::{Axis, Block, Cell, Curve, Curves, Page, Section, Table, human};
use serde_json::json;

use super::{Placement, Surveyed};
use crate::ending::ending;
use crate::error::Error;

/// Name and version of the document's layout.
const SCHEMA: &str = "strandline-plan-sites-1";
/// Rows of the table of sites.
const ROWS: usize = 12;

impl Surveyed {
    /// The plan for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let seen = &self.looked.seen;
        let mut text = format!("{}\n{}\n", human::plain(&self.subject), self.headline());
        for line in self.story() {
            text.push_str(&format!("{line}\n"));
        }
        for warning in &self.warnings {
            text.push_str(&format!("warning: {}\n", human::plain(warning)));
        }
        text.push_str("\nMixes\n  slow part   slower, at most   cost: if no slower, and at most\n");
        for (at, mix) in self.plan.mixes.iter().enumerate() {
            let mark = if at == self.plan.best { "  <- recommended" } else { "" };
            text.push_str(&format!(
                "  {:>8.0} %{:>16.1} %{:>16.4}{:>12.4}{mark}\n",
                mix.slow * 100.0,
                mix.bound * 100.0,
                mix.cost_low,
                mix.cost_high
            ));
        }
        text.push_str("\nAllocation sites, most used first\n   uses/s, 90 % interval            share of uses       size  alone on slow, at most  on slow  allocated at\n");
        for one in self.plan.sites.iter().take(ROWS) {
            let site = &self.looked.seen.sites[one.number];
            text.push_str(&format!(
                "  {:<30}{:>16}{:>11}{:>22.1} %{:>7.0} %  {}\n",
                rate(one),
                format!("{:.0} to {:.0} %", one.share_low * 100.0, one.share_high * 100.0),
                human::bytes(site.bytes as u64),
                one.alone * 100.0,
                one.slow * 100.0,
                human::plain(&site.name)
            ));
        }
        for phase in &self.plan.phases {
            text.push_str(&format!(
                "Phase from {:.1} to {:.1} s: {:.0} % on slow memory, at most {:.1} % slower; most used: {} ({:.0} %)\n",
                phase.from,
                phase.to,
                phase.mix.slow * 100.0,
                phase.mix.bound * 100.0,
                human::plain(&seen.sites[phase.hottest].name),
                phase.share * 100.0
            ));
        }
        for placed in &self.looked.placed {
            text.push_str(&format!("{}\n", done(placed)));
        }
        match &self.applied {
            Some(Ok(again)) => {
                text.push_str(&format!(
                    "\nCarried out: {:.3} s, {:.3} s before\n",
                    again.elapsed, self.looked.elapsed
                ));
                again.placed.iter().for_each(|placed| text.push_str(&format!("{}\n", done(placed))));
            }
            Some(Err(why)) => text.push_str(&format!("\nNot carried out: {why}.\n")),
            None => {}
        }
        text
    }

    /// The result in one sentence.
    #[must_use]
    pub fn headline(&self) -> String {
        let best = &self.plan.mixes[self.plan.best];
        if self.plan.indifferent {
            return "It does not matter where the data lies: even all on slow memory costs less than 2 % of the time.".to_owned();
        }
        if best.slow == 0.0 {
            return "Keep all on fast memory: no mix is certain to cost less, by what could be seen."
                .to_owned();
        }
        format!(
            "Put {:.0} % of the working set on slow memory: at most {:.1} % slower, at {:.0} to {:.0} % of the cost.",
            best.slow * 100.0,
            best.bound * 100.0,
            best.cost_low / self.plan.mixes[0].cost_low * 100.0,
            best.cost_high / self.plan.mixes[0].cost_low * 100.0
        )
    }

    fn story(&self) -> Vec<String> {
        let seen = &self.looked.seen;
        let mut story = vec![
            format!(
                "Source: {}; {} in {:.1} s took {:.2} % of the time. {:.1} s of processor time, {} faults, at most {} in memory.",
                seen.source,
                human::plural(seen.ticks as usize, "look"),
                seen.elapsed,
                100.0 * seen.looking / seen.elapsed.max(1e-9),
                seen.cpu,
                human::grouped(seen.faults.0 + seen.faults.1),
                human::bytes(seen.peak as u64)
            ),
            format!(
                "Tiers: {}.",
                self.tiers
                    .iter()
                    .map(|tier| format!(
                        "{} {:.0} ns, {:.1} GB/s read",
                        tier.name, tier.latency_ns, tier.read_gbps
                    ))
                    .collect::<Vec<_>>()
                    .join("; ")
            ),
        ];
        story.extend(self.plan.refused.iter().map(|why| format!("Not planned: {why}.")));
        story.extend(seen.unseen.iter().map(|why| format!("Not seen: {why}.")));
        story.extend(self.commands());
        if self.made_up {
            story.push(
                "Prices are made up (DRAM 0.005, slow memory 0.002, a processor 0.03 per hour): --prices has yours.".to_owned(),
            );
        }
        story
    }

    fn commands(&self) -> Vec<String> {
        let best = &self.plan.mixes[self.plan.best];
        let program = &self.subject;
        let mut commands = Vec::new();
        if best.slow >= 1.0 {
            commands.push(format!("All slow: numactl --membind=1 {program}"));
        } else if best.slow <= 0.0 {
            commands.push(format!("All fast: numactl --membind=0 {program}"));
        } else {
            commands.push(format!(
                "Site by site: strandline plan --kinds plan.kinds -- {program}; or sl_tier(memory, bytes, SL_TIER_SLOW) behind each \
                 allocation marked so, and numactl --preferred=0 {program}"
            ));
        }
        let weights: Vec<String> = self.plan.weights.iter().map(u32::to_string).collect();
        let write = |(node, weight): (usize, &u32)| {
            format!("echo {weight} > /sys/kernel/mm/mempolicy/weighted_interleave/node{node}")
        };
        let writes: Vec<String> = self.plan.weights.iter().enumerate().map(write).collect();
        commands.push(format!(
            "If bandwidth is what counts: weights {}: {}; numactl --weighted-interleave=0,1 {program}",
            weights.join(":"),
            writes.join("; ")
        ));
        commands
    }

    /// The plan as a self-contained HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        let curve = |name: &str, of: fn(&::plan::sites::Mix) -> f64| Curve {
            name: name.to_owned(),
            points: self.plan.mixes.iter().map(|mix| (mix.slow * 100.0, of(mix))).collect(),
            published: Vec::new(),
        };
        let costs = Block::Curves(Curves {
            title: format!("Cost of the run, millionths of {}", self.prices.currency),
            x: Axis::linear("on slow memory, %"),
            y: Axis::linear("cost"),
            curves: vec![curve("if no slower", |mix| mix.cost_low), curve("at most", |mix| mix.cost_high)],
        });
        let rows = self.plan.sites.iter().take(ROWS).map(|one| {
            let site = &self.looked.seen.sites[one.number];
            vec![
                Cell::Code(human::plain(&site.name)),
                Cell::number(site.bytes as u64, human::bytes),
                Cell::Text(rate(one)),
                Cell::share(one.share),
                Cell::Number(format!("{:.1} %", one.alone * 100.0), one.alone),
                Cell::share(one.slow),
            ]
        });
        let head = [
            "allocated at",
            "size",
            "uses per second",
            "share of uses",
            "slower at most, if alone on slow memory",
            "on slow memory",
        ];
        let sites = Block::Table(Table {
            caption: "Allocation sites, most used first".to_owned(),
            head: head.map(str::to_owned).into(),
            rows: rows.collect(),
        });
        let section = |id: &str, title: &str, block| Section {
            id: id.to_owned(),
            title: title.to_owned(),
            blocks: vec![block],
        };
        report::page(&Page {
            verb: "plan".to_owned(),
            title: self.subject.clone(),
            meta: vec![self.machine.clone(), format!("strandline {}", env!("CARGO_PKG_VERSION"))],
            headline: self.headline(),
            story: self.story(),
            cautions: self.warnings.clone(),
            sections: vec![
                section("mixes", "Cost by mix", costs),
                section("sites", "Allocation sites", sites),
            ],
            command: self.command.clone(),
        })
    }

    /// All numbers, as `docs/plan.md` describes them.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        let applied = self.applied.as_ref().map(|applied| match applied {
            Ok(again) => {
                json!({ "elapsed": again.elapsed, "before": self.looked.elapsed, "placed": again.placed })
            }
            Err(why) => json!({ "refused": why }),
        });
        let sites = self.plan.sites.iter().map(|one| {
            let site = &self.looked.seen.sites[one.number];
            let mut value = serde_json::to_value(one)?;
            value["name"] = json!(site.name);
            value["key"] = json!(format!("{:016x}", site.key));
            value["keys"] = json!(site.keys.iter().map(|key| format!("{key:016x}")).collect::<Vec<_>>());
            value["type"] = json!(site.type_name);
            value["tag"] = json!(site.tag);
            value["bytes"] = json!(site.bytes);
            value["allocations"] = json!(site.count);
            value["stores"] = json!(site.stores());
            value["exact"] = json!(site.exact);
            value["allocated"] = json!(site.allocated);
            Ok(value)
        });
        let sites = sites.collect::<Result<Vec<_>, Error>>()?;
        let seen = &self.looked.seen;
        let phase = |one: &::plan::sites::PhasePlan| {
            let mut value = serde_json::to_value(one)?;
            value["hottest"] = json!(seen.sites.get(one.hottest).map(|site| &site.name));
            Ok(value)
        };
        let phases = self.plan.phases.iter().map(phase).collect::<Result<Vec<_>, Error>>()?;
        let answer = json!({
            "schema": SCHEMA,
            "subject": self.subject,
            "command": self.command,
            "machine": self.machine,
            "headline": self.headline(),
            "source": seen.source,
            "unseen": seen.unseen,
            "not_planned": self.plan.refused,
            "recommended": serde_json::to_value(&self.plan.mixes[self.plan.best])?,
            "indifferent": self.plan.indifferent,
            "mixes": serde_json::to_value(&self.plan.mixes)?,
            "phases": phases,
            "sites": sites,
            "interleave_weights": self.plan.weights,
            "commands": self.commands(),
            "tiers": serde_json::to_value(&self.tiers)?,
            "prices": serde_json::to_value(&self.prices)?,
            "prices_made_up": self.made_up,
            "ended": ending(self.looked.status),
            "elapsed": self.looked.elapsed,
            "processes": self.looked.processes,
            "looks": seen.ticks,
            "looking": seen.looking,
            "cpu": seen.cpu,
            "peak": seen.peak,
            "huge": seen.huge,
            "forks": seen.forks,
            "drift": seen.drift(),
            "placed": self.looked.placed,
            "applied": applied,
            "warnings": self.warnings,
        });
        Ok(format!("{answer:#}\n"))
    }
}

impl Surveyed {
    /// The plan as a file of kinds. Sites all of whose allocations are small can't be placed; they are comments.
    #[must_use]
    pub fn kinds(&self) -> String {
        let mut text = format!(
            "# {}\n# site, kind, share of each allocation: strandline plan --kinds FILE -- PROGRAM carries it out\n",
            report::human::plain(&self.subject)
        );
        for one in &self.plan.sites {
            let site = &self.looked.seen.sites[one.number];
            if !site.allocated || one.slow < 0.005 {
                continue;
            }
            let small = site.bytes / site.count.max(1.0) < self.looked.seen.from as f64
                && site.count > 1.5 * site.noted as f64;
            let mark = if small { "# small allocations: " } else { "" };
            for key in &site.keys {
                let name = report::human::plain(&site.name);
                text.push_str(&format!("{mark}{key:016x} slow {:.3} # {name}\n", one.slow));
            }
        }
        text
    }
}

fn rate(one: &SiteAnswer) -> String {
    let number = |value: f64| human::grouped(value.round() as u64);
    let low = number(one.rate.low);
    match one.rate.high {
        Some(high) => format!("{} ({low} to {})", number(one.rate.per_second), number(high)),
        None => format!("at least {low}"),
    }
}

fn done(placed: &Placement) -> String {
    let how = match (placed.refused, placed.error) {
        (0, _) => "carried out".to_owned(),
        (refused, 22) => format!("{refused} refused by the kernel: there is no such node"),
        (refused, error) => format!("{refused} refused by the kernel (error {error})"),
    };
    format!(
        "Site {} on {}: {} of {}, {how}",
        placed.key,
        placed.kind,
        human::plural(placed.count as usize, "allocation"),
        human::bytes(placed.bytes)
    )
}
