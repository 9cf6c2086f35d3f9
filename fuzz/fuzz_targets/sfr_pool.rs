//! Any bytes, taken for a pool of synchronisation-free regions whose logs are to be undone: an error, or a
//! pool that is recovered once and for all. What is given is written over a pool that is whole: places and a
//! byte for each.
#![no_main]

#[path = "../../crates/face/strandline/tests/sfr/damaged.rs"]
mod damaged;

use std::sync::OnceLock;

use damaged::{BYTES, recovers, whole};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|damage: &[u8]| {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    let mut bytes = WHOLE.get_or_init(|| whole().unwrap_or_default()).clone();
    for change in damage.as_chunks::<4>().0 {
        let place = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize;
        bytes[place % BYTES] = change[3];
    }
    _ = recovers(&bytes);
});
