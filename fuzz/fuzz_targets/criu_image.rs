//! Any bytes as one file of an image of CRIU's, the others whole: an error or an image.
#![no_main]

#[path = "../../crates/systems/criu/tests/small/mod.rs"]
mod small;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    static WHOLE: OnceLock<(PathBuf, Vec<PathBuf>)> = OnceLock::new();
    let (folder, files) = WHOLE.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("strandline-fuzz-criu-{}", std::process::id()));
        small::write(&folder);
        let entries = fs::read_dir(&folder).expect("the image").flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some()).collect();
        files.sort();
        (folder, files)
    });
    let Some((which, bytes)) = input.split_first() else { return };
    let path = &files[usize::from(*which) % files.len()];
    let whole = fs::read(path).expect("a file");
    // Behind its magic numbers, so that they need not be found.
    let keep = whole.len().min(usize::from(*which) / 32);
    fs::write(path, [&whole[..keep], bytes].concat()).expect("written");
    _ = criu::read(folder);
    fs::write(path, whole).expect("written");
});
