//! A peer's program, compiled when it is needed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

const HARNESS: &str = include_str!("c/harness.c");
const HEADER: &str = include_str!("c/harness.h");

/// Why there is no program.
pub enum Missing {
    /// The header or the library.
    Library,
    /// No C compiler runs.
    Compiler(String),
    /// Something else; what the compiler says.
    Failed(String),
}

/// Compiles `source` with the harness into the folder.
pub fn program(folder: &Path, name: &str, source: &str, libraries: &[&str]) -> Result<PathBuf, Missing> {
    let program = folder.join(format!("{name}-peer"));
    let page = format!("{name}.c");
    for (file, text) in [("harness.c", HARNESS), ("harness.h", HEADER), (&*page, source)] {
        fs::write(folder.join(file), text)
            .map_err(|error| Missing::Failed(format!("{}: {error}", folder.join(file).display())))?;
    }
    let mut cc = Command::new("cc");
    cc.current_dir(folder).args(["-O2", "-std=gnu11", "-o"]).arg(&program).args([&*page, "harness.c"]);
    let output = cc.args(libraries).arg("-lpthread").output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Missing::Compiler("there is no C compiler (cc)".to_owned()),
        _ => Missing::Compiler(format!("cc: {error}")),
    })?;
    if output.status.success() {
        return Ok(program);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let missing = ["No such file or directory", "file not found", "cannot find -l", "unable to find library"];
    if missing.iter().any(|words| said.contains(words)) {
        return Err(Missing::Library);
    }
    let line = said.lines().find(|line| line.contains("error")).or(said.lines().next());
    Err(Missing::Failed(format!("its program can't be compiled: {}", line.unwrap_or("cc failed"))))
}
