//! SIGINT, SIGTERM and SIGHUP at the collector, so that a recording ends in order.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

static COUNT: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicI32 = AtomicI32::new(0);
static FROM_TERMINAL: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler installed with SA_SIGINFO.
    let from_terminal = unsafe { (*info).si_code } == libc::SI_KERNEL;
    LAST.store(signal, Ordering::Relaxed);
    FROM_TERMINAL.store(from_terminal.into(), Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Release);
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Which.
    pub signal: i32,
    /// Whether the terminal sent it, and hence to the observed program too.
    pub from_terminal: bool,
}

/// While this lives, the signals are noted; then they do again what they did before.
pub struct Interrupts {
    before: Vec<(i32, libc::sigaction)>,
    seen: u32,
}

impl Interrupts {
    /// Starts noting.
    ///
    /// # Errors
    /// The system's.
    pub fn note() -> io::Result<Self> {
        let mut interrupts = Interrupts { before: Vec::new(), seen: COUNT.load(Ordering::Acquire) };
        for signal in SIGNALS {
            // SAFETY: `sigaction` is plain data, for which zeros are valid.
            let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
            action.sa_sigaction =
                note as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: both point to valid actions; the handler only touches atomics.
            if unsafe { libc::sigaction(signal, &action, &mut before) } != 0 {
                return Err(io::Error::last_os_error());
            }
            interrupts.before.push((signal, before));
        }
        Ok(interrupts)
    }

    /// The last signal that came since the last call.
    pub fn take(&mut self) -> Option<Interrupt> {
        let count = COUNT.load(Ordering::Acquire);
        if count == self.seen {
            return None;
        }
        self.seen = count;
        let from_terminal = FROM_TERMINAL.load(Ordering::Relaxed) == 1;
        Some(Interrupt { signal: LAST.load(Ordering::Relaxed), from_terminal })
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: the action is the one that `sigaction` returned.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}
