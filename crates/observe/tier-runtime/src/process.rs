//! The process begins, forks and ends.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::control::{Control, FORKS};
use crate::kinds::Kinds;
use crate::lock::Lock;
use crate::log::Log;
use crate::remedies::{self, Remedies};
use crate::settings::{Settings, Source};
use crate::sites::{STATE, State};
use crate::{calls, modules, report, stack};

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
    let kinds = settings.kinds.as_deref().map(|path| Kinds::read(path, settings.nodes)).unwrap_or_default();
    let mut state = State::new(kinds);
    if settings.source == Source::Counters {
        state.without_views();
    }
    state.log = settings.log.as_deref().and_then(Log::new);
    state.remedies = settings.remedies.as_deref().map(Remedies::read).unwrap_or_default();
    let prefaults = state.remedies.prefaults();
    let own = modules::with(&state.modules, begin as *const () as usize).map_or((0, 0), |own| own.range);
    stack::begin(own.0, own.1);
    let (from, source) = (settings.from, settings.source);
    STATE.with(|held| *held = Some(state));
    let control = Control::new(settings);
    report::write(&control, false);
    CONTROL.with(|held| *held = Some(control));
    // SAFETY: functions that stay as long as the process.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    calls::begin(from);
    if prefaults {
        let thread = Builder::new().name("strandline-prefault".to_owned());
        if without_signals(|| thread.spawn(remedies::prefault)).is_ok() {
            remedies::begin();
        }
    }
    if source != Source::Counters {
        let thread = without_signals(|| Builder::new().name("strandline-tier".to_owned()).spawn(run));
        THREAD.with(|own| *own = thread.ok());
    }
}

/// Signals are for the program's threads.
fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: two sets of signals that are filled before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigdelset(all.as_mut_ptr(), libc::SIGSEGV);
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}

fn run() {
    while !STOP.load(Ordering::Acquire) {
        let Some(pause) = CONTROL.with(|control| control.as_ref().map(Control::pause)) else { return };
        let guard = STOPPED.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stopping = |_: &mut ()| !STOP.load(Ordering::Acquire);
        drop(STOPPED.1.wait_timeout_while(guard, pause, stopping));
        if STOP.load(Ordering::Acquire) {
            return;
        }
        CONTROL.with(|control| {
            let Some(control) = control else { return };
            control.tick();
            // A program that is killed leaves what was written last.
            if control.ticks.is_power_of_two() || control.ticks.is_multiple_of(16) {
                report::write(control, false);
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
    calls::end();
    CONTROL.with(|control| {
        if let Some(mut control) = control.take() {
            control.fed();
            report::write(&control, true);
        }
    });
}

/// Nothing is noted while a process forks.
extern "C" fn before_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    STATE.lock();
}

extern "C" fn in_parent() {
    STATE.unlock();
}

/// The child is not looked at: the thread was the parent's. What it starts in its place begins anew.
extern "C" fn in_child() {
    // SAFETY: `before_fork` holds one lock; the other one's thread is the parent's, and nobody looks at its value any more.
    unsafe {
        CONTROL.with_held(|control| std::mem::forget(control.take()));
        STATE.with_held(|state| std::mem::forget(state.take()));
    }
    calls::end();
    remedies::end();
    STATE.unlock();
    CONTROL.unlock();
    THREAD.with(|thread| std::mem::forget(thread.take()));
}
