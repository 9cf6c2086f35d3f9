//! Gives the code that results depend on a number, so that a sweep never takes results of other models for its own.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

/// What results depend on, beside the crates' own versions.
const FOLDERS: [&str; 9] = [
    "../../base",
    "../../library",
    "../../model",
    // Published results are of these, too.
    "../../advice",
    "../../systems",
    "../workload",
    "../session/src",
    "../studies/src",
    "src",
];

fn main() {
    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo:rerun-if-changed={folder}");
        collect(Path::new(folder), &mut files);
    }
    files.sort();
    let mut all = Vec::new();
    for file in &files {
        all.extend_from_slice(file.to_string_lossy().as_bytes());
        all.extend(std::fs::read(file).unwrap_or_default());
    }
    println!("cargo:rustc-env=STRANDLINE_MODELS={:016x}", xxh3_64(&all));
}

/// Sources, descriptions of machines, kernels, curves; tests change nothing.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "tests" && name != "benches" && name != "examples" && name != "target" {
                collect(&path, files);
            }
        } else if path.extension().is_none_or(|end| end != "md") {
            files.push(path);
        }
    }
}
