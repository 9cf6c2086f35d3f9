//! Syncs: of a file, of a folder, of everything.
//!
//! `sync_file_range` is not here: it writes neither the file's length nor the medium's own cache, so that no
//! file system promises anything of it.

use core::ffi::c_int;

use super::named::{self, Path, watching};
use super::{order_lock, record};
use crate::base::sys;
use crate::real::calls::real_call;
use crate::state::local::{caller, hooks, local};
use abi::file;

/// Records a sync that begins. A folder's is recorded wherever the folder is, as the user may have named what
/// is in it.
pub fn syncing(pc: u64, fd: c_int, what: u8) {
    if watching()
        && let Some(path) = Path::of(fd)
        && (path.is_watched() || sys::status(fd).is_some_and(|found| named::is_folder(&found)))
    {
        let _held = order_lock::hold();
        record::operation(what, pc, &path, 0);
    }
}

/// Records that a sync of everything begins; with a descriptor, of the file system that it is on.
pub fn syncing_all(pc: u64, fd: Option<c_int>) {
    if !watching() {
        return;
    }
    let concerned = fd.is_none_or(|fd| sys::status(fd).is_some_and(|found| named::is_on(found.st_dev)));
    let path = fd.map_or_else(Path::root, Path::of);
    if let Some(path) = path.filter(|_| concerned) {
        let _held = order_lock::hold();
        record::operation(file::SYNC_ALL, pc, &path, 0);
    }
}

/// Waits for `sync`, during which the thread's records are the collector's for the asking.
pub fn slow<T>(sync: impl FnOnce() -> T) -> T {
    if watching() { local().stream.parked(sync) } else { sync() }
}

hooks! {
    fn fsync(fd: c_int) -> c_int {
        syncing(caller(), fd, file::SYNC);
        slow(|| real_call!(fsync(fd)))
    }
    fn fdatasync(fd: c_int) -> c_int {
        syncing(caller(), fd, file::DATA_SYNC);
        slow(|| real_call!(fdatasync(fd)))
    }
    fn sync() -> () {
        syncing_all(caller(), None);
        slow(|| real_call!(sync()));
    }
    fn syncfs(fd: c_int) -> c_int {
        syncing_all(caller(), Some(fd));
        slow(|| real_call!(syncfs(fd)))
    }
}
