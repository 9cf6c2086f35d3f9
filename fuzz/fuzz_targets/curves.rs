//! Any text, taken for the curves of a device: an error, or curves that read back as they are written.
#![no_main]

use device::Curves;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(curves) = Curves::parse(text) {
        let written = curves.text();
        let again = Curves::parse(&written).expect("what is written reads back");
        assert_eq!(again.text(), written);
    }
});
