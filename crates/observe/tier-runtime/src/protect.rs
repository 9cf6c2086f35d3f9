//! Read and write protection of a few pages at a time: the first use is a signal, whose handler gives the rights back and notes how long
//! it took. Uses by the exposed time estimate the rate, whatever it is.
//!
//! The kernel fails on such pages where it should copy to or from them: `pins` stands in front of the usual calls. Others (a `futex` or
//! `ioctl` in a large allocation) may fail, which is why this is not the default.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::page::PAGE;

/// Pages without rights at once, at most.
pub const SLOTS: usize = 64;

/// A page, and when it was first used: nanoseconds, 0 if not yet.
struct Slot {
    page: AtomicUsize,
    used: AtomicU64,
}

static PAGES: [Slot; SLOTS] = [const { Slot { page: AtomicUsize::new(0), used: AtomicU64::new(0) } }; SLOTS];
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The program's own handler, as `sigaction` has it, if it has one.
static OTHERS: crate::lock::Lock<Option<libc::sigaction>> = crate::lock::Lock::new(None);

/// Whether pages may have no rights.
pub fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// The C library's function of a name that ends with a zero.
pub fn real(found: &AtomicUsize, name: &'static str) -> *const c_void {
    let mut address = found.load(Ordering::Relaxed);
    if address == 0 {
        // SAFETY: a name in C's form.
        address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) }.expose_provenance();
        found.store(address, Ordering::Relaxed);
    }
    ptr::with_exposed_provenance(address)
}

fn now() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: room for a time, which is filled.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn rights(page: usize, rights: c_int) -> bool {
    // SAFETY: a page of the program's that had all rights; the handler gives them back.
    unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(page), PAGE, rights) == 0 }
}

/// Begins to handle the signal.
pub fn begin() -> bool {
    let Some(before) = install() else { return false };
    if before.sa_sigaction != libc::SIG_DFL {
        OTHERS.with(|others| *others = Some(before));
    }
    ACTIVE.store(true, Ordering::SeqCst);
    true
}

fn install() -> Option<libc::sigaction> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a handler of the form that its flag demands; the earlier one is filled in.
    unsafe {
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = handle as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        (real_sigaction()(libc::SIGSEGV, &raw const ours, before.as_mut_ptr()) == 0)
            .then(|| before.assume_init())
    }
}

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

fn real_sigaction() -> Sigaction {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the C library's function of that name has that type.
    unsafe { std::mem::transmute::<*const c_void, Sigaction>(real(&REAL, "sigaction\0")) }
}

/// The C library's, but that a handler of `SIGSEGV` comes after ours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if signal != libc::SIGSEGV || !active() {
        // SAFETY: the caller's arguments.
        return unsafe { real_sigaction()(signal, new, old) };
    }
    OTHERS.with(|others| {
        // SAFETY: the caller's places, if given.
        unsafe {
            if !old.is_null() {
                old.write(others.unwrap_or(MaybeUninit::zeroed().assume_init()));
            }
            if !new.is_null() {
                *others = Some(new.read());
            }
        }
    });
    0
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: usize) -> usize {
    let (mut new, mut old) =
        (MaybeUninit::<libc::sigaction>::zeroed(), MaybeUninit::<libc::sigaction>::zeroed());
    // SAFETY: both are whole as zeros; `sigaction` reads one and fills the other.
    unsafe {
        (*new.as_mut_ptr()).sa_sigaction = handler;
        (*new.as_mut_ptr()).sa_flags = libc::SA_RESTART;
        if sigaction(number, new.as_ptr(), old.as_mut_ptr()) != 0 {
            return libc::SIG_ERR;
        }
        old.assume_init().sa_sigaction
    }
}

unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's description of the signal.
    let address = unsafe { (*info).si_addr() }.addr();
    if give_back(address / PAGE * PAGE) {
        return;
    }
    // A page that another thread has just given back; again, it may be used.
    static LAST: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the kernel's description of the signal.
    let denied = unsafe { (*info).si_code } == 2;
    if denied && LAST.swap(address, Ordering::Relaxed) != address {
        return;
    }
    let others = OTHERS.with(|others| *others);
    match others {
        Some(other) if other.sa_sigaction > 1 && other.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the program's handler, which has that form by its flag.
            unsafe {
                let handler = std::mem::transmute::<
                    usize,
                    extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void),
                >(other.sa_sigaction);
                handler(signal, info, context);
            }
        }
        Some(other) if other.sa_sigaction > 1 => {
            // SAFETY: as above, of the short form.
            unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(other.sa_sigaction)(signal) };
        }
        // SAFETY: the default action; the instruction runs again, and ends the program as it would have.
        _ => unsafe {
            let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            real_sigaction()(signal, &raw const default, ptr::null_mut());
        },
    }
}

/// Gives a page its rights if it has none. False if it is none of ours.
fn give_back(page: usize) -> bool {
    let Some(slot) = PAGES.iter().find(|slot| slot.page.load(Ordering::SeqCst) == page) else { return false };
    slot.used.compare_exchange(0, now().max(1), Ordering::SeqCst, Ordering::SeqCst).ok();
    rights(page, libc::PROT_READ | libc::PROT_WRITE)
}

/// Gives pages of a range their rights.
pub fn lift(start: usize, end: usize) {
    for slot in &PAGES {
        let page = slot.page.load(Ordering::SeqCst);
        if page != 0 && page < end && page + PAGE > start {
            give_back(page);
        }
    }
}

/// Takes the rights of pages, each of a site, unless a system call uses them.
pub fn begin_window(pages: &[(usize, usize)], free: fn(usize, usize) -> bool) -> Vec<(usize, usize, u64)> {
    let mut taken = Vec::new();
    for (slot, &(page, site)) in PAGES.iter().zip(pages) {
        slot.used.store(0, Ordering::SeqCst);
        slot.page.store(page, Ordering::SeqCst);
        if free(page, page + PAGE) && rights(page, libc::PROT_NONE) {
            // A call that began meanwhile has looked at the slot before.
            if !free(page, page + PAGE) {
                give_back(page);
            }
            taken.push((page, site, now()));
        } else {
            slot.page.store(0, Ordering::SeqCst);
        }
    }
    taken
}

/// Gives all rights back. By site: first uses, and seconds without rights.
pub fn end_window(taken: &[(usize, usize, u64)]) -> Vec<(usize, u64, f64)> {
    let end = now();
    let each = taken.iter().filter_map(|&(page, site, began)| {
        let slot = PAGES.iter().find(|slot| slot.page.load(Ordering::SeqCst) == page)?;
        let used = slot.used.load(Ordering::SeqCst);
        if used == 0 {
            rights(page, libc::PROT_READ | libc::PROT_WRITE);
        }
        slot.page.store(0, Ordering::SeqCst);
        let until = if used == 0 { end } else { used };
        Some((site, u64::from(used != 0), until.saturating_sub(began).max(1) as f64 / 1e9))
    });
    each.collect()
}

/// A block is about to be freed or moved: its pages get their rights.
pub fn freed(start: usize, end: usize) {
    if active() {
        lift(start, end);
    }
}
