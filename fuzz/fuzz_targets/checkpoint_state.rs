//! Any bytes as the state of a checkpoint, its length and hash made right: an error or an image, whose pages can be looked for.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use migrate::image::{Store, hash};

fuzz_target!(|body: &[u8]| {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("strandline-fuzz-state-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    });
    let head = format!("strandline-image 1 {} {:016x}\n", body.len(), hash(body));
    fs::write(folder.join("state"), [head.as_bytes(), body].concat()).expect("written");
    let store = Store::new(folder);
    if let Ok(image) = store.read() {
        _ = store.check(&image);
    }
});
