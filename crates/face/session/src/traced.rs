//! Programs that were not built with `strandline cc`, whose files are followed by their system calls.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture::{Interrupts, Missed, Outcome, ThreadOutcome, Warning};
use event::{Sink, Site};
use rustix::process::{Pid, Signal, kill_process};
use tracer::Acks;

use crate::error::Error;
use crate::files;
use crate::input::Program;
use crate::samples;

/// Bytes of a script in which programs are looked for.
const SCRIPT: u64 = 64 << 10;

/// Whether a program is followed by its system calls: it is to be followed for files only, and neither it nor
/// a program that its command line or script names was built with `strandline cc`.
pub fn applies(program: &Program) -> bool {
    let files = !program.files.is_empty() || (program.values && !program.also_files.is_empty());
    let memory = program.keep.is_some() || !program.pmem.is_empty();
    files && !memory && !program.command.iter().any(names_observed)
}

fn names_observed(word: &OsString) -> bool {
    let whole = Path::new(word);
    if let Some(path) = samples::find(whole).filter(|path| path.is_file()) {
        return observed(&path) || script(&path).split(separates).any(is_observed);
    }
    word.to_string_lossy().split(separates).any(is_observed)
}

fn separates(letter: char) -> bool {
    letter.is_whitespace() || ";&|()<>\"'`=".contains(letter)
}

fn is_observed(word: &str) -> bool {
    word.contains('/') && observed(&PathBuf::from(word))
}

fn observed(path: &Path) -> bool {
    path.is_file() && capture::instrumented(path).unwrap_or(false)
}

/// The text of a script; nothing of a program.
fn script(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SCRIPT).read_to_end(&mut bytes));
    match read {
        Ok(_) if !bytes.starts_with(b"\x7fELF") => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    }
}

/// Runs the program under the tracer.
pub fn record(program: &Program, sink: &mut dyn Sink) -> Result<Outcome, Error> {
    let options = program.options()?;
    let began = Instant::now();
    let started = Arc::new(AtomicI32::new(0));
    let _signals = Signals::pass_on(Arc::clone(&started));
    let traced = tracer::Options {
        command: options.command,
        files: options.files,
        stdout_to_stderr: options.stdout_to_stderr,
        acks: program.acks.as_deref().map(acks).transpose()?,
        fail_sync: program.fail_sync,
        started,
    };
    let outcome = tracer::record(&traced, sink)?;
    let thread = |&(thread, pid): &(event::ThreadId, u32)| ThreadOutcome { thread, pid, events: 0 };
    let mut processes: Vec<u32> = outcome.threads.iter().map(|thread| thread.1).collect();
    processes.sort_unstable();
    processes.dedup();
    let missed = outcome.missed.into_iter().map(|((call, file), frames)| {
        let site = (!frames.is_empty()).then(|| Site { frames, ..Site::default() });
        Missed { call, file, site }
    });
    let mut notes: Vec<String> = outcome.notes.into_iter().collect();
    notes.extend(places(&traced.files));
    if let Some(number) = program.fail_sync.filter(|&number| number > outcome.syncs) {
        let asked = report::human::plural(outcome.syncs as usize, "sync");
        notes.push(format!(
            "--fail-sync {number}: the program asked for {asked} of the files only, so none failed"
        ));
    }
    let fell_back = outcome.refused.iter().map(|&call| Warning::FellBack { call });
    let noted = notes.into_iter().map(Warning::Noted);
    let warnings = fell_back.chain(noted).chain(missed.map(Warning::NotRecorded)).collect();
    Ok(Outcome {
        status: outcome.status,
        interrupted: None,
        attached: true,
        events: outcome.events,
        counted: None,
        threads: outcome.threads.iter().map(thread).collect(),
        processes,
        killed: outcome.killed,
        elapsed: began.elapsed(),
        stacks: Vec::new(),
        frames: Vec::new(),
        files: Vec::new(),
        warnings,
    })
}

/// Where acknowledgements go: the number of a descriptor, a path, or the port of a connection (`:6379`,
/// `localhost:6379`).
fn acks(words: &str) -> Result<Acks, Error> {
    let wrong = || Error::Acks { words: words.to_owned() };
    if let Ok(number) = words.parse() {
        return Ok(Acks::Descriptor(number));
    }
    if let Some((host, port)) = words.rsplit_once(':')
        && !host.contains('/')
    {
        return port.parse().map(Acks::Port).map_err(|_| wrong());
    }
    match &files::absolute(&[words.to_owned()])?[..] {
        [path] => Ok(Acks::Path(path.clone())),
        _ => Err(wrong()),
    }
}

/// What to know of the places of files: file systems that are stacked or far away.
fn places(paths: &[String]) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut notes = Vec::new();
    for path in paths {
        let Ok(about) = rustix::fs::statfs(path.as_str()) else { continue };
        let mounted = || is_mount_point(path).then_some(MOUNT_POINT);
        if let Some(what) = of_kind(about.f_type as u64 & 0xffff_ffff).or_else(mounted) {
            notes.push(format!("{path} is {what}"));
        }
        let inside = mounted_below(&mounts, path);
        notes.extend(inside.map(|inside| format!("{inside} is {MOUNT_POINT}")));
    }
    notes
}

const MOUNT_POINT: &str =
    "a mount point: a rename across it is a copy, and a sync of the folder above says nothing of it";

/// What to know of a file system with this magic number.
fn of_kind(magic: u64) -> Option<&'static str> {
    const OVERLAY: u64 = 0x794c_7630;
    const NFS: u64 = 0x6969;
    const SMB: [u64; 3] = [0x517b, 0xff53_4d42, 0xfe53_4d42];
    const FUSE: u64 = 0x6573_5546;
    match magic {
        NFS => Some("on NFS: what the server keeps in a crash is not modelled, only the client's calls"),
        FUSE => Some("on a FUSE file system: what it keeps in a crash is its own affair and not modelled"),
        magic if SMB.contains(&magic) => {
            Some("on a file server: what it keeps in a crash is not modelled, only the client's calls")
        }
        OVERLAY => Some(
            "on an overlay: the images are those of the upper layer's file system, without what copying up does",
        ),
        _ => None,
    }
}

/// Where something is mounted below a path, by `/proc/self/mounts`.
fn mounted_below<'m>(mounts: &'m str, path: &'m str) -> impl Iterator<Item = &'m str> {
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    places.filter(move |place| {
        place.strip_prefix(path).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
    })
}

fn is_mount_point(path: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| std::fs::symlink_metadata(path).map(|about| about.dev()).ok();
    let (own, above) = (device(Path::new(path)), Path::new(path).parent().and_then(device));
    own.is_some() && above.is_some() && own != above && Path::new(path).is_dir()
}

/// Passes signals on to the program, until it is dropped: a terminal sends them to both, others to us alone. The second
/// one kills.
struct Signals {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    fn pass_on(started: Arc<AtomicI32>) -> Signals {
        let over = Arc::new(AtomicBool::new(false));
        let Ok(mut interrupts) = Interrupts::note() else { return Signals { over, thread: None } };
        let end = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut again = false;
            while !end.load(Ordering::Acquire) {
                std::thread::park_timeout(Duration::from_millis(50));
                let Some(interrupt) = interrupts.take() else { continue };
                let signal = match again {
                    true => Some(Signal::KILL),
                    false if interrupt.from_terminal => None,
                    false => Signal::from_named_raw(interrupt.signal),
                };
                again = true;
                if let (Some(signal), Some(pid)) = (signal, Pid::from_raw(started.load(Ordering::Acquire))) {
                    kill_process(pid, signal).ok();
                }
            }
        });
        Signals { over, thread: Some(thread) }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_are_stacked_or_far_away_are_known_by_their_numbers() {
        for (magic, words) in [
            (0x6969, "on NFS"),
            (0x6573_5546, "on a FUSE file system"),
            (0x517b, "on a file server"),
            (0xff53_4d42, "on a file server"),
            (0xfe53_4d42, "on a file server"),
            (0x794c_7630, "on an overlay"),
        ] {
            assert!(of_kind(magic).is_some_and(|what| what.starts_with(words)), "{magic:x}");
        }
        // ext4, XFS, Btrfs, tmpfs.
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994] {
            assert_eq!(of_kind(magic), None, "{magic:x}");
        }
    }

    #[test]
    fn mounts_below_a_folder_are_found() {
        let mounts = "tmpfs /d tmpfs rw 0 0\ntmpfs /d/in tmpfs rw 0 0\nnone /data nfs rw 0 0\n";
        assert_eq!(mounted_below(mounts, "/d").collect::<Vec<_>>(), ["/d/in"]);
        assert_eq!(mounted_below(mounts, "/data").count(), 0);
    }
}
