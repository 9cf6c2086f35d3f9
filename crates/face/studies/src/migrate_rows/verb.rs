//! The same comparisons with real processes: a program in C, moved by `strandline migrate` itself, each way.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::measure::{FOLDER, QUIET};
use crate::StudyError;

const SOURCE: &str = include_str!("load.c");
const PASSES: usize = 3;
const SMALL: u64 = 192 << 20;
const LARGE: u64 = 1 << 30;

/// Times of one migration, in seconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    downtime: f64,
    busy: f64,
    total: f64,
}

/// How many times as long it takes by the socket: medians of three, geometric mean over a sweep and random
/// pages.
#[derive(Clone, Copy, Debug)]
pub struct Ratios {
    /// Until it runs at the target.
    pub downtime: f64,
    /// Until the source is free.
    pub busy: f64,
    /// Until the last page is there.
    pub total: f64,
}

/// All that is moved by the verb.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// 192 MiB, timer of 0 ms.
    pub small: Ratios,
    /// 1 GiB.
    pub large: Ratios,
    /// Timer of 100 ms, FAM of 2 GB/s, the socket as fast as it is; one thread.
    pub long_one: Ratios,
    /// Two threads.
    pub long_two: Ratios,
    /// Timer of 0 ms, FAM of 2 GB/s, network of 10 Gb/s.
    pub capped: Ratios,
}

/// A folder in memory that goes when it is done with.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Measured once; none where this is not the command line, or there is no right to choose process numbers.
pub fn verb() -> Result<Option<&'static Verb>, StudyError> {
    static FOUND: OnceLock<Result<Option<Verb>, String>> = OnceLock::new();
    let _quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    let found = FOUND.get_or_init(|| match command() {
        Some(command) => all(&command).map(Some),
        None => Ok(None),
    });
    match found {
        Ok(found) => Ok(found.as_ref()),
        Err(error) => Err(StudyError::Migrate(error.clone())),
    }
}

/// This program, if it has the verb and may use it.
fn command() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let root = fs::read_to_string("/proc/self/status").ok()?.contains("CapEff:\t000001ff");
    (root && own.file_name()? == "strandline").then_some(own)
}

fn all(command: &Path) -> Result<Verb, String> {
    let folder = Folder(Path::new(FOLDER).join(format!("strandline-verb-{}", std::process::id())));
    let program = build(&folder.0)?;
    let run = Run { command, folder: &folder.0, program: &program };
    let (pcm, net) = (["--throttle", "pcm"], ["--by-socket", "--throttle", "ethernet-10g"]);
    let both = ["sweep", "random"];
    Ok(Verb {
        small: run.pair(SMALL, 1, &both[..1], &[], &["--by-socket"], "0")?,
        large: run.pair(LARGE, 1, &both[..1], &[], &["--by-socket"], "0")?,
        long_one: run.pair(SMALL, 1, &both, &pcm, &["--by-socket"], "100")?,
        long_two: run.pair(SMALL, 2, &both, &pcm, &["--by-socket"], "100")?,
        capped: run.pair(SMALL, 1, &both, &pcm, &net, "0")?,
    })
}

fn build(folder: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("the load cannot be built with `gcc`: {error}");
    fs::create_dir_all(folder).map_err(failed)?;
    let (source, program) = (folder.join("load.c"), folder.join("load"));
    fs::write(&source, SOURCE).map_err(failed)?;
    let output = Command::new("gcc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .args([&program, &source])
        .output()
        .map_err(failed)?;
    if output.status.success() {
        Ok(program)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

struct Run<'a> {
    command: &'a Path,
    folder: &'a Path,
    program: &'a Path,
}

impl Run<'_> {
    fn pair(
        &self,
        bytes: u64,
        threads: u64,
        loads: &[&str],
        fam: &[&str],
        socket: &[&str],
        timer: &str,
    ) -> Result<Ratios, String> {
        let mut logarithms = [0.0; 3];
        for load in loads {
            let (mut fams, mut sockets) = (Vec::new(), Vec::new());
            for _ in 0..PASSES {
                fams.push(self.one(bytes, threads, load, fam, timer)?);
                sockets.push(self.one(bytes, threads, load, socket, timer)?);
            }
            let parts: [fn(&Times) -> f64; 3] = [|one| one.downtime, |one| one.busy, |one| one.total];
            for (sum, part) in logarithms.iter_mut().zip(parts) {
                *sum += (median(&sockets, part) / median(&fams, part)).ln();
            }
        }
        let [downtime, busy, total] = logarithms.map(|sum| (sum / loads.len().max(1) as f64).exp());
        Ok(Ratios { downtime, busy, total })
    }

    fn one(&self, bytes: u64, threads: u64, load: &str, way: &[&str], timer: &str) -> Result<Times, String> {
        let [ready, fam, said, errors] =
            ["ready", "fam", "said", "errors"].map(|name| self.folder.join(name));
        let _ = fs::remove_file(&ready);
        let _ = fs::remove_dir_all(&fam);
        let failed = |error: std::io::Error| error.to_string();
        let mut source = Command::new(self.program);
        source.args([&bytes.to_string(), &threads.to_string(), load]).arg(&ready);
        let mut source = source
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        for _ in 0..12_000 {
            if ready.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        // Into a file: the process that moved keeps the standard streams of this command.
        let mut verb = Command::new(self.command);
        verb.args([
            "migrate",
            "--json",
            "--detach",
            "--timer",
            timer,
            "--pid",
            &source.id().to_string(),
            "--fam",
        ]);
        verb.arg(&fam).args(way).stdin(Stdio::null()).stdout(File::create(&said).map_err(failed)?);
        let done = verb.stderr(File::create(&errors).map_err(failed)?).status();
        let text = fs::read_to_string(&said).unwrap_or_default();
        let times: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(child) = times["child"].as_i64() {
            let _ = Command::new("kill").args(["-9", &child.to_string()]).status();
        }
        let _ = source.kill();
        let _ = source.wait();
        if !done.map_err(failed)?.success() {
            let why = fs::read_to_string(&errors).unwrap_or_default();
            return Err(format!("`strandline migrate {}` failed: {}", way.join(" "), why.trim()));
        }
        let number =
            |name: &str| times[name].as_f64().ok_or_else(|| format!("`strandline migrate` says no {name}"));
        Ok(Times { downtime: number("downtime_s")?, busy: number("busy_s")?, total: number("total_s")? })
    }
}

fn median(all: &[Times], part: fn(&Times) -> f64) -> f64 {
    let mut all: Vec<f64> = all.iter().map(part).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}
