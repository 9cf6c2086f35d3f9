//! `plan fleet`: how virtual machines pack.

use std::path::PathBuf;

use ::plan::fleet::{Guest, Host, Packing, Policy, Shape, pack};
use serde::Deserialize;
use serde_json::json;

use super::PlanFault;
use crate::error::Error;

/// Guests, at most.
const GUESTS_MAX: u64 = 1_000_000;

/// A packing to be made.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The fleet's file.
    pub file: PathBuf,
    /// Seed of the queue's and the machines' order; the file's, or 1, if not given.
    pub seed: Option<u64>,
}

/// What policies come to.
#[derive(Debug)]
pub struct Fleets {
    /// Virtual machines.
    pub guests: u64,
    /// The machine.
    pub host: Host,
    /// By policy.
    pub packings: Vec<Packing>,
    /// The seed.
    pub seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    #[serde(default = "tolerances")]
    tolerances: Vec<f64>,
    machine: Host,
    vm: Vec<Vm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vm {
    name: String,
    count: u32,
    vcpus: f64,
    /// Configurations, or
    #[serde(default)]
    shapes: Vec<Shape>,
    /// the `plan.json` that has them.
    plan: Option<PathBuf>,
}

fn tolerances() -> Vec<f64> {
    vec![0.0, 0.025, 0.075]
}

/// What of `plan.json` is read.
#[derive(Deserialize)]
struct PlanFile {
    configurations: Vec<PlanShape>,
}

#[derive(Deserialize)]
struct PlanShape {
    gib: Vec<f64>,
    ways: f64,
    cost: f64,
}

impl Fleet {
    /// Packs by each policy.
    ///
    /// # Errors
    /// If the file, or a plan that it names, can't be read or makes no sense.
    pub fn run(&self) -> Result<Fleets, Error> {
        let text = std::fs::read_to_string(&self.file).map_err(Error::file("read", &self.file))?;
        let name = self.file.display().to_string();
        let wrong = |reason: String| PlanFault::Fleet { file: name.clone(), reason };
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let mut guests = Vec::new();
        for vm in file.vm {
            let shapes = match &vm.plan {
                Some(plan) => self.shapes(plan)?,
                None => vm.shapes,
            };
            let numbers = shapes.iter().flat_map(|one| [one.fast_gib, one.slow_gib, one.ways, one.cost]);
            if numbers.chain([vm.vcpus]).any(|number| !number.is_finite() || number < 0.0) {
                return Err(wrong(format!("vm `{}` has a number that is negative or none", vm.name)).into());
            }
            if shapes.is_empty() {
                let reason = format!("vm `{}` has no configuration: give shapes, or a plan", vm.name);
                return Err(wrong(reason).into());
            }
            guests.push(Guest { name: vm.name, count: vm.count, vcpus: vm.vcpus, shapes });
        }
        let count: u64 = guests.iter().map(|guest| u64::from(guest.count)).sum();
        if count > GUESTS_MAX {
            return Err(wrong(format!("{count} virtual machines; at most {GUESTS_MAX}")).into());
        }
        if let Some(&tolerance) = file.tolerances.iter().find(|one| !(0.0..=10.0).contains(*one)) {
            return Err(wrong(format!("a tolerance of {tolerance}: use 0 to 10, a share")).into());
        }
        let seed = self.seed.or(file.seed).unwrap_or(1);
        let policies = [Policy::Naive, Policy::Resource, Policy::Random]
            .into_iter()
            .chain(file.tolerances.into_iter().map(Policy::Tolerant));
        let packings = policies.map(|policy| pack(&file.machine, &guests, policy, seed)).collect();
        Ok(Fleets { guests: count, host: file.machine, packings, seed })
    }

    /// Configurations of a plan; a path is relative to the fleet's file.
    fn shapes(&self, plan: &std::path::Path) -> Result<Vec<Shape>, Error> {
        let path = self.file.parent().unwrap_or(std::path::Path::new("")).join(plan);
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let plan: PlanFile = serde_json::from_str(&text).map_err(|error| PlanFault::Fleet {
            file: path.display().to_string(),
            reason: error.to_string(),
        })?;
        let shape = |one: PlanShape| Shape {
            fast_gib: one.gib.first().copied().unwrap_or(0.0),
            slow_gib: one.gib.iter().skip(1).sum(),
            ways: one.ways,
            cost: one.cost,
        };
        Ok(plan.configurations.into_iter().map(shape).collect())
    }
}

impl Fleets {
    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} virtual machines on machines with {} processors, {} GiB fast, {} GiB slow{}\n\n",
            self.guests,
            self.host.vcpus,
            self.host.fast_gib,
            self.host.slow_gib,
            if self.host.pool > 1 { format!(" shared by {}", self.host.pool) } else { String::new() }
        );
        text.push_str("  policy            machines  by bound  cost over least   cpu  fast  slow  ways\n");
        for one in &self.packings {
            let used: String = one.used.iter().map(|used| format!("{:>5.0}%", used * 100.0)).collect();
            text.push_str(&format!(
                "  {:<18}{:>8}{:>10.2}{:>15.1} %{used}\n",
                policy(one.policy),
                one.machines,
                one.over_bound,
                one.cost_over_least * 100.0
            ));
        }
        if let Some(unplaced) = self.packings.first().map(|one| one.unplaced).filter(|&unplaced| unplaced > 0)
        {
            text.push_str(&format!(
                "\n{unplaced} virtual machines are larger than a machine in all configurations.\n"
            ));
        }
        text
    }

    /// All numbers.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        let answer = json!({
            "schema": "strandline-fleet-1",
            "guests": self.guests,
            "machine": serde_json::to_value(self.host)?,
            "seed": self.seed,
            "packings": serde_json::to_value(&self.packings)?,
        });
        Ok(format!("{answer:#}\n"))
    }
}

fn policy(policy: Policy) -> String {
    match policy {
        Policy::Naive => "naive".to_owned(),
        Policy::Resource => "resource-optimal".to_owned(),
        Policy::Random => "random".to_owned(),
        Policy::Tolerant(tolerance) => format!("within {:.1} %", tolerance * 100.0),
    }
}
