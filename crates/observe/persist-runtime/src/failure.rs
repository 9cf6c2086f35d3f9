//! Errors as C has them: a number below 0, and the text of the thread's last one. And what ends the program.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use pmem::MapError;

/// What kind of error it is. The numbers are those of `enum sl_status` in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Argument = -1,
    State = -2,
    Reference = -3,
    Full = -4,
    File = -7,
    Locked = -8,
    NoPool = -9,
    Foreign = -10,
    Damaged = -11,
    Sync = -12,
}

/// An error on its way to C.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    pub errno: c_int,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), errno: 0 }
    }

    /// The same, with the file that it is about.
    pub fn of_file(self, path: &std::path::Path) -> Failure {
        Failure { message: format!("{}: {}", path.display(), self.message), ..self }
    }
}

impl From<sfr::Error> for Failure {
    fn from(error: sfr::Error) -> Failure {
        use sfr::Error;
        let code = match error {
            Error::NotAPool { .. } => Code::NoPool,
            Error::Damaged { .. } | Error::Cut { .. } => Code::Damaged,
            Error::Version { .. } | Error::Layout { .. } => Code::Foreign,
            Error::TooSmall { .. } | Error::Name { .. } => Code::Argument,
            Error::Full { .. } | Error::Threads => Code::Full,
            Error::NoBlock { .. } => Code::Reference,
            _ => Code::Damaged,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<MapError> for Failure {
    fn from(error: MapError) -> Failure {
        let (code, errno) = match &error {
            MapError::Locked { .. } => (Code::Locked, libc::EWOULDBLOCK),
            MapError::Sync { source, .. } => (Code::Sync, source.raw_os_error().unwrap_or(libc::EIO)),
            MapError::File { source, .. } | MapError::Anonymous { source, .. } => {
                (Code::File, source.raw_os_error().unwrap_or(libc::EINVAL))
            }
            MapError::Length { .. } => (Code::Argument, libc::EINVAL),
            _ => (Code::File, libc::EINVAL),
        };
        Failure { code, message: error.to_string(), errno }
    }
}

thread_local! {
    static LAST: RefCell<(c_int, CString)> = RefCell::new((0, CString::default()));
}

/// Remembers an error for `sl_error`; its number.
pub fn note(failure: Failure) -> c_int {
    let text: Vec<u8> = failure.message.bytes().filter(|byte| *byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // A thread whose variables are gone already has nobody left to ask.
    _ = LAST.try_with(|last| *last.borrow_mut() = (failure.code as c_int, text));
    if failure.errno != 0 {
        // SAFETY: `errno` is the calling thread's own.
        unsafe { *libc::__errno_location() = failure.errno };
    }
    failure.code as c_int
}

/// The number of the thread's last error; 0 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn sl_error_code() -> c_int {
    LAST.try_with(|last| last.borrow().0).unwrap_or(0)
}

/// Its text, which stays until the thread's next error.
#[unsafe(no_mangle)]
pub extern "C" fn sl_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Says why and ends the program, as a crash would: what is not committed will be undone.
pub fn end(why: &str) -> ! {
    say(why);
    // SAFETY: does not return.
    unsafe { libc::abort() }
}

/// Says something on standard error, in one piece.
pub fn say(text: &str) {
    let line = format!("strandline: {text}\n");
    // SAFETY: so many bytes are there. Nobody is left to hear of an error.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
}
