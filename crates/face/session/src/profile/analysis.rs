//! The sinks of a profile. The modelled machine and the bursts of pre-stores have a thread of their own,
//! everything else runs on the one that brings the events.

use std::collections::BTreeMap;

use super::chosen::{Waiting, maps};
use super::types;
use crate::wear;
use ::advise::guidelines::Linter;
use ::advise::prestores::{Bursts, Target};
use ::wear::estimate::{BASE_PAGE, Watch};
use ::wear::{Question, assess};
use crash::lint::Lints;
use event::{
    AnySink, Batch, BlockBatch, Capabilities, Definition, Event, Op, RunSink, Sink, SinkError, SiteTable,
    Source,
};
use locality::Watcher;
use machine::{Config, ConfigError, Machine};
use report::{
    AllocationStack, CaptureStats, Costs, CrashLints, Prestores, Report, Run, SiteCost, StackCost, Structure,
    Subject, Trial, Wait, Withheld, WriteSizes,
};

/// Data structures that a report lists.
const STRUCTURES_MAX: usize = 64;
/// Phases that a report lists.
const PHASES_MAX: usize = 1024;
/// Call stacks of a data structure that a report lists.
const STACKS_MAX: usize = 32;

/// Everything that looks at the events of a profile.
pub struct Analysis {
    model: Model,
    target: Target,
    question: Question,
    notes: Notes,
    watcher: Watcher,
    /// The machine for programs that map no persistent memory, if it is not known yet whether this one does.
    ordinary: Option<Config>,
    /// The machine that was named, or the one for persistent memory.
    named: Config,
    name: String,
}

/// What looks at events on a thread of its own. The bursts of pre-stores do so here because the thread that
/// brings events is the busier one while they are watched.
struct Model {
    machine: Machine,
    /// What the machine writes, for its wear.
    watch: Watch,
    time_ns: u64,
    /// Unless the source leaves out what it needs.
    prestores: Option<Bursts>,
    /// Until it is known which machine judges.
    waiting: Option<Waiting>,
    /// Whether the machine for ordinary memory judges.
    ordinary: bool,
    /// Whether persistent memory was mapped after that was decided.
    late: bool,
}

/// A phase's name, and the events and the time before it.
struct Mark(event::NameId, u64, u64);

impl Mark {
    fn named(self, sites: &SiteTable) -> report::PhaseMark {
        let name = sites.name(self.0).unwrap_or("?").to_owned();
        report::PhaseMark { name, events: self.1, time_ns: self.2 }
    }
}

/// What is kept where events are brought.
#[derive(Default)]
struct Notes {
    phases: Vec<Mark>,
    events: u64,
    source: Option<Source>,
    sites: SiteTable,
    linter: Linter,
    /// If they were asked for.
    lints: Option<Lints>,
}

impl Analysis {
    /// On the given machine, or on `ordinary` if the program maps no persistent memory; with the lints of crash
    /// consistency if `check`.
    ///
    /// # Errors
    /// When its description is no machine.
    pub fn new(config: &Config, ordinary: Option<Config>, check: bool) -> Result<Self, ConfigError> {
        let notes = Notes { lints: check.then(Lints::new), ..Notes::default() };
        let (mut machine, mut watch) = (Machine::new(config)?, Watch::default());
        watch.begin(&mut machine);
        let waiting = ordinary.as_ref().map(Machine::new).transpose()?.map(Waiting::new);
        let model =
            Model { machine, watch, time_ns: 0, prestores: None, waiting, ordinary: false, late: false };
        let caches = ordinary.as_ref().unwrap_or(config);
        let options = locality::Options {
            l1_bytes: caches.l1.size.0,
            l1_ways: caches.l1.ways as usize,
            cores: caches.cores.count,
            nodes: caches.sockets.as_ref().map_or(1, |sockets| sockets.count),
            ..locality::Options::default()
        };
        // The host's own, unless another machine was named.
        let options = if caches.name == crate::host::HOST {
            crate::host::options(options)
        } else {
            locality::Options { slow_memory: locality::is_slow(caches), ..options }
        };
        let question = wear::question(config, None, 4.0 * ::wear::YEAR, BASE_PAGE, None).0;
        let (target, name) = (Target::of(config), config.name.clone());
        Ok(Analysis {
            model,
            target,
            question,
            notes,
            watcher: Watcher::new(options),
            ordinary,
            named: config.clone(),
            name,
        })
    }

    /// The sink for the thread that brings the events, and the one for another thread.
    pub fn sinks(&mut self) -> (&mut (dyn Sink + Send), [&mut (dyn Sink + Send); 2]) {
        (&mut self.notes, [&mut self.model, &mut self.watcher])
    }

    /// The observed program's command line, if the source says.
    pub fn command(&self) -> Vec<String> {
        self.notes.source.as_ref().map(|source| source.command.clone()).unwrap_or_default()
    }

    /// The name of the machine that judged.
    pub fn machine(&self) -> &str {
        if self.model.ordinary { crate::host::HOST } else { &self.name }
    }

    /// Whether the program mapped persistent memory when it had been decided that it does not.
    pub fn late(&self) -> bool {
        self.model.late
    }

    /// Names data by the debug information of the files that the program ran from.
    pub fn name_data(&mut self, outcome: &capture::Outcome) {
        types::name(&mut self.watcher, &self.notes.sites, outcome);
    }

    /// Puts the results together.
    pub fn into_report(self, run: Run, capture: Option<CaptureStats>) -> Report {
        let Notes { source, sites, linter, lints, phases, .. } = self.notes;
        let Model { mut machine, mut watch, time_ns, prestores, ordinary, .. } = self.model;
        let own = match &self.ordinary {
            Some(config) if ordinary => Target::of(config),
            _ => self.target,
        };
        let counts = machine.counts();
        let figures = machine.figures();
        // The figures say what the caches hold; for wear it is written in the end.
        machine.drain();
        watch.collect(&mut machine, time_ns);
        let recorded = watch.tally().span_ns();
        let seconds = (recorded > 0).then_some(recorded as f64 / 1e9);
        let question = Question { seconds, ..self.question };
        let assessment = assess(watch.tally(), watch.allocation_sites(), question);
        // DRAM does not wear out.
        let wear = (!ordinary).then(|| report::Wear { assessment, command: again(&run, "wear") });
        // Bursts don't see all that is touched, but the model saw what left its caches.
        let stays = figures.caches.last().is_some_and(|cache| cache.evictions == 0);
        let target = Target { cache_bytes: if stays { u64::MAX } else { 0 }, ..own };
        let prestores = prestores.map(|bursts| Prestores {
            advice: bursts.advice(Some(target)),
            watched: bursts.watched(),
            attempt: attempt(&run),
        });
        let mut findings = linter.findings(&figures, &sites);
        let mut withheld: Vec<Withheld> = linter
            .withheld()
            .into_iter()
            .map(|(rule, reason)| Withheld { rule: rule.name().to_owned(), reason })
            .collect();
        let (mut trials, mut costs) = (Vec::new(), None);
        if figures.unit_bytes <= 64 && !figures.mapped_persistent {
            let machine = self.ordinary.as_ref().filter(|_| ordinary).unwrap_or(&self.named);
            let mut own = self.watcher.findings(&sites);
            (trials, costs) = tried(&self.watcher, &mut own, machine, &sites, &mut withheld);
            share_out(&mut costs, &figures);
            findings.extend(own);
            findings.sort_by(|a, b| b.share.total_cmp(&a.share));
        }
        let phases = phases.into_iter().map(|mark| mark.named(&sites)).collect();
        let structures = most_fetched(&self.watcher, &sites);
        let write_sizes = Some(write_sizes(&linter, figures.mapped_persistent));
        Report {
            run,
            source: source.unwrap_or_else(|| Source::synthetic("nothing")),
            counts,
            figures,
            sites,
            findings,
            prestores,
            withheld,
            structures,
            trials,
            costs,
            phases,
            write_sizes,
            capture,
            samples: None,
            wear,
            crash_findings: None,
            crash_lints: lints
                .map(|lints| CrashLints { lints: lints.findings(), files: lints.files().to_vec() }),
        }
    }
}

/// How large writes were: those to persistent memory, where there is some.
fn write_sizes(linter: &Linter, persistent: bool) -> WriteSizes {
    let sizes = linter.write_sizes();
    let sizes = if persistent { sizes.persistent } else { sizes.all };
    WriteSizes {
        temporal: sizes.temporal.writes.to_vec(),
        nt: sizes.non_temporal.writes.to_vec(),
        watched: linter.watched(),
    }
}

/// The data structures of which most lines were fetched.
fn most_fetched(watcher: &locality::Watcher, sites: &SiteTable) -> Vec<report::Structure> {
    let uses = watcher.uses();
    let mut all: Vec<Structure> = structures(watcher, sites);
    for one in &mut all {
        let known = uses.of_site(one.site);
        fields(one, known);
        one.stacks = allocation_stacks(watcher, one.site, sites);
    }
    all.extend(watcher.outside().into_iter().map(|(name, addr, of)| {
        let mut one = structure(0, name, of);
        fields(&mut one, uses.of_variable(addr));
        one
    }));
    all.sort_by_key(|structure| std::cmp::Reverse(structure.fetches));
    all.truncate(STRUCTURES_MAX);
    all
}

/// Tries the remedies of findings; those that gain nothing are withdrawn.
fn tried(
    watcher: &Watcher,
    findings: &mut Vec<::advise::Finding>,
    machine: &Config,
    sites: &SiteTable,
    withheld: &mut Vec<Withheld>,
) -> (Vec<Trial>, Option<Costs>) {
    let results = locality::try_out(watcher, findings, machine, sites);
    let trial = |result: locality::Tried| {
        let withdrawn = !findings.iter().any(|finding| finding.rule == result.rule);
        let rule = result.rule.name().to_owned();
        if withdrawn {
            let reason = format!(
                "its remedy was tried on the model and gains nothing ({:+.1} % time)",
                -100.0 * result.gain
            );
            withheld.push(Withheld { rule: rule.clone(), reason });
        }
        Trial { rule, gain: result.gain, accesses: result.accesses as u64, withdrawn }
    };
    let costs = costs(watcher, &results);
    (results.tried.into_iter().map(trial).collect(), costs)
}

/// Shares a site's traffic out among the places that its code was called from: by misses, or by accesses if
/// it has none.
fn share_out(costs: &mut Option<Costs>, figures: &machine::Figures) {
    let Some(costs) = costs else { return };
    let mut sums: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for of in &costs.stacks {
        let sum = sums.entry(of.site).or_default();
        sum[0] += of.l1_misses;
        sum[1] += of.loads + of.stores;
    }
    for of in &mut costs.stacks {
        let (Some(site), Some(&[misses, accesses])) =
            (figures.sites.get(of.site as usize), sums.get(&of.site))
        else {
            continue;
        };
        let (part, whole) =
            if misses > 0 { (of.l1_misses, misses) } else { (of.loads + of.stores, accesses) };
        let share = |bytes: u64| (u128::from(bytes) * u128::from(part) / u128::from(whole.max(1))) as u64;
        of.read_bytes = share(site.persistent.read_bytes + site.volatile.read_bytes);
        of.written_bytes =
            share(site.persistent.controller_write_bytes + site.volatile.controller_write_bytes);
    }
}

/// What accesses cost on the modelled machine.
fn costs(watcher: &Watcher, trials: &locality::Trials) -> Option<Costs> {
    (trials.accesses > 0).then_some(())?;
    let mut sites: BTreeMap<u32, SiteCost> = BTreeMap::new();
    let mut at = |site: event::SiteId, l1_misses, stalled_ns| {
        let of = sites.entry(site.0).or_insert(SiteCost { site: site.0, l1_misses: 0, stalled_ns: 0.0 });
        of.l1_misses += l1_misses;
        of.stalled_ns += stalled_ns;
    };
    watcher.misses().for_each(|(site, misses)| at(site, misses, 0.0));
    trials.stalls.iter().for_each(|&(site, ns)| at(site, 0, ns));
    Some(Costs {
        accesses: trials.accesses as u64,
        elapsed_ns: trials.elapsed_ns,
        waits: trials.waits.iter().map(|&(cause, ns)| Wait { cause: cause.to_owned(), ns }).collect(),
        sites: sites.into_values().collect(),
        stacks: stacks(watcher, trials),
    })
}

/// What accesses cost by who called their code.
fn stacks(watcher: &Watcher, trials: &locality::Trials) -> Vec<StackCost> {
    let row = |of: &locality::Calls| StackCost {
        site: of.site,
        context: of.context,
        loads: of.loads,
        stores: of.stores,
        l1_misses: of.misses,
        ..StackCost::default()
    };
    let mut rows: Vec<StackCost> = watcher.calls().iter().map(row).collect();
    for &(at, ns) in &trials.by_row {
        if let Some(of) = rows.get_mut(at as usize) {
            of.stalled_ns += ns;
        }
    }
    rows.retain(|of| of.loads + of.stores > 0);
    rows
}

/// Who had the blocks of a site allocated, the most fetched first.
fn allocation_stacks(watcher: &Watcher, site: u32, sites: &SiteTable) -> Vec<AllocationStack> {
    let own = watcher.calls().iter().filter(|of| of.site == site && of.blocks > 0);
    let stack = |of: &locality::Calls| AllocationStack {
        context: of.context,
        called_from: sites
            .site(event::SiteId(of.context))
            .map(|calls| calls.frames.iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
        blocks: of.blocks,
        bytes: of.bytes,
        freed: of.freed,
        peak_bytes: of.peak,
        live_bytes: of.live,
        fetches: of.fetches,
    };
    let mut all: Vec<AllocationStack> = own.map(stack).collect();
    all.sort_by_key(|of| (std::cmp::Reverse((of.fetches, of.bytes)), of.context));
    all.truncate(STACKS_MAX);
    all
}

/// Data structures, at most [`STRUCTURES_MAX`].
fn structures(watcher: &Watcher, sites: &SiteTable) -> Vec<Structure> {
    let row = |(site, of): (event::SiteId, locality::Structure)| structure(site.0, sites.label(site), of);
    watcher.structures().into_iter().take(STRUCTURES_MAX).map(row).collect()
}

/// Adds what is known of a structure's type.
fn fields(one: &mut Structure, known: Option<(&event::Layout, &[locality::FieldUse])>) {
    let Some((layout, fields)) = known else { return };
    one.type_name = Some(layout.name.clone());
    one.type_bytes = Some(layout.bytes);
    let of = |of: &locality::FieldUse| report::FieldHeat {
        name: of.name.clone(),
        offset: of.offset,
        bytes: of.bytes,
        loads: of.loads,
        stores: of.stores,
        threads: (0..64).filter(|bit| of.threads >> bit & 1 == 1).collect(),
    };
    one.fields = fields.iter().map(of).collect();
}

/// One of them.
fn structure(site: u32, label: String, of: locality::Structure) -> Structure {
    Structure {
        site,
        label,
        blocks: of.blocks,
        bytes: of.bytes,
        freed: of.freed,
        short_lived: of.short,
        mean_life: (of.freed > 0).then(|| of.lived / of.freed),
        peak_bytes: of.peak,
        live_bytes: of.live,
        fetches: of.fetches,
        threads: of.threads.count_ones(),
        heat_loads: of.heat[0].to_vec(),
        heat_stores: of.heat[1].to_vec(),
        heat_by_thread: of
            .by_thread
            .iter()
            .map(|(thread, parts)| report::ThreadHeat { thread: *thread, fetches: parts.to_vec() })
            .collect(),
        working_set: of.working_set(),
        miss_curve: of.reuse.miss_curve(),
        at_peak_bytes: of.at_peak,
        idle_at_peak_bytes: of.idle_at_peak,
        footprint: of.footprint,
        type_name: None,
        type_bytes: None,
        fields: Vec::new(),
        stacks: Vec::new(),
    }
}

/// The command that tries advice on pre-stores, made of the one that repeats the profile; empty if it can't
/// be tried.
fn attempt(run: &Run) -> Vec<String> {
    let mut words: Vec<String> = ["strandline", "advise", "prestores"].map(str::to_owned).into();
    let machine = run.reproduce.iter().position(|word| word == "--machine");
    words.extend(machine.into_iter().flat_map(|at| run.reproduce.iter().skip(at).take(2).cloned()));
    match &run.subject {
        Subject::Program { command } => {
            words.push("--".to_owned());
            words.extend(command.iter().cloned());
        }
        Subject::Trace { path, .. } => words.push(path.clone()),
        // There is no trace of a built-in workload.
        Subject::Workload { .. } => words.clear(),
    }
    words
}

/// The command that another verb answers the same input with, made of the one that repeats the profile.
fn again(run: &Run, verb: &str) -> Vec<String> {
    let mut words = vec!["strandline".to_owned(), verb.to_owned()];
    let mut rest = run.reproduce.iter().skip(2);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--check" => {}
            "--recover" => drop(rest.next()),
            "--" => {
                words.push(word.clone());
                words.extend(rest.by_ref().cloned());
            }
            _ => words.push(word.clone()),
        }
    }
    words
}

impl Sink for Notes {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn needs(&self) -> Capabilities {
        self.linter.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = Some(source.clone());
        if let Some(lints) = &mut self.lints {
            lints.begin(source)?;
        }
        self.linter.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.sites.define_site(id, site.clone()),
            Definition::Name(id, name) => self.sites.define_name(id, name.to_owned()),
        }
        if let Some(lints) = &mut self.lints {
            lints.define(definition)?;
        }
        self.linter.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.mark(batch.events, batch.events.len(), batch.time_ns);
        if let Some(lints) = &mut self.lints {
            lints.push(batch)?;
        }
        self.linter.push(batch)
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.linter.finish()
    }
}

impl Notes {
    /// Notes the phases that begin in a batch.
    fn mark(&mut self, events: &[Event], count: usize, time_ns: u64) {
        for event in events {
            if let Op::Phase { name } = event.op
                && self.phases.len() < PHASES_MAX
            {
                self.phases.push(Mark(name, self.events, time_ns));
            }
        }
        self.events += count as u64;
    }
}

impl RunSink for Notes {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        self.mark(batch.events, batch.count, batch.time_ns);
        if let Some(lints) = &mut self.lints {
            AnySink(lints).push_blocks(batch)?;
        }
        self.linter.push_blocks(batch)
    }
}

impl Model {
    /// Decides which machine judges, and gives it what waited.
    fn decide(&mut self) -> Result<(), SinkError> {
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        self.ordinary = !waiting.release(&mut self.machine)?;
        self.collect();
        Ok(())
    }

    fn collect(&mut self) {
        if !self.ordinary {
            self.watch.collect(&mut self.machine, self.time_ns);
        }
    }
}

impl RunSink for Model {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        self.watch.note(batch.events);
        self.time_ns = self.time_ns.max(batch.time_ns);
        match &mut self.waiting {
            Some(waiting) => {
                if waiting.blocks(batch) {
                    self.decide()?;
                }
            }
            None => {
                self.late |= self.ordinary && maps(batch.events);
                self.machine.push_blocks(batch)?;
                self.collect();
            }
        }
        self.prestores.as_mut().map_or(Ok(()), |prestores| prestores.push_blocks(batch))
    }
}

impl Sink for Model {
    fn name(&self) -> &'static str {
        self.machine.name()
    }

    fn needs(&self) -> Capabilities {
        self.machine.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        // A sample of the events shows no pattern.
        let whole = source.capabilities.contains(Capabilities::LOADS) && source.sampling.is_none();
        self.prestores = whole.then(Bursts::default);
        if let Some(prestores) = &mut self.prestores {
            prestores.begin(source)?;
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.ordinary.begin(source)?;
        }
        self.machine.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        if let Some(prestores) = &mut self.prestores {
            prestores.define(definition)?;
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.ordinary.define(definition)?;
        }
        self.machine.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        if let Some(prestores) = &mut self.prestores {
            prestores.push(batch)?;
        }
        self.watch.note(batch.events);
        self.time_ns = self.time_ns.max(batch.time_ns);
        if let Some(waiting) = &mut self.waiting {
            return if waiting.plain(batch) { self.decide() } else { Ok(()) };
        }
        self.late |= self.ordinary && maps(batch.events);
        self.machine.push(batch)?;
        self.collect();
        Ok(())
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        if let Some(prestores) = &mut self.prestores {
            prestores.finish()?;
        }
        self.decide()?;
        self.machine.finish()
    }
}
