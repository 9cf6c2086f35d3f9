//! `sscanf` and its relatives.
//!
//! How much they write is known once they have done it. So where a result is to go into the window, they
//! write it elsewhere first. Then it is announced and copied.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::arguments::List;
use crate::local::announce;
use crate::real::real;
use crate::window;

type Input = *mut c_void;
type Format = *const c_char;
type Read = unsafe extern "C-unwind" fn(Input, Format, *mut List) -> c_int;

unsafe extern "C" {
    #[link_name = "stdin"]
    static STDIN: Input;
}

/// Results at most that one call may have in the window.
const MOST: usize = 128;
/// Room for a text of any length: address space, of which what is written becomes memory.
const ROOM: usize = 1 << 30;

/// A place for what functions write, before it is known how much that is.
pub struct Scratch {
    /// Its address.
    pub at: usize,
    /// Its bytes.
    pub bytes: usize,
}

impl Scratch {
    /// Of so many bytes, or as many as any text has.
    pub fn new(bytes: usize) -> Scratch {
        let bytes = bytes.clamp(1, ROOM);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let real = real!(c"mmap", fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void);
        // SAFETY: a new mapping.
        let at = unsafe { real(ptr::null_mut(), bytes, protection, flags, -1, 0) } as usize;
        if at == libc::MAP_FAILED as usize {
            crate::failure::end("no address space for what a function writes");
        }
        Scratch { at, bytes }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let real = real!(c"munmap", fn(*mut c_void, usize) -> c_int);
        // SAFETY: the mapping made above.
        unsafe { real(self.at as *mut c_void, self.bytes) };
    }
}

/// What a conversion stores.
#[derive(Clone, Copy)]
struct Result {
    to: usize,
    /// Bytes of a number or of characters without an end; of a text, at most, 0 for any number.
    bytes: usize,
    /// A text with an end: bytes of a character, else 0.
    text: usize,
    /// Whether it is among those that the function counts.
    counted: bool,
}

/// The next pointer of a list.
///
/// # Safety
/// There is one.
unsafe fn next(list: &mut List) -> usize {
    // SAFETY: as the list is laid out on x86-64.
    unsafe { list.next_word() }
}

/// Results of a format, in order; `None` if it is one that names arguments by number.
///
/// # Safety
/// The format is a string, and the list has its arguments.
unsafe fn results(format: Format, list: &mut List) -> Option<Vec<Result>> {
    // SAFETY: the caller's.
    let format = unsafe { std::ffi::CStr::from_ptr(format) }.to_bytes();
    let mut found = Vec::new();
    let mut rest = format.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            continue;
        }
        let (mut width, mut kept, mut long, mut short, mut quad, mut made) = (0, true, 0, 0, false, false);
        let kind = loop {
            match rest.next()? {
                b'*' => kept = false,
                digit @ b'0'..=b'9' => width = width * 10 + usize::from(digit - b'0'),
                b'$' => return None,
                b'h' => short += 1,
                b'l' => long += 1,
                b'j' | b'z' | b't' | b'q' => long = 2,
                b'L' => (quad, long) = (true, 2),
                b'm' => made = true,
                b'\'' | b'I' => {}
                kind => break kind,
            }
        };
        if kind == b'[' {
            // A bracket right behind the beginning stands for itself.
            if rest.peek() == Some(&b'^') {
                rest.next();
            }
            rest.next();
            while rest.next()? != b']' {}
        }
        if kind == b'%' || !kept {
            continue;
        }
        let wide = if long > 0 || matches!(kind, b'C' | b'S') { 4 } else { 1 };
        let (bytes, text) = match kind {
            _ if made => (8, 0),
            b's' | b'S' | b'[' => (if width == 0 { 0 } else { (width + 1) * wide }, wide),
            b'c' | b'C' => (width.max(1) * wide, 0),
            b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' if quad => (16, 0),
            b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => (if long > 0 { 8 } else { 4 }, 0),
            b'p' => (8, 0),
            _ => (if long > 0 { 8 } else { 4 >> short.min(2) }, 0),
        };
        // SAFETY: the caller's.
        let to = unsafe { next(list) };
        found.push(Result { to, bytes, text, counted: kind != b'n' });
    }
    Some(found)
}

fn scan(read: Read, input: Input, format: Format, arguments: *mut List) -> c_int {
    // SAFETY: the caller's; a copy, because reading takes from it.
    let mut copy = unsafe { *arguments };
    // SAFETY: the caller's arguments.
    let found = unsafe { results(format, &mut copy) }.filter(|found| found.len() <= MOST);
    let Some(found) = found.filter(|found| found.iter().any(|result| window::contains(result.to))) else {
        // SAFETY: the caller's arguments.
        return unsafe { read(input, format, arguments) };
    };
    let scratch = Scratch::new(ROOM);
    let room = scratch.at;
    let each = ROOM / found.len();
    let place = |number: usize| room + number * each / 64 * 64;
    let mut pointers = Vec::new();
    for (number, result) in found.iter().enumerate() {
        if !window::contains(result.to) {
            pointers.push(result.to);
            continue;
        }
        pointers.push(place(number));
        if result.text == 0 {
            // SAFETY: the program says that so many bytes are there; what is not converted stays.
            unsafe {
                ptr::copy_nonoverlapping(result.to as *const u8, place(number) as *mut u8, result.bytes)
            };
        }
    }
    let mut list = List::of(&pointers);
    // SAFETY: the caller's arguments, but for results of the same kinds with more room.
    let converted = unsafe { read(input, format, &mut list) };
    let mut counted = 0;
    for (number, result) in found.iter().enumerate() {
        let done = !result.counted || counted < converted;
        counted += c_int::from(result.counted);
        if !window::contains(result.to) || !done {
            continue;
        }
        let bytes = match result.text {
            0 => result.bytes,
            // SAFETY: the function ended the text.
            1 => unsafe { libc::strlen(place(number) as *const c_char) + 1 },
            // SAFETY: as above.
            _ => unsafe { (libc::wcslen(place(number) as *const libc::wchar_t) + 1) * 4 },
        };
        announce(result.to, bytes);
        // SAFETY: the program has room for the result.
        unsafe { ptr::copy_nonoverlapping(place(number) as *const u8, result.to as *mut u8, bytes) };
    }
    converted
}

/// Of a text.
pub extern "C-unwind" fn scan_text(input: Input, format: Format, arguments: *mut List) -> c_int {
    scan(real!(c"__isoc99_vsscanf", fn(Input, Format, *mut List) -> c_int), input, format, arguments)
}

/// Of a stream.
pub extern "C-unwind" fn scan_stream(input: Input, format: Format, arguments: *mut List) -> c_int {
    crate::local::boundary();
    let real = real!(c"__isoc99_vfscanf", fn(Input, Format, *mut List) -> c_int);
    let converted = scan(real, input, format, arguments);
    crate::calls::received();
    converted
}

/// Of the standard input.
pub extern "C-unwind" fn scan_input(format: Format, arguments: *mut List) -> c_int {
    // SAFETY: the C library's, set when the process begins.
    scan_stream(unsafe { STDIN }, format, arguments)
}

macro_rules! lists {
    ($($name:ident $scan:ident($($input:ident)?);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($input: Input,)? format: Format, arguments: *mut List) -> c_int {
            $scan($($input,)? format, arguments)
        }
    )* };
}

lists! {
    vsscanf scan_text(input);
    __isoc99_vsscanf scan_text(input);
    __isoc23_vsscanf scan_text(input);
    vfscanf scan_stream(input);
    __isoc99_vfscanf scan_stream(input);
    __isoc23_vfscanf scan_stream(input);
    vscanf scan_input();
    __isoc99_vscanf scan_input();
    __isoc23_vscanf scan_input();
}
