//! Any text, taken for the name of a function in a program's file: a name, and the same each time.
#![no_main]

#[path = "../../crates/observe/capture/src/symbols/names.rs"]
mod names;

use libfuzzer_sys::fuzz_target;
use names::readable;

fuzz_target!(|text: &str| {
    for name in [text.to_owned(), format!("_Z{text}"), format!("_ZN{text}")] {
        assert_eq!(readable(&name), readable(&name));
    }
});
