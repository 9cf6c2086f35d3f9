//! Help with a program that can't be run.

use std::path::Path;

/// What may have been meant by the name of a program that is not found: a file in the working directory.
pub fn here(name: &str) -> String {
    match !name.contains('/') && Path::new(name).is_file() {
        true => trace(name).unwrap_or_else(|| format!("; there is one here: write ./{name}")),
        false => String::new(),
    }
}

/// What may have been meant by a file that is not executable.
pub fn executable(name: &str) -> String {
    match Path::new(name).is_dir() {
        true => ", but a folder".to_owned(),
        false => trace(name)
            .unwrap_or_else(|| format!("; name its interpreter before it, or allow it by chmod +x {name}")),
    }
}

fn trace(name: &str) -> Option<String> {
    trace::Reader::open(name).is_ok().then(|| format!("; it is a trace: read it by --trace {name}"))
}
