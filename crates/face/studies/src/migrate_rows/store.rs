//! Debian's Redis under clients that work as YCSB's do and connect again, moved by `strandline migrate`.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fam::study::app::now_ns;
use fam::study::leaves_time;

use super::measure::QUIET;
use super::verb::{Ended, Folder, Moving, Times, build, command, median};
use crate::{Lab, StudyError};

/// Records of the store, and bytes of each.
const RECORDS: u64 = 80_000;
const VALUE: usize = 1000;
/// Operations from the stop on.
const OPERATIONS: u64 = 20_000;
/// Runs a program without the files that whoever started this command has left open.
const ALONE: &str = "#define _GNU_SOURCE\n#include <unistd.h>\nint main(int c, char **v) { close_range(3, ~0U, 0); return execvp(v[1], v + 1); }";
/// Clients.
const CLIENTS: [u64; 2] = [1, 4];
const PASSES: usize = 3;
/// No further pass begins that would not end within this time: one takes a quarter of it, and a run of its own says little.
const ENOUGH: Duration = Duration::from_secs(60);
/// A store that stands still for so long has failed.
const PATIENCE: Duration = Duration::from_secs(15);

/// How pages go.
#[derive(Clone, Copy, Debug)]
pub enum Group {
    /// Timer of 150 ms, both ways as fast as they are.
    Long,
    /// Timer of 3 ms, FAM of 2 GB/s and a network of 10 Gb/s.
    Capped,
    /// Timer of 3 ms, both ways as fast as they are.
    Short,
}

/// What FAM gains over the socket, medians.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    /// Client threads.
    pub clients: u64,
    /// Total time, socket over FAM.
    pub total: f64,
    /// Operations per second from the stop on, FAM over socket.
    pub rate: f64,
}

/// Measured once, with one client and with four; none without Redis, or where the verb may not be used.
pub fn store(lab: &Lab, group: Group) -> Result<Option<Vec<Gain>>, StudyError> {
    static FOUND: [OnceLock<Result<Vec<Gain>, String>>; 3] = [const { OnceLock::new() }; 3];
    let Some(command) = command() else { return Ok(None) };
    if !Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|one| one.success())
    {
        return Ok(None);
    }
    let _quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    let found = FOUND[group as usize].get_or_init(|| gains(&command, lab, group));
    found.clone().map(Some).map_err(StudyError::Migrate)
}

/// Of each pass: total time in seconds, operations per second.
type Passes = Vec<(f64, f64)>;

fn gains(command: &Path, lab: &Lab, group: Group) -> Result<Vec<Gain>, String> {
    let (timer, fam, socket): (_, &[&str], &[&str]) = match group {
        Group::Long => ("150", &[], &["--by-socket"]),
        Group::Capped => ("3", &["--throttle", "pcm"], &["--by-socket", "--throttle", "ethernet-10g"]),
        Group::Short => ("3", &[], &["--by-socket"]),
    };
    let (begin, mut all) = (Instant::now(), CLIENTS.map(|clients| (clients, Vec::new(), Vec::new())));
    for pass in 1..=PASSES {
        for (clients, fams, sockets) in &mut all {
            for (way, name, into) in [(fam, "FAM", fams), (socket, "socket", sockets)] {
                lab.doing(&format!("Redis, {clients} clients, by {name}, timer {timer} ms, pass {pass}"));
                let mut way = way.to_vec();
                way.extend(["--timer", timer, "--close-connections"]);
                into.push(
                    one(command, *clients, &way)
                        .map_err(|error| format!("Redis moved by {name}: {error}"))?,
                );
            }
        }
        if !leaves_time(begin, pass, ENOUGH) {
            break;
        }
    }
    let gain = |(clients, fams, sockets): (u64, Passes, Passes)| Gain {
        clients,
        total: median(&sockets, |one| one.0) / median(&fams, |one| one.0),
        rate: median(&fams, |one| one.1) / median(&sockets, |one| one.1),
    };
    Ok(all.map(gain).to_vec())
}

/// One migration: total time in seconds, operations per second from the stop on.
fn one(command: &Path, clients: u64, way: &[&str]) -> Result<(f64, f64), String> {
    let failed = |error: io::Error| error.to_string();
    let folder = Folder::new("redis").map_err(failed)?;
    let port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).map_err(failed)?.port();
    let mut server = Command::new(build(&folder, "alone", ALONE)?);
    server.args([
        "redis-server",
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    server.arg("--dir").arg(folder.path("")).arg("--logfile").arg(folder.path("log"));
    let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Ended(server.spawn().map_err(failed)?);
    let mut loader = Client::reach(port).map_err(failed)?;
    loader.load().map_err(failed)?;
    drop(loader);
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (done, over) = (&done, &over);
        let workers: Vec<_> =
            (0..clients).map(|seed| scope.spawn(move || work(port, seed, done, over))).collect();
        let sampler = scope.spawn(|| samples(done, over));
        std::thread::sleep(Duration::from_millis(300));
        let moved = moved(command, &folder, server.0.id(), way, done);
        over.store(true, Ordering::Relaxed);
        let worked: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let samples = sampler.join().unwrap_or_default();
        let (times, child) = moved?;
        let _ = Command::new("kill").args(["-9", &child.to_string()]).status();
        for worker in worked {
            worker.map_err(|_| "a client ended".to_owned())?.map_err(failed)?;
        }
        let first = count_at(&samples, times.stopped_ns) + OPERATIONS;
        let last = samples.iter().find(|(_, count)| *count >= first).ok_or("the store stands still")?;
        let seconds = last.0.saturating_sub(times.stopped_ns) as f64 / 1e9;
        Ok((times.total, OPERATIONS as f64 / seconds))
    })
}

/// Moves the store, and waits until its clients have done their operations since.
fn moved(
    command: &Path,
    folder: &Folder,
    pid: u32,
    way: &[&str],
    done: &AtomicU64,
) -> Result<(Times, i64), String> {
    let before = done.load(Ordering::Relaxed);
    let (times, child) = Moving::start(command, folder, 0, pid, way)?.times()?;
    let begin = Instant::now();
    // As many as before the stop are counted twice, rather than too few be done.
    let enough = done.load(Ordering::Relaxed).max(before) + OPERATIONS;
    while done.load(Ordering::Relaxed) < enough && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((times, child))
}

/// Operations by time, every millisecond.
fn samples(done: &AtomicU64, over: &AtomicBool) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    while !over.load(Ordering::Relaxed) {
        all.push((now_ns(), done.load(Ordering::Relaxed)));
        std::thread::sleep(Duration::from_millis(1));
    }
    all
}

fn count_at(samples: &[(u64, u64)], at: u64) -> u64 {
    samples.iter().rev().find(|(when, _)| *when <= at).map_or(0, |(_, count)| *count)
}

/// A client: 70 % reads, keys uniformly at random; it connects again when it loses its server.
fn work(port: u16, seed: u64, done: &AtomicU64, over: &AtomicBool) -> io::Result<()> {
    let mut state = seed + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut client = Client::reach(port)?;
    while !over.load(Ordering::Relaxed) {
        let key = format!("user{}", next() % RECORDS);
        let answer = if next() % 10 < 3 { client.set(&key) } else { client.get(&key) };
        match answer {
            Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
            Err(_) => client = Client::reach(port)?,
        }
    }
    Ok(())
}

/// A connection that speaks RESP.
struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects as soon as somebody listens.
    fn reach(port: u16) -> io::Result<Self> {
        let begin = Instant::now();
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    return Ok(Self(BufReader::new(stream)));
                }
                Err(error) if begin.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut out = format!("*{}\r\n", parts.len()).into_bytes();
        for part in parts {
            out.extend(format!("${}\r\n", part.len()).into_bytes());
            out.extend_from_slice(part);
            out.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&out)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    fn set(&mut self, key: &str) -> io::Result<()> {
        self.send(&[b"SET", key.as_bytes(), &[b'x'; VALUE]])?;
        match self.line()?.as_str() {
            "+OK\r\n" => Ok(()),
            other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{key}: Redis says {other}"))),
        }
    }

    fn get(&mut self, key: &str) -> io::Result<()> {
        self.send(&[b"GET", key.as_bytes()])?;
        let line = self.line()?;
        if line.trim_end() != format!("${VALUE}") {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{key}: Redis says {line}")));
        }
        self.0.read_exact(&mut [0; VALUE + 2])
    }

    /// Stores all records, many at a time.
    fn load(&mut self) -> io::Result<()> {
        const AT_A_TIME: u64 = 500;
        for first in (0..RECORDS).step_by(AT_A_TIME as usize) {
            let keys = first..(first + AT_A_TIME).min(RECORDS);
            for key in keys.clone() {
                self.send(&[b"SET", format!("user{key}").as_bytes(), &[b'x'; VALUE]])?;
            }
            for _ in keys {
                self.line()?;
            }
        }
        Ok(())
    }
}
