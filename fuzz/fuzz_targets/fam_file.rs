//! Places and bytes to write over a small lazy-page file: an error, or a file whose pages all lie inside of it.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use fam::{FamFile, Owner, Region};
use libfuzzer_sys::fuzz_target;

fn whole() -> (PathBuf, Vec<u8>) {
    let path = PathBuf::from(format!("/dev/shm/strandline-fuzz-fam-{}", std::process::id()));
    let regions = [Region { start: 0x10000, bytes: 0x3000 }, Region { start: 0x40_0000, bytes: 0x1000 }];
    let file = FamFile::create(&path, Owner { pid: 9, start: 9 }, &regions).expect("room");
    for index in 0..file.layout().vectors().len() {
        file.set_present(index);
        file.seal(index);
    }
    file.complete();
    drop(file);
    let bytes = fs::read(&path).expect("there");
    (path, bytes)
}

fuzz_target!(|damage: &[u8]| {
    static WHOLE: OnceLock<(PathBuf, Vec<u8>)> = OnceLock::new();
    let (path, bytes) = WHOLE.get_or_init(whole);
    let mut bytes = bytes.clone();
    for change in damage.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let len = bytes.len();
        bytes[at % len] = change[2];
    }
    if damage.len() % 3 == 1 {
        bytes.truncate(usize::from(damage[damage.len() - 1]) * 64);
    }
    fs::write(path, &bytes).expect("written");
    let Ok(file) = FamFile::open(path, None) else { return };
    for vector in file.layout().vectors() {
        file.memory().address(vector.offset, vector.bytes);
    }
    _ = file.verify();
    _ = FamFile::open_complete(path, None);
});
