//! Any bytes over a crashed virtualised NVM with transactions in its lists: an error, or files after recovery. What is
//! given are places and a byte for each.
#![no_main]

#[path = "../../crates/face/strandline/tests/vnvm/crashed.rs"]
mod crashed;
#[allow(dead_code)]
#[path = "../../crates/face/strandline/tests/vnvm/host.rs"]
mod host;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|damage: &[u8]| {
    static CRASHED: OnceLock<Vec<u8>> = OnceLock::new();
    let mut image = CRASHED.get_or_init(|| crashed::crashed().0).clone();
    for change in damage.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let len = image.len();
        image[at % len] = change[2];
    }
    _ = crashed::files_after(&image);
});
