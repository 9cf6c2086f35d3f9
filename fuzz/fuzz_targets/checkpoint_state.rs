//! Any bytes as the state of a checkpoint, or bytes that say what to change in a whole one; its length and hash are made
//! right: an error, or an image that reads back as it is written and whose pages can be looked for.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

#[path = "../damaged_state.rs"]
mod damaged_state;

fuzz_target!(|input: &[u8]| {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("strandline-fuzz-state-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    });
    if input.first() == Some(&b'{') {
        damaged_state::look(folder, input);
        return;
    }
    let mut bytes = input.iter().copied();
    let mut choose = |most: usize| {
        let word = [0; 2].map(|_: u8| bytes.next().unwrap_or(0));
        usize::from(u16::from_le_bytes(word)) % most.max(1)
    };
    let (seed, changes) = (choose(damaged_state::SEEDS.len()), choose(6));
    damaged_state::look(folder, &damaged_state::changed(seed, changes, &mut choose));
});
