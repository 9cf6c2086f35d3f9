//! The open files of a tree of processes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use super::locks::{Lock, locks};
use super::obstacle::Report;
use super::sockets;
use crate::copies::Copies;
use crate::error::{Error, Result};
use crate::image::{Description, Fd, FileKind, RangeLock, Shared, Watch};
use crate::proc::read_text;

/// What to do with what cannot move as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Connections to the outside go on as ones that their peer has closed.
    pub close_connections: bool,
    /// Memory that is watched by a userfaultfd is watched by us.
    pub own_watch: bool,
    /// It stands where it is until it runs elsewhere: what one process alone can have does not move.
    pub moves: bool,
}

/// The open files of a tree.
#[derive(Debug, Default)]
pub struct Files {
    /// The open file descriptions.
    pub descriptions: Vec<Description>,
    /// For each, a process and a file descriptor of it.
    pub holders: Vec<(i32, i32)>,
    /// The file descriptors, per process.
    pub fds: Vec<Vec<Fd>>,
    /// The locks of ranges of files, per process.
    pub locks: Vec<Vec<RangeLock>>,
    /// Memory that `FileKind::Memory` counts, with a path to open it.
    pub shared: Vec<(Shared, String)>,
}

/// One file descriptor as `/proc` shows it.
struct Seen {
    pid: i32,
    fd: i32,
    link: String,
    info: String,
    inode: u64,
}

impl Seen {
    fn read(pid: i32, fd: i32) -> Option<Self> {
        let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?.to_string_lossy().into_owned();
        let info = read_text(pid, &format!("fdinfo/{fd}")).ok()?;
        let inode = fs::metadata(format!("/proc/{pid}/fd/{fd}")).map_or(0, |found| found.ino());
        Some(Self { pid, fd, link, info, inode })
    }

    /// What stands behind `name:`.
    fn get(&self, name: &str) -> &str {
        let line = self.info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim()
    }

    fn flags(&self) -> i32 {
        i32::from_str_radix(self.get("flags"), 8).unwrap_or(0)
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.fd)
    }
}

/// Looks at all open files of the processes; what cannot move goes into `report`.
///
/// # Errors
/// If a process is gone.
pub fn look_at_files(pids: &[i32], options: &Options, report: &mut Report) -> Result<Files> {
    let mut look =
        Look { pids, options, report, files: Files::default(), outside: None, known: HashMap::new() };
    for pid in pids {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|_| Error::NoProcess(*pid))?;
        let numbers = entries.flatten().filter_map(|one| one.file_name().to_str()?.parse().ok());
        let mut fds = Vec::new();
        let mut held = HashMap::new();
        for fd in numbers.collect::<BTreeSet<i32>>() {
            let Some(seen) = Seen::read(*pid, fd) else { continue };
            if let Some(description) = look.description(&seen) {
                let close_on_exec = seen.flags() & libc::O_CLOEXEC != 0;
                fds.push(Fd { fd, description, close_on_exec });
            }
            look.ranges(&seen, &mut held);
        }
        look.files.fds.push(fds);
        let mut held: Vec<RangeLock> = held.into_values().collect();
        held.sort_by_key(|lock| (lock.fd, lock.start));
        look.files.locks.push(held);
    }
    let files = look.files;
    check_pairs(&files, report);
    Ok(files)
}

struct Look<'a> {
    pids: &'a [i32],
    options: &'a Options,
    report: &'a mut Report,
    files: Files,
    /// Inodes of pipes and sockets that others have open; looked up when first asked for.
    outside: Option<HashSet<u64>>,
    /// Descriptions that a file descriptor might share, by what they look like.
    known: HashMap<(String, u64, String), Vec<usize>>,
}

impl Look<'_> {
    /// The index of the description of a file descriptor; none if it cannot move.
    fn description(&mut self, seen: &Seen) -> Option<usize> {
        let key = (seen.link.clone(), seen.inode, seen.get("pos").to_owned());
        for index in self.known.get(&key).into_iter().flatten() {
            let (pid, fd) = self.files.holders[*index];
            if same_description((seen.pid, seen.fd), (pid, fd)) {
                return Some(*index);
            }
        }
        let kind = self.kind(seen)?;
        let position = seen.get("pos").parse().unwrap_or(0);
        let flags = seen.flags() & !libc::O_CLOEXEC;
        self.files.descriptions.push(Description { kind, flags, position, owner: 0 });
        self.files.holders.push((seen.pid, seen.fd));
        let index = self.files.descriptions.len() - 1;
        self.known.entry(key).or_default().push(index);
        Some(index)
    }

    fn hinder(&mut self, seen: &Seen, what: impl Into<String>, remedy: &'static str) -> Option<FileKind> {
        self.report.add(seen.pid, Some(seen.fd), what, remedy);
        None
    }

    /// Standard streams that lead outside are taken over by the restoring command.
    fn outside(&mut self, seen: &Seen, what: &str) -> Option<FileKind> {
        if seen.fd <= 2 {
            let number = seen.fd;
            self.report
                .note(format!("file descriptor {number} ({what}) becomes that of the restoring command"));
            return Some(FileKind::Inherited { fd: number, was: what.to_owned() });
        }
        self.hinder(
            seen,
            format!("{what} that leads outside"),
            "close it, or save the process at its other end too",
        )
    }

    fn kind(&mut self, seen: &Seen) -> Option<FileKind> {
        let link = seen.link.as_str();
        if link.starts_with("pipe:") {
            return self.pipe(seen);
        }
        if link.starts_with("socket:") {
            return self.socket(seen);
        }
        match link {
            "anon_inode:[eventfd]" => {
                let count = u64::from_str_radix(seen.get("eventfd-count"), 16).unwrap_or(0);
                return Some(FileKind::Event { count, semaphore: seen.get("eventfd-semaphore") == "1" });
            }
            "anon_inode:[timerfd]" => return Some(timer(seen)),
            "anon_inode:[signalfd]" => {
                return Some(FileKind::Signals(u64::from_str_radix(seen.get("sigmask"), 16).unwrap_or(0)));
            }
            "anon_inode:[eventpoll]" => return Some(FileKind::Epoll(watches(seen))),
            _ => {}
        }
        if let Some(name) = link.strip_prefix("anon_inode:") {
            let remedy = if name.contains("io_uring") {
                "switch it to epoll, if the program can (io_uring's rings live in the kernel)"
            } else {
                "close it"
            };
            return self.hinder(seen, format!("an object of the kernel, {name}"), remedy);
        }
        if link.starts_with('/') { self.path(seen) } else { self.hinder(seen, link.to_owned(), "close it") }
    }

    fn path(&mut self, seen: &Seen) -> Option<FileKind> {
        let Ok(found) = fs::metadata(seen.path()) else {
            return self.hinder(seen, format!("{} cannot be looked at", seen.link), "close it");
        };
        if seen.link.starts_with("/memfd:") {
            if locks(seen.fd, &seen.info).any(|lock| matches!(lock, Lock::Whole(_))) {
                return self.hinder(seen, "a lock of a memfd", "wait until the program has released it");
            }
            return Some(self.memory(seen, &found));
        }
        let kind = found.file_type();
        if kind.is_char_device() {
            let harmless = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
            if !harmless.contains(&seen.link.as_str()) {
                let terminal = seen.link.starts_with("/dev/pts/") || seen.link.contains("tty");
                let terminal = terminal || seen.link == "/dev/console";
                if terminal {
                    return self.outside(seen, &format!("the terminal {}", seen.link));
                }
                return self.hinder(seen, format!("the device {}", seen.link), "close it");
            }
        } else if kind.is_fifo() || kind.is_block_device() || kind.is_socket() {
            return self.hinder(seen, format!("the named pipe or device {}", seen.link), "close it");
        }
        let same =
            fs::metadata(&seen.link).is_ok_and(|now| now.ino() == found.ino() && now.dev() == found.dev());
        if !same {
            let what = match seen.link.strip_suffix(" (deleted)") {
                Some(name) => format!("the deleted file {name}"),
                None => format!("{} is another file by now", seen.link),
            };
            return self.hinder(
                seen,
                what,
                "have the program close it or open it again under a name that stays",
            );
        }
        let mut flock = None;
        for lock in locks(seen.fd, &seen.info) {
            match lock {
                Lock::Whole(operation) => flock = Some(operation),
                Lock::Range(_) => {}
                Lock::Other => {
                    let what = format!("a lease of {}", seen.link);
                    return self.hinder(seen, what, "wait until the program has released it");
                }
            }
        }
        Some(FileKind::Path { path: seen.link.clone(), len: kind.is_file().then_some(found.len()), flock })
    }

    /// The locks of ranges that a file descriptor shows: those of its process each of its descriptors does, of
    /// which one is enough.
    fn ranges(&mut self, seen: &Seen, held: &mut HashMap<(u64, RangeLock), RangeLock>) {
        for lock in locks(seen.fd, &seen.info) {
            let Lock::Range(lock) = lock else { continue };
            let which = if lock.of_open_file { lock.fd } else { -1 };
            let fresh = held.insert((seen.inode, RangeLock { fd: which, ..lock }), lock).is_none();
            if fresh && self.options.moves && !lock.of_open_file {
                let remedy = "wait until the program has released it, or use `strandline checkpoint`";
                self.hinder(seen, format!("a lock of a range of {}", seen.link), remedy);
            }
        }
    }

    fn memory(&mut self, seen: &Seen, found: &fs::Metadata) -> FileKind {
        let id = (found.dev(), found.ino());
        if let Some(index) = self.files.shared.iter().position(|(one, _)| one.id == id) {
            return FileKind::Memory(index);
        }
        let name = seen.link.trim_start_matches("/memfd:").trim_end_matches(" (deleted)").to_owned();
        let shared = Shared { id, name, len: found.len(), seals: 0, sysv: None, pages: Vec::new() };
        self.files.shared.push((shared, seen.path()));
        FileKind::Memory(self.files.shared.len() - 1)
    }

    fn pipe(&mut self, seen: &Seen) -> Option<FileKind> {
        if self.held_outside(seen.inode) {
            return self.outside(seen, &seen.link.clone());
        }
        // The restored one is filled by whoever takes the checkpoint.
        Some(FileKind::Pipe { inode: seen.inode, capacity: 0, content: Vec::new() })
    }

    fn socket(&mut self, seen: &Seen) -> Option<FileKind> {
        // Before there is a copy of ours, which would count as one of somebody outside.
        let held = self.held_outside(seen.inode);
        let copy: OwnedFd = match Copies::new(seen.pid).and_then(|copies| copies.get(seen.fd)) {
            Ok(copy) => copy,
            Err(error) => return self.hinder(seen, format!("a socket ({error})"), "close it"),
        };
        match sockets::look(&copy, seen.inode) {
            sockets::Found::Moves(kind) => Some(kind),
            sockets::Found::Local { kind, peer, shutdown, options } => {
                let closed = peer == 0 && sockets::hung_up(&copy);
                if !closed && (peer == 0 || held || self.held_outside(peer)) {
                    return self.outside(seen, "a local socket");
                }
                if sockets::passes_descriptors(&copy) {
                    let what = "a local socket in which file descriptors are on their way";
                    return self.hinder(seen, what, "try again when its reader has received them");
                }
                let (inode, content) = (seen.inode, Vec::new());
                Some(FileKind::SocketPair { inode, peer, kind, content, shutdown, options })
            }
            sockets::Found::Connected { closed, what } => {
                if self.options.close_connections {
                    self.report.note(format!("{what} is closed"));
                    return Some(closed);
                }
                if seen.fd <= 2 {
                    return self.outside(seen, &what);
                }
                let remedy =
                    "close it, or save with --close-connections, if the program and its peer connect again";
                self.hinder(seen, what, remedy)
            }
            sockets::Found::Other(what) => self.hinder(seen, what, "close it"),
        }
    }

    /// Whether a process that is not of the tree has this pipe or socket open.
    fn held_outside(&mut self, inode: u64) -> bool {
        let pids = self.pids;
        self.outside.get_or_insert_with(|| inodes_outside(pids)).contains(&inode)
    }
}

/// Inodes of pipes and sockets that processes outside the tree have open.
fn inodes_outside(pids: &[i32]) -> HashSet<u64> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let others = numbers.filter_map(|one| one.file_name().to_str()?.parse::<i32>().ok());
    let mut found = HashSet::new();
    for pid in others.filter(|pid| !pids.contains(pid)) {
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            let link = link.to_string_lossy();
            let inode = link.strip_prefix("pipe:[").or_else(|| link.strip_prefix("socket:["));
            found.extend(inode.and_then(|inode| inode.strip_suffix(']')?.parse::<u64>().ok()));
        }
    }
    found
}

/// Whether two file descriptors share their description.
fn same_description(one: (i32, i32), other: (i32, i32)) -> bool {
    const KCMP_FILE: i32 = 0;
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_FILE, one.1, other.1) == 0 }
}

fn timer(seen: &Seen) -> FileKind {
    let pair = |name| {
        let text = seen.get(name).trim_matches(['(', ')']).to_owned();
        let mut words = text.split(", ").map(|word| word.parse().unwrap_or(0));
        [words.next().unwrap_or(0), words.next().unwrap_or(0)]
    };
    FileKind::Timer {
        clock: seen.get("clockid").parse().unwrap_or(0),
        ticks: seen.get("ticks").parse().unwrap_or(0),
        set_flags: i32::from_str_radix(seen.get("settime flags"), 8).unwrap_or(0),
        value: pair("it_value"),
        interval: pair("it_interval"),
    }
}

/// `tfd: 5 events: 19 data: 5 …`
fn watches(seen: &Seen) -> Vec<Watch> {
    let mut found = Vec::new();
    for line in seen.info.lines().filter(|line| line.starts_with("tfd:")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1).copied()
        };
        if let (Some(Ok(fd)), Some(Ok(events)), Some(Ok(data))) = (
            word("tfd:").map(str::parse),
            word("events:").map(|text| u32::from_str_radix(text, 16)),
            word("data:").map(|text| u64::from_str_radix(text, 16)),
        ) {
            found.push(Watch { fd, events, data });
        }
    }
    found
}

/// Both ends of a pair of sockets must be there.
fn check_pairs(files: &Files, report: &mut Report) {
    let mut ends = BTreeMap::new();
    for (one, holder) in files.descriptions.iter().zip(&files.holders) {
        if let FileKind::SocketPair { inode, peer, .. } = one.kind {
            ends.insert(inode, (peer, *holder));
        }
    }
    for (peer, (pid, fd)) in ends.values() {
        // 0: closed, and restored as such.
        if *peer != 0 && !ends.contains_key(peer) {
            report.add(*pid, Some(*fd), "a local socket whose other end nobody has open", "close it");
        }
    }
}
