//! Threads that wait for each other, share a core, or take each other's lines.

use crate::timed::{LATENCIES, MFENCE, event, load, ns, push, run, store, stream, timed, with};
use event::{Event, NameId, Op, Order, Sink, ThreadId};
use machine::{Config, Next, Prefetch, Program, Simulation, Time};

/// A program from a closure.
struct Does<F>(F);

impl<F: FnMut(Time, &mut Vec<Event>) -> Next + Send> Program for Does<F> {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        (self.0)(now, events)
    }
}

/// A program of one step.
fn once(ops: Vec<Op>) -> Box<dyn Program> {
    Box::new(Does(move |_, events: &mut Vec<Event>| {
        events.extend(ops.iter().copied().map(event));
        Next::Done
    }))
}

fn simulate(config: &Config, programs: Vec<(u32, Box<dyn Program>)>) -> Simulation {
    let mut simulation = Simulation::new(config).expect("a valid description");
    let programs = programs.into_iter().map(|(thread, program)| (ThreadId(thread), program)).collect();
    simulation.run(programs).expect("programs that end");
    simulation.audit().expect("books that balance");
    simulation
}

fn finish(mut simulation: Simulation) -> machine::TimedFigures {
    simulation.finish().expect("a sound stream");
    simulation.figures()
}

fn busy(instructions: u32) -> Event {
    Event { instructions, ..event(Op::Free { addr: 0 }) }
}

#[test]
fn an_acquire_waits_for_the_release_before_it_and_for_no_other() {
    let release = |var, seq| event(Op::Release { var, order: Order::Release, seq });
    let acquire = |var, seq| event(Op::Acquire { var, order: Order::Acquire, seq });
    let run = |var| {
        let mut simulation = Simulation::new(&timed()).unwrap();
        push(&mut simulation, 0, &[busy(5000), release(1, 1)]);
        push(&mut simulation, 1, &[acquire(var, 2), busy(10)]);
        finish(simulation)
    };
    let met = run(1);
    assert_eq!(met.threads[1].stalls.sync, ns(5001) - ns(1));
    assert!(met.threads[1].finished > ns(5000));
    let apart = run(2);
    assert_eq!(apart.threads[1].stalls.sync, Time::ZERO);
    assert!(apart.threads[1].finished < ns(500));
}

#[test]
fn a_thread_starts_when_it_is_created_and_a_join_waits_for_its_end() {
    let mut simulation = Simulation::new(&timed()).unwrap();
    push(&mut simulation, 0, &[busy(1000), event(Op::Spawn { child: ThreadId(1), seq: 1 })]);
    push(&mut simulation, 1, &[event(Op::ThreadStart { seq: 2 }), busy(2000)]);
    push(&mut simulation, 1, &[event(Op::ThreadEnd { seq: 3 })]);
    push(&mut simulation, 0, &[event(Op::Join { thread: ThreadId(1), seq: 4 }), busy(1)]);
    let figures = finish(simulation);
    assert_eq!(figures.threads[1].idle, ns(1001) - ns(1));
    assert!(figures.threads[0].stalls.sync >= ns(1990), "{:?}", figures.threads[0]);
    assert!(figures.elapsed >= ns(3000) && figures.elapsed < ns(3400), "{}", figures.elapsed);
}

#[test]
fn a_lock_of_running_programs_keeps_others_out() {
    let critical = || {
        let lock = Op::Lock { lock: 1, shared: false, seq: 0 };
        let mut turns = 10;
        Box::new(Does(move |_, events: &mut Vec<Event>| {
            events.extend([event(lock), busy(1000), event(Op::Unlock { lock: 1, seq: 0 })]);
            turns -= 1;
            if turns == 0 { Next::Done } else { Next::Run }
        })) as Box<dyn Program>
    };
    let one = simulate(&timed(), vec![(0, critical())]).now();
    let four = simulate(&timed(), (0..4).map(|thread| (thread, critical())).collect()).now();
    assert!((four.ns() / one.ns() - 4.0).abs() < 0.1, "{one} {four}");
}

#[test]
fn programs_that_wait_for_each_other_for_ever_are_an_error() {
    let lock = |lock| Op::Lock { lock, shared: false, seq: 0 };
    let program = |first, second| {
        let mut at = 0;
        Box::new(Does(move |_, events: &mut Vec<Event>| {
            at += 1;
            events.push(if at == 1 { event(lock(first)) } else { event(lock(second)) });
            if at == 1 { Next::Idle(ns(1000)) } else { Next::Done }
        })) as Box<dyn Program>
    };
    let mut simulation = Simulation::new(&timed()).unwrap();
    let programs = vec![(ThreadId(0), program(1, 2)), (ThreadId(1), program(2, 1))];
    let error = simulation.run(programs).expect_err("a deadlock");
    assert!(error.to_string().contains("for ever"), "{error}");
}

#[test]
fn threads_on_one_core_share_its_time() {
    let work = || once(vec![Op::Load { addr: 0, len: 8 }; 1000]);
    let shared = simulate(&timed(), vec![(0, work()), (4, work())]);
    let apart = simulate(&timed(), vec![(0, work()), (1, work())]);
    let figures = shared.figures();
    assert_eq!(figures.threads.iter().map(|thread| thread.core).collect::<Vec<_>>(), [0, 0]);
    assert!(shared.now() > ns(2000) && apart.now() < ns(1400), "{} {}", shared.now(), apart.now());
}

#[test]
fn an_idle_program_is_asked_again_when_it_said() {
    let mut asked = Vec::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let program = Does(move |now: Time, events: &mut Vec<Event>| {
        asked.push(now);
        sender.send(now).expect("the test listens");
        events.push(event(load(0)));
        if asked.len() == 3 { Next::Done } else { Next::Idle(ns(1000 * asked.len() as u64)) }
    });
    let simulation = simulate(&timed(), vec![(0, Box::new(program))]);
    let asked: Vec<Time> = receiver.iter().collect();
    assert_eq!(asked, [Time::ZERO, ns(1000), ns(2000)]);
    let thread = simulation.figures().threads[0];
    assert_eq!(thread.idle + thread.busy + thread.stalls.total(), thread.finished);
    assert!(thread.idle > ns(1900));
}

#[test]
fn a_line_comes_from_the_core_that_has_it_and_not_before_it_is_there() {
    // Core 1 wants the line that core 0 asked for 20ns before.
    let early = |delay: u64| {
        let mut first = true;
        let late = Does(move |_, events: &mut Vec<Event>| {
            let waits = std::mem::take(&mut first);
            if !waits {
                events.extend([load(0), MFENCE].map(event));
            }
            if waits { Next::Idle(ns(delay)) } else { Next::Done }
        });
        let simulation = simulate(&timed(), vec![(0, once(vec![store(0)])), (1, Box::new(late))]);
        simulation.figures().threads[1].finished.ns() - delay as f64
    };
    assert_eq!(early(20), 1.0 + 148.0 - 20.0 + 1.0, "it waits until core 0 has it");
    let from_core = LATENCIES[2] + 5;
    assert_eq!(early(1000), 2.0 + from_core as f64, "LLC and the other core's L2");
}

#[test]
fn loads_that_depend_on_each_other_do_not_overlap() {
    let chase = |share| {
        let config = with(|config| config.cores.pipeline.dependent_loads = share);
        let loads = (0..400).map(|line| load(line << 12)).collect();
        run(&config, vec![loads]).1.now().ns() / 400.0
    };
    assert!((chase(1.0) - 148.0).abs() < 1.0, "{}", chase(1.0));
    assert!((chase(0.0) - 148.0 / 4.0).abs() < 2.0, "{}", chase(0.0));
    assert!(chase(0.5) > 74.0 && chase(0.5) < 100.0, "{}", chase(0.5));
}

#[test]
fn a_prefetcher_that_guesses_right_hides_latency() {
    let sequential = |prefetch| {
        let config = with(|config| config.l2.prefetch = prefetch);
        // One at a time: nothing but the prefetcher can overlap them.
        let steps = (0..512).map(|line| vec![load(line * 64), MFENCE]).collect();
        let (_, simulation) = run(&config, steps);
        (simulation.now().ns(), simulation.figures().prefetches)
    };
    let (without, none) = sequential(None);
    let (next, some) = sequential(Some(Prefetch::NextLine));
    let (stream, more) = sequential(Some(Prefetch::Stream));
    assert_eq!(none, 0);
    assert!(next < 0.7 * without && stream < 0.5 * without, "{without} {next} {stream}");
    assert!(some >= 250 && more >= 390, "{some} {more}");
}

#[test]
fn what_a_prefetcher_has_no_register_for_it_fetches_later() {
    let config = with(|config| {
        config.l2.prefetch = Some(Prefetch::Stream);
        config.l2.miss_registers = Some(2);
    });
    let steps = (0..512).map(|line| vec![load(line * 64), MFENCE]).collect();
    let (_, simulation) = run(&config, steps);
    assert!(simulation.figures().prefetches >= 390);
}

#[test]
fn what_is_prefetched_after_a_hit_comes_in_its_turn() {
    let config = with(|config| config.l2.prefetch = Some(Prefetch::Stream));
    // The third line was fetched with the second one, so the L2 answers, and two more are fetched, long after what the other thread loads.
    let later = |instructions, addr| Event { instructions, ..event(load(addr)) };
    let first = [event(load(0)), event(load(64)), event(MFENCE), later(9000, 128), event(MFENCE)];
    let second = [later(3000, 1 << 20), event(MFENCE)];
    let finished = |beside: &[Event]| {
        let mut simulation = Simulation::new(&config).unwrap();
        push(&mut simulation, 0, beside);
        push(&mut simulation, 1, &second);
        let figures = finish(simulation);
        (figures.threads[1].finished, figures.prefetches)
    };
    let ((alone, _), (beside, prefetches)) = (finished(&first[..3]), finished(&first));
    assert_eq!((beside, prefetches), (alone, 4));
}

#[test]
fn phases_and_sites_are_kept_apart() {
    let mut simulation = Simulation::new(&timed()).unwrap();
    for (id, name) in [(0, "load"), (1, "run")] {
        simulation.define(event::Definition::Name(NameId(id), name)).unwrap();
    }
    let phase = |id| event(Op::Phase { name: NameId(id) });
    let far = Event { site: event::SiteId(7), ..event(load(1 << 20)) };
    push(&mut simulation, 0, &[phase(0), busy(100), phase(1), far, event(MFENCE)]);
    let figures = finish(simulation);
    let names: Vec<&str> = figures.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["load", "run"]);
    assert_eq!(figures.phases[1].span.traffic[0].controller_read_bytes, 64);
    assert!(figures.phases[1].span.stalls.load_miss >= ns(140));
    assert!(figures.site_stalls[7] >= ns(140));
}

/// A recorded lock goes to the thread that had it in the recording, or to the one that comes first.
#[test]
fn locks_go_by_the_record_or_by_time() {
    let late = Event { instructions: 10_000, ..event(load(0)) };
    let lock = |seq| event(Op::Lock { lock: 64, shared: false, seq });
    let unlock = |seq| event(Op::Unlock { lock: 64, seq });
    let of = |locks_in_order| {
        let config = with(|config| config.cores.pipeline.locks_in_order = locks_in_order);
        let figures =
            stream(&config, &[(0, late), (0, lock(1)), (0, unlock(2)), (1, lock(3)), (1, unlock(4))]);
        figures.threads[1].stalls.sync.ns()
    };
    assert!(of(true) > 9_000.0 && of(false) == 0.0, "{} {}", of(true), of(false));
}
