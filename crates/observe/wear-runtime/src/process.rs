//! The process begins, forks and ends.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::calls;
use crate::control::Control;
use crate::lock::Lock;
use crate::memory::Memory;
use crate::settings::Settings;

/// With the constructors of libraries.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// After their destructors.
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

static CONTROL: Lock<Option<Control>> = Lock::new(None);
static THREAD: Lock<Option<JoinHandle<()>>> = Lock::new(None);
static STOP: AtomicBool = AtomicBool::new(false);
static STOPPED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

extern "C" fn begin() {
    let Some(settings) = Settings::read() else { return };
    let memory = match Memory::new(&settings) {
        Ok(memory) => memory,
        Err(error) => return refuse(&settings, &error),
    };
    calls::begin(memory.base(), memory.pages(), settings.page as usize, settings.from);
    let mut first = Control::new(settings, memory);
    first.write(0);
    CONTROL.with(|control| *control = Some(first));
    // SAFETY: functions that stay as long as the process.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    let thread = without_signals(|| Builder::new().name("strandline-wear".to_owned()).spawn(run));
    THREAD.with(|own| *own = thread.ok());
}

/// Says why nothing is levelled; the program runs as without us.
fn refuse(settings: &Settings, error: &io::Error) {
    let mut name = settings.out.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    std::fs::write(name, format!("refused {error}\n")).ok();
}

/// Signals are for the program's threads.
fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: two sets of signals that are filled before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}

fn run() {
    let mut ticks = 0u32;
    while !STOP.load(Ordering::Acquire) {
        let Some(pause) = CONTROL.with(|control| control.as_ref().map(Control::pause)) else { return };
        let guard = STOPPED.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stopping = |_: &mut ()| !STOP.load(Ordering::Acquire);
        drop(STOPPED.1.wait_timeout_while(guard, pause, stopping));
        let used = calls::used();
        CONTROL.with(|control| {
            let Some(control) = control else { return };
            control.tick(used);
            ticks += 1;
            // A program that is killed leaves what was written last.
            if ticks.is_multiple_of(4) {
                control.write(used);
            }
        });
    }
}

extern "C" fn finish() {
    STOP.store(true, Ordering::Release);
    {
        let _guard = STOPPED.0.lock().unwrap_or_else(PoisonError::into_inner);
        STOPPED.1.notify_all();
    }
    if let Some(thread) = THREAD.with(Option::take) {
        thread.join().ok();
    }
    let used = calls::used();
    CONTROL.with(|control| {
        if let Some(control) = control {
            control.end(used);
        }
    });
}

/// Ends of a pipe by which a child says that it has copied its parent's memory.
static PIPE: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// No page moves and no run is given while a process forks.
extern "C" fn before_fork() {
    CONTROL.lock();
    calls::lock();
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    PIPE.iter().zip(ends).for_each(|(end, fd)| end.store(fd, Ordering::Relaxed));
}

/// The parent waits until the child has its copy, or is gone.
extern "C" fn in_parent() {
    close(1);
    let mut byte = 0u8;
    // SAFETY: room for a byte; the read ends when the child has written or closed its end.
    unsafe { libc::read(PIPE[0].load(Ordering::Relaxed), (&raw mut byte).cast(), 1) };
    close(0);
    calls::unlock();
    CONTROL.unlock();
}

/// The child's memory is its own, and nobody levels it.
extern "C" fn in_child() {
    let used = calls::used_under_lock();
    // SAFETY: `before_fork` holds the lock.
    let copied = unsafe {
        CONTROL.with_held(|control| match control.take() {
            Some(parents) => {
                let copied = parents.memory().make_private(used);
                std::mem::forget(parents);
                copied
            }
            None => Ok(()),
        })
    };
    if copied.is_err() {
        const WHY: &[u8] = b"strandline wear run: no memory for the copy of a process\n";
        // SAFETY: bytes that stay as long as the process; `abort` ends it.
        unsafe {
            libc::write(2, WHY.as_ptr().cast(), WHY.len());
            libc::abort();
        }
    }
    close(1);
    close(0);
    calls::unlock();
    CONTROL.unlock();
    // The thread was the parent's.
    THREAD.with(|thread| std::mem::forget(thread.take()));
}

fn close(end: usize) {
    // SAFETY: a descriptor of the pipe, or none.
    unsafe { libc::close(PIPE[end].swap(-1, Ordering::Relaxed)) };
}
