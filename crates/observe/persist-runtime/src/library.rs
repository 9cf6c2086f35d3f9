//! More functions of the C library that write where the program says, and are no system calls.
//!
//! Each is interposed under its own name, so that calls from other libraries come here, too.

use std::cell::Cell;
use std::ffi::{c_char, c_double, c_float, c_int, c_long, c_uint, c_void};
use std::ptr;

use crate::local::{announce, writing};
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
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty $(, $to:tt: $bytes:expr)*;)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            writing(&[$(($to as usize, $bytes)),*], || call!($name($($arg: $type),*) -> $result))
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
    drand48_r(state: Memory, to: *mut c_double) -> c_int, state: 24, to: 8;
    erand48_r(from: *mut u16, state: Memory, to: *mut c_double) -> c_int, from: 6, state: 24, to: 8;
    lrand48_r(state: Memory, to: *mut c_long) -> c_int, state: 24, to: 8;
    nrand48_r(from: *mut u16, state: Memory, to: *mut c_long) -> c_int, from: 6, state: 24, to: 8;
    mrand48_r(state: Memory, to: *mut c_long) -> c_int, state: 24, to: 8;
    jrand48_r(from: *mut u16, state: Memory, to: *mut c_long) -> c_int, from: 6, state: 24, to: 8;
    srand48_r(seed: c_long, state: Memory) -> c_int, state: 24;
    seed48_r(seed: *mut u16, state: Memory) -> c_int, state: 24;
    lcong48_r(seed: *mut u16, state: Memory) -> c_int, state: 24;
    strtoimax(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    strtoumax(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    strtoq(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    strtouq(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    __isoc23_strtol(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    __isoc23_strtoul(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    __isoc23_strtoll(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    __isoc23_strtoull(text: Text, end: *mut Text, base: c_int) -> c_long, end: 8;
    wcstol(text: Memory, end: *mut Text, base: c_int) -> c_long, end: 8;
    wcstoul(text: Memory, end: *mut Text, base: c_int) -> c_long, end: 8;
    wcstoll(text: Memory, end: *mut Text, base: c_int) -> c_long, end: 8;
    wcstoull(text: Memory, end: *mut Text, base: c_int) -> c_long, end: 8;
    wcstod(text: Memory, end: *mut Text) -> c_double, end: 8;
    wcstof(text: Memory, end: *mut Text) -> c_float, end: 8;
    wcpncpy(to: Memory, from: Memory, count: usize) -> Memory, to: count.saturating_mul(4);
    __wcpncpy_chk(to: Memory, from: Memory, count: usize, room: usize) -> Memory, to: count.saturating_mul(4);
    wcsxfrm(to: Memory, from: Memory, room: usize) -> usize, to: room.saturating_mul(4);
    wcsftime(to: Memory, room: usize, format: Memory, time: Memory) -> usize, to: room.saturating_mul(4);
    wcstok(text: Memory, ends: Memory, rest: *mut Memory) -> Memory,
        text: wide_text_bytes(text), rest: 8, (continued(text, rest)): wide_text_bytes(continued(text, rest));
    mbtowc(to: Memory, from: Text, room: usize) -> c_int, to: 4;
    mbrtowc(to: Memory, from: Text, room: usize, state: Memory) -> usize, to: 4, state: STATE;
    mbrlen(from: Text, room: usize, state: Memory) -> usize, state: STATE;
    mbsrtowcs(to: Memory, from: *mut Text, room: usize, state: Memory) -> usize,
        to: room.saturating_mul(4), (if_stored(to, from)): 8, state: STATE;
    mbsnrtowcs(to: Memory, from: *mut Text, most: usize, room: usize, state: Memory) -> usize,
        to: room.saturating_mul(4), (if_stored(to, from)): 8, state: STATE;
    wcsrtombs(to: Memory, from: *mut Text, room: usize, state: Memory) -> usize,
        to: room, (if_stored(to, from)): 8, state: STATE;
    wcsnrtombs(to: Memory, from: *mut Text, most: usize, room: usize, state: Memory) -> usize,
        to: room, (if_stored(to, from)): 8, state: STATE;
    __mbstowcs_chk(to: Memory, from: Memory, room: usize, size: usize) -> usize, to: room.saturating_mul(4);
    __wcstombs_chk(to: Text, from: Memory, room: usize, size: usize) -> usize, to: room;
    __mbsrtowcs_chk(to: Memory, from: *mut Text, room: usize, state: Memory, size: usize) -> usize,
        to: room.saturating_mul(4), (if_stored(to, from)): 8, state: STATE;
    __mbsnrtowcs_chk(
        to: Memory, from: *mut Text, most: usize, room: usize, state: Memory, size: usize
    ) -> usize, to: room.saturating_mul(4), (if_stored(to, from)): 8, state: STATE;
    __wcsrtombs_chk(to: Memory, from: *mut Text, room: usize, state: Memory, size: usize) -> usize,
        to: room, (if_stored(to, from)): 8, state: STATE;
    __wcsnrtombs_chk(
        to: Memory, from: *mut Text, most: usize, room: usize, state: Memory, size: usize
    ) -> usize, to: room, (if_stored(to, from)): 8, state: STATE;
    mktime(time: Memory) -> c_long, time: TM;
    timegm(time: Memory) -> c_long, time: TM;
    timelocal(time: Memory) -> c_long, time: TM;
    strptime(text: Text, format: Text, time: Memory) -> Text, time: TM;
    timespec_get(to: Memory, base: c_int) -> c_int, to: 16;
    timespec_getres(to: Memory, base: c_int) -> c_int, to: 16;
    remquof(value: c_float, by: c_float, quotient: *mut c_int) -> c_float, quotient: 4;
    lgammaf_r(value: c_float, sign: *mut c_int) -> c_float, sign: 4;
    random_r(state: Memory, to: *mut c_int) -> c_int, state: 48, to: 4;
    srandom_r(seed: c_uint, state: Memory) -> c_int, state: 48;
    inet_aton(text: Text, to: Memory) -> c_int, to: 4;
    realpath(path: Text, to: Text) -> Text, to: libc::PATH_MAX as usize;
    __realpath_chk(path: Text, to: Text, room: usize) -> Text, to: libc::PATH_MAX as usize;
    __getcwd_chk(to: Text, bytes: usize, room: usize) -> Text, to: bytes;
    getwd(to: Text) -> Text, to: libc::PATH_MAX as usize;
    __getwd_chk(to: Text, room: usize) -> Text, to: libc::PATH_MAX as usize;
    __readlink_chk(path: Text, to: Text, bytes: usize, room: usize) -> isize, to: bytes;
    readlinkat(folder: c_int, path: Text, to: Text, bytes: usize) -> isize, to: bytes;
    __readlinkat_chk(folder: c_int, path: Text, to: Text, bytes: usize, room: usize) -> isize, to: bytes;
    __gethostname_chk(to: Text, bytes: usize, room: usize) -> c_int, to: bytes;
    getdomainname(to: Text, bytes: usize) -> c_int, to: bytes;
    __getdomainname_chk(to: Text, bytes: usize, room: usize) -> c_int, to: bytes;
    getlogin_r(to: Text, bytes: usize) -> c_int, to: bytes;
    __getlogin_r_chk(to: Text, bytes: usize, room: usize) -> c_int, to: bytes;
    ttyname_r(fd: c_int, to: Text, bytes: usize) -> c_int, to: bytes;
    __ttyname_r_chk(fd: c_int, to: Text, bytes: usize, room: usize) -> c_int, to: bytes;
    ptsname_r(fd: c_int, to: Text, bytes: usize) -> c_int, to: bytes;
    __ptsname_r_chk(fd: c_int, to: Text, bytes: usize, room: usize) -> c_int, to: bytes;
    confstr(name: c_int, to: Text, bytes: usize) -> usize, to: bytes;
    __confstr_chk(name: c_int, to: Text, bytes: usize, room: usize) -> usize, to: bytes;
    getgroups(count: c_int, to: Memory) -> c_int, to: count.max(0) as usize * 4;
    __getgroups_chk(count: c_int, to: Memory, room: usize) -> c_int, to: count.max(0) as usize * 4;
    getresuid(one: Memory, two: Memory, three: Memory) -> c_int, one: 4, two: 4, three: 4;
    getresgid(one: Memory, two: Memory, three: Memory) -> c_int, one: 4, two: 4, three: 4;
    getrlimit(which: c_int, to: Memory) -> c_int, to: 16;
    getrlimit64(which: c_int, to: Memory) -> c_int, to: 16;
    prlimit(process: c_int, which: c_int, new: Memory, old: Memory) -> c_int, old: 16;
    prlimit64(process: c_int, which: c_int, new: Memory, old: Memory) -> c_int, old: 16;
    getloadavg(to: Memory, count: c_int) -> c_int, to: count.max(0) as usize * 8;
    sysinfo(to: Memory) -> c_int, to: size_of::<libc::sysinfo>();
    getitimer(which: c_int, to: Memory) -> c_int, to: 32;
    timer_gettime(timer: Memory, to: Memory) -> c_int, to: 32;
    timer_create(clock: c_int, event: Memory, to: Memory) -> c_int, to: 8;
    timerfd_gettime(fd: c_int, to: Memory) -> c_int, to: 32;
    sched_getaffinity(process: c_int, bytes: usize, to: Memory) -> c_int, to: bytes;
    sched_getparam(process: c_int, to: Memory) -> c_int, to: 4;
    pthread_getaffinity_np(thread: usize, bytes: usize, to: Memory) -> c_int, to: bytes;
    pthread_getname_np(thread: usize, to: Text, bytes: usize) -> c_int, to: bytes;
    pthread_getschedparam(thread: usize, policy: Memory, to: Memory) -> c_int, policy: 4, to: 4;
    pthread_getcpuclockid(thread: usize, to: Memory) -> c_int, to: 4;
    pthread_key_create(to: Memory, end: usize) -> c_int, to: 4;
    posix_memalign(to: *mut Memory, align: usize, bytes: usize) -> c_int, to: 8;
    strerror_r(error: c_int, to: Text, bytes: usize) -> Text, to: bytes;
    __xpg_strerror_r(error: c_int, to: Text, bytes: usize) -> c_int, to: bytes;
    mkstemp(path: Text) -> c_int, path: text_bytes(path);
    mkstemp64(path: Text) -> c_int, path: text_bytes(path);
    mkostemp(path: Text, flags: c_int) -> c_int, path: text_bytes(path);
    mkstemps(path: Text, end: c_int) -> c_int, path: text_bytes(path);
    mkdtemp(path: Text) -> Text, path: text_bytes(path);
    regexec(expression: Memory, text: Text, count: usize, to: Memory, flags: c_int) -> c_int,
        to: count.saturating_mul(8);
    backtrace(to: Memory, count: c_int) -> c_int, to: count.max(0) as usize * 8;
    dladdr(address: Memory, to: Memory) -> c_int, to: 32;
    memfrob(to: Memory, bytes: usize) -> Memory, to: bytes;
    strfry(text: Text) -> Text, text: text_bytes(text).saturating_sub(1);
    insque(element: Memory, before: Memory) -> (), element: 16, before: 8, (next_of(before)): 16;
    getaddrinfo(name: Text, service: Text, hints: Memory, to: Memory) -> c_int, to: 8;
    getnameinfo(
        of: Memory, len: c_uint, host: Text, hosts: c_uint, service: Text, services: c_uint, flags: c_int
    ) -> c_int, host: hosts as usize, service: services as usize;
    getpwnam_r(name: Text, to: Memory, text: Text, bytes: usize, found: Memory) -> c_int,
        to: size_of::<libc::passwd>(), text: bytes, found: 8;
    getpwuid_r(user: c_uint, to: Memory, text: Text, bytes: usize, found: Memory) -> c_int,
        to: size_of::<libc::passwd>(), text: bytes, found: 8;
    getgrnam_r(name: Text, to: Memory, text: Text, bytes: usize, found: Memory) -> c_int,
        to: size_of::<libc::group>(), text: bytes, found: 8;
    getgrgid_r(group: c_uint, to: Memory, text: Text, bytes: usize, found: Memory) -> c_int,
        to: size_of::<libc::group>(), text: bytes, found: 8;
    getsubopt(rest: *mut Text, names: Memory, value: *mut Text) -> c_int,
        (pointed(rest)): text_bytes(pointed(rest)), rest: 8, value: 8;
    iconv(with: Memory, from: *mut Text, bytes: *mut usize, to: *mut Text, room: *mut usize) -> usize,
        from: 8, bytes: 8, to: 8, room: 8, (pointed(to)): pointed(room.cast()) as usize;
    statvfs(path: Text, to: Memory) -> c_int, to: size_of::<libc::statvfs>();
    fstatvfs(fd: c_int, to: Memory) -> c_int, to: size_of::<libc::statvfs>();
    statfs(path: Text, to: Memory) -> c_int, to: size_of::<libc::statfs>();
    fstatfs(fd: c_int, to: Memory) -> c_int, to: size_of::<libc::statfs>();
    getxattr(path: Text, name: Text, to: Memory, bytes: usize) -> isize, to: bytes;
    fgetxattr(fd: c_int, name: Text, to: Memory, bytes: usize) -> isize, to: bytes;
    tsearch(key: Memory, root: Memory, compare: usize) -> Memory, root: 8;
    tdelete(key: Memory, root: Memory, compare: usize) -> Memory, root: 8;
    sem_getvalue(semaphore: Memory, to: *mut c_int) -> c_int, to: 4;
}

/// Bytes of a state of multibyte characters.
const STATE: usize = 8;

/// Where a conversion says how far it came, which it does only if it has a place for what it converts.
fn if_stored(to: Memory, from: *mut Text) -> *mut Text {
    if to.is_null() { ptr::null_mut() } else { from }
}

/// Where a text that is cut to pieces goes on.
fn continued(text: Memory, rest: *mut Memory) -> Memory {
    // SAFETY: the caller's place, which is set if it gives no text.
    if text.is_null() { unsafe { *rest } } else { ptr::null_mut() }
}

/// The address at an address.
fn pointed(at: *mut Text) -> Text {
    // SAFETY: null, or the caller's place.
    if at.is_null() { ptr::null_mut() } else { unsafe { *at } }
}

/// What comes behind an element of a list that begins with the addresses of the next and the one before.
fn next_of(element: Memory) -> Memory {
    pointed(element.cast()).cast()
}

/// Bytes of a wide text with its end; 0 for none.
fn wide_text_bytes(text: Memory) -> usize {
    // SAFETY: null, or a string of the program's.
    if text.is_null() { 0 } else { unsafe { (libc::wcslen(text.cast()) + 1) * 4 } }
}

/// Calls `call` with a copy of what is there, then stores the bytes that it has changed: how much it writes is
/// for it to say.
fn by_copy<R>(to: Memory, bytes: usize, call: impl FnOnce(Memory) -> R) -> R {
    /// Bytes of the longest copy.
    const MOST: usize = 128;
    if !window::contains(to as usize) || bytes == 0 {
        return call(to);
    }
    if bytes > MOST {
        return writing(&[(to as usize, bytes)], || call(to));
    }
    let mut copy = [0_u64; MOST / 8];
    // SAFETY: the caller says that so many bytes are there.
    unsafe { ptr::copy_nonoverlapping(to.cast(), copy.as_mut_ptr().cast::<u8>(), bytes) };
    let before = copy.map(u64::to_ne_bytes);
    let result = call(copy.as_mut_ptr().cast());
    let after = copy.map(u64::to_ne_bytes);
    let changed = |at: usize| after.as_flattened()[at] != before.as_flattened()[at];
    let mut at = 0;
    while at < bytes {
        let len = (at..bytes).take_while(|&at| changed(at)).count();
        if len > 0 {
            let to = to.wrapping_byte_add(at);
            will_write(to, len);
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(after.as_flattened()[at..].as_ptr(), to.cast(), len) };
        }
        at += len.max(1);
    }
    result
}

macro_rules! copying {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty, $to:ident: $bytes:expr;)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            let bytes: usize = $bytes;
            by_copy($to.cast(), bytes, |$to| call!($name($($arg: $type),*) -> $result))
        }
    )* };
}

/// Bytes of a set of signals.
const SET: usize = size_of::<libc::sigset_t>();

/// As many bytes as stand there.
fn said(bytes: *mut c_uint) -> usize {
    // SAFETY: null, or the caller's place.
    if bytes.is_null() { 0 } else { unsafe { *bytes as usize } }
}

copying! {
    sigemptyset(set: Memory) -> c_int, set: SET;
    sigfillset(set: Memory) -> c_int, set: SET;
    sigaddset(set: Memory, signal: c_int) -> c_int, set: SET;
    sigdelset(set: Memory, signal: c_int) -> c_int, set: SET;
    sigpending(set: Memory) -> c_int, set: SET;
    sigprocmask(how: c_int, new: Memory, old: Memory) -> c_int, old: SET;
    pthread_sigmask(how: c_int, new: Memory, old: Memory) -> c_int, old: SET;
    // As many bytes as the longest character has; what lies behind it is the program's, too, or is not there.
    wctomb(to: Memory, character: c_int) -> c_int, to: longest();
    __wctomb_chk(to: Memory, character: c_int, room: usize) -> c_int, to: longest();
}

unsafe extern "C" {
    fn __ctype_get_mb_cur_max() -> usize;
}

/// Bytes of the locale's longest character.
fn longest() -> usize {
    // SAFETY: takes nothing.
    unsafe { __ctype_get_mb_cur_max() }
}

macro_rules! with_state {
    ($($name:ident($($room:ident)?);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            to: Memory, character: c_int, state: Memory $(, $room: usize)?
        ) -> usize {
            by_copy(state, STATE, |state| by_copy(to, longest(), |to| {
                call!($name(to: Memory, character: c_int, state: Memory $(, $room: usize)?) -> usize)
            }))
        }
    )* };
}

with_state! {
    wcrtomb();
    __wcrtomb_chk(room);
}

macro_rules! with_length {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type,)* to: Memory, len: *mut c_uint) -> c_int {
            let bytes = said(len);
            by_copy(len.cast(), 4, |len| {
                let len = len.cast::<c_uint>();
                by_copy(to, bytes, |to| call!($name($($arg: $type,)* to: Memory, len: *mut c_uint) -> c_int))
            })
        }
    )* };
}

with_length! {
    getsockopt(fd: c_int, level: c_int, name: c_int);
    getsockname(fd: c_int);
    getpeername(fd: c_int);
}

/// Bytes of a text with its end; 0 for none.
fn text_bytes(text: Text) -> usize {
    // SAFETY: null, or a string of the program's.
    if text.is_null() { 0 } else { unsafe { libc::strlen(text) + 1 } }
}

/// The same of a text in the window; 0 for others.
fn inside_bytes(text: Text) -> usize {
    if window::contains(text as usize) { text_bytes(text) } else { 0 }
}

/// Interposed: it ends words in the text.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn strtok_r(text: Text, ends: Text, rest: *mut Text) -> Text {
    // SAFETY: the caller's place.
    let begin = if text.is_null() { unsafe { *rest } } else { text };
    writing(
        &[(begin as usize, inside_bytes(begin)), (rest as usize, 8)],
        || call!(strtok_r(text: Text, ends: Text, rest: *mut Text) -> Text),
    )
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
    writing(
        &[(begin as usize, inside_bytes(begin)), (rest as usize, 8)],
        || call!(strsep(rest: *mut Text, ends: Text) -> Text),
    )
}

/// Interposed: neighbours of the element learn that it is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn remque(element: *mut Memory) {
    // SAFETY: the caller's element, which begins with the addresses of the next and the one before.
    let (next, before) = unsafe { (*element, *element.add(1)) };
    let of_next = if next.is_null() { 0 } else { 8 };
    writing(
        &[(next as usize + 8, of_next), (before as usize, 8)],
        || call!(remque(element: *mut Memory) -> ()),
    );
}

/// Interposed: an element that is not found is put behind the others.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lsearch(
    key: Memory,
    to: Memory,
    count: *mut usize,
    bytes: usize,
    compare: usize,
) -> Memory {
    let looked =
        call!(lfind(key: Memory, to: Memory, count: *mut usize, bytes: usize, compare: usize) -> Memory);
    if !looked.is_null() {
        return looked;
    }
    // SAFETY: the caller's place.
    let end = to.wrapping_byte_add(unsafe { *count } * bytes);
    writing(&[(end as usize, bytes), (count as usize, 8)], || {
        // SAFETY: the caller has room for one more, and its key.
        unsafe {
            ptr::copy(key.cast::<u8>(), end.cast(), bytes);
            *count += 1;
        }
    });
    end
}
