//! The C library's memory and string functions that write, as the program's code calls them: what they will
//! write is announced, then they do it.

use std::ffi::{c_char, c_int, c_void};

use libc::{size_t, wchar_t};

use crate::local::announce;
use crate::window;

type Memory = *mut c_void;
type Text = *mut c_char;
type Wide = *mut wchar_t;

/// So many bytes will be written there.
#[inline(always)]
fn will_write(to: usize, bytes: usize) {
    if window::contains(to) {
        announce(to, bytes);
    }
}

/// Characters of a text.
fn len(text: *const c_char) -> usize {
    // SAFETY: the program says that a string is there.
    unsafe { libc::strlen(text) }
}

/// The same within so many.
fn len_within(text: *const c_char, most: usize) -> usize {
    // SAFETY: the program says that a string is there, or so many characters.
    unsafe { libc::strnlen(text, most) }
}

/// Wide characters of a text.
fn wide_len(text: *const wchar_t) -> usize {
    // SAFETY: the program says that a string is there.
    unsafe { libc::wcslen(text) }
}

/// The same within so many.
fn wide_len_within(text: *const wchar_t, most: usize) -> usize {
    // SAFETY: the program says that a string is there, or so many characters.
    (0..most).find(|&at| unsafe { text.add(at).read() } == 0).unwrap_or(most)
}

/// Bytes up to one of that value, and with it.
fn up_to(from: *const c_void, byte: c_int, bytes: usize) -> usize {
    // SAFETY: the program says that so many bytes are there, or fewer up to such a one.
    let found = unsafe { libc::memchr(from, byte, bytes) } as usize;
    if found == 0 { bytes } else { found + 1 - from as usize }
}

/// Wide characters in bytes.
fn wide(count: usize) -> usize {
    count.saturating_mul(size_of::<wchar_t>())
}

/// Functions under the names that the program's code calls them by: what they write, and the C library's.
macro_rules! functions {
    ($($name:ident = $real:ident($($arg:ident: $type:ty),*) -> $result:ty, writes($to:expr, $bytes:expr);)*) => {
        mod c {
            use super::*;
            unsafe extern "C" { $(pub fn $real($($arg: $type),*) -> $result;)* }
        }
        $(
            /// Announces what it writes, and does what its name says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                let to: usize = $to as usize;
                if window::contains(to) {
                    announce(to, $bytes);
                }
                // SAFETY: the caller's arguments.
                unsafe { c::$real($($arg),*) }
            }
        )*
    };
}

functions! {
    strandline_memcpy = memcpy(to: Memory, from: *const c_void, bytes: size_t) -> Memory, writes(to, bytes);
    strandline___memcpy_chk = __memcpy_chk(to: Memory, from: *const c_void, bytes: size_t, room: size_t) -> Memory, writes(to, bytes);
    strandline_memmove = memmove(to: Memory, from: *const c_void, bytes: size_t) -> Memory, writes(to, bytes);
    strandline___memmove_chk = __memmove_chk(to: Memory, from: *const c_void, bytes: size_t, room: size_t) -> Memory, writes(to, bytes);
    strandline_mempcpy = mempcpy(to: Memory, from: *const c_void, bytes: size_t) -> Memory, writes(to, bytes);
    strandline___mempcpy_chk = __mempcpy_chk(to: Memory, from: *const c_void, bytes: size_t, room: size_t) -> Memory, writes(to, bytes);
    strandline_memset = memset(to: Memory, byte: c_int, bytes: size_t) -> Memory, writes(to, bytes);
    strandline___memset_chk = __memset_chk(to: Memory, byte: c_int, bytes: size_t, room: size_t) -> Memory, writes(to, bytes);
    strandline_memccpy = memccpy(to: Memory, from: *const c_void, byte: c_int, bytes: size_t) -> Memory, writes(to, up_to(from, byte, bytes));
    strandline_bcopy = bcopy(from: *const c_void, to: Memory, bytes: size_t) -> (), writes(to, bytes);
    strandline_bzero = bzero(to: Memory, bytes: size_t) -> (), writes(to, bytes);
    strandline_explicit_bzero = explicit_bzero(to: Memory, bytes: size_t) -> (), writes(to, bytes);
    strandline___explicit_bzero_chk = __explicit_bzero_chk(to: Memory, bytes: size_t, room: size_t) -> (), writes(to, bytes);
    strandline_swab = swab(from: *const c_void, to: Memory, bytes: isize) -> (), writes(to, bytes.max(0) as usize & !1);
    strandline_strcpy = strcpy(to: Text, from: *const c_char) -> Text, writes(to, len(from) + 1);
    strandline___strcpy_chk = __strcpy_chk(to: Text, from: *const c_char, room: size_t) -> Text, writes(to, len(from) + 1);
    strandline_stpcpy = stpcpy(to: Text, from: *const c_char) -> Text, writes(to, len(from) + 1);
    strandline___stpcpy_chk = __stpcpy_chk(to: Text, from: *const c_char, room: size_t) -> Text, writes(to, len(from) + 1);
    strandline_strncpy = strncpy(to: Text, from: *const c_char, bytes: size_t) -> Text, writes(to, bytes);
    strandline___strncpy_chk = __strncpy_chk(to: Text, from: *const c_char, bytes: size_t, room: size_t) -> Text, writes(to, bytes);
    strandline_stpncpy = stpncpy(to: Text, from: *const c_char, bytes: size_t) -> Text, writes(to, bytes);
    strandline___stpncpy_chk = __stpncpy_chk(to: Text, from: *const c_char, bytes: size_t, room: size_t) -> Text, writes(to, bytes);
    strandline_strcat = strcat(to: Text, from: *const c_char) -> Text, writes(to as usize + len(to), len(from) + 1);
    strandline___strcat_chk = __strcat_chk(to: Text, from: *const c_char, room: size_t) -> Text, writes(to as usize + len(to), len(from) + 1);
    strandline_strncat = strncat(to: Text, from: *const c_char, bytes: size_t) -> Text, writes(to as usize + len(to), len_within(from, bytes) + 1);
    strandline___strncat_chk = __strncat_chk(to: Text, from: *const c_char, bytes: size_t, room: size_t) -> Text, writes(to as usize + len(to), len_within(from, bytes) + 1);
    strandline_wmemcpy = wmemcpy(to: Wide, from: *const wchar_t, count: size_t) -> Wide, writes(to, wide(count));
    strandline___wmemcpy_chk = __wmemcpy_chk(to: Wide, from: *const wchar_t, count: size_t, room: size_t) -> Wide, writes(to, wide(count));
    strandline_wmemmove = wmemmove(to: Wide, from: *const wchar_t, count: size_t) -> Wide, writes(to, wide(count));
    strandline___wmemmove_chk = __wmemmove_chk(to: Wide, from: *const wchar_t, count: size_t, room: size_t) -> Wide, writes(to, wide(count));
    strandline_wmempcpy = wmempcpy(to: Wide, from: *const wchar_t, count: size_t) -> Wide, writes(to, wide(count));
    strandline___wmempcpy_chk = __wmempcpy_chk(to: Wide, from: *const wchar_t, count: size_t, room: size_t) -> Wide, writes(to, wide(count));
    strandline_wmemset = wmemset(to: Wide, character: wchar_t, count: size_t) -> Wide, writes(to, wide(count));
    strandline___wmemset_chk = __wmemset_chk(to: Wide, character: wchar_t, count: size_t, room: size_t) -> Wide, writes(to, wide(count));
    strandline_wcscpy = wcscpy(to: Wide, from: *const wchar_t) -> Wide, writes(to, wide(wide_len(from) + 1));
    strandline___wcscpy_chk = __wcscpy_chk(to: Wide, from: *const wchar_t, room: size_t) -> Wide, writes(to, wide(wide_len(from) + 1));
    strandline_wcpcpy = wcpcpy(to: Wide, from: *const wchar_t) -> Wide, writes(to, wide(wide_len(from) + 1));
    strandline___wcpcpy_chk = __wcpcpy_chk(to: Wide, from: *const wchar_t, room: size_t) -> Wide, writes(to, wide(wide_len(from) + 1));
    strandline_wcsncpy = wcsncpy(to: Wide, from: *const wchar_t, count: size_t) -> Wide, writes(to, wide(count));
    strandline___wcsncpy_chk = __wcsncpy_chk(to: Wide, from: *const wchar_t, count: size_t, room: size_t) -> Wide, writes(to, wide(count));
    strandline_wcscat = wcscat(to: Wide, from: *const wchar_t) -> Wide, writes(to as usize + wide(wide_len(to)), wide(wide_len(from) + 1));
    strandline___wcscat_chk = __wcscat_chk(to: Wide, from: *const wchar_t, room: size_t) -> Wide, writes(to as usize + wide(wide_len(to)), wide(wide_len(from) + 1));
    strandline_wcsncat = wcsncat(to: Wide, from: *const wchar_t, count: size_t) -> Wide, writes(to as usize + wide(wide_len(to)), wide(wide_len_within(from, count) + 1));
    strandline___wcsncat_chk = __wcsncat_chk(to: Wide, from: *const wchar_t, count: size_t, room: size_t) -> Wide, writes(to as usize + wide(wide_len(to)), wide(wide_len_within(from, count) + 1));
}

/// Copies as much of a string as there is room for with a zero; the string's length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_strlcpy(to: Text, from: *const c_char, room: size_t) -> size_t {
    let all = len(from);
    if room > 0 {
        let bytes = all.min(room - 1);
        will_write(to as usize, bytes + 1);
        // SAFETY: the caller's arguments.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, bytes);
            to.add(bytes).write(0);
        }
    }
    all
}

/// Appends as much of a string as there is room for with a zero; the length that it would have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_strlcat(to: Text, from: *const c_char, room: size_t) -> size_t {
    let before = len_within(to, room);
    if before == room {
        return room + len(from);
    }
    // SAFETY: the caller's arguments; there is room behind what is there.
    before + unsafe { strandline_strlcpy(to.add(before), from, room - before) }
}
