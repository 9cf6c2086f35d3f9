//! What each thread has: [`Local`], in the thread-local symbol `strandline_tls`.
//!
//! Its first two words are the assembler wrapper's business too (see `memory/instructions.rs`). The symbol
//! lies in the program's initial thread-local storage, so that its address is one addition away from the
//! thread pointer and reading it is safe anywhere, signal handlers included. A new thread finds it all zero.

use core::cell::Cell;
use core::mem::offset_of;

use crate::state::own_handlers::OwnHandlers;
use crate::state::stream::Stream;
use abi::QUIET;

/// A thread that has recorded nothing yet.
pub const NEW: u32 = 0;
/// A thread that is setting itself up.
pub const STARTING: u32 = 1;
/// A thread that records.
pub const RUNNING: u32 = 2;
/// A thread that recorded its end; what it does after that is lost.
pub const ENDED: u32 = 3;

/// Bytes of `strandline_tls`.
const LOCAL_BYTES: usize = 896;

/// One thread's state. Only the thread itself and its signal handlers touch it, except for `number`, which a
/// joining thread reads.
#[repr(C, align(64))]
pub struct Local {
    /// The stream in use.
    pub stream: Stream,
    /// Whether functions that stand for their callers, and all others, keep where they begin and end to
    /// themselves; zeros: the runtime is to be asked. The assembler wrapper's business, too ([`QUIET`]).
    pub quiet: [Cell<u32>; 2],
    /// Return address of the hook that was called last: set by its entry, read first by its body.
    pub caller: Cell<u64>,
    /// Return address of the call of a stream function (`FILE *`) that came last.
    pub streaming: Cell<u64>,
    /// Calls of libpmem's own functions under way: what these call of each other is not the program's doing.
    pub in_library: Cell<u32>,
    /// If not 0, the code that the next allocation or release is for.
    pub site: Cell<u64>,
    /// `NEW` to `ENDED`.
    pub stage: Cell<u32>,
    /// The thread's number in the run, plus 1; 0: it has none yet.
    pub number: Cell<u32>,
    /// Whether signal handlers are at work on this thread: see `process/signal.rs`.
    pub handlers: Cell<u32>,
    /// The number, plus 1, of the first thread of the process that the thread is forking; else 0.
    pub forking: Cell<u32>,
    /// Whether the thread made a child by a call after which nobody records the child that it is one
    /// ([`crate::process::tree::expecting`]).
    pub bare: Cell<u32>,
    /// The function to be carried out once, the object that says so, and the code that asked for it.
    pub once: Cell<(usize, u64, u64)>,
    /// Times that the thread's destructor put off the end.
    pub put_off: Cell<u32>,
    /// The thread's own memory for records that nobody reads.
    pub scratch: Cell<usize>,
    /// The thread's stream while a signal handler uses its own.
    pub interrupted: Stream,
    /// The signal handlers' stream while none is at work.
    pub handler: Stream,
    /// Stack pointer below which the outermost signal handler works; 0 if none does.
    pub handler_stack: Cell<usize>,
    /// What the thread and its handlers exchange.
    pub own_handlers: OwnHandlers,
    /// First address and the end of the stack for signal handlers, if the outermost one works there; else
    /// zeros.
    pub signal_stack: Cell<(usize, usize)>,
}

const _: () = assert!(size_of::<Local>() <= LOCAL_BYTES);
const _: () = assert!(offset_of!(Local, stream) == 0 && offset_of!(Local, quiet) == QUIET);

/// Where a hook's entry notes its return address.
pub const CALLER: usize = offset_of!(Local, caller);

/// Where a stream function's entry notes it.
#[cfg(target_arch = "x86_64")]
pub const STREAMING: usize = offset_of!(Local, streaming);

core::arch::global_asm!(
    ".pushsection .tbss.strandline_tls, \"awT\", @nobits",
    ".globl strandline_tls",
    ".type strandline_tls, @tls_object",
    ".size strandline_tls, {bytes}",
    ".p2align 6",
    "strandline_tls:",
    ".zero {bytes}",
    ".popsection",
    bytes = const LOCAL_BYTES,
);

/// The calling thread's state.
#[inline(always)]
pub fn local() -> &'static Local {
    let at: *const Local;
    // SAFETY: reads the thread pointer and the symbol's distance from it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr fs:[0]",
            "add {at}, qword ptr [rip + strandline_tls@GOTTPOFF]",
            at = out(reg) at, options(pure, readonly, nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "mrs {at}, tpidr_el0",
            "adrp {offset}, :gottprel:strandline_tls",
            "ldr {offset}, [{offset}, :gottprel_lo12:strandline_tls]",
            "add {at}, {at}, {offset}",
            at = out(reg) at, offset = out(reg) _, options(pure, readonly, nostack),
        );
    }
    // SAFETY: the symbol is `LOCAL_BYTES` of zero-initialised, suitably aligned memory for as long as the
    // thread runs, zero bytes are a valid `Local`, and it is `Cell`s, of which references may be shared
    // within the thread.
    unsafe { &*at }
}

/// Return address of the hook whose body is being executed.
#[inline(always)]
pub fn caller() -> u64 {
    local().caller.get()
}

/// Defines functions that the program calls instead of, or besides, those it names.
///
/// Each has an entry, which notes the return address for [`caller`] and jumps to the body: the stack and all
/// arguments are as the caller left them.
macro_rules! hooks {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => { $(
        const _: () = {
            extern "C" fn body($($arg: $type),*) $(-> $result)? $body

            /// Entry of the hook of the same name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(
                    "mov r11, qword ptr [rip + strandline_tls@GOTTPOFF]",
                    "mov r10, qword ptr [rsp]",
                    "mov qword ptr fs:[r11 + {caller}], r10",
                    "jmp {body}",
                    caller = const $crate::state::local::CALLER,
                    body = sym body,
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(
                    "mrs x16, tpidr_el0",
                    "adrp x17, :gottprel:strandline_tls",
                    "ldr x17, [x17, :gottprel_lo12:strandline_tls]",
                    "add x16, x16, x17",
                    "str x30, [x16, {caller}]",
                    "b {body}",
                    caller = const $crate::state::local::CALLER,
                    body = sym body,
                );
            }
        };
    )* };
}
pub(crate) use hooks;
