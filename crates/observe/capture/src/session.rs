//! The collector's side of the shared memory that [`abi`] lays out.
//!
//! A [`SessionFile`] is created under `/dev/shm`, because programs that the observed program executes
//! find it by its path; dropping it removes the file again, and a later session removes those
//! whose collector was killed. The memory of what writers take is reserved before they may take it: a full
//! `/dev/shm` is an error when the session is created (after smaller ones were tried), or leaves writers with
//! what they have; it is no bus error in the observed program.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::thread::futex;

use crate::CaptureError;
use abi::{
    AREA_ALIGN, CHUNK_FREE, Chunk, MISSED, MODE_OFF, MODULES, Missed, Module, SESSION_MAGIC, SESSION_VERSION,
    STACKS, Session, Stack, WORD_LOCKS,
};

/// Fewest chunks that a session is worth having with.
const CHUNKS_MIN: u32 = 16;
/// Chunks that writers take at first: few enough that their words stay in the processor's caches from one
/// thread to the other. There are more for many threads, and for threads that wait for others' turns.
const CHUNKS_OPEN: u32 = 64;
/// What the files are called, before the collector's process number.
const PREFIX: &str = "strandline-session-";

/// What a session is made for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `MODE_*` of [`abi`].
    pub mode: u32,
    /// `FLAG_*` of [`abi`].
    pub flags: u32,
    /// Bytes per chunk; rounded up to whole pages.
    pub chunk_bytes: u32,
    /// Chunks wanted.
    pub chunk_count: u32,
    /// Chunks recorded and chunks per period; both 0: all.
    pub sampling: (u64, u64),
    /// Patterns of persistent files, as the user gave them.
    pub pmem: Vec<String>,
    /// Patterns of ordinary files whose writes are recorded, as the user gave them.
    pub files: Vec<String>,
    /// Where what persistent files hold when they are first mapped is kept: an absolute path of less than
    /// 1024 bytes.
    pub keep: Option<PathBuf>,
}

/// A session in memory, and its file.
pub struct SessionFile {
    map: Arc<MmapRaw>,
    path: PathBuf,
    file: File,
    chunk_count: usize,
    chunk_words: usize,
    areas_at: usize,
    /// Chunks released that no sleeping writer was woken for.
    unnoticed: AtomicU32,
    /// See [`SessionFile::open`].
    open: AtomicU32,
    /// See [`SessionFile::is_short`].
    short: AtomicBool,
}

/// Wakes the collector from another thread ([`SessionFile::bell`]).
pub struct Bell(Arc<MmapRaw>);

impl Bell {
    /// Wakes the collector, or keeps it from falling asleep.
    pub fn ring(&self) {
        let full = &head(&self.0).full;
        full.fetch_add(1, Ordering::SeqCst);
        wake(full);
    }
}

impl std::fmt::Debug for SessionFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionFile").field("path", &self.path).field("chunks", &self.chunk_count).finish()
    }
}

impl SessionFile {
    /// Makes the file and writes its head. The session may have fewer chunks than were asked for, down to 16,
    /// if memory for more can't be had.
    ///
    /// # Errors
    /// [`CaptureError::Session`] if the file can't be made or mapped, [`CaptureError::NoRoom`] if there is no
    /// memory for it, [`CaptureError::Patterns`] if `pmem` or `files` is too long.
    pub fn create(settings: &Settings) -> Result<Self, CaptureError> {
        let patterns = [("--pmem", &settings.pmem), ("--files", &settings.files)]
            .map(|(option, patterns)| joined_patterns(option, patterns));
        let [pmem, files] = patterns;
        let patterns = [pmem?, files?];
        let directory = directory();
        remove_orphans(&directory);
        let path = directory.join(unique_name());
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let context = |source| CaptureError::Session { path: path.clone(), source };
        let file = file.map_err(context)?;
        let chunk_bytes = settings.chunk_bytes.max(1).next_multiple_of(AREA_ALIGN as u32);
        let sized = size(&file, chunk_bytes, settings.chunk_count.max(CHUNKS_MIN));
        let mapped = sized.and_then(|count| Ok((count, MmapOptions::new().map_raw(&file)?)));
        let (chunk_count, map) = match mapped {
            Ok(mapped) => mapped,
            Err(source) => {
                let _ = fs::remove_file(&path);
                if source.raw_os_error() == Some(libc::ENOSPC) {
                    let bytes = areas_at(CHUNKS_MIN) as u64 + u64::from(CHUNKS_MIN) * u64::from(chunk_bytes);
                    return Err(CaptureError::NoRoom { directory, bytes });
                }
                return Err(context(source));
            }
        };
        let session = SessionFile {
            map: Arc::new(map),
            path,
            file,
            chunk_count: chunk_count as usize,
            chunk_words: chunk_bytes as usize / 8,
            areas_at: areas_at(chunk_count),
            unnoticed: AtomicU32::new(0),
            open: AtomicU32::new(chunk_count.min(CHUNKS_OPEN)),
            short: AtomicBool::new(false),
        };
        session.write_head(settings, &patterns, chunk_bytes, chunk_count);
        Ok(session)
    }

    fn write_head(
        &self,
        settings: &Settings,
        [pmem, files]: &[Vec<u8>; 2],
        chunk_bytes: u32,
        chunk_count: u32,
    ) {
        let (mut pmem_patterns, mut files_patterns) = ([0; 4096], [0; 4096]);
        pmem_patterns[..pmem.len()].copy_from_slice(pmem);
        files_patterns[..files.len()].copy_from_slice(files);
        let mut keep_folder = [0; 1024];
        let keep = settings.keep.as_ref().map_or(&[][..], |folder| folder.as_os_str().as_bytes());
        if keep.len() < keep_folder.len() {
            keep_folder[..keep.len()].copy_from_slice(keep);
        }
        let head = Session {
            magic: SESSION_MAGIC,
            version: SESSION_VERSION,
            flags: settings.flags,
            chunk_bytes,
            chunk_count,
            collector_pid: std::process::id(),
            pmem_patterns_len: pmem.len() as u32,
            start_ns: monotonic_ns(),
            sample_recorded: settings.sampling.0,
            sample_period: settings.sampling.1,
            mode: AtomicU32::new(settings.mode),
            next_thread: AtomicU32::new(0),
            full: AtomicU32::new(0),
            free: AtomicU32::new(0),
            collector_waits: AtomicU32::new(0),
            writers_wait: AtomicU32::new(0),
            open_chunks: AtomicU32::new(chunk_count.min(CHUNKS_OPEN)),
            next_module: AtomicU32::new(0),
            files_patterns_len: files.len() as u32,
            sync_seq: AtomicU64::new(0),
            counted_loads: AtomicU64::new(0),
            counted_stores: AtomicU64::new(0),
            counted_others: AtomicU64::new(0),
            pmem_patterns,
            files_patterns,
            keep_folder,
            next_process: AtomicU32::new(0),
            starts_others: AtomicU32::new(0),
            word_locks: [const { AtomicU32::new(0) }; WORD_LOCKS],
            killed: AtomicU32::new(0),
            next_missed: AtomicU32::new(0),
            missed: [const { Missed::free() }; MISSED],
            next_stack: AtomicU32::new(0),
            stacks: [const { Stack::free() }; STACKS],
        };
        // SAFETY: the mapping begins with room for a `Session`, is page-aligned, and nobody else knows of it
        // yet.
        unsafe { self.map.as_mut_ptr().cast::<Session>().write(head) };
    }

    /// The file, to be named in [`abi::SESSION_ENV`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The head.
    #[must_use]
    pub fn head(&self) -> &Session {
        head(&self.map)
    }

    /// What wakes the collector from another thread.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell(Arc::clone(&self.map))
    }

    /// Number of chunks.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunk_count
    }

    /// How many of them, the first ones, writers take. It never becomes less, whatever the program does to
    /// the memory that it shares.
    #[must_use]
    pub fn open(&self) -> usize {
        let opened = self.head().open_chunks.load(Ordering::Relaxed).min(self.chunk_count as u32);
        self.open.fetch_max(opened, Ordering::Relaxed).max(opened) as usize
    }

    /// Whether there was no memory for chunks that writers were to have.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Writers wait for chunks, and threads that write nothing have many of those that they may take: lets
    /// them have twice as many. False if they have all that there is memory for.
    pub fn open_more(&self) -> bool {
        let open = self.open();
        let more = (2 * open).min(self.chunk_count);
        if more == open || self.is_short() {
            return false;
        }
        if reserve(&self.file, self.areas_at as u64, self.chunk_words as u64 * 8, more as u32).is_err() {
            self.short.store(true, Ordering::Relaxed);
            return false;
        }
        // A writer may have opened all of them meanwhile.
        self.open.fetch_max(more as u32, Ordering::Relaxed);
        let head = self.head();
        head.open_chunks.fetch_max(more as u32, Ordering::Relaxed);
        head.free.fetch_add(1, Ordering::SeqCst);
        wake(&head.free);
        true
    }

    /// A chunk's head.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn chunk(&self, at: usize) -> &Chunk {
        assert!(at < self.chunk_count);
        let offset = chunks_at() + at * size_of::<Chunk>();
        // SAFETY: inside the mapping by the assertion; a `Chunk` is all atomics, for which zero bytes are
        // valid.
        unsafe { &*self.map.as_ptr().add(offset).cast::<Chunk>() }
    }

    /// A chunk's words.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn area(&self, at: usize) -> &[AtomicU64] {
        // SAFETY: inside the mapping (`area_start` asserts it), 8-aligned, and atomics may be written by
        // others.
        unsafe { std::slice::from_raw_parts(self.area_start(at).cast::<AtomicU64>(), self.chunk_words) }
    }

    fn area_start(&self, at: usize) -> *mut u8 {
        assert!(at < self.chunk_count);
        // SAFETY: inside the mapping by the assertion.
        unsafe { self.map.as_mut_ptr().add(self.areas_at + at * self.chunk_words * 8) }
    }

    /// Entry `at` of the module table, once it is complete.
    #[must_use]
    pub fn module(&self, at: usize) -> Option<&Module> {
        if at >= MODULES {
            return None;
        }
        let offset = size_of::<Session>() + at * size_of::<Module>();
        // SAFETY: inside the mapping, aligned, plain integers; `ready` orders the other fields, which
        // are not looked at before it is set and do not change after.
        let module = unsafe { &*self.map.as_ptr().add(offset).cast::<Module>() };
        (module.ready.load(Ordering::Acquire) == 1).then_some(module)
    }

    /// Stacks of threads: number on the wire, the address above the first frame, bytes, the thread's
    /// function.
    #[must_use]
    pub fn stacks(&self) -> Vec<(u32, u64, u64, u64)> {
        let of = |stack: &Stack| {
            let number = stack.thread.load(Ordering::Acquire).checked_sub(1)?;
            let [top, bytes, function] =
                [&stack.top, &stack.bytes, &stack.function].map(|word| word.load(Ordering::Relaxed));
            Some((number, top, bytes, function))
        };
        self.head().stacks.iter().filter_map(of).collect()
    }

    /// The calls that are not recorded: process, code address (0: unknown), what, and the file.
    #[must_use]
    pub fn missed(&self) -> Vec<(u32, u64, String, String)> {
        let text = |bytes: &[AtomicU8]| {
            let bytes = bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).take_while(|&byte| byte != 0);
            String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
        };
        let written = self.head().missed.iter().filter(|missed| missed.ready.load(Ordering::Acquire) == 1);
        let all = written.map(|missed| {
            let (pid, pc) = (missed.pid.load(Ordering::Relaxed), missed.pc.load(Ordering::Relaxed));
            (pid, pc, text(&missed.call), text(&missed.file))
        });
        all.collect()
    }

    /// Clears a chunk that the collector is done with and offers it to the writers.
    ///
    /// # Panics
    /// If the chunk does not exist or is free already.
    pub fn release(&self, at: usize) {
        let chunk = self.chunk(at);
        assert_ne!(chunk.state.load(Ordering::Relaxed), CHUNK_FREE, "released twice");
        // SAFETY: the chunk is full, or its process is dead: nobody else touches its area.
        unsafe { self.area_start(at).write_bytes(0, self.chunk_words * 8) };
        // A writer that takes the chunk is not distinguished from its last one before it has set this.
        chunk.pid.store(0, Ordering::Relaxed);
        chunk.state.store(CHUNK_FREE, Ordering::Release);
        let head = self.head();
        head.free.fetch_add(1, Ordering::SeqCst);
        // A writer that is woken for each chunk sleeps again after each chunk.
        if self.unnoticed.fetch_add(1, Ordering::Relaxed) as usize >= self.open() / 2 {
            self.tell_released();
        }
    }

    /// Wakes writers that wait for a chunk.
    fn tell_released(&self) {
        self.unnoticed.store(0, Ordering::Relaxed);
        let head = self.head();
        if head.writers_wait.load(Ordering::SeqCst) > 0 {
            wake(&head.free);
        }
    }

    /// Sleeps until a chunk becomes full after `seen` was read from [`Session::full`], or for `timeout`.
    pub fn wait(&self, seen: u32, timeout: Duration) {
        if self.unnoticed.load(Ordering::Relaxed) > 0 {
            self.tell_released();
        }
        let head = self.head();
        head.collector_waits.store(1, Ordering::SeqCst);
        if head.full.load(Ordering::SeqCst) == seen {
            let timeout = timeout.try_into().ok();
            // Every reason to return is a reason to look again, so the result says nothing of use.
            let _ = futex::wait(&head.full, futex::Flags::empty(), seen, timeout.as_ref());
        }
        head.collector_waits.store(0, Ordering::SeqCst);
    }

    /// Tells all writers to go on without recording.
    pub fn switch_off(&self) {
        self.head().mode.store(MODE_OFF, Ordering::SeqCst);
        self.head().free.fetch_add(1, Ordering::SeqCst);
        wake(&self.head().free);
    }

    /// Nanoseconds since the session's start.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.head().start_ns)
    }
}

impl Drop for SessionFile {
    fn drop(&mut self) {
        self.switch_off();
        let _ = fs::remove_file(&self.path);
    }
}

fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

const fn chunks_at() -> usize {
    size_of::<Session>() + MODULES * size_of::<Module>()
}

fn areas_at(chunk_count: u32) -> usize {
    (chunks_at() + chunk_count as usize * size_of::<Chunk>()).next_multiple_of(AREA_ALIGN)
}

/// Gives the file its size, and the chunks that writers take at first their memory; fewer chunks, if there is
/// not enough for these.
fn size(file: &File, chunk_bytes: u32, wanted: u32) -> io::Result<u32> {
    let mut count = wanted;
    loop {
        let (start, chunk_bytes) = (areas_at(count) as u64, u64::from(chunk_bytes));
        let first = count.min(CHUNKS_OPEN);
        file.set_len(start + u64::from(count) * chunk_bytes)?;
        match reserve(file, start, chunk_bytes, first) {
            Err(Errno::NOSPC) if first / 2 >= CHUNKS_MIN => {
                file.set_len(0)?;
                count = first / 2;
            }
            other => return Ok(other.map(|()| count)?),
        }
    }
}

/// Reserves memory up to the end of so many chunks, whose areas begin at `start`.
fn reserve(file: &File, start: u64, chunk_bytes: u64, chunks: u32) -> Result<(), Errno> {
    let bytes = start + u64::from(chunks) * chunk_bytes;
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            // A signal came; what was reserved so far may be taken back.
            Err(Errno::INTR) => {}
            // The file system can't; the size alone must do.
            Err(Errno::OPNOTSUPP) => return Ok(()),
            other => return other,
        }
    }
}

/// The head of a mapped session.
fn head(map: &MmapRaw) -> &Session {
    // SAFETY: the mapping begins with a `Session` that `write_head` wrote; only its atomics change
    // afterwards.
    unsafe { &*map.as_ptr().cast::<Session>() }
}

fn joined_patterns(option: &'static str, patterns: &[String]) -> Result<Vec<u8>, CaptureError> {
    let mut joined = Vec::new();
    for pattern in patterns {
        joined.extend_from_slice(pattern.as_bytes());
        joined.push(0);
    }
    if joined.len() > 4096 { Err(CaptureError::Patterns { option, bytes: joined.len() }) } else { Ok(joined) }
}

/// Where sessions live: memory if there is any to be had, else where temporary files go.
fn directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok() {
        return memory.to_owned();
    }
    std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Removes the files of collectors that are gone; they hold memory.
fn remove_orphans(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let collector =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        let Some(pid) = collector.and_then(rustix::process::Pid::from_raw) else { continue };
        if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::{CHUNK_FULL, MODE_RECORD};

    fn settings() -> Settings {
        Settings {
            mode: MODE_RECORD,
            flags: 0,
            chunk_bytes: 5000,
            chunk_count: 20,
            sampling: (0, 0),
            pmem: vec!["/mnt/a".into(), "*.pool".into()],
            files: vec!["/tmp/db".into()],
            keep: Some("/tmp/kept".into()),
        }
    }

    #[test]
    fn what_is_written_is_what_a_program_would_map() {
        let session = SessionFile::create(&settings()).unwrap();
        let bytes = fs::read(session.path()).unwrap();
        assert_eq!(&bytes[..8], b"SLSESS01");
        assert_eq!(session.head().chunk_bytes, 8192);
        assert_eq!(bytes.len(), areas_at(20) + 20 * 8192);
        assert!(session.head().pmem_patterns.starts_with(b"/mnt/a\0*.pool\0\0"));
        assert!(session.head().files_patterns.starts_with(b"/tmp/db\0\0"));
        assert_eq!(session.head().files_patterns_len, 8);
        assert!(session.head().keep_folder.starts_with(b"/tmp/kept\0"));
        session.area(19)[1023].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(fs::read(session.path()).unwrap()[bytes.len() - 8..], [0xff; 8]);
    }

    #[test]
    fn memory_is_reserved_for_the_chunks_that_writers_may_take() {
        use std::os::unix::fs::MetadataExt;
        let count = 4 * CHUNKS_OPEN;
        let session = SessionFile::create(&Settings { chunk_count: count, ..settings() }).unwrap();
        let reserved = || fs::metadata(session.path()).unwrap().blocks() * 512;
        let up_to = |chunks: u32| areas_at(count) as u64 + u64::from(chunks) * 8192;
        assert_eq!(fs::metadata(session.path()).unwrap().len(), up_to(count));
        for open in [CHUNKS_OPEN, 2 * CHUNKS_OPEN, count] {
            assert_eq!(session.open(), open as usize);
            assert!((up_to(open)..up_to(open) + 8192).contains(&reserved()), "{open}: {}", reserved());
            session.open_more();
        }
        assert!(!session.open_more() && !session.is_short());
    }

    #[test]
    fn the_bell_wakes_who_waits_and_whoever_would() {
        let session = SessionFile::create(&settings()).unwrap();
        let seen = session.head().full.load(Ordering::SeqCst);
        let bell = session.bell();
        let ringing = std::thread::spawn(move || bell.ring());
        // For ever, if nobody rang.
        session.wait(seen, Duration::from_secs(100_000));
        ringing.join().unwrap();
        assert_ne!(session.head().full.load(Ordering::SeqCst), seen);
        session.wait(seen, Duration::from_secs(100_000));
    }

    #[test]
    fn a_released_chunk_is_clear_and_the_file_goes_with_the_session() {
        let session = SessionFile::create(&settings()).unwrap();
        session.chunk(3).state.store(CHUNK_FULL, Ordering::Release);
        session.area(3)[7].store(9, Ordering::Relaxed);
        session.release(3);
        assert_eq!(session.chunk(3).state.load(Ordering::Acquire), CHUNK_FREE);
        assert!(session.area(3).iter().all(|word| word.load(Ordering::Relaxed) == 0));
        let path = session.path().to_owned();
        drop(session);
        assert!(!path.exists());
    }

    #[test]
    fn sessions_of_the_dead_are_removed_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let dead = directory.path().join(format!("{PREFIX}{}-0", child.id()));
        let live = directory.path().join(format!("{PREFIX}{}-0", std::process::id()));
        fs::write(&dead, "").unwrap();
        fs::write(&live, "").unwrap();
        remove_orphans(directory.path());
        assert!(!dead.exists() && live.exists());
    }

    #[test]
    fn patterns_beyond_the_room_are_refused() {
        let long = Settings { pmem: vec!["x".repeat(4096)], ..settings() };
        let refused = SessionFile::create(&long);
        assert!(matches!(refused, Err(CaptureError::Patterns { option: "--pmem", bytes: 4097 })));
    }
}
