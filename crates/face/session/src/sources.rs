//! Source files for the report's excerpts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

/// Largest source file that is read (SQLite's amalgamation has 9 MB).
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads source files as the debug information names them, each once.
#[derive(Default)]
pub struct Sources {
    files: RefCell<HashMap<String, Option<String>>>,
}

impl Sources {
    /// A file's text; `None` if it can't be read here.
    pub fn text(&self, file: &str) -> Option<String> {
        self.files.borrow_mut().entry(file.to_owned()).or_insert_with(|| read(Path::new(file))).clone()
    }
}

fn read(path: &Path) -> Option<String> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    let bytes = (size <= FILE_BYTES_MAX).then(|| std::fs::read(path).ok()).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
