//! The benchmarks' sources, which the binary carries, and their compilation.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::variant::Build;
use crate::error::Error;

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../examples/c/sfr/", $name)))
    };
}

/// The benchmarks.
pub const BENCHMARKS: [&str; 8] = ["cq", "sps", "pc", "rbtree", "tatp", "ll", "tpcc", "ycsb"];

/// Their files: name and text.
fn sources() -> [(&'static str, &'static str); 11] {
    [
        source!("sfr.h"),
        source!("sfr_main.h"),
        source!("pool_plain.h"),
        source!("cq.c"),
        source!("sps.c"),
        source!("pc.c"),
        source!("rbtree.c"),
        source!("tatp.c"),
        source!("ll.c"),
        source!("tpcc.c"),
        source!("ycsb.c"),
    ]
}

/// Compiles the benchmarks.
pub struct Programs<'a> {
    folder: &'a Path,
    /// The command of the compiler with persistency.
    driver: &'a [OsString],
}

impl<'a> Programs<'a> {
    /// Writes the sources into the folder.
    pub fn new(folder: &'a Path, driver: &'a [OsString]) -> Result<Self, Error> {
        for (name, text) in sources() {
            let path = folder.join(name);
            fs::write(&path, text).map_err(Error::file("write", &path))?;
        }
        Ok(Programs { folder, driver })
    }

    /// Where a benchmark's program is, once it is compiled.
    pub fn path(&self, benchmark: &str, build: Build) -> PathBuf {
        let suffix = match build {
            Build::Plain => "plain",
            Build::Hooks => "hooks",
            Build::Pool => "pool",
        };
        self.folder.join(format!("{benchmark}-{suffix}"))
    }

    /// Compiles a benchmark.
    ///
    /// # Errors
    /// If there is no compiler, or it fails: what it says.
    pub fn compile(&self, benchmark: &str, build: Build) -> Result<(), Error> {
        let mut command = match (build, self.driver) {
            (Build::Hooks | Build::Pool, [program, arguments @ ..]) => {
                let mut command = Command::new(program);
                // The design is chosen when the program runs.
                command.args(arguments).arg("--persist=decoupled");
                command
            }
            _ => Command::new("cc"),
        };
        if build != Build::Pool {
            command.arg("-DSFR_PLAIN");
        }
        command
            .current_dir(self.folder)
            .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-pthread", "-o"])
            .arg(self.path(benchmark, build))
            .args([&format!("{benchmark}.c"), "-lm"]);
        let output = command.output().map_err(|error| {
            Error::of(
                "compiler",
                match error.kind() {
                    ErrorKind::NotFound => "there is no C compiler (cc); apt-get install gcc".to_owned(),
                    _ => error.to_string(),
                },
            )
        })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.contains("error")).or(said.lines().next());
        Err(Error::of(benchmark, format!("it can't be compiled: {}", line.unwrap_or("the compiler failed"))))
    }
}
