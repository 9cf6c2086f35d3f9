//! A thread that does one step again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Runs until it is dropped.
#[derive(Debug)]
pub struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread of that name that does `step`, and sleeps as long as it says.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn start(name: &str, mut step: impl FnMut() -> Duration + Send + 'static) -> std::io::Result<Worker> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            while !stopped.load(Ordering::Acquire) {
                let pause = step();
                if !pause.is_zero() {
                    thread::park_timeout(pause);
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Worker { stop, thread: Some(thread) })
    }

    /// Ends its sleep.
    pub fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A step that panicked has said so.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn it_works_until_it_is_dropped() {
        let steps = Arc::new(AtomicU32::new(0));
        let seen = steps.clone();
        let worker = Worker::start("steps", move || {
            seen.fetch_add(1, Ordering::Relaxed);
            Duration::from_millis(1)
        });
        let worker = worker.expect("a thread");
        while steps.load(Ordering::Relaxed) < 3 {
            worker.wake();
            thread::yield_now();
        }
        drop(worker);
        let after = steps.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
        assert_eq!(steps.load(Ordering::Relaxed), after);
    }
}
