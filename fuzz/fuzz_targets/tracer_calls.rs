//! Any bytes, taken for the registers of a system call and the memory behind them: what the tracer takes it
//! for, and the same again.
#![no_main]

#[path = "../../crates/observe/tracer/tests/decoding/shape.rs"]
mod shape;

use libfuzzer_sys::fuzz_target;
use shape::tried;

fuzz_target!(|bytes: &[u8]| {
    let found: usize = tried(bytes).iter().map(String::len).sum();
    assert!(found < 64 << 20, "{found} B");
});
