//! Extended attributes: changes are carried out and not recorded, which is said. Those that hold rights are
//! no more recorded than modes and owners are.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};

use libc::size_t;

use super::named::{HERE, Path, complain, watching};
use crate::real::calls::real_call;
use crate::state::local::hooks;

/// Whether a program keeps state of its own under such a name.
///
/// # Safety
/// The name is a C string or null.
unsafe fn is_state(name: *const c_char) -> bool {
    // SAFETY: the caller's.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    [&b"user."[..], b"trusted."].iter().any(|space| name.to_bytes().starts_with(space))
}

/// Which file a call is about.
#[derive(Clone, Copy)]
pub enum About {
    /// What the path leads to.
    Behind(*const c_char),
    /// What the path is, a symbolic link too.
    Named(*const c_char),
    /// An open file.
    Open(c_int),
}

/// Carries out a change of an attribute; says so if it succeeds on a file that the user named.
///
/// # Safety
/// All names are C strings.
pub unsafe fn changing<T: Into<i64> + Copy>(
    call: &[u8],
    about: About,
    attribute: *const c_char,
    change: impl FnOnce() -> T,
) -> T {
    let result = change();
    // SAFETY: the caller's.
    if watching() && result.into() == 0 && unsafe { is_state(attribute) } {
        // SAFETY: as above.
        let path = unsafe {
            match about {
                About::Behind(path) => Path::behind(HERE, path),
                About::Named(path) => Path::to(HERE, path),
                About::Open(fd) => Path::of(fd),
            }
        };
        if let Some(path) = path.and_then(Path::watched) {
            complain(call, path.bytes());
        }
    }
    result
}

/// What a call of this number changes, and its name.
pub fn by_number(number: c_long, first: usize) -> Option<(About, &'static [u8])> {
    let path = first as *const c_char;
    Some(match number {
        libc::SYS_setxattr => (About::Behind(path), b"setxattr"),
        libc::SYS_lsetxattr => (About::Named(path), b"lsetxattr"),
        libc::SYS_fsetxattr => (About::Open(first as c_int), b"fsetxattr"),
        libc::SYS_removexattr => (About::Behind(path), b"removexattr"),
        libc::SYS_lremovexattr => (About::Named(path), b"lremovexattr"),
        libc::SYS_fremovexattr => (About::Open(first as c_int), b"fremovexattr"),
        _ => return None,
    })
}

hooks! {
    fn setxattr(
        path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int
    ) -> c_int {
        let change = || real_call!(setxattr(path, name, value, len, flags));
        // SAFETY: the program's names.
        unsafe { changing(b"setxattr", About::Behind(path), name, change) }
    }
    fn lsetxattr(
        path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int
    ) -> c_int {
        let change = || real_call!(lsetxattr(path, name, value, len, flags));
        // SAFETY: as above.
        unsafe { changing(b"lsetxattr", About::Named(path), name, change) }
    }
    fn fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int {
        let change = || real_call!(fsetxattr(fd, name, value, len, flags));
        // SAFETY: as above.
        unsafe { changing(b"fsetxattr", About::Open(fd), name, change) }
    }
    fn removexattr(path: *const c_char, name: *const c_char) -> c_int {
        let change = || real_call!(removexattr(path, name));
        // SAFETY: as above.
        unsafe { changing(b"removexattr", About::Behind(path), name, change) }
    }
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int {
        let change = || real_call!(lremovexattr(path, name));
        // SAFETY: as above.
        unsafe { changing(b"lremovexattr", About::Named(path), name, change) }
    }
    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int {
        let change = || real_call!(fremovexattr(fd, name));
        // SAFETY: as above.
        unsafe { changing(b"fremovexattr", About::Open(fd), name, change) }
    }
}
