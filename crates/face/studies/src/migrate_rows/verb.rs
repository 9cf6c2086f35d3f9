//! The same comparisons with real processes, moved by `strandline migrate` itself, each way.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fam::study::leaves_time;
use serde_json::Value;

use super::measure::{FOLDER, QUIET};
use crate::{Lab, StudyError};

const SOURCE: &str = include_str!("load.c");
/// Migrations of which a figure is the median, unless time is up.
const PASSES: usize = 5;
/// No further pass begins that would not end within this time.
const ENOUGH: Duration = Duration::from_secs(30);
/// A migration that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(40);
const SMALL: u64 = 96 << 20;
const LARGE: u64 = 512 << 20;

/// Times of one migration, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Until it runs at the target.
    pub downtime: f64,
    /// Until the source is free.
    pub busy: f64,
    /// Until the last page is there.
    pub total: f64,
    /// When it stopped, in nanoseconds of the monotonic clock.
    pub stopped_ns: u64,
}

/// How many times as long it takes by the socket: medians, geometric mean over the loads.
#[derive(Clone, Copy, Debug)]
pub struct Ratios {
    /// Until it runs at the target.
    pub downtime: f64,
    /// Until the source is free.
    pub busy: f64,
    /// Until the last page is there.
    pub total: f64,
}

/// What is moved together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// 96 MiB, timer of 0 ms.
    Small,
    /// 512 MiB, a sweep, timer of 0 ms.
    Large,
    /// The same with 96 MiB.
    Little,
    /// Timer of 100 ms, FAM of 2 GB/s, the socket as fast as it is; one thread.
    LongOne,
    /// Two threads.
    LongTwo,
    /// Timer of 0 ms, FAM of 2 GB/s, network of 10 Gb/s.
    Capped,
    /// One process, timer of 1 ms.
    Single,
    /// Two processes at a time, timer of 1 ms.
    Together,
}

const LOADS: [&str; 4] = ["sweep", "random", "canneal", "streamcluster"];
const PCM: [&str; 2] = ["--throttle", "pcm"];
const SOCKET: [&str; 1] = ["--by-socket"];
const NETWORK: [&str; 3] = ["--by-socket", "--throttle", "ethernet-10g"];

/// A folder in memory that goes when it is done with.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> std::io::Result<Self> {
        let path = Path::new(FOLDER).join(format!("strandline-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed when it is done with.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measured once; none where this is not the command line, or there is no right to choose process numbers.
pub fn verb(lab: &Lab, group: Group) -> Result<Option<Ratios>, StudyError> {
    Ok(turns(lab, [group])?.map(|[one]| one))
}

/// The same of several groups that take turns, so that all meet the same load of this computer.
pub fn turns<const N: usize>(lab: &Lab, groups: [Group; N]) -> Result<Option<[Ratios; N]>, StudyError> {
    type Found = HashMap<Vec<Group>, Result<Vec<Ratios>, String>>;
    static FOUND: LazyLock<Mutex<Found>> = LazyLock::new(Mutex::default);
    let Some(command) = command() else { return Ok(None) };
    let _quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let found = found.entry(groups.to_vec()).or_insert_with(|| {
        let folder = Folder::new("verb").map_err(|error| error.to_string())?;
        let program = build(&folder, "load", SOURCE)?;
        Run { command: &command, folder: &folder, program: &program, lab }.turns(&groups)
    });
    let ratios = found.clone().map_err(StudyError::Migrate)?;
    Ok(ratios.try_into().ok())
}

/// This program, if it has the verb and may use it.
pub(super) fn command() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let root = fs::read_to_string("/proc/self/status").ok()?.contains("CapEff:\t000001ff");
    (root && own.file_name()? == "strandline").then_some(own)
}

/// Builds a program in C.
pub(super) fn build(folder: &Folder, name: &str, text: &str) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("{name} cannot be built with `gcc`: {error}");
    let (source, program) = (folder.path(&format!("{name}.c")), folder.path(name));
    fs::write(&source, text).map_err(failed)?;
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
    folder: &'a Folder,
    program: &'a Path,
    lab: &'a Lab,
}

/// What is moved, and how.
#[derive(Clone, Copy)]
struct Setting<'a> {
    bytes: u64,
    threads: u64,
    at_a_time: usize,
    timer: &'a str,
    fam: &'a [&'a str],
    socket: &'a [&'a str],
    loads: &'a [&'a str],
}

impl Run<'_> {
    fn setting(group: Group) -> Setting<'static> {
        let all = Setting {
            bytes: SMALL,
            threads: 1,
            at_a_time: 1,
            timer: "0",
            fam: &[],
            socket: &SOCKET,
            loads: &LOADS,
        };
        let long = Setting { timer: "100", fam: &PCM, ..all };
        let short = Setting { timer: "1", loads: &LOADS[..1], ..all };
        match group {
            Group::Small => all,
            Group::Large => Setting { bytes: LARGE, loads: &LOADS[..1], ..all },
            Group::Little => Setting { loads: &LOADS[..1], ..all },
            Group::LongOne => long,
            Group::LongTwo => Setting { threads: 2, ..long },
            Group::Capped => Setting { fam: &PCM, socket: &NETWORK, ..all },
            Group::Single => short,
            Group::Together => Setting { at_a_time: 2, ..short },
        }
    }

    fn turns(&self, groups: &[Group]) -> Result<Vec<Ratios>, String> {
        // What is moved, and the times of each way.
        let mut all = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let how = Self::setting(*group);
            all.extend(how.loads.iter().map(|load| (index, how, *load, Vec::new(), Vec::new())));
        }
        let begin = Instant::now();
        for pass in 1..=PASSES {
            for (_, how, load, fams, sockets) in &mut all {
                for (way, name, times) in [(how.fam, "FAM", fams), (how.socket, "socket", sockets)] {
                    self.lab.doing(&format!("{load} by {name}, timer {} ms, pass {pass}", how.timer));
                    times.extend(self.at_a_time(how, load, way)?);
                }
            }
            if !leaves_time(begin, pass, ENOUGH) {
                break;
            }
        }
        let parts: [fn(&Times) -> f64; 3] = [|one| one.downtime, |one| one.busy, |one| one.total];
        let ratios = |wanted: usize| {
            let [downtime, busy, total] = parts.map(|part| {
                let own = all.iter().filter(|(index, ..)| *index == wanted);
                let logarithms: Vec<f64> = own
                    .map(|(.., fams, sockets)| (median(sockets, part) / median(fams, part)).ln())
                    .collect();
                (logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64).exp()
            });
            Ratios { downtime, busy, total }
        };
        Ok((0..groups.len()).map(ratios).collect())
    }

    /// Starts a load, and waits until it has its memory.
    fn started(&self, bytes: u64, threads: u64, load: &str, number: usize) -> Result<Ended, String> {
        let ready = self.folder.path(&format!("ready{number}"));
        let _ = fs::remove_file(&ready);
        let mut source = Command::new(self.program);
        source.args([&bytes.to_string(), &threads.to_string(), load]).arg(&ready);
        source.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let source = Ended(source.spawn().map_err(|error| error.to_string())?);
        for _ in 0..12_000 {
            if ready.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(source)
    }

    /// So many processes, moved at the same time.
    fn at_a_time(&self, how: &Setting<'_>, load: &str, way: &[&str]) -> Result<Vec<Times>, String> {
        let mut all = Vec::new();
        for number in 0..how.at_a_time {
            all.push(self.started(how.bytes, how.threads, load, number)?);
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut moving = Vec::new();
        for (number, source) in all.iter().enumerate() {
            let mut way = way.to_vec();
            way.extend(["--timer", how.timer]);
            moving.push(Moving::start(self.command, self.folder, number, source.0.id(), &way)?);
        }
        let times: Vec<_> = moving.into_iter().map(Moving::end).collect();
        times.into_iter().collect()
    }
}

/// A migration that goes on.
pub(super) struct Moving {
    verb: Child,
    said: PathBuf,
    errors: PathBuf,
    way: String,
}

impl Moving {
    /// Starts to move a process through `fam{number}` in a folder.
    pub(super) fn start(
        command: &Path,
        folder: &Folder,
        number: usize,
        pid: u32,
        way: &[&str],
    ) -> Result<Self, String> {
        let [fam, said, errors] =
            ["fam", "said", "errors"].map(|name| folder.path(&format!("{name}{number}")));
        let _ = fs::remove_dir_all(&fam);
        let failed = |error: std::io::Error| error.to_string();
        // Into a file: the process that moved keeps the standard streams of this command.
        let mut verb = Command::new(command);
        verb.args(["migrate", "--json", "--detach", "--pid", &pid.to_string(), "--fam"]).arg(&fam).args(way);
        verb.stdin(Stdio::null()).stdout(File::create(&said).map_err(failed)?);
        let verb = verb.stderr(File::create(&errors).map_err(failed)?).spawn().map_err(failed)?;
        Ok(Self { verb, said, errors, way: way.join(" ") })
    }

    /// Waits for the last page, and kills what came.
    pub(super) fn end(self) -> Result<Times, String> {
        let (times, child) = self.times()?;
        let _ = Command::new("kill").args(["-9", &child.to_string()]).status();
        Ok(times)
    }

    /// Waits for the last page: the times, and the process that came.
    pub(super) fn times(mut self) -> Result<(Times, i64), String> {
        let begin = Instant::now();
        let done = loop {
            if let Some(done) = self.verb.try_wait().map_err(|error| error.to_string())? {
                break done;
            }
            if begin.elapsed() > PATIENCE {
                let _ = self.verb.kill();
                let _ = self.verb.wait();
                let seconds = PATIENCE.as_secs();
                return Err(format!("`strandline migrate {}` did not end within {seconds} s", self.way));
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let text = fs::read_to_string(&self.said).unwrap_or_default();
        let times: Value = serde_json::from_str(&text).unwrap_or_default();
        if !done.success() {
            let why = fs::read_to_string(&self.errors).unwrap_or_default();
            return Err(format!("`strandline migrate {}` failed: {}", self.way, why.trim()));
        }
        let number =
            |name: &str| times[name].as_f64().ok_or_else(|| format!("`strandline migrate` says no {name}"));
        let all = Times {
            downtime: number("downtime_s")?,
            busy: number("busy_s")?,
            total: number("total_s")?,
            stopped_ns: number("stopped_at_ns")? as u64,
        };
        Ok((all, number("child")? as i64))
    }
}

pub(super) fn median<T>(all: &[T], part: impl Fn(&T) -> f64) -> f64 {
    let mut all: Vec<f64> = all.iter().map(part).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A checkpoint by pairs of calls over one by `writev`, for a number of threads: how many times as long the
/// process stands, by bytes. None where the verb may not be used.
pub fn dumps(lab: &Lab, threads: u64) -> Result<Option<Vec<(u64, f64)>>, StudyError> {
    const DUMPS: usize = 5;
    let Some(command) = command() else { return Ok(None) };
    let _quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    let measure = || -> Result<Vec<(u64, f64)>, String> {
        let folder = Folder::new("dumps").map_err(|error| error.to_string())?;
        let program = build(&folder, "load", SOURCE)?;
        let run = Run { command: &command, folder: &folder, program: &program, lab };
        let mut all = Vec::new();
        for bytes in [LARGE / 4, LARGE] {
            let source = run.started(bytes, threads, LOADS[1], 0)?;
            let (mut writev, mut splice) = (Vec::new(), Vec::new());
            let begin = Instant::now();
            for pass in 1..=DUMPS {
                lab.doing(&format!("a checkpoint of {} MiB, pass {pass}", bytes >> 20));
                writev.push(run.stood(source.0.id(), "writev")?);
                splice.push(run.stood(source.0.id(), "splice")?);
                if !leaves_time(begin, pass, ENOUGH) {
                    break;
                }
            }
            all.push((bytes, median(&splice, |one| *one) / median(&writev, |one| *one)));
        }
        Ok(all)
    };
    measure().map(Some).map_err(StudyError::Migrate)
}

impl Run<'_> {
    /// For how long a process stands while it is saved.
    fn stood(&self, pid: u32, by: &str) -> Result<f64, String> {
        let image = self.folder.path("image");
        let _ = fs::remove_dir_all(&image);
        let mut verb = Command::new(self.command);
        verb.args(["checkpoint", "--json", "--leave-running", "--no-sync", "--by", by, "--pid"]);
        let output = verb.arg(pid.to_string()).arg(&image).output().map_err(|error| error.to_string())?;
        let times: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        times["downtime_s"].as_f64().ok_or_else(|| format!("`strandline checkpoint --by {by}`: {}", said()))
    }
}
