//! Failure-atomic msync beside a plain one and beside manual write-ahead logging (`bench msync`).
//!
//! One program, `examples/c/persist/records.c`, whose source this crate carries, on a real file: built by the machine's
//! compiler, and by the driver with `--persist=msync`. All ways of a round run in turn before the next round begins.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::Error;

const SOURCE: &str = include_str!("../../../../examples/c/persist/records.c");
/// Bytes of a record.
const RECORD: u64 = 512;
/// What the ratio of the atomic way to the plain one should be at most.
const GOAL: f64 = 1.5;

/// The ways: name, whether it is built with persistency, and the program's name for it.
const WAYS: [(&str, bool, &str); 3] =
    [("plain", false, "map"), ("atomic", true, "map"), ("log", false, "log")];

/// What is measured.
#[derive(Clone, Debug)]
pub struct MsyncContest {
    /// Records of 512 bytes in the file.
    pub records: u64,
    /// Commits of a run.
    pub commits: u64,
    /// Updates of a record per commit, each number measured by itself.
    pub updates: Vec<u64>,
    /// Cache lines that an update stores to, 1 to 8, each number measured by itself.
    pub lines: Vec<u64>,
    /// How often each is run; figures are medians.
    pub rounds: u32,
    /// Folder for the file.
    pub path: PathBuf,
    /// Seed of all choices.
    pub seed: u64,
    /// The command of the compiler with persistency.
    pub driver: Vec<OsString>,
}

/// One setting.
#[derive(Clone, Debug, Serialize)]
pub struct MsyncRow {
    /// Updates per commit.
    pub updates_per_commit: u64,
    /// Cache lines per update.
    pub lines_per_update: u64,
    /// Nanoseconds of a commit with its updates: msync of the system, not atomic.
    pub plain_ns: f64,
    /// The same of the same program, recompiled.
    pub atomic_ns: f64,
    /// The same of manual write-ahead logging.
    pub log_ns: f64,
    /// Atomic over plain.
    pub atomic_over_plain: f64,
    /// Atomic over manual logging.
    pub atomic_over_log: f64,
    /// Whether the former is at most the goal.
    pub reached: bool,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct MsyncResults {
    /// `strandline bench msync`.
    pub format: &'static str,
    /// Version of the format.
    pub version: u32,
    /// Records in the file.
    pub records: u64,
    /// Commits of a run.
    pub commits: u64,
    /// Runs of each, of which figures are medians.
    pub rounds: u32,
    /// The seed.
    pub seed: u64,
    /// The folder of the file.
    pub path: PathBuf,
    /// What the ratio to the plain way should be at most.
    pub goal: f64,
    /// The settings.
    pub rows: Vec<MsyncRow>,
}

/// The line that the program prints.
#[derive(Deserialize)]
struct Line {
    wall_ns: u64,
    sum: u64,
}

/// What one way is called when it goes wrong.
fn name(way: &str) -> String {
    format!("msync, {way}")
}

/// Runs a command; what it says if it fails is the error.
fn said(way: &str, command: &mut Command) -> Result<Vec<u8>, Error> {
    let output = command.output().map_err(|error| Error::of(&name(way), error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("error")).or(said.lines().next());
    Err(Error::of(&name(way), format!("it failed ({}): {}", output.status, line.unwrap_or("no message"))))
}

impl MsyncContest {
    /// Compiles the program both ways, runs it, and compares.
    ///
    /// # Errors
    /// If there is no compiler, the file can't be made, a program fails, or the ways disagree on the file's contents.
    pub fn run(&self) -> Result<MsyncResults, Error> {
        let folder = tempfile::Builder::new().prefix("strandline-msync-").tempdir_in(&self.path);
        let folder = folder.map_err(Error::file("create", &self.path))?;
        let source = folder.path().join("records.c");
        fs::write(&source, SOURCE).map_err(Error::file("write", &source))?;
        for (way, driven, _) in WAYS.into_iter().take(2) {
            let mut command = match (driven, self.driver.as_slice()) {
                (true, [program, arguments @ ..]) => {
                    let mut command = Command::new(program);
                    command.args(arguments).arg("--persist=msync");
                    command
                }
                _ => Command::new("cc"),
            };
            command.args(["-std=gnu11", "-O2", "-o"]).arg(folder.path().join(way)).arg(&source);
            said(way, &mut command)?;
        }
        let mut rows = Vec::new();
        for &updates in &self.updates {
            for &lines in &self.lines {
                rows.push(self.row(folder.path(), updates, lines)?);
            }
        }
        Ok(MsyncResults {
            format: "strandline bench msync",
            version: 1,
            records: self.records,
            commits: self.commits,
            rounds: self.rounds,
            seed: self.seed,
            path: self.path.clone(),
            goal: GOAL,
            rows,
        })
    }

    fn row(&self, folder: &Path, updates: u64, lines: u64) -> Result<MsyncRow, Error> {
        let mut times = [const { Vec::new() }; 3];
        let mut sums = Vec::new();
        for _ in 0..self.rounds {
            for (index, (way, driven, kind)) in WAYS.into_iter().enumerate() {
                let file = folder.join("file");
                self.prepare(&file)?;
                let mut command = Command::new(folder.join(if driven { "atomic" } else { "plain" }));
                command.arg(&file).arg(kind);
                command
                    .args([self.records, self.commits, updates, lines, self.seed].map(|of| of.to_string()));
                command.env_remove("STRANDLINE_PERSIST").env_remove("STRANDLINE_PERSIST_STATS");
                let line: Line = serde_json::from_slice(&said(way, &mut command)?)
                    .map_err(|error| Error::of(&name(way), format!("it printed no figures: {error}")))?;
                times[index].push(line.wall_ns as f64 / self.commits as f64);
                sums.push(line.sum);
            }
        }
        if sums.iter().any(|sum| *sum != sums[0]) {
            return Err(Error::of("msync", "the ways leave files that differ"));
        }
        let [plain_ns, atomic_ns, log_ns] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        let atomic_over_plain = atomic_ns / plain_ns;
        Ok(MsyncRow {
            updates_per_commit: updates,
            lines_per_update: lines,
            plain_ns,
            atomic_ns,
            log_ns,
            atomic_over_plain,
            atomic_over_log: atomic_ns / log_ns,
            reached: atomic_over_plain <= GOAL,
        })
    }

    /// Makes the file anew, with its blocks, so that none is allocated while it is measured.
    fn prepare(&self, file: &Path) -> Result<(), Error> {
        let make = || {
            fs::write(file, vec![0; (self.records * RECORD) as usize])?;
            File::open(file)?.sync_all()
        };
        make().map_err(Error::file("write", file))
    }
}

impl MsyncResults {
    /// As a table.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} records of {RECORD} bytes in {}; µs of a commit, medians of {} runs of {} commits\n\n\
             updates  lines      plain     atomic        log   atomic/plain   atomic/log\n",
            self.records,
            self.path.display(),
            self.rounds,
            self.commits
        );
        for row in &self.rows {
            text.push_str(&format!(
                "{:>7}  {:>5} {:>10.1} {:>10.1} {:>10.1}   {:>12}   {:>10.2}\n",
                row.updates_per_commit,
                row.lines_per_update,
                row.plain_ns / 1e3,
                row.atomic_ns / 1e3,
                row.log_ns / 1e3,
                format!("{:.2}{}", row.atomic_over_plain, if row.reached { "" } else { " !" }),
                row.atomic_over_log
            ));
        }
        text.push_str(&format!(
            "\nplain: msync, not atomic; atomic: the same program by `cc --persist=msync`; log: write-ahead logging \
             manually.\nThe goal is an atomic/plain of at most {:.1}; ! marks what is above.\n",
            self.goal
        ));
        text
    }

    /// As JSON.
    ///
    /// # Errors
    /// None that a user can cause.
    pub fn json(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::of("msync", error))?;
        Ok(text + "\n")
    }
}
