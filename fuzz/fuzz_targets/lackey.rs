//! Any bytes, taken for Valgrind lackey's output.
#![no_main]

use event::Counts;
use libfuzzer_sys::fuzz_target;
use trace::lackey;

fuzz_target!(|data: &[u8]| {
    let mut counts = Counts::default();
    if let Ok(imported) = lackey::import(data, "fuzz", &mut counts) {
        assert_eq!(imported.events, counts.events);
        assert!(counts.instructions <= imported.instructions);
    }
});
