//! Kills at random points: of the source's daemon, of the process itself, of the target; and what FAM is good for then.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::app::{Access, App, Load, Memory};
use crate::fam::{
    Error, Fam, FamFile, Install, Medium, Options, Owner, Remote, Served, Source, Store, Throttle, serve,
};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The daemon that writes to FAM.
    Daemon,
    /// The frozen process at the source.
    Process,
    /// The restored process.
    Target,
}

/// What came of a kill.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Trial {
    /// Who was killed.
    pub victim: Victim,
    /// After so many microseconds.
    pub after_us: u64,
    /// Whether the target had all pages in the end.
    pub target_went_on: bool,
    /// Whether FAM held all of the process in the end.
    pub complete: bool,
    /// Vectors that FAM held.
    pub vectors: usize,
}

const LOAD: Load = Load { bytes: 6 << 20, access: Access::Random, threads: 1, work_ns: 0, operations: 0 };
/// Slow enough that kills fall in between.
const SLOW: Medium =
    Medium { read_ns: 1000, write_ns: 1000, bytes_per_second: Some(400_000_000), occupies_core: false };

/// One migration with a kill, drawn from a seed. What must hold is checked here:
///
/// - the target has all pages, each as the source wrote it, or its server says that the source or the target is lost;
/// - FAM is complete, and a second target restores from it with each page as the source wrote it, or says that it is
///   half-written;
/// - a source that is frozen still can be dumped again from the beginning.
///
/// # Errors
/// Something of this did not hold, or the system refuses something.
pub fn trial(seed: u64, folder: &Path) -> Result<Trial, Error> {
    let mut random = fastrand::Rng::with_seed(seed);
    let victim = [Victim::Daemon, Victim::Process, Victim::Target][random.usize(0..3)];
    let after_us = random.u64(0..25_000);
    let path = folder.join(format!("strandline-crash-{}-{seed}", std::process::id()));
    let source = App::spawn(LOAD, Memory::Filled)?;
    source.freeze(false)?;
    let owner = Owner::of(source.pid())?;
    let file = FamFile::create(&path, owner, &App::regions(LOAD))?;
    let (ours, theirs) = UnixStream::pair().map_err(Error::os("socketpair"))?;
    let daemon = fork_daemon(file, source.pid(), &ours, &theirs)?;
    drop(theirs);
    let target = App::spawn(LOAD, Memory::Missing)?;
    let uffd = target.uffd()?;
    let mut transport = Fam::new(
        FamFile::open(&path, Some(owner))?,
        ours,
        Arc::new(Throttle::new(Medium::DRAM)),
        Install::Copy { grain: 4096 },
    );
    target.run();
    let served = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_micros(after_us));
            match victim {
                Victim::Daemon => kill(daemon),
                Victim::Process => source.kill(),
                Victim::Target => target.kill(),
            }
        });
        let options = Options {
            timer: Some(Duration::from_millis(3)),
            process: Some(target.pid()),
            ..Options::default()
        };
        serve(uffd, &App::regions(LOAD), &mut transport, options)
    });
    let went_on = went_on(&served, &target)?;
    drop(target);
    if victim == Victim::Target {
        // The daemon ends by itself, once all is there.
        reap(daemon);
    } else {
        kill(daemon);
        reap(daemon);
    }
    let whole = after(&path, owner)?;
    if victim == Victim::Target && !whole.0 {
        return Err(Error::Protocol("a target's end keeps pages from FAM".into()));
    }
    if went_on && !whole.0 {
        return Err(Error::Protocol("the target has pages that FAM has not".into()));
    }
    if victim == Victim::Daemon {
        // The frozen process is unharmed: another daemon finishes what the first one began.
        let file = FamFile::open(&path, Some(owner))?;
        let pages = Box::new(Remote::of(source.pid())?);
        Source::start(file, pages, Arc::new(Throttle::new(Medium::DRAM)), Store::NonTemporal).wait()?;
        if !after(&path, owner)?.0 {
            return Err(Error::Protocol("a second daemon left the file incomplete".into()));
        }
    }
    let _ = std::fs::remove_file(&path);
    Ok(Trial { victim, after_us, target_went_on: went_on, complete: whole.0, vectors: whole.1 })
}

/// A process that dumps another one.
fn fork_daemon(file: FamFile, pid: u32, ours: &UnixStream, theirs: &UnixStream) -> Result<i32, Error> {
    let stream = theirs.try_clone().map_err(Error::os("connection"))?;
    let target_end = std::os::fd::AsRawFd::as_raw_fd(ours);
    // SAFETY: the child runs this function's end alone and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child != 0 {
        return if child < 0 { Err(Error::last("fork")) } else { Ok(child) };
    }
    // SAFETY: dies with its parent; closes its copy of the other end.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::close(target_end);
    }
    let dumped = Remote::of(pid).and_then(|pages| {
        let source = Source::start(file, Box::new(pages), Arc::new(Throttle::new(SLOW)), Store::Direct);
        source.serve(stream)?;
        source.wait()
    });
    // SAFETY: as above.
    unsafe { libc::_exit(i32::from(dumped.is_err())) }
}

fn kill(pid: i32) {
    // SAFETY: a child of ours that is reaped later.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

fn reap(pid: i32) {
    // SAFETY: a child of ours.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// Whether the target has all; an error if it has something wrong, or failed in an unexpected way.
fn went_on(served: &Result<Served, Error>, target: &App) -> Result<bool, Error> {
    if target.wrong() > 0 {
        return Err(Error::Protocol(format!("{} values differ at the target", target.wrong())));
    }
    match served {
        Ok(_) => Ok(true),
        Err(Error::SourceLost { .. } | Error::TargetLost) => Ok(false),
        Err(other) => Err(Error::Protocol(other.to_string())),
    }
}

/// Whether FAM restores the process, and how many vectors it has.
fn after(path: &Path, owner: Owner) -> Result<(bool, usize), Error> {
    let file = match FamFile::open_complete(path, Some(owner)) {
        Ok(file) => file,
        Err(Error::HalfWritten { done, .. }) => {
            // What is there is whole all the same.
            FamFile::open(path, Some(owner))?.verify()?;
            return Ok((false, done));
        }
        Err(other) => return Err(other),
    };
    file.verify()?;
    let vectors = file.layout().vectors().len();
    // A sweep touches each page once, and compares.
    let load = Load { access: Access::Sweep, operations: LOAD.bytes / 4096, ..LOAD };
    let target = App::spawn(load, Memory::Missing)?;
    let uffd = target.uffd()?;
    target.run();
    let mut transport =
        Fam::complete(file, Arc::new(Throttle::new(Medium::DRAM)), Install::Copy { grain: 64 << 10 });
    let options = Options { process: Some(target.pid()), ..Options::default() };
    serve(uffd, &App::regions(load), &mut transport, options)?;
    while target.rested_ns() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    if target.wrong() > 0 {
        return Err(Error::Damaged { path: path.to_owned(), what: format!("{} values", target.wrong()) });
    }
    Ok((true, vectors))
}
