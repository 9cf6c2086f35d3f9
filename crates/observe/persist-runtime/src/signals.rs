//! Signals: a handler is code of its thread, and must not come between the parts of an announcement.
//!
//! Ours stands in front of the program's handlers. If the thread is in this library, the signal waits: it is
//! blocked where it interrupted, and sent again when the thread leaves. A fault is the thread's own doing and
//! does not wait.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use libc::{SIG_DFL, SIG_ERR, SIG_IGN, sighandler_t, siginfo_t};

use crate::local::{announce, announce_several, local};
use crate::mapping;
use crate::real::real;

/// Signals that there are, plus 1.
const SIGNALS: usize = 65;
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static FLAGS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];
/// Signals that are blocked as a handler runs: the first word of a set, which has them all.
static MASKS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];

unsafe extern "C" {
    /// The C library's own, which nobody interposes.
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
}

/// Signals that wait until a thread leaves, each at most once: it is blocked meanwhile.
pub struct Deferred {
    numbers: Cell<u64>,
    infos: UnsafeCell<[MaybeUninit<siginfo_t>; SIGNALS]>,
}

impl Deferred {
    pub const fn new() -> Self {
        Deferred { numbers: Cell::new(0), infos: UnsafeCell::new([const { MaybeUninit::uninit() }; SIGNALS]) }
    }

    /// Whether any waits.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.numbers.get() != 0
    }
}

/// Faults, which come from the instruction that is interrupted.
fn is_fault(signal: c_int, info: &siginfo_t) -> bool {
    matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGSYS
    ) && info.si_code > 0
}

extern "C-unwind" fn enter(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handler = HANDLERS.get(signal as usize).map_or(0, |handler| handler.load(Ordering::Acquire));
    if handler == 0 {
        return;
    }
    // SAFETY: the kernel's.
    let waits = local(|local| local.inside.get()) && !is_fault(signal, unsafe { &*info });
    if waits {
        local(|local| {
            // SAFETY: this thread's alone, and the signal is not pending here yet: it would be blocked.
            unsafe { (*local.deferred.infos.get())[signal as usize].write(*info) };
            local.deferred.numbers.set(local.deferred.numbers.get() | 1 << (signal - 1));
            let context = context.cast::<libc::ucontext_t>();
            // SAFETY: the kernel's context of the code that was interrupted, to which it returns.
            unsafe { libc::sigaddset(&raw mut (*context).uc_sigmask, signal) };
        });
        again(signal);
        return;
    }
    // SAFETY: the program gave it as a handler; one that takes the signal only ignores the other arguments.
    let handler = unsafe {
        std::mem::transmute::<usize, extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void)>(handler)
    };
    let (last, touched) = local(|local| (local.last.get(), local.touched.replace(false)));
    let several = local(|local| local.several.get());
    let shown = mapping::shown();
    // Whoever sent it did something before.
    if !local(|local| local.inside.get()) {
        crate::calls::received();
    }
    handler(signal, info, context);
    mapping::show_again(shown);
    local(|local| {
        // What the handler did may have ended the region that a store of the interrupted code was announced
        // in, and that store may be still to come.
        if local.touched.get() && !local.inside.get() {
            if last.1 > 0 {
                announce(last.0, last.1);
            } else if several.1 > 0 {
                // SAFETY: of the call that was interrupted, which has not ended: whoever leaves it by a jump
                // comes through `jumps`.
                announce_several(unsafe { std::slice::from_raw_parts(several.0, several.1) });
            }
        }
        local.last.set(last);
        local.several.set(several);
        local.touched.set(local.touched.get() || touched);
    });
}

/// Puts a handler for one signal in its place once more: its signal comes again.
fn again(signal: c_int) {
    let flags = FLAGS[signal as usize].load(Ordering::Relaxed);
    if flags & libc::SA_RESETHAND == 0 {
        return;
    }
    // SAFETY: zero bytes are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = enter as *const () as usize;
    action.sa_flags = flags | libc::SA_SIGINFO;
    // SAFETY: a set begins with that word.
    unsafe { (&raw mut action.sa_mask).cast::<u64>().write(MASKS[signal as usize].load(Ordering::Relaxed)) };
    // SAFETY: a valid action.
    unsafe { __sigaction(signal, &action, std::ptr::null_mut()) };
}

/// Delivers what has come meanwhile, when a thread leaves.
pub fn left() {
    local(|local| {
        if local.deferred.any() && !local.inside.get() {
            deliver(&local.deferred);
        }
    });
}

/// Sends the signals that waited once more, and lets them come.
#[cold]
pub fn deliver(deferred: &Deferred) {
    let numbers = deferred.numbers.replace(0);
    // The calls here are none of the program's.
    local(|local| local.inside.set(true));
    // SAFETY: zero bytes are a valid set of signals.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in (1..SIGNALS as c_int).filter(|signal| numbers >> (signal - 1) & 1 == 1) {
        // SAFETY: written when the number's bit was set.
        unsafe {
            let info = (*deferred.infos.get())[signal as usize].as_ptr();
            let (process, thread) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info);
            libc::sigaddset(&mut set, signal);
        }
    }
    local(|local| local.inside.set(false));
    let real = real!(c"pthread_sigmask", fn(c_int, *const libc::sigset_t, *mut libc::sigset_t) -> c_int);
    // SAFETY: a valid set.
    unsafe { real(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) };
}

fn install(signal: c_int, new: Option<&libc::sigaction>, old: Option<&mut libc::sigaction>) -> c_int {
    let as_pointer = |action: Option<&libc::sigaction>| action.map_or(std::ptr::null(), std::ptr::from_ref);
    let (Some(slot), Some(flags)) = (HANDLERS.get(signal as usize), FLAGS.get(signal as usize)) else {
        // SAFETY: both are null or valid. The number is wrong, which the C library says.
        return unsafe { __sigaction(signal, as_pointer(new), std::ptr::null_mut()) };
    };
    let (before, flags_before) = (slot.load(Ordering::Acquire), flags.load(Ordering::Relaxed));
    let mut ours = new.copied();
    if let Some(action) = &mut ours {
        let program = action.sa_sigaction;
        if program != SIG_DFL && program != SIG_IGN {
            // First the program's: when ours is called, it must be there.
            slot.store(program, Ordering::Release);
            flags.store(action.sa_flags, Ordering::Relaxed);
            // SAFETY: a set begins with that word.
            let mask = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
            MASKS[signal as usize].store(mask, Ordering::Relaxed);
            action.sa_sigaction = enter as *const () as usize;
            action.sa_flags |= libc::SA_SIGINFO;
        }
    }
    // SAFETY: zero bytes are a valid `sigaction`.
    let mut was: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both are null or valid.
    let result = unsafe { __sigaction(signal, as_pointer(ours.as_ref()), &mut was) };
    if result != 0 {
        slot.store(before, Ordering::Release);
        flags.store(flags_before, Ordering::Relaxed);
    } else if let Some(old) = old {
        *old = was;
        if was.sa_sigaction == enter as *const () as usize {
            old.sa_sigaction = before;
            if flags_before & libc::SA_SIGINFO == 0 {
                old.sa_flags &= !libc::SA_SIGINFO;
            }
        }
    }
    result
}

fn set_handler(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: zero bytes are a valid `sigaction`: no flags, no signals blocked.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    if flags & libc::SA_NODEFER == 0 {
        // SAFETY: a valid set; a wrong number is found by `install`.
        unsafe { libc::sigaddset(&mut new.sa_mask, signal) };
    }
    if install(signal, Some(&new), Some(&mut old)) == 0 { old.sa_sigaction } else { SIG_ERR }
}

/// Interposed. `old` may be the same as `new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's pointers are null or valid.
    let copy = unsafe { new.as_ref() }.copied();
    // SAFETY: as above.
    install(signal, copy.as_ref(), unsafe { old.as_mut() })
}

/// Interposed: BSD's meaning, as in the C library.
#[unsafe(no_mangle)]
pub extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set_handler(signal, handler, libc::SA_RESTART)
}

/// Interposed.
#[unsafe(no_mangle)]
pub extern "C" fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set_handler(signal, handler, libc::SA_RESTART)
}

/// Interposed: what `signal` is with strict ISO C.
#[unsafe(no_mangle)]
pub extern "C" fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set_handler(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

macro_rules! jumps {
    ($($name:ident: $c:literal;)*) => { $(
        /// Interposed: what was announced and not stored yet will never be.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(to: *mut c_void, value: c_int) -> ! {
            local(|local| {
                local.last.set((0, 0));
                local.several.set((std::ptr::null(), 0));
            });
            let real = real!($c, fn(*mut c_void, c_int) -> !);
            // SAFETY: the caller's arguments; nothing of this frame needs to be dropped.
            unsafe { real(to, value) }
        }
    )* };
}

jumps! {
    longjmp: c"longjmp"; _longjmp: c"_longjmp"; siglongjmp: c"siglongjmp"; __longjmp_chk: c"__longjmp_chk";
}
