//! Errors as C has them: a number below 0, and the text of the thread's last one.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use pmem::MapError;

/// What kind of error it is. The numbers are those of `enum sl_status` in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    /// An argument can't be: null, an unknown engine, a size of no pool.
    Argument = -1,
    /// Not now: there is no region, or there is one; the pool is closed.
    State = -2,
    /// A reference leads nowhere, elsewhere, or to no block.
    Reference = -3,
    /// The pool is full.
    Full = -4,
    /// Something in the region failed before.
    Failed = -6,
    /// The system refuses the file; `errno` says why.
    File = -7,
    /// Somebody else has the pool open.
    Locked = -8,
    /// There is no pool in the file.
    NoPool = -9,
    /// It is another program's pool: of another layout, engine or version.
    Foreign = -10,
    /// The pool is damaged.
    Damaged = -11,
    /// The disk failed; what was written since may be lost.
    Sync = -12,
    /// A mistake of ours.
    Internal = -13,
}

/// An error on its way to C.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// What `errno` is set to; 0: it stays.
    pub(crate) errno: c_int,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), errno: 0 }
    }

    /// The same, with the file that it is about.
    pub(crate) fn of_file(self, path: &std::path::Path) -> Failure {
        Failure { message: format!("{}: {}", path.display(), self.message), ..self }
    }
}

impl From<region::Error> for Failure {
    fn from(error: region::Error) -> Failure {
        use region::Error;
        let code = match error {
            Error::NotAPool { .. } => Code::NoPool,
            Error::HeaderDamaged { .. } | Error::Short { .. } | Error::Damaged(_) => Code::Damaged,
            Error::Version { .. }
            | Error::Layout { .. }
            | Error::Engine { .. }
            | Error::UnknownEngine { .. } => Code::Foreign,
            Error::Options(_) => Code::Argument,
            Error::Full { .. } | Error::TooLarge { .. } | Error::NoGrowth(_) => Code::Full,
            Error::ReadOnly | Error::NoThreshold { .. } => Code::State,
            Error::NotAllocated { .. } | Error::Reference { .. } => Code::Reference,
            Error::Aborted(_) => Code::Failed,
            _ => Code::Internal,
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
    /// The thread's last error; 0 and no text before the first.
    static LAST: RefCell<(c_int, CString)> = RefCell::new((0, CString::default()));
}

/// Remembers an error for `sl_error`.
pub(crate) fn note(failure: &Failure) {
    let text: Vec<u8> = failure.message.bytes().filter(|byte| *byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // A thread whose variables are gone already has nobody left to ask.
    _ = LAST.try_with(|last| *last.borrow_mut() = (failure.code as c_int, text));
    if failure.errno != 0 {
        // SAFETY: `errno` is the calling thread's own.
        unsafe { *libc::__errno_location() = failure.errno };
    }
}

/// The number of the thread's last error; 0 if there was none.
pub(crate) fn last_code() -> c_int {
    LAST.try_with(|last| last.borrow().0).unwrap_or(0)
}

/// Its text, which stays until the thread's next error.
pub(crate) fn last_text() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}
