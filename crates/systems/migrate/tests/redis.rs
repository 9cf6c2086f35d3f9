//! A real Redis under clients that read and write as YCSB does and connect again, moved meanwhile: no acknowledged write is
//! lost, and how fast it is over time is recorded.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use migrate::inspect::Options;
use migrate::live::{Lazy, Migrate, Moved, migrate};
use migrate::plot::{Counted, gap, page, sample};
use migrate::restore::exit_code;

mod common;

use common::{memory, privileged};

const VALUE: usize = 1000;

/// A connection that speaks RESP.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a command, and returns its answer: a text, or a number as text; none for a nil.
    fn call(&mut self, parts: &[&[u8]]) -> io::Result<Option<Vec<u8>>> {
        let mut out = format!("*{}\r\n", parts.len()).into_bytes();
        for part in parts {
            out.extend(format!("${}\r\n", part.len()).into_bytes());
            out.extend_from_slice(part);
            out.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&out)?;
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "$" if rest.starts_with('-') => Ok(None),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap_or(0) + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(Some(bytes))
            }
            "-" => panic!("Redis says {rest}"),
            _ => Ok(Some(rest.as_bytes().to_vec())),
        }
    }
}

fn value(key: u64, version: u64) -> Vec<u8> {
    let mut bytes = format!("{key}.{version}.").into_bytes();
    bytes.resize(VALUE, b'x');
    bytes
}

fn version(key: u64, bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let mut words = text.split('.');
    assert_eq!(words.next(), Some(key.to_string().as_str()), "another key's value");
    words.next().and_then(|word| word.parse().ok()).expect("a version")
}

/// A client with keys of its own: 70 % reads, keys uniformly at random, until `over`. How often it connected again.
fn work(port: u16, keys: std::ops::Range<u64>, seed: u64, done: &AtomicU64, over: &AtomicBool) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let count = (keys.end - keys.start) as usize;
    // For each key the last version that was acknowledged, and the last one that was sent.
    let mut known = vec![(0_u64, 0_u64); count];
    let (mut client, mut again) = (Client::connect(port).expect("it listens"), 0);
    while !over.load(Ordering::Relaxed) {
        let index = random.usize(0..count);
        let key = keys.start + index as u64;
        let name = format!("user{key}");
        let (acknowledged, sent) = known[index];
        let write = random.u64(0..10) < 3;
        let answer = if write {
            known[index].1 = sent + 1;
            client.call(&[b"SET", name.as_bytes(), &value(key, sent + 1)])
        } else {
            client.call(&[b"GET", name.as_bytes()])
        };
        match answer {
            Ok(_) if write => known[index].0 = known[index].1,
            Ok(found) => {
                let found = version(key, &found.unwrap_or_else(|| panic!("{name} is lost")));
                assert!(
                    (acknowledged..=sent).contains(&found),
                    "{name}: {found}, not {acknowledged}..{sent}"
                );
            }
            Err(_) => {
                again += 1;
                let begin = Instant::now();
                client = loop {
                    match Client::connect(port) {
                        Ok(client) => break client,
                        Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "{error}"),
                    }
                    std::thread::sleep(Duration::from_millis(1));
                };
                continue;
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    again
}

/// A program that has none of the files that whoever started these tests has left open.
fn alone(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt as _;
    let close = || {
        // SAFETY: no memory is involved.
        unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
        Ok(())
    };
    // SAFETY: the child makes a system call only.
    unsafe { command.pre_exec(close) }
}

fn server(folder: &Path) -> Option<(Child, u16)> {
    if !privileged() {
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port").port();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(folder).arg("--logfile").arg(folder.join("log"));
    let Ok(child) =
        alone(&mut command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    else {
        println!("skipped: no Redis");
        return None;
    };
    let begin = Instant::now();
    while Client::connect(port).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it listens");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some((child, port))
}

fn moved(records: u64, clients: u64, how: &Migrate, seed: u64) -> Option<(Moved, String)> {
    let folder = memory();
    let (mut child, port) = server(folder.path())?;
    let mut loader = Client::connect(port).expect("it listens");
    for key in 0..records {
        loader.call(&[b"SET", format!("user{key}").as_bytes(), &value(key, 0)]).expect("stored");
    }
    drop(loader);
    let (done, over, watched) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let pid = child.id().cast_signed();
    let fam = folder.path().join("fam");
    let (result, samples, again) = std::thread::scope(|scope| {
        let share = records / clients;
        let (done, over, watched) = (&done, &over, &watched);
        let workers: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn(move || {
                    work(port, client * share..(client + 1) * share, seed + client, done, over)
                })
            })
            .collect();
        let sampler = scope.spawn(|| sample(|| done.load(Ordering::Relaxed), watched));
        std::thread::sleep(Duration::from_millis(500));
        let result = migrate(pid, &fam, how);
        std::thread::sleep(Duration::from_millis(500));
        watched.store(true, Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        let again: u64 = workers.into_iter().map(|worker| worker.join().expect("no write is lost")).sum();
        (result, sampler.join().expect("samples"), again)
    });
    let _ = child.kill();
    let _ = child.wait();
    let result = result.expect("it moves");
    assert_eq!(again, clients, "each client connects again once");
    let mut last = Client::connect(port).expect("the moved one listens");
    assert_eq!(last.call(&[b"DBSIZE"]).expect("it answers"), Some(records.to_string().into_bytes()));
    let _ = last.call(&[b"SHUTDOWN", b"NOSAVE"]);
    assert_eq!(exit_code(result.child.expect("a target of ours")).expect("our child"), 0);
    let before = samples.iter().filter(|one| one.at_ns < result.stopped_at_ns);
    let speed = before.clone().next_back().zip(before.clone().next()).map_or(0.0, |(last, first)| {
        (last.count - first.count) as f64 / ((last.at_ns - first.at_ns) as f64 / 1e9)
    });
    let line = format!(
        "{clients} clients, {:.0} MiB: {speed:.0} op/s before; down {:.1} ms, clients waited {:.1} ms, busy {:.1} ms, \
         total {:.1} ms, {} faults",
        result.lazy_bytes as f64 / f64::from(1 << 20),
        result.downtime_s * 1e3,
        gap(&samples) * 1e3,
        result.busy_s * 1e3,
        result.total_s.unwrap_or(0.0) * 1e3,
        result.faults
    );
    println!("{line}");
    let text = page(&result, &samples, Counted::Beats);
    assert!(text.contains("<polyline") && text.contains("speed meanwhile"), "{text}");
    if let Ok(path) = std::env::var("STRANDLINE_HTML") {
        std::fs::write(path, text).expect("written");
    }
    Some((result, line))
}

fn how() -> Migrate {
    let options = Options { close_connections: true, ..Options::default() };
    Migrate { options, ..Migrate::default() }
}

#[test]
fn redis_moves_under_its_clients() {
    moved(20_000, 2, &how(), 1);
    // Its clients connect again as soon as it runs there, though the source is not free before the last page.
    moved(20_000, 2, &Migrate { way: migrate::live::Way::Socket, ..how() }, 2);
}

#[test]
#[ignore = "--long: Redis with 200 MB, by every way, with one client and with four"]
fn redis_moves_by_every_way() {
    let lazy = |timer: u64, map| Lazy { timer: Duration::from_millis(timer), map, ..Lazy::default() };
    for clients in [1, 4] {
        for (name, how) in [
            ("FAM, 150 ms", Migrate { lazy: lazy(150, false), ..how() }),
            ("FAM, 3 ms", Migrate { lazy: lazy(3, false), ..how() }),
            ("FAM, mapped", Migrate { lazy: lazy(150, true), ..how() }),
            ("FAM, sent before", Migrate { lazy: lazy(150, false), precopy: true, ..how() }),
            ("socket, 150 ms", Migrate { lazy: lazy(150, false), way: migrate::live::Way::Socket, ..how() }),
        ] {
            print!("{name}: ");
            moved(200_000, clients, &how, 7);
        }
    }
}
