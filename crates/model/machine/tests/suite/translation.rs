//! TLB, page walks, page faults and their offload: closed forms, conservation, and nothing of it where it is off.

use event::Event;
use machine::{Config, Offload, PageFaults, Simulation, Size, Time, Tlb, TlbLevel, TranslationFigures};

use crate::common::Random;
use crate::timed::{LATENCIES, MFENCE, event, load, ns, run, run_threads, store, stream, with};

const PAGE: u64 = 4096;

fn level(entries: u32, ways: u32, latency: u64) -> TlbLevel {
    TlbLevel { entries, ways, huge_entries: None, latency: ns(latency) }
}

fn small() -> Tlb {
    Tlb { levels: vec![level(4, 2, 0), level(16, 4, 9)], walk_entries: 4, ..Tlb::default() }
}

fn translated(tlb: Tlb) -> Config {
    with(|config| config.tlb = Some(tlb))
}

fn faulting(faults: PageFaults) -> Config {
    translated(Tlb { faults: Some(faults), ..small() })
}

fn figures(simulation: &Simulation) -> TranslationFigures {
    simulation.audit().expect("books that balance");
    simulation.figures().translation.expect("figures of translation")
}

/// Loads one by one.
fn each(ops: impl IntoIterator<Item = event::Op>) -> Vec<Vec<event::Op>> {
    ops.into_iter().map(|op| vec![op, MFENCE]).collect()
}

/// Eight threads' worth of everything, from a seed.
fn mixed(seed: u64, count: u64) -> Vec<(u32, Event)> {
    let mut random = Random(seed);
    (0..count)
        .map(|_| {
            let addr = random.below(1 << 22) & !7;
            let op = match random.below(8) {
                0..=3 => load(addr),
                4..=5 => store(addr),
                6 => event::Op::StoreNt { addr: addr & !63, len: 64 },
                _ => MFENCE,
            };
            (random.below(4) as u32, event(op))
        })
        .collect()
}

fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Digests of all figures, as the machine gave them before it had a TLB.
const BEFORE: [(&str, u64); 4] = [
    ("dram", 3_615_645_195_023_006_397),
    ("xpoint", 11_638_679_592_268_132_425),
    ("cxl-dram", 2_530_175_771_771_273_057),
    ("enzian-fast", 12_953_183_177_567_297_596),
];

#[test]
fn without_a_table_every_figure_is_as_before() {
    let now = BEFORE.map(|(name, _)| {
        let config = Config::preset(name).expect("a preset");
        assert_eq!(config.tlb, None);
        let figures = stream(&config, &mixed(11, 20_000));
        (name, digest(&format!("{:?}", (figures.elapsed, figures.threads, figures.caches, figures.memories))))
    });
    assert_eq!(now, BEFORE);
}

#[test]
fn a_walk_reads_a_level_after_the_other_through_the_caches() {
    let (took, simulation) = run(&translated(small()), each([load(0), load(8), load(PAGE), load(PAGE + 8)]));
    let [l1, _, _, memory] = LATENCIES.map(|latency| latency as f64);
    let near = |what: f64, expected: f64| assert!((what - expected).abs() <= 4.0, "{what} is not {expected}");
    // Both TLB levels are looked up, then four levels of tables are read.
    near(took[0], 9.0 + 5.0 * memory);
    near(took[1], l1);
    // The upper levels are in the walker, the entry in a line that is there.
    near(took[2], 9.0 + l1 + memory);
    near(took[3], l1);
    let figures = figures(&simulation);
    assert_eq!((figures.walks, figures.walk_reads, figures.hits[0]), (2, 5, 2));
}

#[test]
fn pages_beyond_the_reach_are_walked_again() {
    let over = |pages: u64| {
        let loads = (0..10).flat_map(|_| 0..pages).map(|page| load(page * PAGE));
        figures(&run(&translated(small()), vec![loads.collect()]).1)
    };
    assert_eq!(over(4).walks, 4);
    let two = over(16);
    assert_eq!((two.walks, two.hits[1] > 100), (16, true), "{two:?}");
    let none = over(64);
    assert_eq!(
        (none.walks, none.hits.clone()),
        (640, vec![0, 0]),
        "in order, the least recently used is next"
    );
    // Pages of 2 MiB hold them all, and their walks are shorter.
    let huge = Tlb { page: Size(2 << 20), ..small() };
    let loads = (0..640).map(|page| load(page % 64 * PAGE));
    let huge = figures(&run(&translated(huge), vec![loads.collect()]).1);
    assert_eq!((huge.walks, huge.walk_reads), (1, 3));
}

#[test]
fn the_second_level_takes_its_latency() {
    let warm: Vec<_> = (0..16).map(|page| load(page * PAGE)).collect();
    let (took, _) = run(&translated(small()), vec![warm.clone(), vec![MFENCE], vec![load(0), MFENCE]]);
    let (plain, _) = run(&with(|_| ()), vec![warm, vec![MFENCE], vec![load(0), MFENCE]]);
    assert_eq!(took[2] - plain[2], 9.0);
}

#[test]
fn the_kernel_handles_each_page_once() {
    let faults = PageFaults { write: ns(5000), read: ns(1000), locked: ns(500), ..PageFaults::default() };
    let stores = || (0..32).map(|page| store(page * PAGE));
    let (took, simulation) = run(&faulting(faults.clone()), each(stores().chain(stores())));
    let seen = figures(&simulation);
    assert_eq!((seen.kernel_writes, seen.kernel_reads, seen.kernel_copies, seen.offloaded), (32, 0, 0, 0));
    assert!(took[40] < 300.0 && took[8] > 5000.0 && took[8] < 5500.0, "{took:?}");
    let all = simulation.figures();
    assert_eq!(
        all.threads[0].busy + all.threads[0].idle + all.threads[0].stalls.total(),
        all.threads[0].finished
    );
    // A page of zeros first, a page of its own when it is stored to.
    let (took, simulation) = run(&faulting(faults), each([load(0), load(64), store(0), load(0)]));
    let seen = figures(&simulation);
    assert_eq!((seen.kernel_writes, seen.kernel_reads, seen.kernel_copies), (0, 1, 1));
    assert!((1000.0..2000.0).contains(&took[0]) && took[2] >= 5000.0, "{took:?}");
}

#[test]
fn zeroing_leaves_the_page_in_the_caches() {
    let faults = PageFaults { write: ns(20_000), ..PageFaults::default() };
    let lines = (0..64).map(|line| load(line * 64));
    let (took, _) = run(&faulting(faults), each([store(0)].into_iter().chain(lines)));
    let slow = took[1..].iter().filter(|took| **took > 30.0).count();
    assert_eq!(slow, 0, "{took:?}");
}

fn engine(ring: u32) -> Offload {
    Offload { ring, period: ns(100_000), refill: ns(300), worker: None }
}

/// Stores to so many pages, with a gap between them.
fn sparse(pages: u64) -> Vec<Vec<event::Op>> {
    (0..pages).map(|page| vec![store(page * PAGE), MFENCE]).collect()
}

#[test]
fn walkers_complete_faults_from_full_tables() {
    let kernel = PageFaults { write: ns(5000), ..PageFaults::default() };
    let both = |offload| {
        let faults = PageFaults { offload, ..kernel.clone() };
        // The thread has filled the table when the core has waited for it.
        let config = faulting(faults);
        let (took, simulation) = run(&config, sparse(200));
        (took.iter().sum::<f64>(), figures(&simulation))
    };
    let (without, none) = both(None);
    let (with, seen) = both(Some(engine(256)));
    assert_eq!((none.kernel_writes, none.offload_bytes, none.background), (200, 0, Time::ZERO));
    assert_eq!(seen.kernel_writes + seen.offloaded, 200);
    assert!(seen.offloaded > 100 && with < 0.5 * without, "{with} {without} {seen:?}");
    assert_eq!(seen.offload_bytes, 32 * seen.offloaded);
    assert!(seen.background >= ns(300 * 256));
}

#[test]
fn a_table_serves_what_it_holds_in_a_period() {
    let faults = PageFaults { write: ns(5000), offload: Some(engine(8)), ..PageFaults::default() };
    let (took, simulation) = run(&faulting(faults), sparse(400));
    let seen = figures(&simulation);
    let periods = took.iter().sum::<f64>() / 100_000.0;
    let served = seen.offloaded as f64 / (8.0 * periods);
    assert!((0.8..1.2).contains(&served), "{served} {seen:?}");
}

#[test]
fn without_free_memory_tables_stay_empty_and_the_kernel_reclaims() {
    let faults = PageFaults {
        write: ns(1000),
        free: Some(50),
        reclaim: ns(10_000),
        offload: Some(engine(64)),
        ..PageFaults::default()
    };
    let (took, simulation) = run(&faulting(faults), sparse(100));
    let seen = figures(&simulation);
    assert_eq!((seen.offloaded + seen.kernel_writes, seen.offloaded <= 50, seen.reserved), (100, true, 0));
    assert!(took[99] > 10_000.0, "{took:?}");
}

#[test]
fn cores_wait_for_the_kernels_lock_and_a_page_appears_once() {
    let faults = PageFaults { write: ns(20_000), locked: ns(20_000), ..PageFaults::default() };
    let threads = |own: bool| {
        let thread = |thread: u64| {
            (0..50).map(move |page| {
                vec![store((page + if own { 1000 * thread } else { 0 }) * PAGE + 64 * thread)]
            })
        };
        let (_, simulation) =
            run_threads(&faulting(faults.clone()), (0..4).map(|number| thread(number).collect()).collect());
        figures(&simulation)
    };
    let own = threads(true);
    assert_eq!(own.kernel_writes, 200);
    assert!(own.kernel_waited + own.kernel_waited > own.kernel_time, "{own:?}");
    let same = threads(false);
    assert_eq!(same.kernel_writes, 50, "{same:?}");
}

#[test]
fn a_thread_without_a_processor_takes_its_cores_time() {
    let time = |worker| {
        let offload = Offload { refill: ns(2000), worker, ..engine(16) };
        let faults = PageFaults { write: ns(5000), offload: Some(offload), ..PageFaults::default() };
        let (took, simulation) = run(&faulting(faults), sparse(300));
        (took.iter().sum::<f64>(), figures(&simulation).background.ns())
    };
    let ((own, _), (shared, work)) = (time(None), time(Some(0)));
    assert!(shared > own + 0.5 * work, "{own} {shared} {work}");
}

#[test]
fn what_is_unmapped_faults_again() {
    let faults = PageFaults { write: ns(1000), ..PageFaults::default() };
    let unmap = event::Op::Unmap { addr: 0, len: 4 * PAGE };
    let ops =
        (0..8).map(|page| store(page * PAGE)).chain([unmap]).chain((0..8).map(|page| store(page * PAGE)));
    let (_, simulation) = run(&faulting(faults), each(ops));
    assert_eq!(figures(&simulation).kernel_writes, 12);
}

#[test]
fn books_balance_with_everything_on() {
    for seed in 1..5 {
        println!("seed {seed}");
        let faults = PageFaults {
            write: ns(800),
            free: Some(2000),
            offload: Some(Offload { worker: Some(1), ..engine(32) }),
            ..PageFaults::default()
        };
        let mut simulation = Simulation::new(&faulting(faults)).expect("valid");
        for (thread, event) in mixed(seed, 5000) {
            crate::timed::push(&mut simulation, thread, &[event]);
        }
        event::Sink::finish(&mut simulation).expect("a sound stream");
        let seen = figures(&simulation);
        let faults = seen.kernel_writes + seen.kernel_reads + seen.kernel_copies + seen.offloaded;
        assert!(faults > 900 && seen.offloaded > 0, "{seen:?}");
        simulation.drain();
        simulation.audit().expect("books that balance");
    }
}

#[test]
fn a_description_has_a_tlb_or_says_what_is_wrong() {
    let base = with(|_| ());
    let tlb = base.with_overrides(&[("tlb", "{}")]).expect("defaults").tlb.expect("a TLB");
    assert_eq!((tlb.levels[1].entries, tlb.page, tlb.faults), (1536, Size(4096), None));
    let with = |text: &str| base.with_overrides(&[("tlb", text)]);
    let offload = with(r#"{ faults = { write = "1us", offload = { ring = 128, period = "1ms" } } }"#);
    let faults = offload.expect("valid").tlb.and_then(|tlb| tlb.faults).expect("faults");
    assert_eq!(faults.offload.map(|offload| (offload.ring, offload.period)), Some((128, ns(1_000_000))));
    for (text, part) in [
        (r#"{ page = "8KiB" }"#, "4KiB, 2MiB or 1GiB"),
        (r"{ levels = [{ entries = 12, ways = 4 }] }", "power of two"),
        (r"{ levels = [] }", "tlb.levels"),
        (r#"{ faults = { offload = { period = "0ns" } } }"#, "1us to 1s"),
        (r"{ faults = { offload = { worker = 9 } } }", "worker"),
    ] {
        let message = with(text).expect_err(text).to_string();
        assert!(message.contains(part), "{message}");
    }
}
