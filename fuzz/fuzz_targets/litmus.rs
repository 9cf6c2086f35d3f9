//! Any text, taken for a litmus test: an error, or a test that reads back as it is written.
#![no_main]

use crash::litmus::Litmus;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(litmus) = Litmus::parse("fuzz.litmus", text) {
        assert_eq!(Litmus::parse("fuzz.litmus", &litmus.to_string()), Ok(litmus));
    }
});
