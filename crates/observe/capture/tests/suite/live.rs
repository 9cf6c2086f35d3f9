//! Recordings of real processes: this test program runs itself again as a program that writes into the
//! session.
//!
//! The tests named `writer_*` are those programs. They are ignored, and do nothing, unless they run in a
//! session.

#![allow(clippy::unwrap_used)] // also in what the tests share

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use abi::{
    AREA_ALIGN, BLOCK_STORE, CHUNK_FILLING, CHUNK_FREE, CHUNK_FULL, Chunk, MODULE_PATH, MODULES, Module,
    SESSION_ENV, Session, block_header, header, kind,
};
use capture::{Options, Outcome, record};
use event::{Collected, Op};
use memmap2::{MmapOptions, MmapRaw};

/// A block descriptor: two accesses of 8 bytes, the last one a store; its code addresses are its own.
#[repr(C, align(4))]
struct Descriptor([u8; 24]);
#[rustfmt::skip]
static DESCRIPTOR: Descriptor = Descriptor([
    b'S', b'L', b'R', b'1', 2, 3, 5, 0,
    0xf8, 0xff, 0xff, 0xff, 3, 0, 0, 0,
    0xf0, 0xff, 0xff, 0xff, 3 | BLOCK_STORE, 4, 0, 0,
]);

/// A mapped session, as the runtime sees it.
struct Program {
    map: MmapRaw,
}

impl Program {
    fn attach() -> Option<Program> {
        let path = std::env::var_os(SESSION_ENV)?;
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let program = Program { map: MmapOptions::new().map_raw(&file).unwrap() };
        program.register();
        Some(program)
    }

    fn head(&self) -> &Session {
        // SAFETY: the collector made the session; only atomics change.
        unsafe { &*self.map.as_ptr().cast() }
    }

    /// Enters this executable into the module table.
    fn register(&self) {
        let exe = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut ours = maps.lines().filter(|line| line.ends_with(exe.to_str().unwrap()));
        let addresses = |line: &str| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split(' ').next().unwrap();
            (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap())
        };
        let first = addresses(ours.next().unwrap());
        let end = ours.next_back().map_or(first.1, |line| addresses(line).1);
        let at = self.head().next_module.fetch_add(1, Ordering::SeqCst) as usize;
        // SAFETY: inside the session; the entry is ours alone until it is ready.
        let module = unsafe {
            &mut *self.map.as_mut_ptr().add(size_of::<Session>() + at * size_of::<Module>()).cast::<Module>()
        };
        let mut path = [0; MODULE_PATH];
        path[..exe.as_os_str().len()].copy_from_slice(exe.as_os_str().as_bytes());
        (module.pid, module.parent, module.path_len) = (std::process::id(), 0, exe.as_os_str().len() as u32);
        // A position-independent executable begins at address 0 of its file.
        (module.bias, module.start, module.end, module.path) = (first.0, first.0, end, path);
        module.ready.store(1, Ordering::Release);
    }

    fn chunk(&self, at: usize) -> &Chunk {
        let offset = size_of::<Session>() + MODULES * size_of::<Module>() + at * size_of::<Chunk>();
        // SAFETY: inside the session, and all atomics.
        unsafe { &*self.map.as_ptr().add(offset).cast() }
    }

    fn area(&self, at: usize) -> &[AtomicU64] {
        let count = self.head().chunk_count as usize;
        let heads = size_of::<Session>() + MODULES * size_of::<Module>() + count * size_of::<Chunk>();
        let bytes = self.head().chunk_bytes as usize;
        // SAFETY: inside the session, and all atomics.
        unsafe {
            let start = self.map.as_ptr().add(heads.next_multiple_of(AREA_ALIGN) + at * bytes);
            std::slice::from_raw_parts(start.cast(), bytes / 8)
        }
    }

    fn position(&self) -> u64 {
        self.head().sync_seq.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// One thread's records.
struct Thread<'a> {
    program: &'a Program,
    number: u32,
    chunk: Option<usize>,
    chunks: u64,
    at: usize,
}

impl<'a> Thread<'a> {
    fn new(program: &'a Program) -> Self {
        let number = program.head().next_thread.fetch_add(1, Ordering::SeqCst);
        let mut thread = Thread { program, number, chunk: None, chunks: 0, at: 0 };
        thread.sync(kind::THREAD_START, &[]);
        thread
    }

    fn take(&mut self) -> usize {
        let program = self.program;
        program.head().writers_wait.fetch_add(1, Ordering::SeqCst);
        let at = loop {
            let free = (0..program.head().chunk_count as usize).find(|&at| {
                let state = &program.chunk(at).state;
                state.compare_exchange(CHUNK_FREE, CHUNK_FILLING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            });
            match free {
                Some(at) => break at,
                None => std::thread::sleep(Duration::from_micros(200)),
            }
        };
        program.head().writers_wait.fetch_sub(1, Ordering::SeqCst);
        let chunk = program.chunk(at);
        chunk.thread.store(self.number, Ordering::Relaxed);
        chunk.pid.store(std::process::id(), Ordering::Relaxed);
        chunk.number.store(self.chunks, Ordering::Relaxed);
        self.chunks += 1;
        at
    }

    fn room(&mut self, words: usize) -> usize {
        match self.chunk {
            Some(chunk) if self.at + words <= self.program.area(chunk).len() => chunk,
            _ => {
                self.hand_over();
                let chunk = self.take();
                (self.chunk, self.at) = (Some(chunk), 0);
                chunk
            }
        }
    }

    fn hand_over(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.program.chunk(chunk).state.store(CHUNK_FULL, Ordering::SeqCst);
            self.program.head().full.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn write(&mut self, header: u64, payload: &[u64]) {
        let chunk = self.room(1 + payload.len());
        let words = &self.program.area(chunk)[self.at..=self.at + payload.len()];
        words[1..].iter().zip(payload).for_each(|(word, &value)| word.store(value, Ordering::Relaxed));
        words[0].store(header, Ordering::Release);
        self.at += words.len();
    }

    fn sync(&mut self, kind: u8, payload: &[u64]) {
        // Room first, as in the runtime: who has a position never waits for a buffer.
        self.room(2 + payload.len());
        let position = self.program.position();
        self.write(header(kind, 0, 0), &[payload, &[position]].concat());
    }

    fn block(&mut self, addresses: [u64; 2]) {
        let [load, store] = addresses;
        self.write(block_header(&raw const DESCRIPTOR as u64), &[load, !store]);
    }
}

/// Runs the writer of that name, with 16 buffers of one page.
fn observe(writer: &str) -> (Outcome, Collected) {
    let exe = std::env::current_exe().unwrap().into_os_string();
    let words = ["--ignored", "--exact", &format!("live::{writer}")].map(OsString::from);
    let mut options = Options::new(std::iter::once(exe).chain(words).collect());
    (options.chunk_bytes, options.chunk_count) = (4096, 16);
    let mut sink = Collected::default();
    let outcome = record(&options, &mut sink).unwrap();
    (outcome, sink)
}

const THREADS: u64 = 6;
const ROUNDS: u64 = 2000;

#[test]
#[ignore = "a program for the tests to observe"]
fn writer_locks() {
    let Some(program) = Program::attach() else { return };
    let lock = Mutex::new(0_u64);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut thread = Thread::new(&program);
                for _ in 0..ROUNDS {
                    let mut counter = lock.lock().unwrap();
                    thread.sync(kind::LOCK, &[64]);
                    *counter += 1;
                    thread.block([*counter, *counter]);
                    thread.sync(kind::UNLOCK, &[64]);
                }
                thread.sync(kind::THREAD_END, &[]);
                thread.hand_over();
            });
        }
    });
}

#[test]
fn threads_that_contend_for_a_lock_are_merged_in_its_order() {
    let (outcome, sink) = observe("writer_locks");
    assert!(outcome.status.success() && outcome.attached);
    assert_eq!(outcome.warnings, []);
    assert_eq!(outcome.events, THREADS * (2 + 4 * ROUNDS));
    assert_eq!(outcome.threads.len() as u64, THREADS);
    let positions: Vec<u64> = sink.events.iter().filter_map(|(_, event)| event.op.seq()).collect();
    assert_eq!(positions, (1..=THREADS * (2 + 2 * ROUNDS)).collect::<Vec<_>>());
    let stored: Vec<u64> = sink.events.iter().filter_map(|(_, event)| Some(event.op.stored()?.0)).collect();
    assert_eq!(
        stored,
        (1..=THREADS * ROUNDS).collect::<Vec<_>>(),
        "the counter's values in the lock's order"
    );
    let load = sink.events.iter().find(|(_, event)| matches!(event.op, Op::Load { .. })).unwrap().1;
    let module = &sink.table.site(load.site).unwrap().module;
    assert!(std::env::current_exe().unwrap().ends_with(module));
}

#[test]
#[ignore = "a program for the tests to observe"]
fn writer_killed() {
    let Some(program) = Program::attach() else { return };
    let mut thread = Thread::new(&program);
    (1..=1000).for_each(|at| thread.block([at, at]));
    // A record whose header was not written yet.
    let chunk = thread.chunk.unwrap();
    program.area(chunk)[thread.at + 1].store(7, Ordering::Relaxed);
    // SAFETY: touches no memory.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn a_killed_program_loses_nothing_that_it_wrote() {
    let (outcome, sink) = observe("writer_killed");
    assert_eq!(outcome.status.signal(), Some(libc::SIGKILL));
    assert_eq!(outcome.warnings, []);
    assert_eq!(outcome.events, 1 + 2 * 1000);
    assert_eq!(sink.events.last().unwrap().1.op, Op::Store { addr: 1000, len: 8 });
}

#[test]
#[ignore = "a program for the tests to observe"]
#[allow(clippy::zombie_processes)] // the child outlives this process
fn writer_leaves_a_child() {
    let Some(program) = Program::attach() else { return };
    let mut thread = Thread::new(&program);
    let script = "sleep 0.3; exec \"$0\" --ignored --exact live::writer_locks";
    let mut child = std::process::Command::new("sh");
    child.arg("-c").arg(script).arg(std::env::current_exe().unwrap());
    child.spawn().unwrap();
    // It attaches while this process lives, so that the recording waits for it.
    while program.head().next_module.load(Ordering::SeqCst) < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    thread.sync(kind::THREAD_END, &[]);
    thread.hand_over();
}

#[test]
fn the_recording_lasts_until_the_last_process_ends() {
    let (outcome, _) = observe("writer_leaves_a_child");
    assert!(outcome.status.success());
    assert_eq!(outcome.warnings, []);
    assert_eq!(outcome.processes.len(), 2);
    assert_eq!(outcome.events, 2 + THREADS * (2 + 4 * ROUNDS));
}

#[test]
#[ignore = "a program for the tests to observe"]
fn writer_dies_between_position_and_record() {
    let Some(program) = Program::attach() else { return };
    let mut thread = Thread::new(&program);
    program.position();
    thread.sync(kind::THREAD_END, &[]);
    thread.hand_over();
}

#[test]
fn a_position_that_nobody_recorded_is_reported() {
    let (outcome, sink) = observe("writer_dies_between_position_and_record");
    assert_eq!(outcome.warnings.len(), 1);
    assert!(outcome.warnings[0].to_string().contains("synchronisation (1) are missing"));
    let positions: Vec<u64> = sink.events.iter().filter_map(|(_, event)| event.op.seq()).collect();
    assert_eq!(positions, [1, 2]);
}
