//! Names: making, renaming, removing.

use core::ffi::{c_char, c_int, c_uint};

use libc::{RENAME_EXCHANGE, mode_t};

use super::kernel::{HERE, Path, complain, watching};
use super::next::usual;
use super::{order, tell};
use crate::local::{caller, hooks};
use crate::wire::file;

/// Carries out a renaming and tells it, if the old or the new name is watched.
fn renaming(
    pc: u64,
    [folder, other]: [c_int; 2],
    [from, to]: [*const c_char; 2],
    exchange: bool,
    change: impl FnOnce() -> c_int,
) -> c_int {
    if !watching() {
        return change();
    }
    let _held = order::hold();
    // SAFETY: the program's names.
    let (from, to) = unsafe { (Path::to(folder, from), Path::to(other, to)) };
    let result = change();
    if result == 0
        && let (Some(from), Some(to)) = (from, to)
        && (super::is_watched(from.bytes()) || super::is_watched(to.bytes()))
    {
        if exchange {
            complain(b"an exchange of names", to.bytes());
        } else {
            tell::renamed(pc, &from, &to);
        }
    }
    result
}

/// Carries out a change of a name and tells it, if the name is watched.
fn change(pc: u64, folder: c_int, name: *const c_char, what: u8, change: impl FnOnce() -> c_int) -> c_int {
    if !watching() {
        return change();
    }
    let _held = order::hold();
    // SAFETY: the program's name.
    let path = unsafe { Path::to(folder, name) }.and_then(Path::watched);
    let result = change();
    if result == 0
        && let Some(path) = path
    {
        tell::tell(what, pc, &path, 0);
    }
    result
}

/// Carries out the making of a link, which is not told.
fn linking(what: &[u8], folder: c_int, to: *const c_char, change: impl FnOnce() -> c_int) -> c_int {
    let result = change();
    if result == 0
        && watching()
        // SAFETY: the program's name.
        && let Some(path) = unsafe { Path::to(folder, to) }.and_then(Path::watched)
    {
        complain(what, path.bytes());
    }
    result
}

/// Makes a file of a name that is not taken, and tells it.
fn temporary(pc: u64, template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    let make = || usual!(mkostemps(template, suffix, flags));
    if !watching() {
        return make();
    }
    let _held = order::hold();
    let fd = make();
    if let Some(path) = Path::of(fd).and_then(Path::watched) {
        tell::tell(file::CREATE, pc, &path, 0);
    }
    fd
}

hooks! {
    fn rename(from: *const c_char, to: *const c_char) -> c_int {
        renaming(caller(), [HERE; 2], [from, to], false, || usual!(rename(from, to)))
    }
    fn renameat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char) -> c_int {
        renaming(caller(), [folder, other], [from, to], false, || usual!(renameat(folder, from, other, to)))
    }
    fn renameat2(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_uint) -> c_int {
        let exchange = flags & RENAME_EXCHANGE != 0;
        renaming(caller(), [folder, other], [from, to], exchange, || usual!(renameat2(folder, from, other, to, flags)))
    }
    fn unlink(name: *const c_char) -> c_int {
        change(caller(), HERE, name, file::UNLINK, || usual!(unlink(name)))
    }
    fn unlinkat(folder: c_int, name: *const c_char, flags: c_int) -> c_int {
        change(caller(), folder, name, file::UNLINK, || usual!(unlinkat(folder, name, flags)))
    }
    fn remove(name: *const c_char) -> c_int {
        change(caller(), HERE, name, file::UNLINK, || usual!(remove(name)))
    }
    fn rmdir(name: *const c_char) -> c_int {
        change(caller(), HERE, name, file::UNLINK, || usual!(rmdir(name)))
    }
    fn mkdir(name: *const c_char, mode: mode_t) -> c_int {
        change(caller(), HERE, name, file::CREATE_FOLDER, || usual!(mkdir(name, mode)))
    }
    fn mkdirat(folder: c_int, name: *const c_char, mode: mode_t) -> c_int {
        change(caller(), folder, name, file::CREATE_FOLDER, || usual!(mkdirat(folder, name, mode)))
    }
    fn link(from: *const c_char, to: *const c_char) -> c_int {
        linking(b"a hard link", HERE, to, || usual!(link(from, to)))
    }
    fn linkat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_int) -> c_int {
        linking(b"a hard link", other, to, || usual!(linkat(folder, from, other, to, flags)))
    }
    fn symlink(target: *const c_char, to: *const c_char) -> c_int {
        linking(b"a symbolic link", HERE, to, || usual!(symlink(target, to)))
    }
    fn symlinkat(target: *const c_char, folder: c_int, to: *const c_char) -> c_int {
        linking(b"a symbolic link", folder, to, || usual!(symlinkat(target, folder, to)))
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
