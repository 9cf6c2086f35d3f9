//! The software accelerator: a pool of threads behind the interface of a GPU. What a kernel launch costs,
//! and what it costs that CPU threads use the same region meanwhile, are parameters, so that the shapes of
//! a GPU can be had anywhere.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::accelerator::{foreign, in_range, room};
use crate::{Accelerator, Error, Info, Job, Kernel, MemoryKind, Pending, Region};

/// Invocations that a thread takes at a time.
const PIECE: u32 = 64;

/// Parameters of the software accelerator.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// Its threads.
    pub threads: usize,
    /// What a launch costs before the first invocation.
    pub launch: Duration,
    /// By how much an invocation is longer while CPU threads use one of its regions.
    pub interference: Duration,
    /// Bytes that it allocates at most.
    pub memory_bytes: u64,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        BatchOptions {
            threads: thread::available_parallelism().map_or(2, usize::from),
            launch: Duration::ZERO,
            interference: Duration::ZERO,
            memory_bytes: 1 << 40,
        }
    }
}

/// The software accelerator.
pub struct Batch {
    info: Info,
    options: BatchOptions,
    used: Arc<AtomicUsize>,
    senders: Vec<Sender<Arc<Work>>>,
    threads: Vec<JoinHandle<()>>,
}

/// Words in the CPU's memory.
struct Words {
    words: Vec<AtomicU32>,
    users: AtomicI32,
    used: Arc<AtomicUsize>,
}

/// A launched kernel.
struct Work {
    kernel: Kernel,
    regions: Vec<Arc<dyn Region>>,
    parameters: [u32; 12],
    invocations: u32,
    begin: Instant,
    interference: Duration,
    next: AtomicU32,
    left: Mutex<usize>,
    ended: Condvar,
    done: AtomicBool,
    failed: AtomicBool,
}

impl Batch {
    /// Starts its threads.
    #[must_use]
    pub fn new(options: BatchOptions) -> Batch {
        let count = options.threads.clamp(1, 1024);
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for number in 0..count {
            let (sender, receiver) = channel::<Arc<Work>>();
            let body = move || receiver.iter().for_each(|work| work.run());
            // A machine that has no thread left gets fewer.
            if let Ok(thread) = thread::Builder::new().name(format!("batch-{number}")).spawn(body) {
                senders.push(sender);
                threads.push(thread);
            }
        }
        let info = Info {
            backend: "batch",
            device: format!("software accelerator, {} threads", threads.len()),
            driver: format!("strandline {}", env!("CARGO_PKG_VERSION")),
            software: true,
            memory: MemoryKind::Unified,
            memory_bytes: options.memory_bytes,
            region_bytes_max: options.memory_bytes,
            concurrent: true,
            steps_max: u32::MAX,
        };
        Batch { info, options, used: Arc::default(), senders, threads }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.senders.clear();
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

impl Accelerator for Batch {
    fn info(&self) -> &Info {
        &self.info
    }

    fn allocate(&self, words: usize) -> Result<Arc<dyn Region>, Error> {
        let full = |reason: &str| Error::OutOfMemory {
            device: self.info.device.clone(),
            bytes: (words as u64).saturating_mul(4),
            reason: reason.to_owned(),
        };
        let bytes = words.checked_mul(4).ok_or_else(|| full("it is beyond any memory"))?;
        let all = self.used.load(Ordering::Relaxed).saturating_add(bytes);
        if all as u64 > self.options.memory_bytes {
            return Err(full("beyond the accelerator's memory"));
        }
        room(bytes as u64)?;
        let mut all = Vec::new();
        all.try_reserve_exact(words).map_err(|error| full(&error.to_string()))?;
        all.resize_with(words, || AtomicU32::new(0));
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Ok(Arc::new(Words { words: all, users: AtomicI32::new(0), used: self.used.clone() }))
    }

    fn submit(&self, job: Job<'_>) -> Result<Box<dyn Pending>, Error> {
        job.check()?;
        if job.regions.iter().any(|region| !region.as_any().is::<Words>()) {
            return Err(foreign());
        }
        let mut parameters = [0; 12];
        parameters[..job.parameters.len()].copy_from_slice(job.parameters);
        let work = Arc::new(Work {
            kernel: job.kernel,
            regions: job.regions.iter().map(|&region| region.clone()).collect(),
            parameters,
            invocations: job.invocations,
            begin: Instant::now() + self.options.launch,
            interference: self.options.interference,
            next: AtomicU32::new(0),
            left: Mutex::new(self.senders.len()),
            ended: Condvar::new(),
            done: AtomicBool::new(self.senders.is_empty()),
            failed: AtomicBool::new(self.senders.is_empty()),
        });
        for sender in &self.senders {
            sender.send(work.clone()).map_err(|_| lost(&self.info.device))?;
        }
        Ok(Box::new(Launched { work, device: self.info.device.clone() }))
    }
}

fn lost(device: &str) -> Error {
    Error::Lost { device: device.to_owned(), reason: "a thread of it ended".to_owned() }
}

impl Drop for Words {
    fn drop(&mut self) {
        self.used.fetch_sub(self.words.len() * 4, Ordering::Relaxed);
    }
}

impl Region for Words {
    fn words(&self) -> usize {
        self.words.len()
    }

    fn write(&self, at: usize, data: &[u32]) -> Result<(), Error> {
        in_range(at, data.len(), self.words.len())?;
        for (word, &value) in self.words[at..].iter().zip(data) {
            word.store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    fn read(&self, at: usize, data: &mut [u32]) -> Result<(), Error> {
        in_range(at, data.len(), self.words.len())?;
        for (value, word) in data.iter_mut().zip(&self.words[at..]) {
            *value = word.load(Ordering::Relaxed);
        }
        Ok(())
    }

    fn mapped(&self) -> Option<&[AtomicU32]> {
        Some(&self.words)
    }

    fn used(&self, change: i32) {
        self.users.fetch_add(change, Ordering::Relaxed);
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Work {
    /// What one thread does of it.
    fn run(&self) {
        while Instant::now() < self.begin {
            spin_loop();
        }
        let regions: Vec<&[AtomicU32]> = self.regions.iter().filter_map(|region| region.mapped()).collect();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            loop {
                let from = self.next.fetch_add(PIECE, Ordering::Relaxed);
                // The counter may pass the end by one piece per thread and must not wrap.
                if from >= self.invocations {
                    self.next.fetch_sub(PIECE, Ordering::Relaxed);
                    break;
                }
                let to = from.saturating_add(PIECE).min(self.invocations);
                for id in from..to {
                    self.kernel.on_host(id, &self.parameters, &regions);
                }
                self.interfere(to - from);
            }
        }));
        if caught.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        let Ok(mut left) = self.left.lock() else { return };
        *left -= 1;
        if *left == 0 {
            self.done.store(true, Ordering::Release);
            self.ended.notify_all();
        }
    }

    /// Takes the time that CPU threads in the same regions cost.
    fn interfere(&self, invocations: u32) {
        let uses = |region: &Arc<dyn Region>| {
            region
                .as_any()
                .downcast_ref::<Words>()
                .is_some_and(|words| words.users.load(Ordering::Relaxed) > 0)
        };
        if self.interference.is_zero() || !self.regions.iter().any(uses) {
            return;
        }
        let end = Instant::now() + self.interference * invocations;
        while Instant::now() < end {
            spin_loop();
        }
    }
}

/// A launched kernel, as its user sees it.
struct Launched {
    work: Arc<Work>,
    device: String,
}

impl Launched {
    fn result(&self) -> Result<(), Error> {
        if self.work.failed.load(Ordering::Relaxed) { Err(lost(&self.device)) } else { Ok(()) }
    }
}

impl Pending for Launched {
    fn done(&mut self) -> Result<bool, Error> {
        let done = self.work.done.load(Ordering::Acquire);
        self.result().map(|()| done)
    }

    fn wait(&mut self) -> Result<(), Error> {
        let Ok(mut left) = self.work.left.lock() else { return Err(lost(&self.device)) };
        while *left > 0 {
            let Ok(next) = self.work.ended.wait(left) else { return Err(lost(&self.device)) };
            left = next;
        }
        drop(left);
        self.result()
    }
}
