//! The process begins, forks and ends.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::heap;
use crate::local::{boundary, local};
use crate::pool::{self, Open, abandon, opened};
use crate::{mapping, pruner};

/// With the constructors of all that was linked against this library.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// After their destructors.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn begin() {
    #[cfg(target_arch = "x86_64")]
    crate::assembly::prepare();
    std::panic::set_hook(Box::new(|panic| {
        let why = panic.payload_as_str().unwrap_or("an error of the library's own");
        crate::failure::end(why);
    }));
    // SAFETY: functions that stay as long as the process.
    unsafe { libc::pthread_atfork(Some(heap::before_fork), Some(heap::after_fork), Some(forked)) };
}

/// In the child: the pool is the parent's. A store to it is a fault, which is better than to change what the
/// parent's log says nothing of.
extern "C" fn forked() {
    heap::after_fork();
    mapping::forked();
    if let Some(open) = abandon() {
        pruner::forget();
        local(|local| local.forget());
        PARENTS.store(open.base, Ordering::Relaxed);
        PARENTS_END.store(open.base + open.bytes as usize, Ordering::Relaxed);
        // The lock is the parent's alone: a child that lives on keeps nobody from opening the pool again.
        if !map_for_reading(open) {
            // SAFETY: the pool's own mapping.
            unsafe { libc::mprotect(open.base as *mut libc::c_void, open.bytes as usize, libc::PROT_READ) };
        }
        // SAFETY: a descriptor of ours, which a child has no use for, or none.
        unsafe { libc::syscall(libc::SYS_close, open.descriptor) };
    }
}

/// Maps the pool anew where it is. A mapping that `fork` copied holds the parent's open file, and with it the lock.
fn map_for_reading(open: &Open) -> bool {
    if open.descriptor < 0 {
        return false;
    }
    // No allocation: this is between `fork` and what the program does next.
    let mut path = *b"/proc/self/fd/0000000000\0";
    let mut rest = open.descriptor.unsigned_abs();
    let mut digits = [b'0'; 10];
    let mut count = 0;
    while count == 0 || rest > 0 {
        digits[count] = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    let name = path.len() - 1 - 10;
    digits[..count].reverse();
    path[name..name + count].copy_from_slice(&digits[..count]);
    path[name + count] = 0;
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a path that ends, a new descriptor, and the pool's own mapping, of which nobody holds a reference to write.
    unsafe {
        let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) as i32;
        if file < 0 {
            return false;
        }
        // Each argument is a whole register.
        let flags = libc::c_long::from(libc::MAP_SHARED | libc::MAP_FIXED);
        let (read, bytes) = (libc::c_long::from(libc::PROT_READ), open.bytes as libc::c_long);
        let (file, start) = (libc::c_long::from(file), 0 as libc::c_long);
        let at = libc::syscall(libc::SYS_mmap, open.base as libc::c_long, bytes, read, flags, file, start);
        libc::syscall(libc::SYS_close, file);
        at as usize == open.base
    }
}

/// Where the parent's pool lies, in a child.
static PARENTS: AtomicUsize = AtomicUsize::new(0);
static PARENTS_END: AtomicUsize = AtomicUsize::new(0);

/// Ends a child that is about to store to its parent's pool, and says so.
pub fn stored_in_child(address: usize) {
    if (PARENTS.load(Ordering::Relaxed)..PARENTS_END.load(Ordering::Relaxed)).contains(&address) {
        crate::failure::end(
            "a child process stores to the pool of its parent, which may be read there and no more",
        );
    }
}

/// What has ended is committed; threads may still run.
extern "C" fn end() {
    if mapping::is_on() {
        mapping::end();
        write_text(&mapping::stats());
    }
    if let Some(open) = opened() {
        boundary();
        local(|local| local.inside.set(true));
        pruner::stop();
        open.pool.sync();
        write_stats(open);
        // Destructors of other libraries may still store.
        local(|local| local.inside.set(false));
        crate::signals::left();
    }
}

/// Writes what was counted, as JSON, to the file that `STRANDLINE_PERSIST_STATS` names.
pub fn write_stats(open: &Open) {
    let stats = open.pool.stats();
    let text = format!(
        "{{\"design\":\"{}\",\"stores\":{},\"entries\":{},\"log_bytes\":{},\"flushes\":{},\"fences\":{},\
         \"regions\":{},\"commits\":{},\"live_log_bytes_max\":{}}}\n",
        pool::design_name(),
        stats.stores,
        stats.entries,
        stats.log_bytes,
        stats.flushes,
        stats.fences,
        stats.regions,
        stats.commits,
        stats.live_log_max
    );
    write_text(&text);
}

fn write_text(text: &str) {
    let Some(path) = std::env::var_os("STRANDLINE_PERSIST_STATS").filter(|path| !path.is_empty()) else {
        return;
    };
    if let Err(error) = fs::write(&path, text) {
        crate::failure::say(&format!("{}: {error}", path.display()));
    }
}
