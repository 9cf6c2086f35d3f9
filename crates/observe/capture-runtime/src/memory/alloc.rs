//! The malloc family, for everybody in the process, and C++'s operators `new` and `delete`, for instrumented
//! code.
//!
//! The memory is what the program would have without us (`real/heap.rs`); we only tell who asked. That may be
//! a signal handler, or the dynamic linker before our constructor has run; recording needs no memory.
//!
//! `operator new` is recorded by the `malloc` that it calls: its hook only leaves the site of its own caller
//! for that.

use core::ffi::{c_int, c_void};

use crate::base::session::{Attached, session};
use crate::real::heap;
use crate::state::local::{hooks, local};
use crate::stream::record::record;
use abi::{access, header, kind};

unsafe extern "C" {
    fn __libc_malloc(len: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

/// Memory for ourselves; null if there is none.
pub fn obtain(len: usize) -> *mut c_void {
    // SAFETY: any length may be asked for.
    unsafe { __libc_malloc(len) }
}

/// Gives memory of ours back.
pub fn release(memory: *mut c_void) {
    // SAFETY: `obtain` gave it.
    unsafe { __libc_free(memory) }
}

/// The code that an allocation is for.
#[inline]
fn site() -> u64 {
    let local = local();
    match local.site.replace(0) {
        0 => local.caller.get(),
        site => site,
    }
}

fn allocated(site: u64, memory: *mut c_void, len: usize) -> *mut c_void {
    if !memory.is_null() {
        record(kind::ALLOC, 0, site, [memory as u64, len as u64]);
    }
    memory
}

/// Blocks from here on are fresh pages, as a rule, which the kernel zeroes.
const PAGES: usize = 128 << 10;

/// The C library zeroed a block of that length. It is recorded along with calls only: a trace for simulators
/// has what the program's own code did.
fn zeroed(site: u64, memory: *mut c_void, len: usize) {
    if !memory.is_null() && len > 0 && len < PAGES && session().is_some_and(Attached::calls) {
        let room = local().stream.room(3);
        room.write_access(header(kind::ACCESS, access::STORE, site), memory as u64, len as u64);
    }
}

fn freed(site: u64, memory: *mut c_void) {
    if !memory.is_null() {
        record(kind::FREE, 0, site, [memory as u64]);
    }
}

fn reallocate(site: u64, old: *mut c_void, len: usize) -> *mut c_void {
    // Recorded before, because another thread may get the memory at once.
    freed(site, old);
    // SAFETY: the caller's arguments.
    let new = unsafe { heap::realloc(old, len) };
    if new.is_null() && len > 0 && !old.is_null() {
        // SAFETY: the old memory is still there.
        return_none(site, old, unsafe { heap::malloc_usable_size(old) });
    }
    allocated(site, new, len)
}

/// A reallocation failed: the old memory is in use after all.
#[cold]
fn return_none(site: u64, old: *mut c_void, len: usize) {
    allocated(site, old, len);
}

fn fail(error: c_int) {
    // SAFETY: `errno` is the thread's own.
    unsafe { *libc::__errno_location() = error };
}

hooks! {
    fn malloc(len: usize) -> *mut c_void {
        let site = site();
        // SAFETY: the caller's arguments; as below.
        allocated(site, unsafe { heap::malloc(len) }, len)
    }
    fn calloc(count: usize, len: usize) -> *mut c_void {
        let site = site();
        // SAFETY: the caller's arguments.
        let memory = allocated(site, unsafe { heap::calloc(count, len) }, count.wrapping_mul(len));
        zeroed(site, memory, count.wrapping_mul(len));
        memory
    }
    fn realloc(old: *mut c_void, len: usize) -> *mut c_void {
        reallocate(site(), old, len)
    }
    fn reallocarray(old: *mut c_void, count: usize, len: usize) -> *mut c_void {
        let site = site();
        if let Some(bytes) = count.checked_mul(len) {
            return reallocate(site, old, bytes);
        }
        fail(libc::ENOMEM);
        core::ptr::null_mut()
    }
    fn free(memory: *mut c_void) {
        freed(site(), memory);
        // SAFETY: the caller's arguments.
        unsafe { heap::free(memory) };
    }
    fn aligned_alloc(alignment: usize, len: usize) -> *mut c_void {
        let site = site();
        // SAFETY: the caller's arguments.
        allocated(site, unsafe { heap::aligned_alloc(alignment, len) }, len)
    }
    fn memalign(alignment: usize, len: usize) -> *mut c_void {
        let site = site();
        // SAFETY: the caller's arguments.
        allocated(site, unsafe { heap::memalign(alignment, len) }, len)
    }
    fn valloc(len: usize) -> *mut c_void {
        let site = site();
        // SAFETY: the caller's arguments.
        allocated(site, unsafe { heap::valloc(len) }, len)
    }
    fn pvalloc(len: usize) -> *mut c_void {
        let site = site();
        // SAFETY: the caller's arguments.
        allocated(site, unsafe { heap::pvalloc(len) }, len)
    }
    fn posix_memalign(place: *mut *mut c_void, alignment: usize, len: usize) -> c_int {
        let site = site();
        // SAFETY: the caller's arguments.
        let result = unsafe { heap::posix_memalign(place, alignment, len) };
        if result == 0 {
            // SAFETY: just written.
            allocated(site, unsafe { *place }, len);
        }
        result
    }
}

/// Hooks that leave their caller's address as the next allocation's site and go on to the C++ library's
/// operator. Where that was not there when this library was loaded, `$fallback` does it: they share the heap.
#[cfg(target_arch = "x86_64")]
macro_rules! operators {
    ($($name:ident = $real:literal or $fallback:literal;)*) => { $(
        /// Entry of the hook of the same name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!(".weak ", $real),
                "mov r11, qword ptr [rip + strandline_tls@GOTTPOFF]",
                "mov r10, qword ptr [rsp]",
                "mov qword ptr fs:[r11 + {site}], r10",
                concat!("mov rax, qword ptr [rip + ", $real, "@GOTPCREL]"),
                "test rax, rax",
                "jz 2f",
                "jmp rax",
                "2:",
                concat!("jmp ", $fallback),
                site = const core::mem::offset_of!(crate::state::local::Local, site),
            );
        }
    )* };
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
macro_rules! operators {
    ($($name:ident = $real:literal or $fallback:literal;)*) => { $(
        /// Entry of the hook of the same name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!(".weak ", $real),
                "mrs x16, tpidr_el0",
                "adrp x17, :gottprel:strandline_tls",
                "ldr x17, [x17, :gottprel_lo12:strandline_tls]",
                "add x16, x16, x17",
                "str x30, [x16, {site}]",
                concat!("adrp x16, :got:", $real),
                concat!("ldr x16, [x16, :got_lo12:", $real, "]"),
                "cbz x16, 2f",
                "br x16",
                "2:",
                concat!("b ", $fallback),
                site = const core::mem::offset_of!(crate::state::local::Local, site),
            );
        }
    )* };
}

operators! {
    strandline__Znwm = "_Znwm" or "malloc";
    strandline__Znam = "_Znam" or "malloc";
    strandline__ZnwmRKSt9nothrow_t = "_ZnwmRKSt9nothrow_t" or "malloc";
    strandline__ZnamRKSt9nothrow_t = "_ZnamRKSt9nothrow_t" or "malloc";
    strandline__ZnwmSt11align_val_t = "_ZnwmSt11align_val_t" or "strandline_aligned_new";
    strandline__ZnamSt11align_val_t = "_ZnamSt11align_val_t" or "strandline_aligned_new";
    strandline__ZdlPv = "_ZdlPv" or "free";
    strandline__ZdaPv = "_ZdaPv" or "free";
    strandline__ZdlPvm = "_ZdlPvm" or "free";
    strandline__ZdaPvm = "_ZdaPvm" or "free";
    strandline__ZdlPvSt11align_val_t = "_ZdlPvSt11align_val_t" or "free";
    strandline__ZdaPvSt11align_val_t = "_ZdaPvSt11align_val_t" or "free";
    strandline__ZdlPvmSt11align_val_t = "_ZdlPvmSt11align_val_t" or "free";
    strandline__ZdaPvmSt11align_val_t = "_ZdaPvmSt11align_val_t" or "free";
    strandline__ZdlPvRKSt9nothrow_t = "_ZdlPvRKSt9nothrow_t" or "free";
    strandline__ZdaPvRKSt9nothrow_t = "_ZdaPvRKSt9nothrow_t" or "free";
}

/// `operator new` with an alignment, without a C++ library.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_aligned_new(len: usize, alignment: usize) -> *mut c_void {
    let site = site();
    // SAFETY: the operator's arguments are in the other order.
    allocated(site, unsafe { heap::memalign(alignment, len) }, len)
}
