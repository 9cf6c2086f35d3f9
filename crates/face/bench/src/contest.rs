//! A comparison: what is asked for, and how it runs.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use persistency::Domain;
use pmem::Mapped;
use workload::load::{Distribution, Mix, Planner, Tally};

use crate::clock::Spent;
use crate::contenders::{Contender, Known};
use crate::error::Error;
use crate::record::KeyKind;
use crate::results::{PhaseFigures, Results, Row};
use crate::runner::Runner;
use crate::terms::{Role, Setup, Skipped, Subject};
use crate::unit::Unit;

/// Hears how far a contest is.
pub trait Watch {
    /// So many of all phases are done; the last one was this.
    fn step(&self, done: usize, all: usize, name: &str);

    /// Whether to stop and return what there is.
    fn stopped(&self) -> bool;
}

/// A comparison to be made.
#[derive(Clone, Debug)]
pub struct Contest {
    /// What is compared.
    pub subject: Subject,
    /// Names of contenders; all of ours and the baseline if none is named.
    pub variants: Vec<String>,
    /// Whether all peers take part, too.
    pub peers: bool,
    /// The workloads, one after the other on the same records; inserts and reads if none is named.
    pub workloads: Vec<String>,
    /// Which records are touched; each workload's own distribution if not given.
    pub distribution: Option<Distribution>,
    /// Operations of each workload; a million if not given, 20,000 where each write waits for a disk.
    pub operations: Option<u64>,
    /// Records before the first workload. If not given: none if that only inserts, else as many as
    /// operations.
    pub records: Option<u64>,
    /// Numbers of threads, each by itself.
    pub threads: Vec<u32>,
    /// What keys are.
    pub key: KeyKind,
    /// Bytes of a value, 8 to 65,536; what fits the subject if not given.
    pub value: Option<usize>,
    /// Reads that `read-many` hands over at once, 1 to 64.
    pub many: usize,
    /// Operations per second that arrive, whatever the contender does; as fast as they go if not given.
    pub rate: Option<f64>,
    /// A folder where files are made, and removed afterwards.
    pub path: PathBuf,
    /// Start of all randomness.
    pub seed: u64,
}

/// Slices of a phase: enough that the unit is measured all along.
const SLICES: u64 = 16;
/// Operations of a slice, at least and at most: a stop waits for its end.
const SLICE: RangeInclusive<u64> = 500..=50_000;

impl Contest {
    /// One with the usual load: inserts of a million 8-byte pairs, or of 100-byte values, then as many reads,
    /// by one thread in `/dev/shm`.
    #[must_use]
    pub fn new(subject: Subject) -> Contest {
        Contest {
            subject,
            variants: Vec::new(),
            peers: false,
            workloads: Vec::new(),
            distribution: None,
            operations: None,
            records: None,
            threads: vec![1],
            key: KeyKind::Word,
            value: None,
            many: 16,
            rate: None,
            path: PathBuf::from("/dev/shm"),
            seed: 1,
        }
    }

    /// Those that can be named.
    #[must_use]
    pub fn known(subject: Subject) -> Vec<Known> {
        Contender::all(subject).iter().map(Contender::known).collect()
    }

    /// Runs all contenders, one after the other. When it is stopped it gives what there is.
    ///
    /// # Errors
    /// If a name is not known, nothing can be compared, or one of ours fails; a peer that fails is reported
    /// beside the results.
    pub fn run(&self, watch: &dyn Watch) -> Result<Results, Error> {
        let mixes = self.mixes()?;
        let contenders = self.contenders()?;
        let folder = tempfile::Builder::new()
            .prefix("strandline-bench-")
            .tempdir_in(&self.path)
            .map_err(Error::file("make a folder in", &self.path))?;
        let (operations, setup, records) = self.load(folder.path(), &mixes)?;
        let mut running = Running {
            contest: self,
            mixes: &mixes,
            operations,
            records,
            unit: Unit::new()?,
            units: Vec::new(),
            watch,
            done: 0,
            all: contenders.len() * self.threads.len() * mixes.len(),
        };
        let (mut rows, mut skipped) = (Vec::new(), Vec::<Skipped>::new());
        for threads in &self.threads {
            for contender in &contenders {
                let setup = Setup { threads: *threads, ..setup.clone() };
                match running.one(contender, &setup)? {
                    Ok(row) => rows.extend(row),
                    Err(one) if skipped.contains(&one) => {}
                    Err(one) => skipped.push(one),
                }
            }
        }
        if rows.is_empty() && !watch.stopped() {
            let reasons = skipped.iter().map(|one| format!("{}: {}", one.name, one.why)).collect();
            return Err(Error::Nothing { reasons });
        }
        rows.sort_by_key(|row: &Row| (row.threads, row.durability, row.role));
        running.units.sort_by(f64::total_cmp);
        Ok(Results {
            subject: self.subject.name(),
            path: self.path.display().to_string(),
            key: self.key,
            value: setup.value,
            operations,
            records,
            rate: self.rate,
            seed: self.seed,
            unit_ns: running.units.get(running.units.len() / 2).copied().unwrap_or(0.0),
            cautions: self.cautions(setup.memory, &rows),
            skipped,
            rows,
        })
    }

    /// How many operations, what contenders are made for, and how many records are there before.
    fn load(&self, folder: &Path, mixes: &[Mix]) -> Result<(u64, Setup, u64), Error> {
        let memory = is_memory(folder)?;
        let operations = self.operations.unwrap_or(if memory { 1_000_000 } else { 20_000 });
        let records = match (self.records, mixes.first()) {
            (Some(records), _) => records,
            (None, Some(first)) if first.only_inserts() => 0,
            (None, _) => operations,
        };
        let default_value = match (self.subject, self.key) {
            (Subject::Kv, _) => 100,
            (Subject::Index, KeyKind::Pair) => 16,
            (Subject::Index, _) => 8,
        };
        let inserts = mixes.iter().filter(|mix| mix.shares.insert > 0).count() as u64;
        let setup = Setup {
            folder: folder.to_owned(),
            memory,
            key: self.key,
            value: self.value.unwrap_or(default_value),
            records: records.saturating_add(operations.saturating_mul(inserts)).max(1),
            threads: 1,
            many: self.many,
        };
        Ok((operations, setup, records))
    }

    fn mixes(&self) -> Result<Vec<Mix>, Error> {
        let usual = ["fill".to_owned(), "read".to_owned()];
        let names = if self.workloads.is_empty() { &usual[..] } else { &self.workloads };
        let find = |name: &String| {
            let known = || Mix::all().into_iter().map(|mix| mix.name).collect();
            Mix::find(name).ok_or_else(|| Error::NoWorkload { name: name.clone(), known: known() })
        };
        names.iter().map(find).collect()
    }

    fn contenders(&self) -> Result<Vec<Contender>, Error> {
        let all = Contender::all(self.subject);
        let known: Vec<Known> = all.iter().map(Contender::known).collect();
        if let Some(name) = self.variants.iter().find(|name| known.iter().all(|one| one.name != **name)) {
            let known = known.into_iter().map(|one| one.name).collect();
            return Err(Error::NoContender { name: name.clone(), known });
        }
        let named: BTreeSet<&String> = self.variants.iter().collect();
        let chosen = |known: &Known| match known.role {
            Role::Peer => self.peers || named.contains(&known.name),
            Role::Ours | Role::Baseline => named.is_empty() || named.contains(&known.name),
        };
        Ok(all.into_iter().filter(|contender| chosen(&contender.known())).collect())
    }

    fn cautions(&self, memory: bool, rows: &[Row]) -> Vec<String> {
        let mut cautions = Vec::new();
        if memory {
            cautions.push(format!(
                "files in {} are memory: what was flushed or synced there survives the process and no more; \
                 the figures are what software costs",
                self.path.display()
            ));
        }
        if rows.iter().any(|row| row.durability.is_durable())
            && rows.iter().any(|row| !row.durability.is_durable())
        {
            cautions.push("compare rows of the same durability".to_owned());
        }
        if self.rate.is_some() && rows.iter().any(|row| row.role == Role::Peer) {
            cautions.push("peers in C take no rate: they ran as fast as they go".to_owned());
        }
        cautions
    }
}

/// Whether files below a folder need no sync: they are memory, or on persistent memory.
fn is_memory(folder: &Path) -> Result<bool, Error> {
    let file = folder.join("probe");
    let memory = Mapped::create(&file, 4096)?;
    let domain = memory.durability().domain;
    drop(memory);
    std::fs::remove_file(&file).map_err(Error::file("remove", &file))?;
    Ok(domain != Domain::Sync)
}

/// A contest that goes on.
struct Running<'a> {
    contest: &'a Contest,
    mixes: &'a [Mix],
    operations: u64,
    records: u64,
    unit: Unit,
    units: Vec<f64>,
    watch: &'a dyn Watch,
    done: usize,
    all: usize,
}

impl Running<'_> {
    /// One contender with one number of threads: its row, none if it was stopped, or why it did not take
    /// part.
    fn one(&mut self, contender: &Contender, setup: &Setup) -> Result<Result<Option<Row>, Skipped>, Error> {
        let known = contender.known();
        if self.watch.stopped() {
            return Ok(Ok(None));
        }
        if let Some(skipped) = contender.refusal(setup, self.mixes) {
            self.done += self.mixes.len();
            return Ok(Err(skipped));
        }
        let mut phases = Vec::new();
        let result =
            contender.compete(setup, &mut |runner| self.phases(&known.name, runner, setup, &mut phases));
        match result {
            Ok(None) => {}
            Ok(Some(skipped)) => {
                self.done += self.mixes.len();
                return Ok(Err(skipped));
            }
            Err(error) if known.role == Role::Peer => {
                let (name, why) = (known.name, format!("it failed: {error}"));
                return Ok(Err(Skipped { name, why, package: None }));
            }
            Err(error) => return Err(error),
        }
        let durability = contender.durability(setup);
        let rate = |only: fn(&Mix) -> bool| {
            let of = self.mixes.iter().zip(&phases).find(|(mix, _)| only(mix));
            of.map(|(_, phase): (_, &PhaseFigures)| phase.per_second)
        };
        let row = Row {
            variant: known.name,
            role: known.role,
            durability,
            durability_text: durability.text(),
            threads: setup.threads,
            inserts_per_second: rate(Mix::only_inserts),
            gets_per_second: rate(|mix| mix.shares.read == 100),
            phases,
        };
        Ok(Ok((!row.phases.is_empty()).then_some(row)))
    }

    /// All workloads on one contender.
    fn phases(
        &mut self,
        name: &str,
        runner: &mut dyn Runner,
        setup: &Setup,
        phases: &mut Vec<PhaseFigures>,
    ) -> Result<(), Error> {
        let mut planner = Planner::new(self.contest.seed, setup.threads);
        if let Some(fill) = Mix::find("fill").filter(|_| self.records > 0) {
            let mut phase = planner.phase(&fill, None, self.records, None);
            while let Some(slice) = planner.next(&mut phase, self.slice()) {
                runner.run(&slice, &mut Tally::default())?;
            }
        }
        for mix in self.mixes {
            let label =
                format!("{name}, {}, {}", mix.name, report::human::plural(setup.threads as usize, "thread"));
            self.watch.step(self.done, self.all, &label);
            let rate = self.contest.rate;
            let mut phase = planner.phase(mix, self.contest.distribution, self.operations, rate);
            let (mut tally, mut spent) = (Tally::default(), Spent::default());
            let mut units = vec![self.unit.measure()];
            while let Some(slice) = planner.next(&mut phase, self.slice()) {
                spent.add(runner.run(&slice, &mut tally)?);
                units.push(self.unit.measure());
                if self.watch.stopped() {
                    break;
                }
            }
            self.units.extend(&units);
            phases.push(PhaseFigures::new(&mix.name, &tally, spent, units));
            self.done += 1;
            if self.watch.stopped() {
                break;
            }
        }
        Ok(())
    }

    fn slice(&self) -> u64 {
        (self.operations / SLICES).clamp(*SLICE.start(), *SLICE.end())
    }
}
