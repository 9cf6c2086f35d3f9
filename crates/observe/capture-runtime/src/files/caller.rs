//! Who is behind a call that the C++ library made: its streams and its `filesystem` write, rename and remove
//! for the program.
//!
//! The stack is walked by the unwinder that such a program has loaded anyway.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::base::session::session;
use crate::real::next::next;
use abi::MODULES;

/// `_Unwind_Backtrace` and `_Unwind_GetIP`; 0: the program has none.
static BACKTRACE: AtomicUsize = AtomicUsize::new(0);
static GET_IP: AtomicUsize = AtomicUsize::new(0);

/// Looks the unwinder up.
pub fn prepare() {
    BACKTRACE.store(next(c"_Unwind_Backtrace"), Ordering::Relaxed);
    GET_IP.store(next(c"_Unwind_GetIP"), Ordering::Relaxed);
}

type Visit = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// What the unwinder returns to go on, and to stop.
const GO_ON: c_int = 0;
const STOP: c_int = 4;

/// The code that a call which came from `pc` is to be put down to: `pc` itself if it is not the C++
/// library's.
pub fn who(pc: u64) -> u64 {
    let (backtrace, get_ip) = (BACKTRACE.load(Ordering::Relaxed), GET_IP.load(Ordering::Relaxed));
    if backtrace == 0 || get_ip == 0 || !is_of(pc, &CPP) {
        return pc;
    }
    let mut found = 0;
    // SAFETY: the function of that name has that type; the state is valid during the call.
    unsafe {
        let backtrace: unsafe extern "C" fn(Visit, *mut c_void) -> c_int = core::mem::transmute(backtrace);
        backtrace(visit, (&raw mut found).cast());
    }
    if found == 0 { pc } else { found }
}

extern "C" fn visit(frame: *mut c_void, found: *mut c_void) -> c_int {
    // SAFETY: looked up before the walk began; the frame is the unwinder's.
    let ip = unsafe {
        let get_ip: unsafe extern "C" fn(*mut c_void) -> usize =
            core::mem::transmute(GET_IP.load(Ordering::Relaxed));
        get_ip(frame) as u64
    };
    if is_of(ip, &CPP) || is_of(ip, &OTHERS) {
        return GO_ON;
    }
    // SAFETY: `who`'s.
    unsafe { found.cast::<u64>().write(ip) };
    STOP
}

/// The C++ library, as files are named.
const CPP: [&[u8]; 2] = [b"libstdc++.so", b"libc++.so"];
/// What else may lie between.
const OTHERS: [&[u8]; 2] = [b"libc.so", b"libstrandline_rt.so"];

/// Whether the code is in a file with one of these names.
fn is_of(pc: u64, names: &[&[u8]]) -> bool {
    let Some(session) = session() else { return false };
    let used = session.head().next_module.load(Ordering::Acquire) as usize;
    (0..used.min(MODULES)).filter_map(|at| session.module(at)).any(|module| {
        // SAFETY: in the table; `ready` orders the other fields, which do not change after.
        let module = unsafe { &*module };
        if module.ready.load(Ordering::Acquire) != 1 || !(module.start..module.end).contains(&pc) {
            return false;
        }
        let path = module.path.get(..module.path_len as usize).unwrap_or_default();
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        names.iter().any(|wanted| name.starts_with(wanted))
    })
}
