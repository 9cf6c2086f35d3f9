//! Any text, taken for a litmus test of CPU and device: it is refused, or runs to its end.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use unified::litmus::Test;
use unified::{Batch, BatchOptions};

static DEVICE: LazyLock<Batch> =
    LazyLock::new(|| Batch::new(BatchOptions { threads: 2, ..BatchOptions::default() }));

fuzz_target!(|text: &str| {
    let Ok(mut test) = Test::parse("fuzzed", text) else { return };
    test.repeats = test.repeats.min(100);
    let seen = test.run(&*DEVICE, 4, 20).expect("a test that was read runs");
    assert_eq!(seen.instances, 4);
});
