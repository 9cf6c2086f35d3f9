//! An image of CRIU's as a checkpoint of ours.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use migrate::image::{
    Action, Description, Fd, FileKind, Image, Limit, Mm, PosixTimer, Process, Run, Shared, Vma, VmaKind,
    Watch, hash,
};
use migrate::proc::mappings;
use migrate::{Error, Result};

use crate::names;
use crate::state;
use crate::wire::{Fields, Frames, damaged, parse};

const PAGE: u64 = 4096;
/// Bytes that get a hash of their own.
const PIECE: u64 = 2 << 20;
/// So many messages of one file, so that a damaged one does not fill memory.
const MOST: usize = 1 << 20;
/// Past this nothing of a process lies.
const ADDRESS_END: u64 = 1 << 47;

/// Whether the folder holds an image of CRIU's.
#[must_use]
pub fn is_image(folder: &Path) -> bool {
    folder.join("inventory.img").is_file()
}

/// Reads the image in `folder`. Pages stay in its files; CRIU's format has no checksums, so theirs are made now.
///
/// # Errors
/// If the image is damaged, or has what we cannot restore: each is named.
pub fn read(folder: &Path) -> Result<Image> {
    let path = folder.join("inventory.img");
    let version = one(&path, names::INVENTORY, |fields| fields.num(1))?;
    if !(1..=2).contains(&version) {
        return Err(damaged(&path, 4, format!("images of version {version}, and 1 and 2 are known")));
    }
    if deleted_files(folder)? {
        return Err(Error::Unfit("it has deleted files open, which only criu restores".to_owned()));
    }
    let mut reader = Reader::new(folder)?;
    let mut tree = Vec::new();
    each(&folder.join("pstree.img"), names::PSTREE, |fields| {
        let number = |field| fields.num(field) as i32;
        let threads = fields.nums(5).into_iter().map(|tid| tid as i32).collect::<Vec<_>>();
        tree.push((number(1), number(2), number(3), number(4), threads));
        Ok(())
    })?;
    let mut processes: Vec<Process> = Vec::new();
    for (pid, parent, group, session, threads) in tree {
        if threads.first() != Some(&pid) {
            return Err(damaged(&folder.join("pstree.img"), 0, format!("process {pid} has no first thread")));
        }
        let orphan = !processes.is_empty() && !processes.iter().any(|process| process.pid == parent);
        if orphan {
            let what = format!("process {pid} comes before its parent {parent}");
            return Err(damaged(&folder.join("pstree.img"), 0, what));
        }
        processes.push(reader.process(Place { pid, parent, group, session }, &threads)?);
    }
    if processes.is_empty() {
        return Err(damaged(&folder.join("pstree.img"), 8, "it names no process".to_owned()));
    }
    reader.fill_shared()?;
    let text = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    Ok(Image {
        kernel: text("/proc/sys/kernel/osrelease"),
        boot: text("/proc/sys/kernel/random/boot_id"),
        monotonic_ns: 0,
        vdso: reader.vdso.unwrap_or(reader.own_vdso),
        processes,
        descriptions: reader.descriptions,
        shared: reader.shared,
        page_files: reader.page_files,
        generation: 0,
        migration: None,
    })
}

/// Whether the image has files of its own in place of deleted ones.
fn deleted_files(folder: &Path) -> Result<bool> {
    let mut found = false;
    let path = folder.join("remap-fpath.img");
    if path.exists() {
        each(&path, names::REMAP, |_| {
            found = true;
            Ok(())
        })?;
    }
    Ok(found)
}

/// Goes through the messages of a file.
fn each(path: &Path, magic: u32, mut take: impl FnMut(&Fields<'_>) -> Result<()>) -> Result<()> {
    let mut frames = Frames::open(path, magic)?;
    for _ in 0..MOST {
        let at = frames.at();
        let Some(bytes) = frames.next()? else { return Ok(()) };
        take(&parse(path, at, bytes)?)?;
    }
    Err(damaged(path, frames.at(), "too many messages".to_owned()))
}

/// The only message of a file.
fn one<T>(path: &Path, magic: u32, take: impl Fn(&Fields<'_>) -> T) -> Result<T> {
    let mut found = None;
    each(path, magic, |fields| {
        found.get_or_insert_with(|| take(fields));
        Ok(())
    })?;
    found.ok_or_else(|| damaged(path, 0, "it holds no message".to_owned()))
}

/// A process's place in the tree.
struct Place {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
}

/// A regular file as `files.img` has it.
struct Regular {
    path: String,
    size: Option<u64>,
}

struct Reader {
    folder: PathBuf,
    regular: HashMap<u64, Regular>,
    /// Memfds: number of the file, of its inode.
    memfds: HashMap<u64, u64>,
    /// Index of a description by number of the file.
    numbers: HashMap<u64, usize>,
    descriptions: Vec<Description>,
    shared: Vec<Shared>,
    /// Index in `shared` by the number that the image uses.
    shared_numbers: HashMap<u64, usize>,
    page_files: Vec<String>,
    vdso: Option<u64>,
    own_vdso: u64,
    /// Lengths of the kernel's data mappings here.
    own_data: Vec<u64>,
    pipes: HashMap<u64, (i32, Vec<u8>)>,
}

impl Reader {
    fn new(folder: &Path) -> Result<Self> {
        let own = std::process::id().cast_signed();
        let all = mappings(own)?;
        let mut text = Vec::new();
        if let Some(vdso) = all.iter().find(|one| one.name == "[vdso]") {
            text = vec![0; (vdso.end - vdso.start) as usize];
            migrate::remote::read_exact(own, vdso.start, &mut text)?;
        }
        let data = all.iter().filter(|one| one.name.starts_with("[vvar"));
        let mut reader = Self {
            folder: folder.to_owned(),
            regular: HashMap::new(),
            memfds: HashMap::new(),
            numbers: HashMap::new(),
            descriptions: Vec::new(),
            shared: Vec::new(),
            shared_numbers: HashMap::new(),
            page_files: Vec::new(),
            vdso: None,
            own_vdso: hash(&text),
            own_data: data.map(|one| one.end - one.start).collect(),
            pipes: HashMap::new(),
        };
        reader.pipe_contents()?;
        reader.memories()?;
        reader.files()?;
        Ok(reader)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn pipe_contents(&mut self) -> Result<()> {
        let path = self.path("pipes-data.img");
        if !path.exists() {
            return Ok(());
        }
        let mut frames = Frames::open(&path, names::PIPES_DATA)?;
        for _ in 0..MOST {
            let at = frames.at();
            let Some(bytes) = frames.next()? else { break };
            let fields = parse(&path, at, bytes)?;
            let (number, len, size) = (fields.num(1), fields.num(2), fields.get(3).unwrap_or(65536));
            let content = frames.raw(len as usize)?.to_vec();
            self.pipes.insert(number, (size as i32, content));
        }
        Ok(())
    }

    fn memories(&mut self) -> Result<()> {
        let path = self.path("memfd.img");
        if !path.exists() {
            return Ok(());
        }
        each(&path, names::MEMFD, |fields| {
            let shared = Shared {
                id: (0, fields.num(5)),
                name: fields.text(1),
                len: fields.num(4),
                seals: fields.num(6) as i32,
                sysv: None,
                pages: Vec::new(),
            };
            self.memfds.insert(fields.num(7), self.shared.len() as u64);
            self.shared_numbers.insert(fields.num(5), self.shared.len());
            self.shared.push(shared);
            Ok(())
        })
    }

    fn files(&mut self) -> Result<()> {
        let path = self.path("files.img");
        let mut memfds = HashMap::new();
        let mut found: Vec<(u64, Option<Description>)> = Vec::new();
        each(&path, names::FILES, |fields| {
            let (kind, number) = (fields.num(1), fields.num(2));
            let Some((_, field, _)) = names::KINDS.iter().find(|(one, ..)| *one == kind) else {
                return Ok(());
            };
            let entry = fields.message(*field);
            if kind == names::REG {
                self.regular.insert(number, Regular { path: entry.text(6), size: entry.get(8) });
            }
            if kind == names::MEMORY {
                memfds.insert(number, self.memfds.get(&entry.num(5)).copied().unwrap_or(u64::MAX));
            }
            let flags = entry.num(if kind == names::PIPE { 3 } else { 2 }) as i32;
            let position = if matches!(kind, names::REG | names::MEMORY) { entry.num(3) } else { 0 };
            let kind = self.kind(kind, &entry);
            found.push((number, kind.map(|kind| Description { kind, flags, position, owner: 0 })));
            Ok(())
        })?;
        self.memfds = memfds;
        for (number, description) in found {
            if let Some(description) = description {
                self.numbers.insert(number, self.descriptions.len());
                self.descriptions.push(description);
            }
        }
        Ok(())
    }

    /// What a file is; none if we cannot make it again.
    fn kind(&self, kind: u64, entry: &Fields<'_>) -> Option<FileKind> {
        let signed = |field| entry.num(field) as i64;
        Some(match kind {
            names::REG => {
                let path = entry.text(6);
                // Relative to the root, as CRIU writes them.
                let path = if path.starts_with('/') { path } else { format!("/{path}") };
                FileKind::Path { path, len: entry.get(8), flock: None }
            }
            names::PIPE => {
                let number = entry.num(2);
                let (capacity, content) = self.pipes.get(&number).cloned().unwrap_or((65536, Vec::new()));
                let reads = entry.num(3) as i32 & libc::O_ACCMODE == libc::O_RDONLY;
                FileKind::Pipe { inode: number, capacity, content: if reads { content } else { Vec::new() } }
            }
            names::EVENTFD => FileKind::Event { count: entry.num(4), semaphore: false },
            names::TIMERFD => FileKind::Timer {
                clock: entry.num(4) as i32,
                ticks: entry.num(5),
                set_flags: entry.num(6) as i32,
                value: [signed(7), signed(8)],
                interval: [signed(9), signed(10)],
            },
            names::SIGNALFD => FileKind::Signals(entry.num(4)),
            names::EVENTPOLL => FileKind::Epoll(
                entry
                    .messages(4)
                    .map(|watch| Watch {
                        fd: watch.num(2) as i32,
                        events: watch.num(3) as u32,
                        data: watch.num(4),
                    })
                    .collect(),
            ),
            names::MEMORY => FileKind::Memory(usize::try_from(*self.memfds.get(&entry.num(5))?).ok()?),
            _ => return None,
        })
    }

    fn process(&mut self, place: Place, threads: &[i32]) -> Result<Process> {
        let Place { pid, parent, group, session } = place;
        let mut all = Vec::new();
        for tid in threads {
            let path = self.path(&format!("core-{tid}.img"));
            let (machine, thread) = one(&path, names::CORE, |core| (core.num(1), state::thread(*tid, core)))?;
            if machine != 1 {
                let what = format!("the state of another processor ({machine}) than x86-64");
                return Err(damaged(&path, 8, what));
            }
            all.push(thread);
        }
        let path = self.path(&format!("core-{pid}.img"));
        let mut bytes = Frames::open(&path, names::CORE)?;
        let at = bytes.at();
        let core = parse(&path, at, bytes.next()?.unwrap_or_default())?;
        let task = core.message(3);
        all[0].mask = task.num(5);
        all[0].name = task.text(6);
        let files_number = one(&self.path(&format!("ids-{pid}.img")), names::IDS, |ids| ids.num(2))?;
        let (cwd, root, umask) = one(&self.path(&format!("fs-{pid}.img")), names::FS, |fs| {
            (fs.num(1), fs.num(2), fs.num(3) as u32)
        })?;
        let fds = self.table(pid, files_number)?;
        let path = self.path(&format!("mm-{pid}.img"));
        let mut frames = Frames::open(&path, names::MM)?;
        let at = frames.at();
        let memory = parse(&path, at, frames.next()?.unwrap_or_default())?;
        let mut vmas = Vec::new();
        for entry in memory.messages(14) {
            self.mapping(pid, &entry, &mut vmas)?;
        }
        vmas.sort_by_key(|vma| vma.start);
        if vmas.windows(2).any(|pair| pair[0].end > pair[1].start) {
            return Err(damaged(&path, at, "mappings overlap".to_owned()));
        }
        let mut pages = self.pages(&format!("pagemap-{pid}.img"))?;
        self.take_vdso(&vmas, &mut pages)?;
        self.keep_mapped(pid, &vmas, &mut pages)?;
        let bounds = [1, 2, 3, 4, 6, 7, 5, 8, 9, 10, 11].map(|field| memory.num(field));
        let exe = self.regular_path(memory.num(12), "its program")?;
        Ok(Process {
            pid,
            started: 0,
            parent,
            group,
            session,
            stopped: task.num(1) == names::STOPPED,
            exe,
            cwd: self.regular_path(cwd, "its current directory")?,
            root: self.regular_path(root, "its root directory")?,
            umask,
            personality: task.num(3),
            dumpable: memory.get(15).unwrap_or(1),
            subreaper: task.num(18) != 0,
            oom_score_adj: task.num(14) as i32,
            limits: limits(&task),
            mm: Mm { bounds, auxv: memory.nums(13) },
            vmas,
            pages,
            lazy: None,
            fds,
            locks: Vec::new(),
            actions: actions(&task),
            pending: state::signals_of(&task.message(10)),
            itimers: itimers(&task),
            timers: timers(&task),
            threads: all,
        })
    }

    /// Drops pages that every kernel brings itself; pages where nothing is mapped are an error.
    fn keep_mapped(&self, pid: i32, vmas: &[Vma], pages: &mut Vec<Run>) -> Result<()> {
        let special = |run: &Run| {
            vmas.iter().any(|vma| {
                matches!(vma.kind, VmaKind::Vdso | VmaKind::Vvar)
                    && (vma.start..vma.end).contains(&run.address)
            })
        };
        pages.retain(|run| !special(run));
        let outside = |run: &Run| {
            let after = vmas.partition_point(|vma| vma.start <= run.address);
            after.checked_sub(1).is_none_or(|index| vmas[index].end < run.address + PAGE)
        };
        match pages.iter().find(|run| outside(run)) {
            None => Ok(()),
            Some(run) => {
                let what = format!("pages at {:#x}, where nothing is mapped", run.address);
                Err(damaged(&self.path(&format!("pagemap-{pid}.img")), 8, what))
            }
        }
    }

    fn regular_path(&self, number: u64, what: &str) -> Result<String> {
        let found = self.regular.get(&number).map(|one| one.path.as_str());
        match found {
            Some(path) if path.starts_with('/') => Ok(path.to_owned()),
            Some(path) => Ok(format!("/{path}")),
            None => Err(damaged(&self.path("files.img"), 8, format!("no file {number} ({what})"))),
        }
    }

    /// The file descriptors of a process.
    fn table(&self, pid: i32, number: u64) -> Result<Vec<Fd>> {
        let mut fds = Vec::new();
        let mut hindered = Vec::new();
        each(&self.path(&format!("fdinfo-{number}.img")), names::FDINFO, |entry| {
            let (file, fd) = (entry.num(1), entry.num(4) as i32);
            let close_on_exec = entry.num(2) & 1 != 0;
            if let Some(description) = self.numbers.get(&file) {
                fds.push(Fd { fd, description: *description, close_on_exec });
            } else {
                let kind = names::KINDS.iter().find(|(kind, ..)| *kind == entry.num(3));
                let kind = kind.map_or("unknown kind of file", |(.., name)| *name);
                hindered.push(format!("process {pid}, file descriptor {fd}: {kind}"));
            }
            Ok(())
        })?;
        if hindered.is_empty() {
            return Ok(fds);
        }
        Err(Error::Unfit(format!(
            "let criu restore it; here is what we do not:\n  {}",
            hindered.join("\n  ")
        )))
    }

    fn mapping(&mut self, pid: i32, entry: &Fields<'_>, vmas: &mut Vec<Vma>) -> Result<()> {
        let (start, end, offset, number) = (entry.num(1), entry.num(2), entry.num(3), entry.num(4));
        let (flags, status) = (entry.num(6) as i32, entry.num(7));
        if status & names::VSYSCALL != 0 {
            return Ok(());
        }
        let path = self.path(&format!("mm-{pid}.img"));
        let whole = |value: u64| value.is_multiple_of(PAGE) && value <= ADDRESS_END;
        if start >= end || !whole(start) || !whole(end) || !offset.is_multiple_of(PAGE) {
            return Err(damaged(&path, 8, format!("a mapping from {start:#x} to {end:#x}")));
        }
        let refused = |what: &str| {
            Err(Error::Unfit(format!("process {pid} maps {what} at {start:#x}, which only criu restores")))
        };
        let kind = if status & names::VDSO != 0 {
            VmaKind::Vdso
        } else if status & names::VVAR != 0 {
            VmaKind::Vvar
        } else if status & (names::SYSV | names::SOCKET | names::AIO) != 0 {
            return refused("System V memory, a packet socket or an AIO ring");
        } else if status & names::MAPS_MEMFD != 0 {
            match self.memfds.get(&number).and_then(|index| usize::try_from(*index).ok()) {
                Some(index) if index < self.shared.len() => VmaKind::Shared { index, offset },
                _ => {
                    return Err(damaged(
                        &path,
                        8,
                        format!("a mapping of memfd {number}, which is not there"),
                    ));
                }
            }
        } else if status & names::ANON_SHARED != 0 {
            let index = self.shared_by(number);
            let one = &mut self.shared[index];
            one.len = one.len.max(offset.saturating_add(end - start)).min(ADDRESS_END);
            VmaKind::Shared { index, offset }
        } else if status & (names::FILE_PRIVATE | names::FILE_SHARED) != 0 {
            self.file_mapping(number, offset, entry.num(10) as i32)?
        } else {
            VmaKind::Anonymous
        };
        let set = entry.num(9);
        let vma = Vma {
            start,
            end,
            protection: entry.num(5) as i32,
            shared: flags & libc::MAP_SHARED != 0,
            grows_down: flags & libc::MAP_GROWSDOWN != 0,
            no_reserve: flags & libc::MAP_NORESERVE != 0,
            locked: flags & libc::MAP_LOCKED != 0,
            advice: (0..63).filter(|advice| set >> advice & 1 == 1).collect(),
            kind,
        };
        if vma.kind != VmaKind::Vvar {
            vmas.push(vma);
            return Ok(());
        }
        // The kernel here may have that range in several.
        if self.own_data.iter().sum::<u64>() == end - start {
            let mut at = start;
            for len in &self.own_data {
                vmas.push(Vma { start: at, end: at + len, ..vma.clone() });
                at += len;
            }
        } else {
            vmas.push(vma);
        }
        Ok(())
    }

    fn file_mapping(&self, number: u64, offset: u64, mode: i32) -> Result<VmaKind> {
        let path = self.regular_path(number, "which it maps")?;
        let found = fs::metadata(&path).map_err(|source| Error::File {
            path: PathBuf::from(&path),
            what: "which it maps",
            source,
        })?;
        if self.regular.get(&number).and_then(|one| one.size).is_some_and(|size| size != found.len()) {
            return Err(Error::Unfit(format!("{path}, which it maps, has changed since")));
        }
        Ok(VmaKind::File {
            path,
            offset,
            len: found.len(),
            modified_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
            writable: mode & libc::O_ACCMODE == libc::O_RDWR,
        })
    }

    fn shared_by(&mut self, number: u64) -> usize {
        if let Some(index) = self.shared_numbers.get(&number) {
            return *index;
        }
        self.shared.push(Shared {
            id: (0, number),
            name: "/dev/zero".to_owned(),
            len: 0,
            seals: 0,
            sysv: None,
            pages: Vec::new(),
        });
        self.shared_numbers.insert(number, self.shared.len() - 1);
        self.shared.len() - 1
    }

    fn fill_shared(&mut self) -> Result<()> {
        for index in 0..self.shared.len() {
            let number = self.shared[index].id.1;
            let name = format!("pagemap-shmem-{number}.img");
            if self.path(&name).exists() {
                self.shared[index].pages = self.pages(&name)?;
            }
        }
        Ok(())
    }

    /// The pages that a list names, each piece with its hash.
    fn pages(&mut self, name: &str) -> Result<Vec<Run>> {
        let list = self.path(name);
        let mut head = None;
        let mut ranges = Vec::new();
        each(&list, names::PAGEMAP, |entry| {
            if head.is_none() {
                head = Some(entry.num(1));
                return Ok(());
            }
            let count = entry.get(5).filter(|count| *count > 0).unwrap_or_else(|| entry.num(2));
            // Without flags, pages are there: so wrote the first versions.
            let flags = entry.get(4).unwrap_or(names::PRESENT);
            if flags & names::IN_PARENT != 0 || entry.num(3) != 0 {
                let what = "it leaves pages to the image before it (pre-dump): let criu merge them";
                return Err(Error::Unfit(what.to_owned()));
            }
            if flags & names::LAZY != 0 && flags & names::PRESENT == 0 {
                return Err(Error::Unfit("its pages are at a page server (--lazy-pages)".to_owned()));
            }
            ranges.push((entry.num(1), count));
            Ok(())
        })?;
        let Some(number) = head else {
            return Err(damaged(&list, 8, "it does not name its file of pages".to_owned()));
        };
        let name = format!("pages-{number}.img");
        let path = self.path(&name);
        let file = self.page_files.len();
        self.page_files.push(name);
        let mut runs = Vec::new();
        if ranges.is_empty() {
            return Ok(runs);
        }
        let fail =
            |source| Error::File { path: path.clone(), what: "a file of pages cannot be read", source };
        let source = File::open(&path).map_err(fail)?;
        let len = source.metadata().map_err(fail)?.len();
        let mut offset = 0;
        for (start, count) in ranges {
            let end = count.checked_mul(PAGE).and_then(|bytes| start.checked_add(bytes));
            let Some(end) = end.filter(|end| *end <= ADDRESS_END && start.is_multiple_of(PAGE)) else {
                return Err(damaged(&list, 8, format!("{count} pages at {start:#x}")));
            };
            if offset + (end - start) > len {
                let what = format!("it has {len} bytes, and pages of {start:#x} are to follow");
                return Err(damaged(&path, offset as usize, what));
            }
            let mut address = start;
            while address < end {
                let piece = PIECE.min(end - address);
                let mut bytes = vec![0; piece as usize];
                source.read_exact_at(&mut bytes, offset).map_err(fail)?;
                runs.push(Run { address, len: piece, file, offset, hash: hash(&bytes) });
                address += piece;
                offset += piece;
            }
        }
        runs.sort_by_key(|run| run.address);
        Ok(runs)
    }

    /// The vDSO with which the process ran, if its pages are there.
    fn take_vdso(&mut self, vmas: &[Vma], pages: &mut [Run]) -> Result<()> {
        let Some(vdso) = vmas.iter().find(|vma| vma.kind == VmaKind::Vdso) else { return Ok(()) };
        let mut text = vec![0; (vdso.end - vdso.start) as usize];
        let mut found = 0;
        for run in pages.iter().filter(|run| (vdso.start..vdso.end).contains(&run.address)) {
            let at = (run.address - vdso.start) as usize;
            let Some(place) = text.get_mut(at..at + run.len as usize) else { continue };
            let path = self.path(&self.page_files[run.file]);
            let file = File::open(&path).and_then(|file| file.read_exact_at(place, run.offset));
            file.map_err(|source| Error::File { path, what: "a file of pages cannot be read", source })?;
            found += place.len();
        }
        if found == text.len() {
            self.vdso = Some(hash(&text));
        }
        Ok(())
    }
}

fn limits(task: &Fields<'_>) -> Vec<Limit> {
    let all = task.message(8);
    all.messages(1).map(|one| Limit { soft: one.num(1), hard: one.num(2) }).take(16).collect()
}

/// Handlers; the two signals that have none are left out in the image.
fn actions(task: &Fields<'_>) -> Vec<Action> {
    let mut all: Vec<Action> = task
        .messages(15)
        .map(|one| Action { handler: one.num(1), flags: one.num(2), restorer: one.num(3), mask: one.num(4) })
        .take(62)
        .collect();
    for signal in [libc::SIGKILL, libc::SIGSTOP] {
        let at = (signal as usize - 1).min(all.len());
        all.insert(at, Action::default());
    }
    all
}

fn itimers(task: &Fields<'_>) -> [[i64; 4]; 3] {
    let timers = task.message(7);
    [1, 2, 3].map(|field| {
        let one = timers.message(field);
        [1, 2, 3, 4].map(|field| one.num(field) as i64)
    })
}

fn timers(task: &Fields<'_>) -> Vec<PosixTimer> {
    let timers = task.message(7);
    let one = |timer: Fields<'_>| PosixTimer {
        id: timer.num(1) as i32,
        clock: timer.num(2) as i32,
        notify: timer.num(4) as i32,
        signal: timer.num(3) as i32,
        value: timer.num(5),
        thread: timer.num(11) as i32,
        setting: [7, 8, 9, 10].map(|field| timer.num(field) as i64),
    };
    timers.messages(4).map(one).collect()
}
