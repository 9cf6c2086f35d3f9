//! Any bytes over the header, the journal and the table of a levelled space: an error, or every page with its
//! contents. The first byte chooses the moment of an exchange at which the power failed; then places and a byte
//! for each.
#![no_main]

#[path = "../damaged_table.rs"]
mod damaged_table;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&state, damage)) = bytes.split_first() else { return };
    let change = |change: &[u8; 3]| (u16::from_le_bytes([change[0], change[1]]), change[2]);
    let damage: Vec<(u16, u8)> = damage.as_chunks::<3>().0.iter().map(change).collect();
    damaged_table::open(state, &damage);
});
