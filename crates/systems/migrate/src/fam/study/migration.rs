//! One migration, by one way, with all its times.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::app::{App, Load, Memory, now_ns};
use crate::fam::{
    Error, Fam, FamFile, Install, Layout, Medium, Options, Owner, Remote, Served, Socket, Source, Store,
    Throttle, Transport, page_server, serve,
};

/// How pages go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Fabric-attached memory.
    Fam(Medium, Install),
    /// A socket, as CRIU does it.
    Socket(Medium),
}

/// What is measured of one migration. Times in seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    /// Before the freeze: taking room in FAM.
    pub prepare_s: f64,
    /// From the freeze until the first operation at the target.
    pub downtime_s: f64,
    /// From the restart until the last page is there.
    pub resume_s: f64,
    /// From the freeze until the source may be killed.
    pub busy_s: f64,
    /// Preparation is not in it: downtime and resume.
    pub total_s: f64,
    /// Operations per second before the freeze.
    pub before_per_s: f64,
    /// Operations per second from the freeze until the last page was there.
    pub during_per_s: f64,
    /// From the freeze until the threads had done their operations, where they have a number to do.
    pub work_s: Option<f64>,
    /// Faults, pages.
    pub served: Served,
    /// Requests to the source because a page was not known to be in FAM.
    pub asked: u64,
    /// Seconds from the freeze, operations per second.
    pub beats: Vec<(f64, f64)>,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// The process.
    pub load: Load,
    /// How its pages go.
    pub by: By,
    /// Expiration timer.
    pub timer: Duration,
    /// Pages in the order of an earlier run.
    pub prefetch: Vec<u64>,
    /// A folder in FAM.
    pub fam: &'a Path,
    /// Name of the file there.
    pub name: &'a str,
}

/// Migrates a process that is started for it.
///
/// # Errors
/// The system refuses something; pages were lost; a value at the target was not the source's.
pub fn migrate(settings: &Settings<'_>) -> Result<Times, Error> {
    let source = App::spawn(settings.load, Memory::Filled)?;
    source.run();
    let beating = Instant::now();
    std::thread::sleep(Duration::from_millis(60));
    let before_per_s = source.beats() as f64 / beating.elapsed().as_secs_f64();
    let mut times = match settings.by {
        By::Fam(medium, install) => through_fam(settings, &source, medium, install)?,
        By::Socket(medium) => through_socket(settings, &source, medium)?,
    };
    times.before_per_s = before_per_s;
    Ok(times)
}

fn through_fam(
    settings: &Settings<'_>,
    source: &App,
    medium: Medium,
    install: Install,
) -> Result<Times, Error> {
    let start = Instant::now();
    let path = settings.fam.join(settings.name);
    let owner = Owner::of(source.pid())?;
    let file = FamFile::create(&path, owner, &App::regions(settings.load))?;
    let prepare_s = start.elapsed().as_secs_f64();
    let throttle = Arc::new(Throttle::new(medium));
    let freeze = now_ns();
    source.freeze(false)?;
    let daemon =
        Source::start(file, Box::new(Remote::of(source.pid())?), Arc::clone(&throttle), Store::Direct);
    let (ours, theirs) = UnixStream::pair().map_err(Error::os("socketpair"))?;
    daemon.serve(theirs)?;
    let file = FamFile::open(&path, Some(owner))?;
    let memory = match install {
        Install::Copy { .. } => Memory::Missing,
        Install::Map => Memory::Mapped(&file),
    };
    let target = App::spawn(settings.load, memory)?;
    let read = Arc::new(Throttle::new(medium));
    let mut transport = Fam::new(file, ours, read, install);
    let waited = std::thread::scope(|scope| {
        let freed = scope.spawn(|| {
            let dumped = daemon.wait();
            let busy = now_ns() - freeze;
            // Its memory is free from here on, in spite of what the target still has to read.
            source.kill();
            dumped.map(|_| busy as f64 / 1e9)
        });
        let times = follow(settings, &target, &mut transport, freeze);
        (times, freed.join())
    });
    let mut times = waited.0?;
    times.busy_s = waited.1.unwrap_or(Err(Error::SourceLost { missing: 0 }))?;
    times.prepare_s = prepare_s;
    times.asked = transport.asked();
    drop(target);
    let _ = std::fs::remove_file(path);
    Ok(times)
}

fn through_socket(settings: &Settings<'_>, source: &App, medium: Medium) -> Result<Times, Error> {
    let layout = Arc::new(Layout::new(&App::regions(settings.load), 0));
    let throttle = Arc::new(Throttle::new(medium));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::os("listen"))?;
    let address = listener.local_addr().map_err(Error::os("listen"))?;
    let ours = TcpStream::connect(address).map_err(Error::os("connect"))?;
    let (theirs, _) = listener.accept().map_err(Error::os("accept"))?;
    let freeze = now_ns();
    source.freeze(true)?;
    let server = page_server(theirs, Box::new(Remote::of(source.pid())?), layout, throttle);
    let target = App::spawn(settings.load, Memory::Missing)?;
    let mut transport = Socket::new(ours);
    let mut times = follow(settings, &target, &mut transport, freeze)?;
    // Not before the last page has crossed.
    times.busy_s = times.total_s;
    let _ = server.join();
    Ok(times)
}

/// Serves the target until it has all pages, and takes its times.
fn follow(
    settings: &Settings<'_>,
    target: &App,
    transport: &mut dyn Transport,
    freeze: u64,
) -> Result<Times, Error> {
    let options = Options {
        timer: Some(settings.timer),
        prefetch: settings.prefetch.clone(),
        process: Some(target.pid()),
        ..Options::default()
    };
    let uffd = target.uffd()?;
    let over = AtomicBool::new(false);
    let (served, ended, beats) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(target, freeze, &over));
        target.run();
        let served = serve(uffd, &App::regions(settings.load), transport, options);
        let (ended, count) = (now_ns(), target.beats());
        // As long as threads have a number to do, they are not stopped before.
        let waits = || target.first_ns() == 0 || (settings.load.operations > 0 && target.rested_ns() == 0);
        while served.is_ok() && waits() {
            std::thread::sleep(Duration::from_millis(1));
        }
        over.store(true, Ordering::Relaxed);
        (served, (ended, count), sampler.join().unwrap_or_default())
    });
    let served = served?;
    target.rest();
    let (first, from_freeze) = (target.first_ns(), |at: u64| at.saturating_sub(freeze) as f64 / 1e9);
    if target.wrong() > 0 {
        return Err(Error::Protocol(format!("{} values differ at the target", target.wrong())));
    }
    let total_s = from_freeze(ended.0.max(first));
    let downtime_s = from_freeze(first);
    Ok(Times {
        downtime_s,
        resume_s: total_s - downtime_s,
        total_s,
        during_per_s: ended.1 as f64 / total_s,
        work_s: (target.rested_ns() > 0).then(|| from_freeze(target.rested_ns())),
        served,
        beats,
        ..Times::default()
    })
}

fn sample(target: &App, freeze: u64, over: &AtomicBool) -> Vec<(f64, f64)> {
    let (mut points, mut last, mut at) = (Vec::new(), 0, now_ns());
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
        let (now, beats) = (now_ns(), target.beats());
        points.push(((now - freeze) as f64 / 1e9, (beats - last) as f64 * 1e9 / (now - at) as f64));
        (last, at) = (beats, now);
    }
    points
}
