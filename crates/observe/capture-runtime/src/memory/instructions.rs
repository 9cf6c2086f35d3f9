//! What the assembler wrapper's code calls: room for blocks, and hooks before single instructions.
//!
//! `strandline_refill` is called where a compiler put a call, so it may clobber what a C function may, but
//! for `rdi`.
//!
//! `strandline_begin` and `strandline_end` stand where a function begins and ends.
//!
//! The others stand before an instruction that the compiler or a person wrote: anything may be alive, the
//! flags and vector registers too, and the stack may be aligned to nothing. Their fast path saves the few
//! registers that it uses; the slow one saves everything, the vector registers by `xsave`, because Rust and
//! the C library may use them.

use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::base::session::session;
use crate::state::local::{RUNNING, local};
use crate::state::stream::Stream;
use crate::stream::record;
use abi::atomic::IN_ORDER;
use abi::{BYTES_PER_INSTRUCTION, access, flush, header, kind};

/// Bytes that `xsave` needs for [`XSAVE_STATES`] in its standard form, or `fxsave`.
const SAVED_BYTES: usize = 2688;
/// The states that our code may change: x87, SSE, AVX, and AVX-512's three.
const XSAVE_STATES: u32 = 0b1110_0111;

/// 1: the processor and the kernel know `xsave`.
static XSAVE: AtomicU32 = AtomicU32::new(0);

/// Finds out what there is to save. Called once, from the library's constructor.
pub fn prepare() {
    const OSXSAVE: u32 = 1 << 27;
    let leaf = core::arch::x86_64::__cpuid(1);
    XSAVE.store(u32::from(leaf.ecx & OSXSAVE != 0), Ordering::Relaxed);
}

/// Makes room for a block: keeps `rdi`, returns the symbol's distance from the thread pointer in `rcx` and
/// the cursor in `rax`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_refill() {
    naked_asm!(
        "push rdi",
        "call {block}",
        "pop rdi",
        "mov rcx, qword ptr [rip + strandline_tls@GOTTPOFF]",
        "ret",
        block = sym room_for_block,
    );
}

extern "C" fn room_for_block() -> u64 {
    let stream = &local().stream;
    stream.make_room(0);
    stream.block_follows();
    stream.cursor.get()
}

/// Calls the function in `rcx` as `f(rax, rdi, rdx)` with every register saved, but for `rax`, `rcx`, `rdx`
/// and the flags, which the hook has saved already.
#[unsafe(naked)]
pub unsafe extern "C" fn slow() {
    naked_asm!(
        // The direction of string instructions, too.
        "pushfq",
        "push rbp",
        "mov rbp, rsp",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rbx",
        "sub rsp, {bytes}",
        "and rsp, -64",
        "mov rbx, rcx",
        "mov r10, rax",
        "mov r11, rdx",
        "cmp dword ptr [rip + {xsave}], 0",
        "je 2f",
        // The reserved words of its header must be zero, or it can't be restored.
        "xor eax, eax",
        "mov qword ptr [rsp + 512], rax",
        "mov qword ptr [rsp + 520], rax",
        "mov qword ptr [rsp + 528], rax",
        "mov qword ptr [rsp + 536], rax",
        "mov qword ptr [rsp + 544], rax",
        "mov qword ptr [rsp + 552], rax",
        "mov qword ptr [rsp + 560], rax",
        "mov qword ptr [rsp + 568], rax",
        "xor edx, edx",
        "mov eax, {states}",
        "xsave64 [rsp]",
        "jmp 3f",
        "2:",
        "fxsave64 [rsp]",
        "3:",
        "cld",
        "mov rsi, rdi",
        "mov rdi, r10",
        "mov rdx, r11",
        "call rbx",
        "cmp dword ptr [rip + {xsave}], 0",
        "je 2f",
        "xor edx, edx",
        "mov eax, {states}",
        "xrstor64 [rsp]",
        "jmp 3f",
        "2:",
        "fxrstor64 [rsp]",
        "3:",
        "lea rsp, [rbp - 56]",
        "pop rbx",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rbp",
        "popfq",
        "ret",
        bytes = const SAVED_BYTES,
        states = const XSAVE_STATES,
        xsave = sym XSAVE,
    );
}

extern "C" fn record(header: u64, addr: u64, len: u64) {
    let room = local().stream.room(3);
    room.write(header, &[addr, len]);
}

extern "C" fn record_fence(header: u64, _: u64, _: u64) {
    local().stream.room(1).write(header, &[]);
}

pub extern "C" fn record_store(header: u64, addr: u64, len: u64) {
    let stream = &local().stream;
    stream.room(3).write_access(header, addr, len);
    stream.store_follows(addr, len);
}

pub extern "C" fn record_atomic(header: u64, addr: u64, len: u64) {
    let stream = &local().stream;
    let in_order = if stream.value_bytes().is_some() { u64::from(IN_ORDER) << 48 } else { 0 };
    stream.open_atomic(header | in_order, addr, len);
}

/// Defines hooks. `$write` stores the payload's words behind `rdx`, `$words` is the record's number of words.
/// Several records count as one, but for the headers of those behind the first. `$limit` says where there is
/// no more room.
macro_rules! instruction_hooks {
    ($limit:ident $(
        $name:ident: $kind:expr, $argument:expr, $len:expr, $words:expr, $slow:ident, [$($write:literal)*];
    )*) => { $(
        /// Called before the instruction that it is named after, with its address in `rdi`; changes nothing.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "push rax",
                "push rcx",
                "push rdx",
                "lahf",
                "seto al",
                "push rax",
                "movabs rax, {header}",
                "add rax, qword ptr [rsp + 32]",
                "mov rcx, qword ptr [rip + strandline_tls@GOTTPOFF]",
                "mov rdx, qword ptr fs:[rcx]",
                "cmp rdx, qword ptr fs:[rcx + {limit}]",
                "jae 2f",
                $($write,)*
                "mov qword ptr [rdx], rax",
                "add rdx, {bytes}",
                "mov qword ptr fs:[rcx], rdx",
                "3:",
                "pop rax",
                "add al, 0x7f",
                "sahf",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "ret",
                "2:",
                "mov edx, {len}",
                "lea rcx, [rip + {slow}]",
                "call {save}",
                "jmp 3b",
                header = const header($kind, $argument, 0),
                limit = const offset_of!(Stream, $limit),
                bytes = const 8 * $words,
                len = const $len,
                slow = sym $slow,
                save = sym slow,
            );
        }
    )* };
}

pub(super) use instruction_hooks;

const _: () = assert!(offset_of!(Stream, cursor) == 0 && offset_of!(Stream, limit) == 8);

// As `access_word` has it; a flush is of one byte.
const _: () = assert!(BYTES_PER_INSTRUCTION == 32);

/// A hook before an instruction whose record is an address and a length.
macro_rules! addressed {
    ($($name:ident: $kind:expr, $argument:expr, $len:literal, $slow:ident;)*) => {
        instruction_hooks! { limit $(
            $name: $kind, $argument, $len, 3, $slow,
                ["mov qword ptr [rdx + 8], rdi" "mov dword ptr [rdx + 16], {len}" "mov dword ptr [rdx + 20], {len} / 32"];
        )* }
    };
}

addressed! {
    strandline_hook_clwb: kind::FLUSH, flush::CLWB, 1, record;
    strandline_hook_clflushopt: kind::FLUSH, flush::CLFLUSHOPT, 1, record;
    strandline_hook_clflush: kind::FLUSH, flush::CLFLUSH, 1, record;
    strandline_hook_cldemote: kind::FLUSH, flush::CLDEMOTE, 1, record;
    strandline_hook_prefetch: kind::FLUSH, flush::PREFETCH, 1, record;
    strandline_hook_nt4: kind::ACCESS, access::STORE_NT, 4, record_store;
    strandline_hook_nt8: kind::ACCESS, access::STORE_NT, 8, record_store;
    strandline_hook_nt16: kind::ACCESS, access::STORE_NT, 16, record_store;
    strandline_hook_nt32: kind::ACCESS, access::STORE_NT, 32, record_store;
    strandline_hook_nt64: kind::ACCESS, access::STORE_NT, 64, record_store;
    strandline_hook_store1: kind::ACCESS, access::STORE, 1, record_store;
    strandline_hook_store2: kind::ACCESS, access::STORE, 2, record_store;
    strandline_hook_store4: kind::ACCESS, access::STORE, 4, record_store;
    strandline_hook_store8: kind::ACCESS, access::STORE, 8, record_store;
    strandline_hook_store10: kind::ACCESS, access::STORE, 10, record_store;
    strandline_hook_store16: kind::ACCESS, access::STORE, 16, record_store;
    strandline_hook_store32: kind::ACCESS, access::STORE, 32, record_store;
    strandline_hook_store64: kind::ACCESS, access::STORE, 64, record_store;
}

instruction_hooks! { limit
    strandline_hook_sfence: kind::FENCE, 0, 0, 1, record_fence, [];
    strandline_hook_mfence: kind::FENCE, 1, 0, 1, record_fence, [];
}

/// A read-modify-write by hand: sequentially consistent, as a locked instruction is.
pub const RMW: u8 = 2 | 5 << 4;

/// Defines hooks that always take the slow path: a position in the global order is to be had.
macro_rules! atomic_hooks {
    ($($name:ident: $access:expr, $len:literal, $record:ident;)*) => { $(
        /// Called before the instruction that it is named after, with its address in `rdi`; changes nothing.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "push rax",
                "push rcx",
                "push rdx",
                "lahf",
                "seto al",
                "push rax",
                "movabs rax, {header}",
                "add rax, qword ptr [rsp + 32]",
                "mov edx, {len}",
                "lea rcx, [rip + {record}]",
                "call {save}",
                "pop rax",
                "add al, 0x7f",
                "sahf",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "ret",
                header = const header(kind::ATOMIC, $access, 0),
                len = const $len,
                record = sym $record,
                save = sym slow,
            );
        }
    )* };
}
pub(super) use atomic_hooks;

atomic_hooks! {
    strandline_hook_rmw1: RMW, 1, record_atomic;
    strandline_hook_rmw2: RMW, 2, record_atomic;
    strandline_hook_rmw4: RMW, 4, record_atomic;
    strandline_hook_rmw8: RMW, 8, record_atomic;
    strandline_hook_rmw16: RMW, 16, record_atomic;
}

/// Defines hooks where a function begins or ends: the flags and `r11` are free. `$kind` is that of the record
/// where calls are recorded, `$write` stores its payload, with the hook's frame in `rax`, behind `rdx`; where
/// stored bytes are, there is never room, and `$slow` sees to it.
macro_rules! function_hooks {
    ($($(#[$about:meta])* $name:ident: $kind:expr, $words:literal, $slow:ident, [$($write:literal)*];)*) => { $(
        $(#[$about])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "push rax",
                "push rcx",
                "push rdx",
                "lea rax, [rsp + 24]",
                "mov r11, qword ptr [rip + strandline_tls@GOTTPOFF]",
                "mov rdx, qword ptr fs:[r11]",
                "cmp rdx, qword ptr fs:[r11 + {limit}]",
                "jae 2f",
                $($write,)*
                "movabs rcx, {header}",
                "add rcx, qword ptr [rsp + 24]",
                "mov qword ptr [rdx], rcx",
                "add rdx, {bytes}",
                "mov qword ptr fs:[r11], rdx",
                "3:",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "ret",
                "2:",
                "lea rcx, [rip + {slow}]",
                "call {save}",
                "jmp 3b",
                limit = const offset_of!(Stream, limit),
                header = const header($kind, 0, 0),
                bytes = const 8 * $words,
                slow = sym $slow,
                save = sym slow,
            );
        }
    )* };
}

function_hooks! {
    /// Called before a function does anything, unless it is to be quiet.
    strandline_begin: kind::ENTER, 3, record_begin,
        ["mov rcx, qword ptr [rsp + 32]" "mov qword ptr [rdx + 8], rcx" "mov qword ptr [rdx + 16], rax"];
    /// Called before such a function returns, or hands on to another.
    strandline_end: kind::LEAVE, 2, record_end, ["mov qword ptr [rdx + 8], rax"];
}

extern "C" fn record_begin(top: *const [u64; 2], _: u64, _: u64) {
    let Some(session) = session() else { return quieten() };
    // SAFETY: the hook's own return address, and that of the function which has just begun.
    let [pc, back] = unsafe { top.read() };
    if session.values() {
        record::record(kind::CALL, 0, pc, [back, top as u64]);
    } else if session.calls() {
        record::record(kind::ENTER, 0, pc, [back, top as u64]);
    } else {
        quieten();
    }
}

extern "C" fn record_end(top: *const u64, _: u64, _: u64) {
    let Some(session) = session() else { return };
    // SAFETY: the hook's own return address.
    let pc = unsafe { top.read() };
    if session.values() {
        record::record(kind::RETURN, 0, pc, []);
    } else if session.calls() {
        record::record(kind::LEAVE, 0, pc, [top as u64]);
    }
}

/// Nobody wants to know: the thread's functions need not ask again.
fn quieten() {
    let local = local();
    if local.stage.get() == RUNNING {
        local.quiet.iter().for_each(|quiet| quiet.set(1));
    } else {
        local.stream.make_room(0);
    }
}
