//! More functions of the C library that write where the program says, and are no system calls.
//!
//! Each is interposed under its own name, so that calls from other libraries come here, too.

use std::cell::Cell;
use std::ffi::{c_char, c_double, c_float, c_int, c_long, c_uint, c_void};

use crate::local::announce;
use crate::sync::call;
use crate::window;

type Memory = *mut c_void;
type Text = *mut c_char;

/// So many bytes will be written there.
#[inline(always)]
fn will_write(to: Memory, bytes: usize) {
    if window::contains(to as usize) {
        announce(to as usize, bytes);
    }
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty $(, $to:ident: $bytes:expr)*;)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            $(will_write($to.cast(), $bytes);)*
            call!($name($($arg: $type),*) -> $result)
        }
    )* };
}

/// Bytes of a `struct tm`.
const TM: usize = size_of::<libc::tm>();

functions! {
    rand_r(seed: *mut c_uint) -> c_int, seed: 4;
    erand48(state: *mut u16) -> c_double, state: 6;
    nrand48(state: *mut u16) -> c_long, state: 6;
    jrand48(state: *mut u16) -> c_long, state: 6;
    strtol(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    strtoul(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    strtoll(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    strtoull(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    strtod(text: Text, end: *mut Text) -> c_double, end: 8;
    strtof(text: Text, end: *mut Text) -> c_float, end: 8;
    frexp(value: c_double, exponent: *mut c_int) -> c_double, exponent: 4;
    frexpf(value: c_float, exponent: *mut c_int) -> c_float, exponent: 4;
    modf(value: c_double, whole: *mut c_double) -> c_double, whole: 8;
    modff(value: c_float, whole: *mut c_float) -> c_float, whole: 4;
    sincos(value: c_double, sine: *mut c_double, cosine: *mut c_double) -> (), sine: 8, cosine: 8;
    sincosf(value: c_float, sine: *mut c_float, cosine: *mut c_float) -> (), sine: 4, cosine: 4;
    remquo(value: c_double, by: c_double, quotient: *mut c_int) -> c_double, quotient: 4;
    lgamma_r(value: c_double, sign: *mut c_int) -> c_double, sign: 4;
    localtime_r(time: Memory, to: Memory) -> Memory, to: TM;
    gmtime_r(time: Memory, to: Memory) -> Memory, to: TM;
    asctime_r(time: Memory, to: Text) -> Text, to: 26;
    ctime_r(time: Memory, to: Text) -> Text, to: 26;
    strftime(to: Text, room: usize, format: Memory, time: Memory) -> usize, to: room;
    mbstowcs(to: Memory, from: Memory, room: usize) -> usize, to: room.saturating_mul(4);
    wcstombs(to: Text, from: Memory, room: usize) -> usize, to: room;
    strxfrm(to: Text, from: Text, room: usize) -> usize, to: room;
    inet_ntop(family: c_int, from: Memory, to: Text, room: c_uint) -> Text, to: room as usize;
    inet_pton(family: c_int, from: Text, to: Memory) -> c_int,
        to: if family == libc::AF_INET { 4 } else { 16 };
    gethostname(to: Text, room: usize) -> c_int, to: room;
    uname(to: Memory) -> c_int, to: size_of::<libc::utsname>();
    times(to: Memory) -> c_long, to: size_of::<libc::tms>();
    getrusage(who: c_int, to: Memory) -> c_int, to: size_of::<libc::rusage>();
    clock_getres(clock: c_int, to: Memory) -> c_int, to: 16;
    getentropy(to: Memory, bytes: usize) -> c_int, to: bytes;
    arc4random_buf(to: Memory, bytes: usize) -> (), to: bytes;
    readlink(path: Text, to: Text, room: usize) -> isize, to: room;
    pipe(to: *mut c_int) -> c_int, to: 8;
    pipe2(to: *mut c_int, flags: c_int) -> c_int, to: 8;
    socketpair(domain: c_int, kind: c_int, protocol: c_int, to: *mut c_int) -> c_int, to: 8;
    sem_getvalue(semaphore: Memory, to: *mut c_int) -> c_int, to: 4;
    getdelim(line: *mut Text, room: *mut usize, end: c_int, file: Memory) -> isize, line: 8, room: 8;
    getline(line: *mut Text, room: *mut usize, file: Memory) -> isize, line: 8, room: 8;
}

/// Bytes of a text with its end; 0 for none.
fn text_bytes(text: Text) -> usize {
    // SAFETY: null, or a string of the program's.
    if text.is_null() { 0 } else { unsafe { libc::strlen(text) + 1 } }
}

/// Interposed: it ends words in the text.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn strtok_r(text: Text, ends: Text, rest: *mut Text) -> Text {
    // SAFETY: the caller's place.
    let begin = if text.is_null() { unsafe { *rest } } else { text };
    if window::contains(begin as usize) {
        announce(begin as usize, text_bytes(begin));
    }
    will_write(rest.cast(), 8);
    call!(strtok_r(text: Text, ends: Text, rest: *mut Text) -> Text)
}

/// Interposed: as above, with a place of its own for the rest.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn strtok(text: Text, ends: Text) -> Text {
    thread_local! {
        static REST: Cell<Text> = const { Cell::new(std::ptr::null_mut()) };
    }
    // SAFETY: the caller's text, and a place of this thread.
    REST.with(|rest| unsafe { strtok_r(text, ends, rest.as_ptr()) })
}

/// Interposed: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn strsep(rest: *mut Text, ends: Text) -> Text {
    // SAFETY: the caller's place.
    let begin = unsafe { *rest };
    if window::contains(begin as usize) {
        announce(begin as usize, text_bytes(begin));
    }
    will_write(rest.cast(), 8);
    call!(strsep(rest: *mut Text, ends: Text) -> Text)
}
