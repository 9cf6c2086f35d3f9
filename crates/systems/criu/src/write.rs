//! A checkpoint of ours as an image of CRIU's.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use migrate::image::{Description, FileKind, Image, Process, Run, Store, Vma, VmaKind, hash, time_left};
use migrate::proc::mappings;
use migrate::{Error, Result};

use crate::names::{self, LAZY, PRESENT};
use crate::state;
use crate::wire::{ImageFile, Message};

const PAGE: u64 = 4096;
/// Numbers of the namespaces: those in which `criu restore` runs.
const NAMESPACES: [(u32, u64); 8] = [(5, 1), (6, 2), (7, 3), (8, 4), (9, 6), (10, 7), (11, 8), (12, 5)];
/// A shared memory's number in the image.
const SHARED: u64 = 1000;

/// Writes `image`, whose pages lie in `store`, as an image of CRIU's into `folder`. `inventory.img` comes last: without it
/// the folder is no image.
///
/// # Errors
/// If the checkpoint has what CRIU's format, or we, cannot write there: each is named. If the folder cannot be written.
pub fn write(image: &Image, store: &Store, folder: &Path) -> Result<()> {
    refuse(image)?;
    let mut out =
        Out { image, store, folder: folder.to_owned(), files: Vec::new(), names: HashMap::new(), pages: 0 };
    let tree = out.processes()?;
    for (index, shared) in image.shared.iter().enumerate() {
        out.pagemap(&format!("shmem-{}", SHARED + index as u64), &shared.pages, &[])?;
    }
    out.pipes()?;
    out.memories()?;
    let mut files = out.file("files.img", names::FILES);
    out.files.iter().for_each(|message| files.push(message));
    files.finish()?;
    let mut seccomp = out.file("seccomp.img", names::SECCOMP);
    seccomp.push(&Message::new());
    seccomp.finish()?;
    let clock =
        Duration { seconds: image.monotonic_ns / 1_000_000_000, rest: image.monotonic_ns % 1_000_000_000 };
    let clocks = Message::new().message(1, clock.message()).message(2, clock.message());
    let mut offsets = out.file("timens-0.img", names::TIMENS);
    offsets.push(&clocks);
    offsets.finish()?;
    tree.finish()?;
    let root = NAMESPACES.into_iter().fold(
        (1..=4).fold(Message::new(), |message, field| message.num(field, 1_u64)),
        |message, (field, number)| message.num(field, number),
    );
    let inventory = Message::new().num(1, 2_u64).num(2, 1_u64).message(3, root).num(4, 1_u64);
    let mut file = ImageFile::new(folder.join("inventory.img"), names::INVENTORY, false);
    file.push(&inventory.num(6, 0_u64).num(11, 0_u64));
    file.finish()?;
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| Error::File { path: folder.to_owned(), what: "cannot be made durable", source })
}

struct Duration {
    seconds: u64,
    rest: u64,
}

impl Duration {
    fn message(&self) -> Message {
        Message::new().num(1, self.seconds).num(2, self.rest)
    }
}

/// What cannot be written.
fn refuse(image: &Image) -> Result<()> {
    let mut found = Vec::new();
    for process in &image.processes {
        for fd in &process.fds {
            let Some(one) = image.descriptions.get(fd.description) else { continue };
            let what = match &one.kind {
                FileKind::Inherited { was, .. } => format!("{was}, which leads outside"),
                FileKind::Socket { .. } => "a socket".to_owned(),
                FileKind::SocketPair { .. } => "a local socket".to_owned(),
                FileKind::Path { flock: Some(_), path, .. } => format!("{path} with a lock"),
                FileKind::Event { semaphore: true, .. } => "an eventfd that is a semaphore".to_owned(),
                _ => continue,
            };
            found.push(format!("process {}, file descriptor {}: {what}", process.pid, fd.fd));
        }
        for lock in &process.locks {
            found.push(format!("process {}, file descriptor {}: a lock of a range", process.pid, lock.fd));
        }
        if process.lazy.is_some() {
            found.push(format!("process {}: its pages are in fabric-attached memory", process.pid));
        }
    }
    for shared in image.shared.iter().filter(|shared| shared.sysv.is_some()) {
        found.push(format!("the System V segment {}", shared.name));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "not written as an image of CRIU's, which strandline does not do for:\n  {}\nleave --criu away",
        found.join("\n  ")
    )))
}

struct Out<'a> {
    image: &'a Image,
    store: &'a Store,
    folder: PathBuf,
    /// `file_entry` messages; a file's number is its index and 1.
    files: Vec<Message>,
    /// Numbers of files by path and flags of opening.
    names: HashMap<(String, i32), u64>,
    /// Files of pages so far.
    pages: u64,
}

impl Out<'_> {
    fn file(&self, name: &str, magic: u32) -> ImageFile {
        ImageFile::new(self.folder.join(name), magic, true)
    }

    /// All that belongs to a process; the tree itself is returned.
    fn processes(&mut self) -> Result<ImageFile> {
        let image = self.image;
        let mut tree = self.file("pstree.img", names::PSTREE);
        for (index, process) in image.processes.iter().enumerate() {
            let parent = if index == 0 { 0 } else { process.parent };
            let entry = [process.pid, parent, process.group, process.session].map(|number| number as u32);
            let entry =
                (1..).zip(entry).fold(Message::new(), |message, (field, number)| message.num(field, number));
            tree.push(&entry.nums(5, process.threads.iter().map(|thread| thread.tid as u64)));
            self.process(process, index as u64 + 2)?;
        }
        // Files that no process of ours has by a descriptor are known by now.
        for (index, process) in image.processes.iter().enumerate() {
            let mut table = self.file(&format!("fdinfo-{}.img", index + 2), names::FDINFO);
            for fd in &process.fds {
                let Some(one) = image.descriptions.get(fd.description) else { continue };
                let entry = Message::new()
                    .num(1, self.description(fd.description))
                    .num(2, u64::from(fd.close_on_exec));
                table.push(&entry.num(3, kind(one)).num(4, fd.fd as u32));
            }
            table.finish()?;
        }
        Ok(tree)
    }

    fn process(&mut self, process: &Process, number: u64) -> Result<()> {
        let pid = process.pid;
        for (index, thread) in process.threads.iter().enumerate() {
            let mut core = Message::new().num(1, 1_u64).message(2, state::thread_info(thread));
            if index == 0 {
                core = core.message(3, task(process));
            }
            let mut file = self.file(&format!("core-{}.img", thread.tid), names::CORE);
            file.push(&core.message(5, state::thread_core(thread, index == 0)));
            file.finish()?;
        }
        let ids = (1..=4).fold(Message::new(), |message, field| message.num(field, number));
        let ids = NAMESPACES.into_iter().fold(ids, |message, (field, number)| message.num(field, number));
        let mut file = self.file(&format!("ids-{pid}.img"), names::IDS);
        file.push(&ids);
        file.finish()?;
        let place =
            Message::new().num(1, self.opened(&process.cwd, 0)?).num(2, self.opened(&process.root, 0)?);
        let mut file = self.file(&format!("fs-{pid}.img"), names::FS);
        file.push(&place.num(3, process.umask));
        file.finish()?;
        let memory = self.memory(process)?;
        let mut file = self.file(&format!("mm-{pid}.img"), names::MM);
        file.push(&memory);
        file.finish()?;
        self.pagemap(&pid.to_string(), &process.pages, &process.vmas)
    }

    /// `mm_entry`.
    fn memory(&mut self, process: &Process) -> Result<Message> {
        let [
            code,
            code_end,
            data,
            data_end,
            heap,
            heap_end,
            stack,
            arguments,
            arguments_end,
            environment,
            end,
        ] = process.mm.bounds;
        let numbers = [
            code,
            code_end,
            data,
            data_end,
            stack,
            heap,
            heap_end,
            arguments,
            arguments_end,
            environment,
            end,
        ];
        let message =
            (1..).zip(numbers).fold(Message::new(), |message, (field, number)| message.num(field, number));
        let mut message = message.num(12, self.opened(&process.exe, 0)?).nums(13, auxiliary(process));
        let mut vmas: Vec<Vma> = Vec::new();
        for vma in &process.vmas {
            // The kernel's data for the vDSO is one range there.
            match vmas.last_mut() {
                Some(last)
                    if vma.kind == VmaKind::Vvar && last.kind == VmaKind::Vvar && last.end == vma.start =>
                {
                    last.end = vma.end;
                }
                _ => vmas.push(vma.clone()),
            }
        }
        for vma in &vmas {
            let heap = vma.start < heap_end && heap < vma.end;
            message = message.message(14, self.mapping(vma, heap)?);
        }
        Ok(message.num(15, process.dumpable).num(17, 0_u64))
    }

    /// `vma_entry`.
    fn mapping(&mut self, vma: &Vma, heap: bool) -> Result<Message> {
        let mut flags = if vma.shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let mut status = names::REGULAR;
        let (mut offset, mut number, mut opened) = (0, 0, None);
        match &vma.kind {
            VmaKind::File { path, offset: from, writable, .. } => {
                let mode = if vma.shared && *writable { libc::O_RDWR } else { libc::O_RDONLY };
                (offset, number, opened) = (*from, self.opened(path, mode)?, Some(mode as u32));
                status |= if vma.shared { names::FILE_SHARED } else { names::FILE_PRIVATE };
            }
            VmaKind::Shared { index, offset: from } => {
                flags |= libc::MAP_ANONYMOUS;
                (offset, number) = (*from, SHARED + *index as u64);
                status |= names::ANON_SHARED;
                if self.is_memfd(*index) {
                    flags &= !libc::MAP_ANONYMOUS;
                    (number, opened) = (self.memory_file(*index), Some(libc::O_RDWR as u32));
                    status = names::REGULAR | names::FILE_SHARED | names::MAPS_MEMFD;
                }
            }
            VmaKind::Anonymous | VmaKind::Vdso | VmaKind::Vvar => {
                flags |= libc::MAP_ANONYMOUS;
                status |= names::ANON_PRIVATE;
                match vma.kind {
                    VmaKind::Vdso => status |= names::VDSO,
                    VmaKind::Vvar => status |= names::VVAR,
                    _ if heap => status |= names::HEAP,
                    _ => {}
                }
            }
        }
        if vma.grows_down {
            flags |= libc::MAP_GROWSDOWN;
        }
        if vma.locked {
            flags |= libc::MAP_LOCKED;
        }
        let mut message = Message::new().num(1, vma.start).num(2, vma.end).num(3, offset).num(4, number);
        message = message.num(5, vma.protection as u32).num(6, flags as u32).num(7, status).zigzag(8, -1);
        let advice = vma.advice.iter().fold(0_u64, |set, advice| set | 1 << advice);
        if advice != 0 {
            message = message.num(9, advice);
        }
        Ok(match opened {
            Some(mode) => message.num(10, mode),
            None => message,
        })
    }

    /// The number of a file that is opened again by its path.
    fn opened(&mut self, path: &str, flags: i32) -> Result<u64> {
        if let Some(number) = self.names.get(&(path.to_owned(), flags)) {
            return Ok(*number);
        }
        let number = self.descriptions_end() + self.names.len() as u64 + 1;
        self.names.insert((path.to_owned(), flags), number);
        let entry = regular(path, number, flags, 0)?;
        self.files.push(Message::new().num(1, names::REG).num(2, number).message(3, entry));
        Ok(number)
    }

    /// Descriptions come first, memfds that only mappings have behind them.
    fn description(&self, index: usize) -> u64 {
        index as u64 + 1
    }

    fn descriptions_end(&self) -> u64 {
        (self.image.descriptions.len() + self.image.shared.len()) as u64
    }

    fn memory_file(&self, index: usize) -> u64 {
        (self.image.descriptions.len() + index) as u64 + 1
    }

    fn is_memfd(&self, index: usize) -> bool {
        let kinds = self.image.descriptions.iter().map(|one| &one.kind);
        kinds.into_iter().any(|kind| *kind == FileKind::Memory(index))
    }

    /// Files of descriptors, and memory that has them.
    fn memories(&mut self) -> Result<()> {
        let image = self.image;
        for (index, one) in image.descriptions.iter().enumerate() {
            let number = self.description(index);
            let entry = file_entry(one, number)?;
            self.files.push(entry);
        }
        let mut nodes = self.file("memfd.img", names::MEMFD);
        for (index, shared) in image.shared.iter().enumerate() {
            if !self.is_memfd(index) {
                continue;
            }
            let number = index as u64 + 1;
            let node = Message::new().bytes(1, &shared.name).num(2, 0_u64).num(3, 0_u64).num(4, shared.len);
            let node = node.num(5, SHARED + index as u64).num(6, shared.seals as u32);
            nodes.push(&node.num(7, number));
            let file = self.memory_file(index);
            let entry = Message::new().num(1, file).num(2, libc::O_RDWR as u32).num(3, 0_u64);
            let entry = entry.message(4, nobody()).num(5, number);
            self.files.push(Message::new().num(1, names::MEMORY).num(2, file).message(20, entry));
        }
        nodes.finish()
    }

    /// What pipes hold.
    fn pipes(&self) -> Result<()> {
        let mut data = self.file("pipes-data.img", names::PIPES_DATA);
        let mut seen = Vec::new();
        for one in &self.image.descriptions {
            let FileKind::Pipe { inode, capacity, content } = &one.kind else { continue };
            let reads = one.flags & libc::O_ACCMODE == libc::O_RDONLY;
            if reads && !seen.contains(inode) {
                seen.push(*inode);
                let entry = Message::new().num(1, *inode as u32).num(2, content.len() as u64);
                data.push(&entry.num(3, *capacity as u32));
                data.push_raw(content);
            }
        }
        data.finish()
    }

    /// A file of pages and the list of what is in it; the vDSO of a process is part of it.
    fn pagemap(&mut self, name: &str, runs: &[Run], vmas: &[Vma]) -> Result<()> {
        self.pages += 1;
        let path = self.folder.join(format!("pages-{}.img", self.pages));
        let fail = |source| Error::File { path: path.clone(), what: "cannot be written", source };
        let mut file = File::create(&path).map_err(fail)?;
        let mut list = self.file(&format!("pagemap-{name}.img"), names::PAGEMAP);
        list.push(&Message::new().num(1, self.pages));
        let mut all: Vec<(u64, Vec<u8>, Option<&Run>)> =
            runs.iter().map(|run| (run.address, Vec::new(), Some(run))).collect();
        if let Some(vdso) = vmas.iter().find(|vma| vma.kind == VmaKind::Vdso) {
            all.push((vdso.start, vdso_here(self.image)?, None));
        }
        all.sort_by_key(|(address, ..)| *address);
        let mut sources: HashMap<usize, File> = HashMap::new();
        for (address, mut bytes, run) in all {
            if let Some(run) = run {
                let from = self.store.path(self.image.page_files.get(run.file).map_or("", String::as_str));
                let fail = |source| Error::File { path: from.clone(), what: "cannot be read", source };
                let source = match sources.entry(run.file) {
                    std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::hash_map::Entry::Vacant(free) => {
                        free.insert(File::open(&from).map_err(fail)?)
                    }
                };
                bytes.resize(run.len as usize, 0);
                source.read_exact_at(&mut bytes, run.offset).map_err(fail)?;
            }
            let pages = (bytes.len() as u64).div_ceil(PAGE);
            bytes.resize((pages * PAGE) as usize, 0);
            file.write_all(&bytes).map_err(fail)?;
            let flags = if vmas.iter().any(|vma| may_wait(vma, address)) { PRESENT | LAZY } else { PRESENT };
            list.push(&Message::new().num(1, address).num(2, pages).num(4, flags).num(5, pages));
        }
        file.sync_all().map_err(fail)?;
        list.finish()
    }
}

/// Whether `criu lazy-pages` may bring the page at an address of this mapping on demand.
fn may_wait(vma: &Vma, address: u64) -> bool {
    let here = (vma.start..vma.end).contains(&address);
    here && vma.kind == VmaKind::Anonymous && !vma.shared && !vma.locked
}

/// The vDSO of this process, which is the image's.
fn vdso_here(image: &Image) -> Result<Vec<u8>> {
    let own = std::process::id().cast_signed();
    let found = mappings(own)?.into_iter().find(|one| one.name == "[vdso]");
    let (start, end) = found.map_or((0, 0), |one| (one.start, one.end));
    let mut bytes = vec![0; (end - start) as usize];
    migrate::remote::read_exact(own, start, &mut bytes)?;
    if hash(&bytes) != image.vdso {
        return Err(Error::Unfit(format!("its kernel {} has another vDSO than this one", image.kernel)));
    }
    Ok(bytes)
}

/// The auxiliary vector as far as CRIU takes it: up to its end, 44 words at most.
fn auxiliary(process: &Process) -> Vec<u64> {
    const MOST: usize = 44;
    let pairs = process.mm.auxv.chunks_exact(2).take_while(|pair| pair[0] != 0);
    let mut words: Vec<u64> = pairs.flatten().copied().take(MOST - 2).collect();
    words.extend([0, 0]);
    words
}

fn nobody() -> Message {
    (1..=5).fold(Message::new(), |message, field| message.num(field, 0_u64))
}

/// `reg_file_entry`.
fn regular(path: &str, number: u64, flags: i32, position: u64) -> Result<Message> {
    let found = fs::metadata(path).map_err(|source| Error::File {
        path: path.into(),
        what: "which the process has open or maps",
        source,
    })?;
    let entry = Message::new().num(1, number).num(2, flags as u32).num(3, position).message(5, nobody());
    let mut entry = entry.bytes(6, path);
    if found.is_file() {
        entry = entry.num(8, found.len());
    }
    Ok(entry.num(10, found.mode()))
}

/// The kind of a file, as CRIU counts them.
fn kind(one: &Description) -> u64 {
    match one.kind {
        FileKind::Pipe { .. } => names::PIPE,
        FileKind::Event { .. } => names::EVENTFD,
        FileKind::Timer { .. } => names::TIMERFD,
        FileKind::Signals(_) => names::SIGNALFD,
        FileKind::Epoll(_) => names::EVENTPOLL,
        FileKind::Memory(_) => names::MEMORY,
        _ => names::REG,
    }
}

/// `file_entry`.
fn file_entry(one: &Description, number: u64) -> Result<Message> {
    let head = Message::new().num(1, kind(one)).num(2, number);
    let begin = || Message::new().num(1, number).num(2, one.flags as u32);
    let signed = |value: i64| value as u64;
    Ok(match &one.kind {
        FileKind::Path { path, .. } => head.message(3, regular(path, number, one.flags, one.position)?),
        FileKind::Pipe { inode, .. } => {
            let entry = Message::new().num(1, number).num(2, *inode as u32).num(3, one.flags as u32);
            head.message(18, entry.message(4, nobody()))
        }
        FileKind::Event { count, .. } => head.message(8, begin().message(3, nobody()).num(4, *count)),
        FileKind::Timer { clock, ticks, set_flags, value, interval } => {
            // criu sets what it finds: no time left would disarm the timer, and the time is none of day.
            let left = time_left(*value, *interval, *ticks > 0);
            let set_flags = set_flags & !libc::TFD_TIMER_ABSTIME;
            let entry = begin().message(3, nobody()).num(4, *clock as u32).num(5, *ticks);
            let entry = entry.num(6, set_flags as u32).num(7, signed(left[0])).num(8, signed(left[1]));
            head.message(12, entry.num(9, signed(interval[0])).num(10, signed(interval[1])))
        }
        FileKind::Signals(mask) => head.message(10, begin().message(3, nobody()).num(4, *mask)),
        FileKind::Epoll(watches) => {
            let watches = watches.iter().map(|watch| {
                let entry = Message::new().num(1, 0_u64).num(2, watch.fd as u32);
                entry.num(3, watch.events).num(4, watch.data)
            });
            head.message(
                9,
                watches.fold(begin().message(3, nobody()), |entry, watch| entry.message(4, watch)),
            )
        }
        FileKind::Memory(index) => {
            let entry = begin().num(3, one.position).message(4, nobody());
            head.message(20, entry.num(5, *index as u64 + 1))
        }
        other => return Err(Error::Unfit(format!("{other:?} is not written as an image of CRIU's"))),
    })
}

/// `task_core_entry`.
fn task(process: &Process) -> Message {
    // A flag of the kernel's that every process has had since `execve`.
    const RANDOMIZED: u64 = 0x40_0000;
    let state = if process.stopped { names::STOPPED } else { names::ALIVE };
    let leader = process.threads.first();
    let mut message = Message::new().num(1, state).num(2, 0_u64).num(3, process.personality as u32);
    message = message.num(4, RANDOMIZED).num(5, leader.map_or(0, |thread| thread.mask));
    message = message.bytes(6, leader.map_or("", |thread| thread.name.as_str()));
    let mut timers = Message::new();
    for (field, timer) in (1..).zip(process.running_itimers()) {
        let inner =
            (1..).zip(timer).fold(Message::new(), |inner, (field, value)| inner.num(field, value as u64));
        timers = timers.message(field, inner);
    }
    for timer in &process.timers {
        let inner =
            Message::new().num(1, timer.id as u32).num(2, timer.clock as u32).num(3, timer.signal as u32);
        let inner = inner.num(4, timer.notify as u32).num(5, timer.value).num(6, 0_u64);
        let inner =
            (7..).zip(timer.setting).fold(inner, |inner, (field, value)| inner.num(field, value as u64));
        timers =
            timers.message(4, if timer.thread == 0 { inner } else { inner.int(11, timer.thread.into()) });
    }
    message = message.message(7, timers);
    let limits = process.limits.iter();
    let limits = limits.fold(Message::new(), |all, limit| {
        all.message(1, Message::new().num(1, limit.soft).num(2, limit.hard))
    });
    message = message.message(8, limits).message(10, state::signals(&process.pending));
    message = message.int(14, process.oom_score_adj.into());
    for (signal, action) in (1..).zip(&process.actions) {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            let entry = Message::new().num(1, action.handler).num(2, action.flags).num(3, action.restorer);
            message = message.message(15, entry.num(4, action.mask).num(5, 0_u64));
        }
    }
    message.num(18, u64::from(process.subreaper))
}
