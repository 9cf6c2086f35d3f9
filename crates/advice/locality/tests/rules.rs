//! Each rule on events that break it, and on events of an ordinary program that look alike.

use event::{Batch, Event, Op, Order, Sink, SiteId, SiteTable, ThreadId};
use locality::{Options, Watcher, try_out};
use machine::Config;

#[path = "rules/kinds.rs"]
mod kinds;
#[path = "rules/named.rs"]
mod named;

/// Feeds events to a watcher and keeps the order of synchronisation.
struct Stage {
    watcher: Watcher,
    seq: u64,
}

impl Stage {
    fn new() -> Self {
        Stage { watcher: Watcher::new(Options::default()), seq: 0 }
    }

    fn with(options: Options) -> Self {
        Stage { watcher: Watcher::new(options), seq: 0 }
    }

    /// What is left of the findings when their remedies were tried on a machine.
    fn tried(&self, machine: &str) -> Vec<&'static str> {
        let sites = SiteTable::default();
        let mut findings = self.watcher.findings(&sites);
        let config = Config::preset(machine).expect("a preset");
        let _ = try_out(&self.watcher, &mut findings, &config, &sites);
        findings.iter().map(|found| found.rule.name()).collect()
    }

    fn op(&mut self, thread: u32, site: u32, op: Op) {
        let event = Event { op, site: SiteId(site), instructions: 1 };
        let batch = Batch { thread: ThreadId(thread), time_ns: 0, events: &[event], values: &[] };
        self.watcher.push(batch).expect("taken");
    }

    fn load(&mut self, thread: u32, site: u32, addr: u64) {
        self.op(thread, site, Op::Load { addr, len: 8 });
    }

    fn store(&mut self, thread: u32, site: u32, addr: u64) {
        self.op(thread, site, Op::Store { addr, len: 8 });
    }

    fn fill(&mut self, site: u32, addr: u64, len: u32) {
        self.op(0, site, Op::Store { addr, len });
    }

    fn alloc(&mut self, site: u32, addr: u64, len: u64) {
        self.op(0, site, Op::Alloc { addr, len });
    }

    fn free(&mut self, addr: u64) {
        self.op(0, 99, Op::Free { addr });
    }

    fn seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Thread 0 starts threads 1 to `n`.
    fn spawn(&mut self, n: u32) {
        for child in 1..=n {
            let seq = self.seq();
            self.op(0, 0, Op::Spawn { child: ThreadId(child), seq });
            let seq = self.seq();
            self.op(child, 0, Op::ThreadStart { seq });
        }
    }

    fn join(&mut self, n: u32) {
        for child in 1..=n {
            let seq = self.seq();
            self.op(child, 0, Op::ThreadEnd { seq });
            let seq = self.seq();
            self.op(0, 0, Op::Join { thread: ThreadId(child), seq });
        }
    }

    /// An atomic addition.
    fn add(&mut self, thread: u32, site: u32, var: u64) {
        self.load(thread, site, var);
        let seq = self.seq();
        self.op(thread, site, Op::Release { var, order: Order::SeqCst, seq });
        self.store(thread, site, var);
        let seq = self.seq();
        self.op(thread, site, Op::Acquire { var, order: Order::SeqCst, seq });
    }

    fn section(&mut self, thread: u32, lock: u64, work: impl FnOnce(&mut Self)) {
        let seq = self.seq();
        self.op(thread, 70, Op::Lock { lock, shared: false, seq });
        work(self);
        let seq = self.seq();
        self.op(thread, 71, Op::Unlock { lock, seq });
    }

    fn rules(&self) -> Vec<&'static str> {
        self.watcher.findings(&SiteTable::default()).iter().map(|found| found.rule.name()).collect()
    }

    fn says(&self, rule: &str) {
        assert!(self.rules().contains(&rule), "no {rule} in {:?}", self.rules());
    }

    fn is_silent(&self) {
        let found = self.watcher.findings(&SiteTable::default());
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Four threads of 20,000 accesses each, one after the other, as on one core.
fn threads(mut work: impl FnMut(&mut Stage, u32)) -> Stage {
    let mut stage = Stage::new();
    for at in 0..64 {
        stage.store(0, 1, 0x1000 + at * 8);
    }
    stage.spawn(4);
    for thread in 1..=4 {
        for _ in 0..10_000 {
            work(&mut stage, thread);
        }
    }
    stage.join(4);
    for at in 0..64 {
        stage.load(0, 2, 0x1000 + at * 8);
    }
    stage
}

/// A multiplicative generator's state.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn false_sharing_is_seen_although_threads_ran_one_after_another() {
    let of = |apart: u64| {
        threads(move |stage, thread| {
            let own = 0x1000 + u64::from(thread) * apart;
            stage.load(thread, 3, own);
            stage.store(thread, 3, own);
        })
    };
    of(8).says("false-sharing");
    of(64).is_silent();
}

#[test]
fn threads_that_follow_each_other_share_nothing() {
    let mut stage = Stage::new();
    for thread in 1..=4 {
        let seq = stage.seq();
        stage.op(0, 0, Op::Spawn { child: ThreadId(thread), seq });
        let seq = stage.seq();
        stage.op(thread, 0, Op::ThreadStart { seq });
        for _ in 0..20_000 {
            stage.load(thread, 3, 0x1000);
            stage.store(thread, 3, 0x1000);
        }
        let seq = stage.seq();
        stage.op(thread, 0, Op::ThreadEnd { seq });
        let seq = stage.seq();
        stage.op(0, 0, Op::Join { thread: ThreadId(thread), seq });
    }
    stage.is_silent();
}

#[test]
fn true_sharing_is_not_taken_for_false() {
    let stage = threads(|stage, thread| {
        stage.load(thread, 3, 0x1000);
        stage.store(thread, 3, 0x1000);
    });
    assert_eq!(stage.rules(), ["true-sharing"]);
    // What all read and nobody writes is shared by all caches.
    threads(|stage, thread| stage.load(thread, 3, 0x1000)).is_silent();
}

#[test]
fn a_counter_that_all_add_to_is_contended_and_one_in_a_thousand_is_not() {
    let stage = threads(|stage, thread| stage.add(thread, 3, 0x1000));
    assert_eq!(stage.rules(), ["contended-lock"]);
    let mut step = 0;
    threads(|stage, thread| {
        step += 1;
        stage.load(thread, 3, 0x8000 + u64::from(thread) * 64);
        if step % 1000 == 0 {
            stage.add(thread, 4, 0x1000);
        }
    })
    .is_silent();
}

#[test]
fn a_lock_beside_its_data_is_named_and_apart_it_is_a_lock() {
    let of = |data: u64| {
        threads(move |stage, thread| {
            stage.section(thread, 0x2000, |stage| {
                for word in 0..4 {
                    stage.load(thread, 3, data + word % 2 * 8);
                    stage.store(thread, 3, data + word % 2 * 8);
                }
            });
        })
    };
    let found = of(0x2028).watcher.findings(&SiteTable::default());
    assert!(found.iter().any(|found| found.title.contains("shares its line with other data")), "{found:#?}");
    assert!(!of(0x2400).rules().contains(&"false-sharing"));
}

#[test]
fn a_column_walk_is_named_and_a_row_walk_is_not() {
    let of = |by_column: bool| {
        let mut stage = Stage::new();
        for a in 0..300u64 {
            for b in 0..1024u64 {
                let (row, column) = if by_column { (b, a) } else { (a, b) };
                stage.load(0, 3, 0x10_0000 + (row * 1040 + column) * 8);
            }
        }
        stage
    };
    of(true).says("against-the-rows");
    of(false).is_silent();
}

#[test]
fn one_field_of_eight_is_named_and_a_table_that_is_looked_up_is_not() {
    let mut stage = Stage::new();
    for _ in 0..3 {
        (0..100_000).for_each(|item| stage.load(0, 3, 0x10_0000 + item * 64));
    }
    stage.says("unused-bytes");
    // Two fields in one line of code.
    let mut stage = Stage::new();
    for _ in 0..3 {
        for item in 0..100_000 {
            stage.load(0, 3, 0x10_0000 + item * 96);
            stage.load(0, 3, 0x10_0000 + item * 96 + 16);
            stage.store(0, 3, 0x10_0000 + item * 96);
        }
    }
    stage.says("unused-bytes");
    let mut stage = Stage::new();
    let mut state = 1;
    for _ in 0..300_000 {
        stage.load(0, 3, 0x10_0000 + random(&mut state) % 40_000 * 64);
    }
    assert!(!stage.rules().contains(&"unused-bytes"), "{:?}", stage.rules());
    let mut stage = Stage::new();
    for _ in 0..3 {
        (0..800_000).for_each(|item| stage.load(0, 3, 0x10_0000 + item * 8));
    }
    stage.is_silent();
}

/// Nodes of 64 B anywhere, in a ring.
fn nodes(stage: &mut Stage) -> Vec<u64> {
    let mut state = 7;
    let mut all: Vec<u64> = (0..10_000).map(|node| 0x10_0000 + node * 80).collect();
    for at in (1..all.len()).rev() {
        all.swap(at, random(&mut state) as usize % (at + 1));
    }
    all.iter().for_each(|&node| stage.alloc(5, node, 64));
    all
}

#[test]
fn a_list_is_a_chain_and_an_array_of_pointers_or_short_buckets_are_none() {
    let mut list = Stage::new();
    for node in nodes(&mut list).repeat(3) {
        list.op(0, 4, Op::Load { addr: node + 8, len: 4 });
        list.load(0, 3, node);
    }
    list.says("pointer-chase");
    let mut array = Stage::new();
    for (at, node) in (0u64..).zip(nodes(&mut array).repeat(3)) {
        array.load(0, 2, 0x1000 + at * 8);
        array.op(0, 4, Op::Load { addr: node + 8, len: 4 });
        array.load(0, 3, node);
    }
    array.is_silent();
    let mut buckets = Stage::new();
    for pair in nodes(&mut buckets).repeat(3).chunks(2) {
        buckets.load(0, 2, 0x1000 + pair[0] % 4096 * 8);
        pair.iter().for_each(|&node| buckets.load(0, 3, node));
    }
    assert!(!buckets.rules().contains(&"pointer-chase"), "{:?}", buckets.rules());
}

/// Rounds in which `write` writes 512 words, and in which all of them are read.
fn rounds(read: bool, mut write: impl FnMut(&mut Stage, u64)) -> Stage {
    let mut stage = Stage::new();
    for _ in 0..20 {
        (0..512).for_each(|word| write(&mut stage, 0x1000 + word * 8));
        if read {
            (0..512).for_each(|word| stage.load(0, 9, 0x1000 + word * 8));
        }
        (0..512).for_each(|_| stage.load(0, 10, 0x9000));
    }
    stage
}

#[test]
fn what_is_stored_over_unread_is_dead_and_what_unseen_code_reads_is_not() {
    let often = |stage: &mut Stage, word| (0..4).for_each(|_| stage.store(0, 3, word));
    rounds(true, often).says("dead-store");
    rounds(false, often).is_silent();
    rounds(true, |stage, word| stage.store(0, 3, word)).is_silent();
    // A kernel that runs again writes its result again.
    rounds(false, |stage, word| stage.store(0, 3, word)).is_silent();
}

#[test]
fn zeroing_before_a_fill_is_named_and_zeroing_counters_is_not() {
    let stage = rounds(true, |stage, word| {
        if word % 64 == 0 {
            stage.fill(3, word, 64);
        }
        stage.store(0, 4, word);
    });
    stage.says("overwritten-unread");
    // The same, and only a word of each line is read.
    let mut sparse = Stage::new();
    for _ in 0..40 {
        (0..64).for_each(|line| sparse.fill(3, 0x1000 + line * 64, 64));
        (0..512).for_each(|word| sparse.store(0, 4, 0x1000 + word * 8));
        (0..64).for_each(|line| sparse.load(0, 9, 0x1000 + line * 64));
    }
    sparse.says("overwritten-unread");
    let mut state = 3;
    let mut counters = Stage::new();
    for _ in 0..200 {
        (0..4).for_each(|line| counters.fill(3, 0x1000 + line * 64, 64));
        for _ in 0..200 {
            let counter = 0x1000 + random(&mut state) % 4 * 8;
            counters.load(0, 4, counter);
            counters.store(0, 5, counter);
        }
        (0..32).for_each(|word| counters.load(0, 6, 0x1000 + word * 8));
    }
    counters.is_silent();
}

#[test]
fn blocks_that_live_for_a_few_accesses_are_churn() {
    let of = |life: u64| {
        let mut stage = Stage::new();
        for round in 0..5000u64 {
            stage.alloc(5, 0x1000 + round % 8 * 256, 256);
            for access in 0..life {
                stage.load(0, 3, 0x1000 + access % 8 * 8);
            }
            stage.free(0x1000 + round % 8 * 256);
        }
        stage
    };
    of(8).says("allocation-churn");
    of(400).is_silent();
}

#[test]
fn early_returns_leak_and_a_cache_that_is_full_at_the_end_does_not() {
    let mut leak = Stage::new();
    for round in 0..5000u64 {
        leak.alloc(5, 0x10_0000 + round * 128, 128);
        (0..300).for_each(|_| leak.load(0, 3, 0x1000));
        if round % 5 != 0 {
            leak.free(0x10_0000 + round * 128);
        }
    }
    leak.says("leak");
    let mut cache = Stage::new();
    for round in 0..5000u64 {
        cache.alloc(5, 0x10_0000 + round * 128, 128);
        (0..10).for_each(|_| cache.load(0, 3, 0x1000));
        if round >= 1000 {
            cache.free(0x10_0000 + (round - 1000) * 128);
        }
    }
    cache.is_silent();
    // A tree whose nodes stay in use; only duplicates are freed at once.
    let mut tree = Stage::new();
    for round in 0..5000u64 {
        let node = 0x10_0000 + round * 128;
        tree.alloc(5, node, 128);
        (0..5).for_each(|_| tree.load(0, 3, 0x1000));
        if round % 2 == 0 {
            tree.free(node);
        }
    }
    for _ in 0..3 {
        (0..5000).filter(|round| round % 2 == 1).for_each(|round| tree.load(0, 4, 0x10_0000 + round * 128));
    }
    assert!(!tree.rules().contains(&"leak"), "{:?}", tree.rules());
}

#[test]
fn words_on_many_pages_ask_for_large_ones() {
    let of = |apart: u64| {
        let mut stage = Stage::new();
        let mut state = 1;
        for _ in 0..100_000 {
            stage.load(0, 3, 0x20_0000 + random(&mut state) % 8192 * apart);
        }
        stage
    };
    of(4096 + 64).says("tlb-reach");
    assert!(!of(64).rules().contains(&"tlb-reach"));
}

#[test]
fn streams_a_power_of_two_apart_conflict_and_a_set_too_large_does_not() {
    let of = |streams: u64, apart: u64| {
        let mut stage = Stage::new();
        let mut state = 1;
        for _ in 0..200_000 {
            stage.load(0, 3, 0x20_0000 + random(&mut state) % streams * apart);
        }
        stage.rules().contains(&"conflict-misses")
    };
    assert!(of(64, 1 << 14));
    assert!(!of(64, (1 << 14) + 64));
    for lines in [600, 800, 1000, 2000] {
        assert!(!of(lines, 64), "{lines} lines are more than the cache has, and meet nowhere");
    }
}

#[test]
fn a_short_run_says_nothing() {
    let mut stage = Stage::new();
    stage.spawn(2);
    for _ in 0..100 {
        stage.store(1, 3, 0x1000);
        stage.store(2, 3, 0x1008);
    }
    stage.is_silent();
}

/// Looks up nodes of 40 B, of which the first and the last word are read, at random.
fn nodes_apart(apart: u64) -> Stage {
    let mut stage = Stage::new();
    let mut state = 1;
    for _ in 0..100_000 {
        let node = 0x10_0010 + random(&mut state) % 400_000 * apart;
        stage.load(0, 3, node);
        stage.load(0, 3, node + 32);
    }
    stage
}

#[test]
fn nodes_that_straddle_lines_are_named_and_aligned_ones_or_a_walk_are_not() {
    nodes_apart(48).says("straddled-lines");
    assert!(nodes_apart(48).tried("dram").contains(&"straddled-lines"), "a line less per visit is a gain");
    assert!(!nodes_apart(64).rules().contains(&"straddled-lines"));
    let mut walk = Stage::new();
    for _ in 0..4 {
        for at in 0..40_000 {
            walk.load(0, 3, 0x10_0010 + at * 48);
            walk.load(0, 3, 0x10_0010 + at * 48 + 32);
        }
    }
    assert!(!walk.rules().contains(&"straddled-lines"), "{:?}", walk.rules());
}

#[test]
fn addresses_that_an_array_holds_are_known_before_and_hashes_of_a_hash_are_not() {
    let of = |array: bool, work: u32| {
        let mut stage = Stage::new();
        let mut state = 1;
        for at in 0..100_000u64 {
            if array {
                stage.op(0, 3, Op::Load { addr: 0x10_0000 + at * 4, len: 4 });
            }
            let addr = 0x1000_0000 + random(&mut state) % 200_000 * 64;
            let op = Op::Load { addr, len: 8 };
            let event = Event { op, site: SiteId(3), instructions: work };
            let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &[event], values: &[] };
            stage.watcher.push(batch).expect("taken");
        }
        stage
    };
    of(true, 400).says("missing-prefetch");
    assert!(!of(false, 400).rules().contains(&"missing-prefetch"));
    // A core overlaps the misses of a short loop by itself, and not those of a long one.
    assert!(of(true, 400).tried("dram").contains(&"missing-prefetch"));
    assert!(!of(true, 4).tried("dram").contains(&"missing-prefetch"));
}

/// Visits at random addresses that an array holds, with a prefetch so many visits ahead, each with so much
/// work.
fn prefetched(ahead: usize, work: u32) -> Stage {
    let mut stage = Stage::new();
    let mut state = 1;
    let addrs: Vec<u64> = (0..100_000).map(|_| 0x1000_0000 + random(&mut state) % 200_000 * 64).collect();
    for (at, &addr) in addrs.iter().enumerate() {
        stage.op(0, 3, Op::Load { addr: 0x10_0000 + at as u64 * 4, len: 4 });
        if let Some(&addr) = addrs.get(at + ahead) {
            stage.op(0, 4, Op::Prefetch { addr });
        }
        let event = Event { op: Op::Load { addr, len: 8 }, site: SiteId(5), instructions: work };
        let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &[event], values: &[] };
        stage.watcher.push(batch).expect("taken");
    }
    stage
}

#[test]
fn a_program_that_prefetches_in_time_is_left_alone_and_one_that_is_late_is_told() {
    let early = prefetched(16, 400);
    assert!(!early.rules().contains(&"missing-prefetch"), "{:?}", early.rules());
    let early = early.tried("dram");
    assert!(!early.contains(&"late-prefetch"), "{early:?}");
    let late = prefetched(1, 40);
    late.says("late-prefetch");
    assert!(!late.rules().contains(&"missing-prefetch"), "{:?}", late.rules());
    assert!(late.tried("dram").contains(&"late-prefetch"), "to ask earlier is a gain");
}

#[test]
fn what_is_kept_after_its_last_use_at_the_peak_is_named() {
    let of = |free_first: bool| {
        let mut stage = Stage::new();
        let (old, new, len) = (0x100_0000, 0x200_0000, 4 << 20);
        stage.alloc(5, old, len);
        (0..len / 64).for_each(|line| stage.store(0, 3, old + line * 64));
        if free_first {
            stage.free(old);
        }
        stage.alloc(6, new, len);
        for _ in 0..2 {
            (0..len / 8).for_each(|word| stage.store(0, 4, new + word * 8));
            (0..len / 8).for_each(|word| stage.load(0, 9, new + word * 8));
        }
        if !free_first {
            stage.free(old);
        }
        stage.free(new);
        stage.rules().contains(&"lives-too-long")
    };
    assert!(of(false));
    assert!(!of(true));
}

#[test]
fn pages_are_on_the_node_of_who_touched_them_first() {
    let of = |first_by_user: bool, nodes: u32| {
        let mut stage = Stage::with(Options { nodes, cores: 4, ..Options::default() });
        let part = |thread: u32| 0x100_0000 + u64::from(thread) * 0x20_0000;
        stage.spawn(3);
        for thread in 1..=3 {
            let by = if first_by_user { thread } else { 0 };
            (0..512).for_each(|page| stage.store(by, 2, part(thread) + page * 4096));
        }
        for thread in 1..=3 {
            for _ in 0..2 {
                (0..16_384).for_each(|line| stage.load(thread, 3, part(thread) + line * 64));
            }
        }
        stage.rules().contains(&"wrong-node")
    };
    assert!(of(false, 2));
    assert!(!of(true, 2));
    assert!(!of(false, 1));
}

#[test]
fn a_small_busy_table_belongs_on_dram_where_memory_is_slow() {
    let of = |slow_memory: bool| {
        let mut stage = Stage::with(Options { slow_memory, ..Options::default() });
        let (table, rest) = (0x100_0000u64, 0x1000_0000u64);
        stage.alloc(5, table, 4 << 20);
        stage.alloc(6, rest, 64 << 20);
        let mut state = 1;
        (0..(64 << 20) / 4096).for_each(|page| stage.store(0, 2, rest + page * 4096));
        for _ in 0..150_000 {
            stage.load(0, 3, table + random(&mut state) % (4 << 20) / 8 * 8);
        }
        stage
    };
    of(true).says("wrong-tier");
    assert!(of(true).tried("cxl-dram").contains(&"wrong-tier"), "{:?}", of(true).tried("cxl-dram"));
    assert!(!of(false).rules().contains(&"wrong-tier"));
    assert!(locality::is_slow(&Config::preset("cxl-dram").expect("a preset")));
    assert!(!locality::is_slow(&Config::preset("dram").expect("a preset")));
}

#[test]
fn all_cores_that_stream_are_bound_by_bandwidth_and_one_of_many_is_not() {
    let of = |threads: u32| {
        let mut stage = Stage::new();
        stage.spawn(threads);
        for thread in 1..=threads {
            let part = u64::from(thread) << 28;
            (0..10_000).for_each(|line| stage.load(thread, 3, part + line * 64));
        }
        stage.tried("dram").contains(&"bandwidth-bound")
    };
    assert!(of(24));
    assert!(!of(1));
}

#[test]
fn a_table_and_its_nodes_may_come_from_one_line_of_source() {
    let mut stage = Stage::new();
    let nodes: Vec<u64> = nodes(&mut stage);
    // The site of the nodes allocates the table, too, and one site reads both.
    stage.alloc(5, 0x800_0000, 8 * 16_384);
    let mut state = 9;
    for _ in 0..100_000 {
        let key = random(&mut state);
        stage.load(0, 3, 0x800_0000 + key % 16_384 * 8);
        let node = nodes[key as usize % nodes.len()];
        stage.load(0, 3, node + 8);
        stage.load(0, 3, node);
    }
    assert!(!stage.rules().contains(&"pointer-chase"), "{:?}", stage.rules());
}

#[test]
fn a_packet_that_is_zeroed_and_copied_over_is_named_and_its_trial_agrees() {
    let of = |zeroed: bool| {
        let mut stage = Stage::new();
        for packet in 0..4000u64 {
            let buffer = 0x10_0000 + packet % 16 * 2048;
            if zeroed {
                stage.fill(3, buffer, 2048);
            }
            stage.fill(4, buffer, 1500);
            (0..8).for_each(|word| stage.load(0, 5, buffer + word * 8));
        }
        stage
    };
    of(true).says("overwritten-unread");
    assert!(of(true).tried("dram").contains(&"overwritten-unread"));
    assert!(!of(false).rules().contains(&"overwritten-unread"));
}

#[test]
fn structures_have_a_miss_curve_a_working_set_and_their_threads() {
    let mut stage = Stage::new();
    stage.spawn(2);
    stage.alloc(5, 0x100_0000, 1 << 20);
    for thread in 1..=2 {
        for _ in 0..4 {
            (0..8192).for_each(|line| {
                stage.load(thread, 3, 0x100_0000 + u64::from(thread - 1) * (1 << 19) + line * 64)
            });
        }
    }
    let (_, of) = stage.watcher.structures().remove(0);
    assert_eq!(of.by_thread.len(), 2);
    assert!(of.by_thread[0].1[..32].iter().all(|&count| count > 0), "{:?}", of.by_thread[0]);
    assert!(
        of.by_thread[0].1[32..].iter().all(|&count| count == 0),
        "the first thread stays in the first half"
    );
    let curve = of.reuse.miss_curve();
    assert!(curve[8] > 0.95 && curve[15] < 0.4, "{curve:?}");
    assert!(of.working_set().iter().any(|&lines| lines > 1500), "{:?}", of.working_set());
    assert_eq!(of.at_peak, 1 << 20);
}
