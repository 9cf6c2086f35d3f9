//! A session, and a collector that copies chunks out as they become full.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::{Record, records};
use abi::{
    AREA_ALIGN, CHUNK_FILLING, CHUNK_FREE, CHUNK_FULL, Chunk, MODE_RECORD, MODULES, Module, SESSION_ENV,
    SESSION_MAGIC, SESSION_VERSION, Session,
};

pub struct Settings {
    pub mode: u32,
    pub flags: u32,
    pub chunk_bytes: u32,
    pub chunk_count: u32,
    /// 0: this process.
    pub collector_pid: u32,
    pub sampling: (u64, u64),
    pub pmem: &'static str,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: MODE_RECORD,
            flags: 0,
            chunk_bytes: 64 << 10,
            chunk_count: 64,
            collector_pid: 0,
            sampling: (0, 0),
            pmem: "",
        }
    }
}

pub struct TestSession {
    pub path: String,
    start: *mut u8,
    chunk_bytes: usize,
    chunk_count: usize,
}

// SAFETY: the mapping stays until the session is dropped, and is only accessed as atomics while others write.
unsafe impl Sync for TestSession {}

/// A chunk that was copied out.
#[derive(Clone, Debug)]
pub struct Copied {
    pub thread: u32,
    pub pid: u32,
    pub number: u64,
    pub by_handler: bool,
    pub words: Vec<u64>,
}

/// What a program left behind.
pub struct Collected {
    pub output: Output,
    pub chunks: Vec<Copied>,
}

impl Collected {
    /// Each thread's records, in order. `accesses` says how many addresses follow a descriptor's.
    pub fn threads(&self, accesses: impl Fn(u64) -> usize + Copy) -> BTreeMap<u32, Vec<Record>> {
        let mut chunks: Vec<&Copied> = self.chunks.iter().collect();
        chunks.sort_by_key(|chunk| (chunk.thread, chunk.number));
        let mut threads: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
        for chunk in chunks {
            threads.entry(chunk.thread).or_default().extend(records(&chunk.words, accesses));
        }
        threads
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
}

impl TestSession {
    pub fn new(settings: &Settings) -> TestSession {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = format!("/dev/shm/strandline-runtime-test-{}-{number}", std::process::id());
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("a new file");
        let (chunk_bytes, chunk_count) = (settings.chunk_bytes as usize, settings.chunk_count as usize);
        let bytes = areas_at(chunk_count) + chunk_count * chunk_bytes;
        file.set_len(bytes as u64).expect("room");
        // SAFETY: a new mapping of a file that is so long.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let mut session = TestSession { path, start: start.cast(), chunk_bytes, chunk_count };
        session.write_head(settings);
        session
    }

    fn write_head(&mut self, settings: &Settings) {
        // SAFETY: the mapping begins with room for it, zero bytes are valid, and nobody else knows of it yet.
        let head = unsafe { &mut *self.start.cast::<Session>() };
        let own = std::process::id();
        head.magic = SESSION_MAGIC;
        head.version = SESSION_VERSION;
        head.flags = settings.flags;
        head.chunk_bytes = settings.chunk_bytes;
        head.chunk_count = settings.chunk_count;
        head.open_chunks = AtomicU32::new(settings.chunk_count);
        head.collector_pid = if settings.collector_pid == 0 { own } else { settings.collector_pid };
        (head.sample_recorded, head.sample_period) = settings.sampling;
        head.pmem_patterns_len = settings.pmem.len() as u32;
        head.pmem_patterns[..settings.pmem.len()].copy_from_slice(settings.pmem.as_bytes());
        head.mode = AtomicU32::new(settings.mode);
    }

    pub fn head(&self) -> &Session {
        // SAFETY: written by `write_head`; only atomics change now.
        unsafe { &*self.start.cast::<Session>() }
    }

    fn chunk(&self, at: usize) -> &Chunk {
        assert!(at < self.chunk_count);
        // SAFETY: inside the mapping; all atomics.
        unsafe { &*self.start.add(chunks_at()).cast::<Chunk>().add(at) }
    }

    /// The complete entries of the module table.
    pub fn modules(&self) -> Vec<&Module> {
        let used = (self.head().next_module.load(Ordering::Acquire) as usize).min(MODULES);
        // SAFETY: inside the mapping.
        let module = |at: usize| unsafe { &*self.start.add(size_of::<Session>()).cast::<Module>().add(at) };
        (0..used).map(module).filter(|module| module.ready.load(Ordering::Acquire) == 1).collect()
    }

    /// Copies a chunk out up to its first zero word and gives it back.
    fn copy(&self, at: usize) -> Copied {
        let chunk = self.chunk(at);
        // SAFETY: inside the mapping, and the writer is done with it or dead.
        let area = unsafe {
            let start = self.start.add(areas_at(self.chunk_count) + at * self.chunk_bytes);
            std::slice::from_raw_parts(start.cast::<AtomicU64>(), self.chunk_bytes / 8)
        };
        let words = area.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        area.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let copied = Copied {
            thread: chunk.thread.load(Ordering::Relaxed),
            pid: chunk.pid.load(Ordering::Relaxed),
            number: chunk.number.load(Ordering::Relaxed),
            by_handler: chunk.reserved.load(Ordering::Relaxed) & 1 != 0,
            words,
        };
        chunk.state.store(CHUNK_FREE, Ordering::SeqCst);
        self.head().free.fetch_add(1, Ordering::SeqCst);
        // SAFETY: wakes sleepers on a valid word.
        unsafe { libc::syscall(libc::SYS_futex, &self.head().free, libc::FUTEX_WAKE, i32::MAX) };
        copied
    }

    fn copy_all(&self, state: u32, chunks: &mut Vec<Copied>) {
        for at in 0..self.chunk_count {
            if self.chunk(at).state.load(Ordering::Acquire) == state {
                chunks.push(self.copy(at));
            }
        }
    }

    /// Runs a program to its end, collecting; fails the test if it takes a minute.
    pub fn run(&self, mut command: Command) -> Collected {
        self.run_with(&mut command, true)
    }

    /// As `run`; without `collecting`, chunks stay full.
    pub fn run_with(&self, command: &mut Command, collecting: bool) -> Collected {
        let command = command.env(SESSION_ENV, &self.path).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the program starts");
        let mut stdout = child.stdout.take().expect("piped");
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut stdout, &mut bytes).expect("readable");
            bytes
        });
        let mut chunks = Vec::new();
        let mut naps = 0;
        let status = loop {
            if collecting {
                self.copy_all(CHUNK_FULL, &mut chunks);
            }
            if let Some(status) = child.try_wait().expect("the program can be waited for") {
                break status;
            }
            std::thread::sleep(Duration::from_millis(1));
            naps += 1;
            if naps > 60_000 {
                child.kill().expect("the program can be killed");
                panic!("the program does not end");
            }
        };
        self.copy_all(CHUNK_FULL, &mut chunks);
        self.copy_all(CHUNK_FILLING, &mut chunks);
        let stdout = reader.join().expect("the reader ends");
        Collected { output: Output { status, stdout, stderr: Vec::new() }, chunks }
    }
}

impl Drop for TestSession {
    fn drop(&mut self) {
        let bytes = areas_at(self.chunk_count) + self.chunk_count * self.chunk_bytes;
        // SAFETY: our own mapping; no reference outlives the session.
        unsafe { libc::munmap(self.start.cast(), bytes) };
        let _ = std::fs::remove_file(&self.path);
    }
}

fn chunks_at() -> usize {
    size_of::<Session>() + MODULES * size_of::<Module>()
}

fn areas_at(chunk_count: usize) -> usize {
    (chunks_at() + chunk_count * size_of::<Chunk>()).next_multiple_of(AREA_ALIGN)
}
