//! What small programs showed that no rule had named, or that one had named wrongly.

use event::{Op, Sampling, Sink, Source};

use super::Stage;

#[test]
fn a_line_of_code_that_reads_rows_and_writes_columns_is_named() {
    let mut stage = Stage::new();
    let (from, to, width) = (0x100_0000u64, 0x4000_0000u64, 8256u64);
    for row in 0..512u64 {
        for column in 0..512u64 {
            stage.load(0, 3, from + row * width + column * 8);
            stage.store(0, 3, to + column * width + row * 8);
        }
    }
    stage.says("against-the-rows");
    assert!(stage.tried("dram").contains(&"against-the-rows"), "{:?}", stage.tried("dram"));
}

#[test]
fn one_field_of_an_array_that_stays_in_the_table_is_named_once_the_first_cache_is_too_small() {
    let of = |count: u64, stride: u64| {
        let mut stage = Stage::new();
        (0..count).for_each(|at| stage.store(0, 2, 0x100_0000 + at * stride));
        for _ in 0..10 {
            (0..count).for_each(|at| stage.load(0, 3, 0x100_0000 + at * stride));
        }
        stage.rules().contains(&"unused-bytes")
    };
    assert!(of(20_000, 128));
    assert!(!of(20_000, 8), "all of it is used");
    assert!(!of(200, 128), "it stays in the cache");
}

#[test]
fn data_behind_the_four_bytes_of_a_spin_lock_is_beside_it() {
    let of = |limit: u64| {
        let mut stage = Stage::new();
        stage.spawn(4);
        for thread in 1..=4u32 {
            for _ in 0..10_000 {
                if thread > 2 {
                    let seq = stage.seq();
                    stage.op(thread, 5, Op::Lock { lock: 0x1000, shared: false, seq });
                    let seq = stage.seq();
                    stage.op(thread, 6, Op::Unlock { lock: 0x1000, seq });
                } else {
                    stage.op(thread, 3, Op::Load { addr: limit, len: 4 });
                }
            }
        }
        stage.rules()
    };
    assert!(of(0x1004).contains(&"false-sharing"), "{:?}", of(0x1004));
    assert!(!of(0x1100).contains(&"false-sharing"), "{:?}", of(0x1100));
}

#[test]
fn copies_for_each_thread_of_much_shared_data_meet_in_no_few_sets() {
    let mut stage = Stage::new();
    stage.spawn(2);
    // Both write all of a table of 16 KiB, again and again.
    for thread in 1..=2u32 {
        for round in 0..200u64 {
            (0..256).for_each(|line| stage.store(thread, 3, 0x10_0000 + (line * 37 + round) % 256 * 64));
        }
    }
    stage.says("true-sharing");
    assert!(stage.tried("dram").contains(&"true-sharing"), "{:?}", stage.tried("dram"));
}

#[test]
fn bursts_say_nothing_of_lives_of_blocks() {
    let of = |sampling| {
        let mut stage = Stage::new();
        let source = Source { sampling, ..Source::synthetic("test") };
        stage.watcher.begin(&source).expect("it takes all sources");
        for round in 0..5000u64 {
            stage.alloc(5, 0x10_0000 + round * 128, 128);
            (0..300).for_each(|_| stage.load(0, 3, 0x1000));
            if round % 5 != 0 {
                stage.free(0x10_0000 + round * 128);
            }
        }
        stage.rules()
    };
    assert!(of(None).contains(&"leak"));
    assert!(!of(Some(Sampling { recorded: 1, period: 4 })).contains(&"leak"));
}
