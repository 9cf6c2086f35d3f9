//! Any text, taken for a litmus test of a persistency design: a test, or an error that names a line of it.
#![no_main]

use hardware::litmus;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = litmus::parse("fuzz.litmus", text) {
        assert!(error.line <= text.lines().count().max(1));
    }
});
