//! Any text, taken for a machine's description: an error, or one that reads back and that machines can be made of.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::Config;

fuzz_target!(|text: &str| {
    // A description may name a file of curves, which is none of this target's business.
    if text.contains("file") {
        return;
    }
    if let Ok(config) = Config::parse(text, "fuzz.toml") {
        assert!(config.validate().is_ok());
    }
});
