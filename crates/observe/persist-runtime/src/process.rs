//! The process begins, forks and ends.

use std::fs;

use crate::local::{boundary, local};
use crate::pool::{self, Open, abandon, opened};
use crate::pruner;

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
    // SAFETY: functions that stay as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// In the child: the pool is the parent's. A store to it is a fault, which is better than to change what the
/// parent's log says nothing of.
extern "C" fn forked() {
    if let Some(open) = abandon() {
        pruner::forget();
        local(|local| local.forget());
        // SAFETY: the pool's own mapping.
        unsafe { libc::mprotect(open.base as *mut libc::c_void, open.bytes as usize, libc::PROT_READ) };
    }
}

/// What has ended is committed; threads may still run.
extern "C" fn end() {
    if let Some(open) = opened() {
        boundary();
        local(|local| local.inside.set(true));
        pruner::stop();
        open.pool.sync();
        write_stats(open);
    }
}

/// Writes what was counted, as JSON, to the file that `STRANDLINE_PERSIST_STATS` names.
pub fn write_stats(open: &Open) {
    let Some(path) = std::env::var_os("STRANDLINE_PERSIST_STATS").filter(|path| !path.is_empty()) else {
        return;
    };
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
    if let Err(error) = fs::write(&path, text) {
        crate::failure::say(&format!("{}: {error}", path.display()));
    }
}
