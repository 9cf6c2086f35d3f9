//! The plan as text and as JSON.

use ::plan::answer::StructureAnswer;
use ::plan::choose::Choice;
use ::plan::phases::{phases, shares};
use ::plan::profile::Owner;
use event::{NameId, SiteId};
use report::human;
use serde_json::json;

use super::{PlanGroup, Planned};
use crate::error::Error;

/// Name and version of the document's layout.
const SCHEMA: &str = "strandline-plan-1";
/// Rows of the table of structures.
pub(super) const ROWS: usize = 12;

impl Planned {
    /// The plan for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", human::plain(&self.subject), self.headline());
        for line in self.story() {
            text.push_str(&format!("{line}\n"));
        }
        for warning in &self.notes.warnings {
            text.push_str(&format!("warning: {}\n", human::plain(warning)));
        }
        text.push_str("\nEach mix with its cheapest ways\n  slow part  ways   slowdown  90 % interval       cost   by best\n");
        let least = self.plan.best.map_or(f64::NAN, |best| self.plan.choices[best].cost);
        for at in self.frontier() {
            let one = &self.plan.choices[at];
            let mark = if self.plan.best == Some(at) { "  <- recommended" } else { "" };
            let mark = one.prediction.refused.as_deref().unwrap_or(mark);
            text.push_str(&format!(
                "  {:>9}{:>6}{:>9.1} %{:>16}{:>13.4}{:>8.3}{}{mark}\n",
                self.mix(one),
                one.candidate.ways,
                one.slowdown * 100.0,
                self.interval(one),
                one.cost,
                one.cost / least,
                if one.prediction.refused.is_some() { "  " } else { "" }
            ));
        }
        text.push_str("\nStructures, most misses first\n   misses       size  by density  alone on slow  on slow  allocated at\n");
        for one in self.plan.structures.iter().take(ROWS) {
            text.push_str(&format!(
                "  {:>7}{:>11}{:>11.2}{:>14.1} %{:>8.0} %  {}\n",
                human::percent(one.misses),
                human::bytes(one.bytes),
                one.density,
                one.alone * 100.0,
                (1.0 - one.shares.first().copied().unwrap_or(1.0)) * 100.0,
                self.name(one)
            ));
        }
        if !self.verified.is_empty() {
            text.push_str("\nSimulated in full\n  slow part  ways  predicted, ms  simulated, ms   error\n");
            for one in &self.verified {
                let choice = &self.plan.choices[one.choice];
                text.push_str(&format!(
                    "  {:>9}{:>6}{:>15.3}{:>15.3}{:>7.1} %{}\n",
                    self.mix(choice),
                    choice.candidate.ways,
                    one.predicted_ns / 1e6,
                    one.simulated_ns / 1e6,
                    one.error * 100.0,
                    if one.within { "" } else { "  outside its interval" }
                ));
            }
        }
        text
    }

    /// The result in one sentence.
    #[must_use]
    pub fn headline(&self) -> String {
        let Some(best) = self.plan.best.map(|best| &self.plan.choices[best]) else {
            return "No configuration can be recommended: every prediction is refused.".to_owned();
        };
        if self.plan.indifferent() {
            return format!(
                "It does not matter where the data lies: the slowest mix takes {:.1} % longer than the fastest. Rent the cheapest, \
                 {} of the working set on slow memory, {}.",
                self.plan.spread * 100.0,
                self.mix(best),
                human::plural(best.candidate.ways as usize, "way")
            );
        }
        format!(
            "Rent {} of the working set on slow memory and {} of the last-level cache: {:.1} % slower than all fast, at {:.0} % of its \
             cost.",
            self.mix(best),
            human::plural(best.candidate.ways as usize, "way"),
            // Not -0.0.
            (best.slowdown * 1000.0).round() / 10.0 + 0.0,
            best.cost / self.all_fast() * 100.0
        )
    }

    /// Cost of all data on the fast tier, with the ways that are then cheapest.
    fn all_fast(&self) -> f64 {
        let fast = self.plan.choices.iter().filter(|one| one.candidate.parts[0] >= 1.0);
        fast.map(|one| one.cost).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn story(&self) -> Vec<String> {
        let profile = self.model.profile();
        let tiers: Vec<String> = self
            .model
            .tiers()
            .iter()
            .map(|tier| {
                format!(
                    "{} {:.0} ns, {:.1} GB/s read, {:.1} written",
                    tier.name, tier.latency_ns, tier.read_gbps, tier.write_gbps
                )
            })
            .collect();
        let mut story = vec![
            format!(
                "{} accesses, {} instructions, {}; working set {}.",
                human::grouped(profile.accesses),
                human::grouped(profile.instructions),
                human::plural(profile.threads as usize, "thread"),
                human::bytes(profile.bytes())
            ),
            format!("Tiers: {}.", tiers.join("; ")),
        ];
        if let Some(breaks) = &self.plan.breaks
            && let Some(one) = self.plan.structures.iter().find(|one| one.number == breaks.number)
        {
            story.push(format!(
                "If fast memory shrinks, {} of {} go first: {:.1} % slower.",
                human::bytes(breaks.bytes),
                self.name(one),
                breaks.slowdown * 100.0
            ));
        }
        story.extend(self.decides().map(|one| format!("What decides: {}.", self.name(one))));
        story.extend(self.commands());
        if self.made_up {
            story.push(
                "Prices are made up (DRAM 0.005, slow memory 0.002, a processor 0.03, a way 0.002 per hour): --prices has yours."
                    .to_owned(),
            );
        }
        story.push(format!(
            "{} of {} configurations cost at most {:.1} % more than the cheapest.",
            self.plan.within.len(),
            self.plan.choices.len(),
            self.tolerance * 100.0
        ));
        story
    }

    /// The structure whose move to slow memory costs most.
    pub(super) fn decides(&self) -> Option<&StructureAnswer> {
        self.plan.structures.iter().max_by(|one, two| one.alone.total_cmp(&two.alone))
    }

    /// Where the run changes, and which structures it uses in each part. One profile and three runs are of the whole: nothing is planned for
    /// a part.
    pub(super) fn phases(&self) -> Option<String> {
        let structures = &self.model.profile().structures;
        let counts = |one: &::plan::profile::StructureProfile| {
            one.over_time.iter().map(|&count| count as f64).collect()
        };
        let uses: Vec<Vec<f64>> = structures.iter().map(counts).collect();
        let found = phases(&uses);
        if found.len() < 2 {
            return None;
        }
        let slices = found.last().map_or(1, |last| last.end).max(1) as f64;
        let each = found.iter().map(|part| {
            let of = shares(&uses, part);
            let hottest = (0..of.len()).max_by(|&one, &two| of[one].total_cmp(&of[two]));
            let one = self.plan.structures.iter().find(|one| Some(one.number) == hottest);
            format!(
                "from {:.0} to {:.0} % of the misses {} ({:.0} % of them)",
                part.start as f64 / slices * 100.0,
                part.end as f64 / slices * 100.0,
                one.map_or_else(|| "something else".to_owned(), |one| self.name(one)),
                hottest.map_or(0.0, |at| of[at]) * 100.0
            )
        });
        let each: Vec<String> = each.collect();
        Some(format!(
            "the run has {} phases, by what misses most: {}; this plan is for the whole, one for a phase needs a trace of it alone",
            found.len(),
            each.join("; ")
        ))
    }

    /// What carries the plan out: node 0 is the fast tier, node 1 the slow one.
    pub(super) fn commands(&self) -> Vec<String> {
        let Some(best) = self.plan.best.map(|best| &self.plan.choices[best]) else { return Vec::new() };
        let program = "./app";
        let fast = best.candidate.parts[0];
        let mut commands = Vec::new();
        if fast >= 1.0 {
            commands.push(format!("All fast: numactl --membind=0 {program}"));
        } else if fast <= 0.0 {
            commands.push(format!("All slow: numactl --membind=1 {program}"));
        } else {
            let slow = self.plan.structures.iter().filter(|one| one.shares[0] < 0.5).count();
            commands.push(format!(
                "Structure by structure: allocate the {slow} marked `on slow` on node 1 (mbind, numa_alloc_onnode), the rest with \
                 numactl --preferred=0 {program}"
            ));
        }
        let nodes = self.plan.weights.len();
        let weights: Vec<String> = self.plan.weights.iter().map(u32::to_string).collect();
        let writes: Vec<String> = self
            .plan
            .weights
            .iter()
            .enumerate()
            .map(|(node, weight)| {
                format!("echo {weight} > /sys/kernel/mm/mempolicy/weighted_interleave/node{node}")
            })
            .collect();
        let list: Vec<String> = (0..nodes).map(|node| node.to_string()).collect();
        commands.push(format!(
            "If bandwidth is what counts: weights {}: {}; numactl --weighted-interleave={} {program}",
            weights.join(":"),
            writes.join("; "),
            list.join(",")
        ));
        commands
    }

    /// For each mix, the choice of ways with the least cost.
    pub(super) fn frontier(&self) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        for at in 0..self.plan.choices.len() {
            let choice = &self.plan.choices[at];
            let same = found
                .iter_mut()
                .find(|held| self.plan.choices[**held].candidate.parts == choice.candidate.parts);
            match same {
                // What is recommended may cost a little more than the cheapest.
                Some(held) if Some(*held) == self.plan.best => {}
                Some(held) => {
                    let better = choice.cost < self.plan.choices[*held].cost;
                    if better || self.plan.best == Some(at) {
                        *held = at;
                    }
                }
                None => found.push(at),
            }
        }
        found
    }

    pub(super) fn mix(&self, choice: &Choice) -> String {
        let parts: Vec<String> =
            choice.candidate.parts.iter().skip(1).map(|part| format!("{:.0} %", part * 100.0)).collect();
        parts.join("+")
    }

    fn interval(&self, choice: &Choice) -> String {
        let base = choice.prediction.ns / (1.0 + choice.slowdown);
        let percent = |ns: f64| (ns / base.max(1.0) - 1.0) * 100.0;
        format!("{:.1} to {:.1}", percent(choice.prediction.low_ns), percent(choice.prediction.high_ns))
    }

    pub(super) fn name(&self, one: &StructureAnswer) -> String {
        human::plain(&match one.owner {
            Owner::Rest => "stacks, globals and what is not allocated".to_owned(),
            Owner::Site(site) => {
                let label = self.notes.sites.label(SiteId(site));
                let by_type = self.group == PlanGroup::Type;
                let kind = self.notes.sites.site(SiteId(site)).filter(|_| by_type).and_then(super::type_name);
                kind.map_or(label, |kind| format!("type {kind}"))
            }
            Owner::Part { mapping, part } => {
                let name = self.notes.sites.name(NameId(mapping)).unwrap_or("a mapping");
                format!("{name}, part {part}")
            }
        })
    }

    /// All numbers, as `docs/plan.md` describes them.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        let structures = self.plan.structures.iter().map(|one| {
            let mut value = serde_json::to_value(one)?;
            value["name"] = json!(self.name(one));
            Ok(value)
        });
        let structures = structures.collect::<Result<Vec<_>, Error>>()?;
        let breaks = self.plan.breaks.as_ref().and_then(|breaks| {
            let one = self.plan.structures.iter().find(|one| one.number == breaks.number)?;
            Some(json!({ "name": self.name(one), "number": breaks.number, "bytes": breaks.bytes, "slowdown": breaks.slowdown }))
        });
        let profile = self.model.profile();
        let recommended =
            self.plan.best.map(|best| serde_json::to_value(&self.plan.choices[best])).transpose()?;
        let answer = json!({
            "schema": SCHEMA,
            "subject": self.subject,
            "command": self.command,
            "machine": self.machine,
            "headline": self.headline(),
            "recommended": recommended,
            "indifferent": self.plan.indifferent(),
            "spread": self.plan.spread,
            "tolerance": self.tolerance,
            "within": self.plan.within,
            "configurations": serde_json::to_value(&self.plan.choices)?,
            "structures": structures,
            "breaks_first": breaks,
            "decides": self.decides().map(|one| self.name(one)),
            "interleave_weights": self.plan.weights,
            "commands": self.commands(),
            "tiers": serde_json::to_value(self.model.tiers())?,
            "references": serde_json::to_value(self.model.references())?,
            "prices": serde_json::to_value(&self.prices)?,
            "prices_made_up": self.made_up,
            "profile": {
                "ways": profile.ways,
                "accesses": profile.accesses,
                "instructions": profile.instructions,
                "threads": profile.threads,
                "working_set": profile.bytes(),
                "miss_curve": profile.curve,
                "monitor": profile.monitor,
                "drift": profile.drift(),
            },
            "verified": serde_json::to_value(&self.verified)?,
            "counts": self.notes.counts,
            "warnings": self.notes.warnings,
        });
        Ok(format!("{answer:#}\n"))
    }
}
