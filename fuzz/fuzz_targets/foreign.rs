//! Any bytes, taken for the traces of other tools.
#![no_main]

use event::Counts;
use foreign::{Format, import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    // Any number above says: by the first lines.
    let format = Format::ALL.get(usize::from(first)).copied();
    let mut counts = Counts::default();
    if let Ok(imported) = import(rest, "fuzz", format, &mut counts) {
        assert_eq!(imported.events, counts.events);
    }
});
