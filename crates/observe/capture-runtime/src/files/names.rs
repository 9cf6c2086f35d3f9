//! Names: making, renaming, removing.

use core::ffi::{CStr, c_char, c_int, c_uint};

use libc::{RENAME_EXCHANGE, RENAME_WHITEOUT, dev_t, mode_t};

use super::named::{self, HERE, PATH_BYTES, Path, complain, watching};
use super::{order_lock, record};
use crate::base::sys;
use crate::real::calls::real_call;
use crate::state::local::{caller, hooks};
use abi::file;

/// A name that is watched and goes, of a file that has others: the file stays, and whoever has it open goes
/// on
/// writing to it.
struct Going {
    path: Path,
    file: Path,
}

impl Going {
    /// # Safety
    /// The name is a C string.
    unsafe fn of(folder: c_int, name: *const c_char) -> Option<Going> {
        // SAFETY: the caller's.
        let status = unsafe { named::status_of(folder, name) }?;
        if !named::is_ordinary(&status) || status.st_nlink < 2 {
            return None;
        }
        // SAFETY: the caller's.
        let path = unsafe { Path::to(folder, name) }?.watched()?;
        Some(Going { path, file: Path::nameless(&status, true) })
    }

    /// Records that the file is known by its number, too.
    fn record(&self, pc: u64) {
        record::two_names(file::LINK, pc, &self.path, &self.file);
    }
}

/// Carries out a renaming and records it, if the old or the new name is watched.
pub fn renaming(
    pc: u64,
    [folder, other]: [c_int; 2],
    [from, to]: [*const c_char; 2],
    flags: c_uint,
    change: impl FnOnce() -> c_int,
) -> c_int {
    if !watching() {
        return change();
    }
    let _held = order_lock::hold();
    // SAFETY: the program's names.
    let (paths, going, same) = unsafe {
        let paths = (Path::to(folder, from), Path::to(other, to));
        let (old, new) = (named::status_of(folder, from), named::status_of(other, to));
        let same = matches!((old, new), (Some(old), Some(new)) if named::is_same(&old, &new));
        (paths, Going::of(other, to), same)
    };
    let result = change();
    let (Some(from), Some(to)) = paths else { return result };
    // Of two names of one file, the kernel removes none.
    if result != 0 || same || !(from.is_watched() || to.is_watched()) {
        return result;
    }
    if flags & RENAME_WHITEOUT != 0 {
        complain(b"renameat2(RENAME_WHITEOUT)", from.bytes());
    }
    if !from.is_watched() {
        complain(b"rename from outside of the files that were named", to.bytes());
    }
    if flags & RENAME_EXCHANGE != 0 {
        record::two_names(file::EXCHANGE, pc, &from, &to);
    } else {
        going.inspect(|going| going.record(pc));
        record::two_names(file::RENAME, pc, &from, &to);
    }
    result
}

/// Carries out a change of a name and records it, if the name is watched.
pub fn change(
    pc: u64,
    folder: c_int,
    name: *const c_char,
    what: u8,
    change: impl FnOnce() -> c_int,
) -> c_int {
    if !watching() {
        return change();
    }
    let _held = order_lock::hold();
    // SAFETY: the program's name.
    let path = unsafe { Path::to(folder, name) }.and_then(Path::watched);
    // SAFETY: as above.
    let going = if what == file::UNLINK { unsafe { Going::of(folder, name) } } else { None };
    let result = change();
    if result == 0
        && let Some(path) = path
    {
        going.inspect(|going| going.record(pc));
        record::operation(what, pc, &path, 0);
    }
    result
}

/// Carries out the making of a node, and records it if it is an ordinary file whose name is watched.
pub fn making(
    pc: u64,
    folder: c_int,
    name: *const c_char,
    mode: mode_t,
    make: impl FnOnce() -> c_int,
) -> c_int {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => change(pc, folder, name, file::CREATE, make),
        _ => make(),
    }
}

/// Carries out the making of a hard link, and records it if the new name is watched.
pub fn linking(
    pc: u64,
    [folder, other]: [c_int; 2],
    [from, to]: [*const c_char; 2],
    flags: c_int,
    change: impl FnOnce() -> c_int,
) -> c_int {
    if !watching() {
        return change();
    }
    let _held = order_lock::hold();
    // SAFETY: the program's names.
    let (from, to) = unsafe { (Path::linked(folder, from, flags), Path::to(other, to)) };
    let result = change();
    if result == 0
        && let Some(to) = to.and_then(Path::watched)
    {
        match from.and_then(Path::watched) {
            Some(from) => record::two_names(file::LINK, pc, &from, &to),
            None => complain(b"link to a file outside of those that were named", to.bytes()),
        }
    }
    result
}

/// Carries out the making of a symbolic link, and records it if the name is watched.
pub fn linking_to(
    pc: u64,
    target: *const c_char,
    folder: c_int,
    to: *const c_char,
    change: impl FnOnce() -> c_int,
) -> c_int {
    if !watching() {
        return change();
    }
    let _held = order_lock::hold();
    let result = change();
    if result == 0
        // SAFETY: the program's name.
        && let Some(path) = unsafe { Path::to(folder, to) }.and_then(Path::watched)
    {
        // SAFETY: the kernel just took it for a C string.
        let target = unsafe { CStr::from_ptr(target) }.to_bytes();
        if target.len() > PATH_BYTES {
            complain(b"symlink of more than 1024 bytes", path.bytes());
        } else {
            record::symlink(pc, &path, target);
        }
    }
    result
}

/// Makes a folder of a name that is not taken, and records it.
fn temporary_folder(pc: u64, template: *mut c_char) -> *mut c_char {
    let make = || real_call!(mkdtemp(template));
    if !watching() {
        return make();
    }
    let _held = order_lock::hold();
    let made = make();
    if !made.is_null()
        // SAFETY: the C library gives back the name.
        && let Some(path) = unsafe { Path::to(HERE, made) }.and_then(Path::watched)
    {
        record::operation(file::CREATE_FOLDER, pc, &path, 0);
    }
    made
}

/// The kernel's arguments. By its number: older C libraries have `mknod` under other names only.
fn node(folder: c_int, name: *const c_char, mode: mode_t, device: dev_t) -> [usize; 6] {
    [folder as isize as usize, name as usize, mode as usize, device as usize, 0, 0]
}

/// The kernel's result as the C library gives it.
fn kernels(result: isize) -> c_int {
    super::contents::result(result) as c_int
}

/// Makes a file of a name that is not taken, and records it.
fn temporary(pc: u64, template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    let make = || real_call!(mkostemps(template, suffix, flags));
    if !watching() {
        return make();
    }
    let _held = order_lock::hold();
    let fd = make();
    if let Some(path) = Path::of(fd).and_then(Path::watched) {
        record::operation(file::CREATE, pc, &path, 0);
    }
    fd
}

hooks! {
    fn rename(from: *const c_char, to: *const c_char) -> c_int {
        renaming(caller(), [HERE; 2], [from, to], 0, || real_call!(rename(from, to)))
    }
    fn renameat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char) -> c_int {
        renaming(caller(), [folder, other], [from, to], 0, || real_call!(renameat(folder, from, other, to)))
    }
    fn renameat2(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_uint) -> c_int {
        renaming(caller(), [folder, other], [from, to], flags, || {
            real_call!(renameat2(folder, from, other, to, flags))
        })
    }
    fn unlink(name: *const c_char) -> c_int {
        change(caller(), HERE, name, file::UNLINK, || real_call!(unlink(name)))
    }
    fn unlinkat(folder: c_int, name: *const c_char, flags: c_int) -> c_int {
        change(caller(), folder, name, file::UNLINK, || real_call!(unlinkat(folder, name, flags)))
    }
    fn remove(name: *const c_char) -> c_int {
        change(caller(), HERE, name, file::UNLINK, || real_call!(remove(name)))
    }
    fn rmdir(name: *const c_char) -> c_int {
        change(caller(), HERE, name, file::UNLINK, || real_call!(rmdir(name)))
    }
    fn mkdir(name: *const c_char, mode: mode_t) -> c_int {
        change(caller(), HERE, name, file::CREATE_FOLDER, || real_call!(mkdir(name, mode)))
    }
    fn mkdirat(folder: c_int, name: *const c_char, mode: mode_t) -> c_int {
        change(caller(), folder, name, file::CREATE_FOLDER, || real_call!(mkdirat(folder, name, mode)))
    }
    fn mknod(name: *const c_char, mode: mode_t, device: dev_t) -> c_int {
        making(caller(), HERE, name, mode, || {
            // SAFETY: the program's arguments.
            kernels(unsafe { sys::call(libc::SYS_mknodat, node(HERE, name, mode, device)) })
        })
    }
    fn mknodat(folder: c_int, name: *const c_char, mode: mode_t, device: dev_t) -> c_int {
        making(caller(), folder, name, mode, || {
            // SAFETY: the program's arguments.
            kernels(unsafe { sys::call(libc::SYS_mknodat, node(folder, name, mode, device)) })
        })
    }
    fn link(from: *const c_char, to: *const c_char) -> c_int {
        linking(caller(), [HERE; 2], [from, to], 0, || real_call!(link(from, to)))
    }
    fn linkat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_int) -> c_int {
        linking(caller(), [folder, other], [from, to], flags, || {
            real_call!(linkat(folder, from, other, to, flags))
        })
    }
    fn symlink(target: *const c_char, to: *const c_char) -> c_int {
        linking_to(caller(), target, HERE, to, || real_call!(symlink(target, to)))
    }
    fn symlinkat(target: *const c_char, folder: c_int, to: *const c_char) -> c_int {
        linking_to(caller(), target, folder, to, || real_call!(symlinkat(target, folder, to)))
    }
    fn mkdtemp(template: *mut c_char) -> *mut c_char {
        temporary_folder(caller(), template)
    }
    fn mkstemp(template: *mut c_char) -> c_int {
        temporary(caller(), template, 0, 0)
    }
    fn mkstemp64(template: *mut c_char) -> c_int {
        temporary(caller(), template, 0, 0)
    }
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int {
        temporary(caller(), template, 0, flags)
    }
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int {
        temporary(caller(), template, 0, flags)
    }
    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
        temporary(caller(), template, suffix, 0)
    }
    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int {
        temporary(caller(), template, suffix, 0)
    }
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        temporary(caller(), template, suffix, flags)
    }
    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        temporary(caller(), template, suffix, flags)
    }
}
