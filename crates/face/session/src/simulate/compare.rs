//! The comparison: tables with a row per quantity and a column per machine.

use hardware::Mapped;
use machine::{
    Config, Histogram, MemoryTiming, PersistencyFigures, Phase, Simulation, Span, Time, TimedFigures,
};
use report::{Axis, Cell, Curve, Curves, Table, human};

use super::notes::Notes;

/// Code sites that are listed.
const SITES_MAX: usize = 20;
/// Phases that are listed.
const PHASES_MAX: usize = 40;
/// A phase without a name that takes less than one such part of the run is left out.
const NEGLIGIBLE: u64 = 1000;
/// What the memories are called, in the order of the figures.
const MEMORIES: [&str; 2] = ["other memory", "persistent memory"];

/// A machine while it simulates.
pub(super) struct Contender {
    /// What it is called.
    pub label: String,
    /// Its description.
    pub config: Config,
    /// Itself.
    pub simulation: Mapped<Simulation>,
}

/// A machine and what it measured.
#[derive(Debug)]
pub struct Measured {
    /// What it is called.
    pub label: String,
    /// Its description.
    pub config: Config,
    /// What it measured.
    pub figures: TimedFigures,
}

/// The same events on several machines.
#[derive(Debug)]
pub struct Comparison {
    /// What the events are of.
    pub subject: String,
    /// The command that compares again.
    pub command: Vec<String>,
    /// The machines, as they were named.
    pub machines: Vec<Measured>,
    /// What is known of the events.
    pub notes: Notes,
}

impl Comparison {
    /// Takes the figures of every machine.
    pub(super) fn new(
        subject: String,
        command: Vec<String>,
        contenders: Vec<Contender>,
        notes: Notes,
    ) -> Comparison {
        let measured = |contender: Contender| Measured {
            figures: contender.simulation.inner.figures(),
            label: contender.label,
            config: contender.config,
        };
        Comparison { subject, command, machines: contenders.into_iter().map(measured).collect(), notes }
    }

    /// The result in one sentence.
    #[must_use]
    pub fn headline(&self) -> String {
        let time = |machine: &Measured| duration(machine.figures.elapsed);
        let Some((first, others)) = self.machines.split_first() else { return String::new() };
        let mut words = vec![format!("{} on {}", time(first), first.label)];
        for other in others {
            let ratio = ratio(other.figures.elapsed, first.figures.elapsed);
            words.push(format!("{} on {} ({} times)", time(other), other.label, human::ratio(ratio)));
        }
        words.join(", ")
    }

    /// All tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.overall()];
        for (memory, name) in MEMORIES.iter().enumerate() {
            if self.machines.iter().any(|machine| moved(&machine.figures.memories[memory])) {
                tables.push(self.memory(memory, name));
            }
        }
        tables.extend(self.persistency());
        tables.push(self.stalls());
        tables.extend(self.phases());
        tables.extend(self.sites());
        tables
    }

    fn table(&self, caption: &str, first: &str) -> Table {
        let head = std::iter::once(first).chain(self.machines.iter().map(|machine| machine.label.as_str()));
        Table { caption: caption.to_owned(), head: head.map(str::to_owned).collect(), rows: Vec::new() }
    }

    fn row(&self, name: &str, cell: impl Fn(&TimedFigures) -> Cell) -> Vec<Cell> {
        let cells = self.machines.iter().map(|machine| cell(&machine.figures));
        std::iter::once(Cell::Text(name.to_owned())).chain(cells).collect()
    }

    fn overall(&self) -> Table {
        let mut table = self.table("Time", "");
        let first = self.machines.first().map_or(Time::ZERO, |machine| machine.figures.elapsed);
        table.rows = vec![
            self.row("time", |figures| time(figures.elapsed)),
            self.row("times the first", |figures| {
                Cell::optional(ratio(figures.elapsed, first), human::ratio)
            }),
            self.row("instructions per ns", |figures| {
                let instructions: u64 = figures.threads.iter().map(|thread| thread.instructions).sum();
                Cell::optional(per(instructions, figures.elapsed), human::ratio)
            }),
        ];
        for level in 0..self.machines.first().map_or(0, |machine| machine.figures.caches.len()) {
            let name = &self.machines[0].figures.caches[level].level;
            table.rows.push(self.row(&format!("{name} misses"), |figures| {
                Cell::number(figures.caches.get(level).map_or(0, |cache| cache.misses), human::count)
            }));
        }
        table
    }

    fn memory(&self, memory: usize, name: &str) -> Table {
        let mut table = self.table(&first_upper(name), "");
        let of = |figures: &TimedFigures| figures.memories[memory].clone();
        let bandwidth = |bytes: u64, elapsed| Cell::optional(per(bytes, elapsed), gigabytes);
        table.rows = vec![
            self.row("read", |f| Cell::number(of(f).total.controller_read_bytes, human::bytes)),
            self.row("written", |f| Cell::number(of(f).total.controller_write_bytes, human::bytes)),
            self.row("read bandwidth", |f| bandwidth(of(f).total.controller_read_bytes, f.elapsed)),
            self.row("write bandwidth", |f| bandwidth(of(f).total.controller_write_bytes, f.elapsed)),
            self.row("media read", |f| Cell::number(of(f).total.media_read_bytes, human::bytes)),
            self.row("media written", |f| Cell::number(of(f).total.media_write_bytes, human::bytes)),
            self.row("EWR", |f| Cell::optional(of(f).total.ewr(), human::ratio)),
        ];
        for (kind, latency) in [
            ("read", (|m: &MemoryTiming| m.read_latency.clone()) as fn(&MemoryTiming) -> Histogram),
            ("write", |m| m.write_latency.clone()),
        ] {
            table.rows.push(self.row(&format!("{kind} latency, mean"), |f| known(latency(&of(f)).mean())));
            for (quantile, word) in [(0.5, "median"), (0.99, "99 %"), (0.999, "99.9 %")] {
                table.rows.push(
                    self.row(&format!("{kind} latency, {word}"), |f| {
                        known(latency(&of(f)).quantile(quantile))
                    }),
                );
            }
            table.rows.push(self.row(&format!("{kind} latency, longest"), |f| time(latency(&of(f)).max())));
        }
        table.rows.extend([
            self.row("waits for the read queue", |f| time(of(f).read_queue_full.time)),
            self.row("waits for the write queue", |f| time(of(f).write_queue_full.time)),
            self.row("waits for the thread's credit", |f| time(of(f).credit_used_up.time)),
            self.row("waits behind the thread's own", |f| time(of(f).behind_own.time)),
        ]);
        table
    }

    /// What designs did by themselves, if any did.
    fn persistency(&self) -> Option<Table> {
        type Part = (&'static str, fn(&PersistencyFigures) -> u64, fn(u64) -> String);
        let parts: [Part; 9] = [
            ("regions", |own| own.regions, human::count),
            ("lines of a region, all", |own| own.region_lines, human::count),
            ("logs and journals", |own| own.logging_bytes, human::bytes),
            ("of these checkpoints", |own| own.checkpoint_bytes, human::bytes),
            ("copied from page to page", |own| own.consolidation_bytes, human::bytes),
            ("too large regions", |own| own.overflows, human::count),
            ("flip messages", |own| own.flips, human::count),
            ("TLB misses", |own| own.tlb_misses, human::count),
            ("persists before their turn", |own| own.speculative, human::count),
        ];
        let mut table = self.table("Persistency", "");
        for (name, part, text) in parts {
            if self.machines.iter().any(|machine| part(&machine.figures.persistency) > 0) {
                table.rows.push(self.row(name, |figures| Cell::number(part(&figures.persistency), text)));
            }
        }
        (!table.rows.is_empty()).then_some(table)
    }

    /// Shares of the threads' time.
    fn stalls(&self) -> Table {
        let mut table = self.table("Where the cores' time went, all threads together", "");
        let total = |figures: &TimedFigures| {
            let times =
                figures.threads.iter().map(|thread| thread.busy + thread.idle + thread.stalls.total());
            times.sum::<Time>()
        };
        let share =
            |part: Time, figures: &TimedFigures| Cell::share(ratio(part, total(figures)).unwrap_or(0.0));
        let busy = |figures: &TimedFigures| figures.threads.iter().map(|thread| thread.busy).sum();
        let idle = |figures: &TimedFigures| figures.threads.iter().map(|thread| thread.idle).sum();
        table.rows.push(self.row("busy", |figures| share(busy(figures), figures)));
        for (cause, (name, _)) in machine::Stalls::default().each().iter().enumerate() {
            table.rows.push(self.row(name, |figures| {
                let times = figures.threads.iter().map(|thread| thread.stalls.each()[cause].1);
                share(times.sum(), figures)
            }));
        }
        table.rows.push(self.row("idle", |figures| share(idle(figures), figures)));
        table
    }

    /// Time by phase, if the program marked any. All machines saw the same marks.
    fn phases(&self) -> Option<Table> {
        let first = &self.machines.first()?.figures;
        let phases = &first.phases;
        // The time before the first mark has a row only if it matters.
        let shows = |phase: &Phase| {
            !phase.name.is_empty() || phase.end.since(phase.begin).0 > first.elapsed.0 / NEGLIGIBLE
        };
        if phases.iter().all(|phase| phase.name.is_empty()) {
            return None;
        }
        let mut table = self.table("Phases", "phase");
        for (at, phase) in phases.iter().enumerate().take(PHASES_MAX).filter(|(_, phase)| shows(phase)) {
            let name = if phase.name.is_empty() { "before the first mark" } else { &phase.name };
            let of = |figures: &TimedFigures| figures.phases.get(at).cloned().unwrap_or_default();
            table.rows.push(self.row(&format!("{name}: time"), |f| time(of(f).end.since(of(f).begin))));
            table.rows.push(self.row(&format!("{name}: written"), |f| {
                Cell::number(written(&of(f).span, |traffic| traffic.controller_write_bytes), human::bytes)
            }));
            table.rows.push(self.row(&format!("{name}: EWR"), |f| {
                let span = of(f).span;
                let media = written(&span, |traffic| traffic.media_write_bytes);
                let sent = written(&span, |traffic| traffic.controller_write_bytes);
                Cell::optional((media > 0).then(|| sent as f64 / media as f64), human::ratio)
            }));
        }
        if phases.len() > PHASES_MAX {
            table.caption = format!("Phases, the first {PHASES_MAX} of {}", phases.len());
        }
        Some(table)
    }

    /// Code that made cores wait longest, by the sum over all machines.
    #[must_use]
    pub fn waits(&self) -> Vec<(u32, Time)> {
        let longest =
            self.machines.iter().map(|machine| machine.figures.site_stalls.len()).max().unwrap_or(0);
        let stall =
            |site: usize| self.machines.iter().filter_map(move |m| m.figures.site_stalls.get(site)).copied();
        let numbers = (0u32..).zip(0..longest);
        let mut sites: Vec<(u32, Time)> = numbers.map(|(id, site)| (id, stall(site).sum())).collect();
        sites.retain(|(_, time)| *time > Time::ZERO);
        sites.sort_by_key(|(id, time)| (std::cmp::Reverse(*time), *id));
        sites
    }

    fn sites(&self) -> Option<Table> {
        let waits = self.waits();
        if waits.is_empty() {
            return None;
        }
        let mut table = self.table("Code that made cores wait longest", "line");
        for (id, _) in waits.iter().take(SITES_MAX) {
            let name = self.site(*id);
            let stall = |f: &TimedFigures| f.site_stalls.get(*id as usize).copied().unwrap_or_default();
            let mut row = self.row("", |figures| time(stall(figures)));
            row[0] = Cell::Code(name);
            table.rows.push(row);
        }
        Some(table)
    }

    /// A code site in words.
    #[must_use]
    pub fn site(&self, id: u32) -> String {
        self.notes
            .sites
            .site(event::SiteId(id))
            .map_or_else(|| "unknown site".to_owned(), ToString::to_string)
    }

    /// Bandwidth over the run, a chart each for what the controllers read, wrote, and what the media wrote.
    #[must_use]
    pub fn charts(&self) -> Vec<Curves> {
        let chart = |title: &str, bytes: fn(&machine::Traffic) -> u64| Curves {
            title: title.to_owned(),
            x: Axis::linear("time, ms"),
            y: Axis::linear("GB/s"),
            curves: self.machines.iter().map(|machine| curve(machine, bytes)).collect(),
        };
        vec![
            chart("Written by the controllers", |traffic| traffic.controller_write_bytes),
            chart("Written to the media", |traffic| traffic.media_write_bytes),
            chart("Read by the controllers", |traffic| traffic.controller_read_bytes),
        ]
    }
}

/// Bandwidth by time, a point in the middle of each slice.
fn curve(machine: &Measured, bytes: fn(&machine::Traffic) -> u64) -> Curve {
    let mut begin = Time::ZERO;
    let mut points = Vec::new();
    for slice in &machine.figures.timeline {
        let length = slice.end.since(begin);
        if let Some(bandwidth) = per(written(&slice.span, bytes), length) {
            points.push((f64::midpoint(begin.ns(), slice.end.ns()) / 1e6, bandwidth));
        }
        begin = slice.end;
    }
    Curve { name: machine.label.clone(), points, published: Vec::new() }
}

/// Of both memories.
fn written(span: &Span, bytes: fn(&machine::Traffic) -> u64) -> u64 {
    span.traffic.iter().map(bytes).sum()
}

fn moved(memory: &MemoryTiming) -> bool {
    memory.total.controller_read_bytes + memory.total.controller_write_bytes > 0
}

/// `1.25 ms`.
fn duration(time: Time) -> String {
    human::duration(std::time::Duration::from_nanos(time.0.div_ceil(1000)))
}

fn time(time: Time) -> Cell {
    Cell::Number(duration(time), time.ns())
}

fn known(known: Option<Time>) -> Cell {
    known.map_or(Cell::Number("-".to_owned(), f64::MAX), time)
}

fn ratio(part: Time, whole: Time) -> Option<f64> {
    (whole > Time::ZERO).then(|| part.ns() / whole.ns())
}

/// So many per nanosecond; for bytes, GB/s.
fn per(count: u64, elapsed: Time) -> Option<f64> {
    (elapsed > Time::ZERO).then(|| count as f64 / elapsed.ns())
}

fn gigabytes(bandwidth: Option<f64>) -> String {
    bandwidth.map_or("-".to_owned(), |bandwidth| format!("{} GB/s", human::ratio(Some(bandwidth))))
}

fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
