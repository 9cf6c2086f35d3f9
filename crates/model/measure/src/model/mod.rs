//! Tasks on a modelled machine: each thread is a program that the machine asks for events.

mod gauge;
mod latency;
mod passes;
mod stream;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{Event, NameId, Op, SiteId, ThreadId};
use machine::{Config, Next, Program, Simulation, Time, Traffic};

use self::gauge::Gauge;
use self::latency::{Prober, Sample};
use self::passes::{BufferProbe, ReadAfterWrite};
use self::stream::Stream;
use crate::figures::{Figures, Latency, Outcome, timed};
use crate::offsets::{Interleave, Offsets};
use crate::task::{Kind, LINE, Locality, Raw, Task};
use crate::{Bench, MeasureError};

/// Events of one measurement if nobody says.
const EVENTS: u64 = 1 << 20;
/// Share of them that is spent on warming up.
const WARM_SHARE: u64 = 4;
/// Timed samples of which the first is not counted, because the machine is cold.
const COLD_SHARE: u64 = 16;

/// A modelled machine as a bench.
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    events: u64,
    persistent: bool,
}

impl Model {
    /// A machine as `config` describes it. Each task starts with a fresh one.
    #[must_use]
    pub fn new(config: &Config) -> Model {
        Model { config: config.clone(), events: EVENTS, persistent: true }
    }

    /// Spends about so many events on each task; the default, 2^20, takes about a second. A task whose single
    /// access is longer than that still does some of them.
    #[must_use]
    pub fn with_events(mut self, events: u64) -> Model {
        self.events = events.max(1);
        self
    }

    /// Measures the machine's other memory instead of the persistent one.
    #[must_use]
    pub fn of_other_memory(mut self) -> Model {
        self.persistent = false;
        self
    }

    /// How addresses are spread over the memory's DIMMs.
    #[must_use]
    pub fn interleave(&self) -> Interleave {
        let controller = match &self.config.other_memory {
            Some(other) if !self.persistent => &other.controller,
            _ => &self.config.memory,
        };
        Interleave { dimms: u64::from(controller.dimms), bytes: controller.interleave.0 }
    }

    /// Why this machine can't do `task`.
    fn obstacle(&self, task: &Task) -> Option<String> {
        let interleave = self.interleave();
        if u64::from(task.dimms) > interleave.dimms {
            return Some(format!("the machine has {} DIMMs, not {}", interleave.dimms, task.dimms));
        }
        if task.dimms > 0 && task.access_size > interleave.bytes {
            return Some(format!(
                "accesses of {} B leave a DIMM, of which {} B are in a row",
                task.access_size, interleave.bytes
            ));
        }
        let cores = match self.cores(task.locality) {
            Ok(cores) => cores,
            Err(reason) => return Some(reason),
        };
        let needed = task.threads.saturating_add(u32::from(task.kind == Kind::LoadedLatency));
        if needed > cores.len() as u32 {
            return Some(format!("{needed} threads need as many cores; here are {}", cores.len()));
        }
        if task.delay.ns() * self.instructions_per_ns() > f64::from(u32::MAX / 2) {
            return Some(format!("a delay of {} is more instructions than an event can have", task.delay));
        }
        Offsets::obstacle(task, Some(interleave))
    }

    /// What a core can do at most.
    fn instructions_per_ns(&self) -> f64 {
        let pipeline = &self.config.cores.pipeline;
        f64::from(pipeline.issue_width) / pipeline.cycle.ns()
    }

    /// The cores on which threads run, first one first.
    fn cores(&self, locality: Locality) -> Result<std::ops::Range<u32>, String> {
        let count = self.config.cores.count;
        let Some(sockets) = &self.config.sockets else {
            return match locality {
                Locality::Far => Err("the machine has one socket: nothing is far".to_owned()),
                _ => Ok(0..count),
            };
        };
        let each = count / sockets.count;
        let socket = match locality {
            Locality::AsGiven => return Ok(0..count),
            Locality::Near => sockets.home,
            Locality::Far if sockets.count < 2 => {
                return Err("the machine has one socket: nothing is far".to_owned());
            }
            Locality::Far => u32::from(sockets.home == 0),
        };
        Ok(socket * each..(socket + 1) * each)
    }

    /// A machine on which the task's memory is mapped, and the threads that run on it.
    fn machine(&self, task: &Task) -> Result<Machine, MeasureError> {
        let interleave = self.interleave();
        // Offset 0 is on the first DIMM, far from address 0.
        let base = (interleave.dimms * interleave.bytes) << 20;
        let len = Offsets::reach(task, Some(interleave));
        let first = self.cores(task.locality).map_or(0, |cores| cores.start);
        let mut config = self.config.clone();
        if task.kind == Kind::ReadAfterWrite && task.raw == Raw::Chase {
            // Each load's address is in the one before, which events don't say.
            config.cores.pipeline.dependent_loads = 1.0;
        }
        let mut machine = Machine {
            simulation: Simulation::new(&config)?,
            base,
            first,
            memory: usize::from(self.persistent),
        };
        if self.persistent {
            let map = Event {
                op: Op::Map { addr: base, len, name: NameId(0) },
                site: SiteId::UNKNOWN,
                instructions: 1,
            };
            machine.run([(0, once(vec![map]))])?;
        }
        Ok(machine)
    }

    fn offsets(&self, task: &Task, thread: u32) -> Offsets {
        Offsets::new(task, thread, self.config.seed, Some(self.interleave()))
    }

    /// Events in which a task reaches its usual state.
    fn warm_events(&self, task: &Task) -> u64 {
        // Lines that stay in the caches come out of them only once these are full.
        let fills = task.writes() && (task.op == crate::Op::Store || task.flush_every >= task.access_size);
        let cached = self.config.llc.size.0 + self.config.l2.size.0 * u64::from(task.threads);
        let touched = task.footprint().min(cached + cached / 4);
        self.events / WARM_SHARE + if fills && task.op == crate::Op::Store { touched / LINE } else { 0 }
    }

    fn bandwidth(&self, task: &Task) -> Result<Figures, MeasureError> {
        let mut machine = self.machine(task)?;
        let gauge = Gauge::new();
        let per_ns = self.instructions_per_ns();
        let streams: Vec<_> = (0..task.threads)
            .map(|thread| {
                shared(Stream::new(task, thread, self.offsets(task, thread), machine.base, &gauge, per_ns))
            })
            .collect();
        let prober = (task.kind == Kind::LoadedLatency).then(|| {
            let alone = Task { mix: crate::Mix::None, access_size: LINE, ..task.clone() };
            let offsets = self.offsets(&alone, task.threads);
            shared(Prober::new(Sample::idle(task.op), offsets, machine.base, u64::MAX, Some(gauge.clone())))
        });
        let programs = || -> Vec<(u32, Box<dyn Program>)> {
            let streams = (0..).zip(&streams).map(|(thread, stream)| (thread, boxed(stream)));
            streams.chain(prober.iter().map(|prober| (task.threads, boxed(prober)))).collect()
        };
        let start = machine.simulation.now();
        gauge.until_events(self.warm_events(task));
        machine.run(programs())?;
        let (warm_until, warm_events) = (machine.simulation.now(), gauge.events());
        if let Some(prober) = &prober {
            hold(prober).forget();
        }
        gauge.for_time(warm_until, warm_until.since(start), warm_events, self.events);
        let before = machine.counters();
        machine.run(programs())?;
        let mut figures = machine.since(&before);
        (figures.read_bytes, figures.write_bytes) = gauge.bytes();
        figures.seconds = machine.simulation.now().since(warm_until).seconds();
        figures.rate();
        figures.latency = prober.and_then(|prober| Latency::of(&hold(&prober).samples));
        Ok(figures)
    }

    /// Single accesses, one after the other.
    fn latency(&self, task: &Task, sample: Sample) -> Result<Figures, MeasureError> {
        let mut machine = self.machine(task)?;
        let least = COLD_SHARE.min(task.samples);
        let samples = task.samples.min(self.events / sample.events()).max(least);
        let cold = if task.kind == Kind::IdleLatency { samples / COLD_SHARE } else { 0 };
        let prober =
            |count, offsets: Offsets| shared(Prober::new(sample, offsets, machine.base, count, None));
        let first = prober(cold, self.offsets(task, 0));
        let mut simulation = machine.simulation;
        run(&mut simulation, machine.first, [(0, boxed(&first))])?;
        let second = prober(samples - cold, hold(&first).offsets.clone());
        machine.simulation = simulation;
        let before = machine.counters();
        machine.run([(0, boxed(&second))])?;
        let moved = machine.since(&before);
        let times = timed(&hold(&second).samples, sample.bytes(), task.writes());
        Ok(Figures {
            ewr: moved.ewr,
            write_amplification: moved.write_amplification,
            traffic: moved.traffic,
            dimms: moved.dimms,
            ..times
        })
    }

    fn buffer_probe(&self, task: &Task) -> Result<Figures, MeasureError> {
        let mut machine = self.machine(task)?;
        let probe = shared(BufferProbe::new(task, machine.base));
        let per_round = hold(&probe).events_per_round();
        let rounds = |events: u64| (events / per_round).max(1);
        hold(&probe).rounds = rounds(self.events / WARM_SHARE);
        machine.run([(0, boxed(&probe))])?;
        let (before, start) = (machine.counters(), machine.simulation.now());
        hold(&probe).rounds = rounds(self.events).max(2);
        let rounds = hold(&probe).rounds;
        machine.run([(0, boxed(&probe))])?;
        let mut figures = machine.since(&before);
        figures.write_bytes = rounds * (task.region / task.access_size) * task.access_size;
        figures.seconds = machine.simulation.now().since(start).seconds();
        figures.rate();
        figures.line_ns = Some(figures.seconds * 1e9 / (figures.write_bytes / LINE) as f64);
        Ok(figures)
    }

    fn read_after_write(&self, task: &Task) -> Result<Figures, MeasureError> {
        let mut machine = self.machine(task)?;
        let program = shared(ReadAfterWrite::new(task, self.config.seed, self.events, machine.base));
        let before = machine.counters();
        machine.run([(0, boxed(&program))])?;
        let moved = machine.since(&before);
        let figures = hold(&program).figures(task);
        Ok(Figures {
            ewr: moved.ewr,
            write_amplification: moved.write_amplification,
            traffic: moved.traffic,
            dimms: moved.dimms,
            ..figures
        })
    }
}

impl Bench for Model {
    fn subject(&self) -> String {
        self.config.name.clone()
    }

    fn cautions(&self) -> Vec<String> {
        Vec::new()
    }

    fn measure(&mut self, task: &Task) -> Result<Outcome, MeasureError> {
        if let Some(fault) = task.fault() {
            return Err(MeasureError::Task(fault));
        }
        if let Some(obstacle) = self.obstacle(task) {
            return Ok(Outcome::Skipped(obstacle));
        }
        let figures = match task.kind {
            Kind::Bandwidth | Kind::LoadedLatency => self.bandwidth(task)?,
            Kind::IdleLatency => self.latency(task, Sample::idle(task.op))?,
            Kind::Timed => self.latency(task, Sample::whole(task))?,
            Kind::BufferProbe => self.buffer_probe(task)?,
            Kind::ReadAfterWrite => self.read_after_write(task)?,
        };
        Ok(Outcome::Done(Box::new(figures)))
    }
}

/// A simulated machine with the task's memory.
struct Machine {
    simulation: Simulation,
    /// Address of offset 0.
    base: u64,
    /// Core of thread 0.
    first: u32,
    /// Which memory is measured.
    memory: usize,
}

/// What a memory had moved at some time.
struct Counters {
    total: Traffic,
    dimms: Vec<Traffic>,
}

impl Machine {
    fn run(
        &mut self,
        programs: impl IntoIterator<Item = (u32, Box<dyn Program>)>,
    ) -> Result<(), MeasureError> {
        run(&mut self.simulation, self.first, programs)
    }

    fn counters(&self) -> Counters {
        let figures = self.simulation.figures();
        let memory = &figures.memories[self.memory];
        Counters { total: memory.total, dimms: memory.per_dimm.clone() }
    }

    /// What the memory moved on top of `before`.
    fn since(&self, before: &Counters) -> Figures {
        let now = self.counters();
        let moved = now.total.since(&before.total);
        let ewr = moved.ewr();
        Figures {
            ewr,
            write_amplification: ewr.filter(|ewr| *ewr > 0.0).map(|ewr| 1.0 / ewr),
            traffic: Some(moved),
            dimms: now.dimms.iter().zip(&before.dimms).map(|(now, before)| now.since(before)).collect(),
            ..Figures::default()
        }
    }
}

/// Runs programs from the core `first` on.
fn run(
    simulation: &mut Simulation,
    first: u32,
    programs: impl IntoIterator<Item = (u32, Box<dyn Program>)>,
) -> Result<(), MeasureError> {
    let threads = programs.into_iter().map(|(thread, program)| (ThreadId(first + thread), program));
    Ok(simulation.run(threads.collect())?)
}

/// A program of which somebody else keeps a hold.
struct Held<P>(Arc<Mutex<P>>);

impl<P: Program> Program for Held<P> {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        hold(&self.0).next(now, events)
    }
}

/// The program, which nobody else is at: each simulation runs on one thread.
fn hold<P>(program: &Mutex<P>) -> MutexGuard<'_, P> {
    program.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shared<P>(program: P) -> Arc<Mutex<P>> {
    Arc::new(Mutex::new(program))
}

fn boxed<P: Program + 'static>(program: &Arc<Mutex<P>>) -> Box<dyn Program> {
    Box::new(Held(program.clone()))
}

/// A program of a few events.
fn once(mut all: Vec<Event>) -> Box<dyn Program> {
    struct Once(Vec<Event>);
    impl Program for Once {
        fn next(&mut self, _: Time, events: &mut Vec<Event>) -> Next {
            events.append(&mut self.0);
            Next::Done
        }
    }
    all.shrink_to_fit();
    Box::new(Once(all))
}
