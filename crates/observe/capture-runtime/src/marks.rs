//! What a program may say about itself (`strandline.h`), and what it may say to ThreadSanitizer.
//!
//! The latter is accepted and not recorded: who calls it has a thread sanitizer in mind, not memory.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::base::module;
use crate::base::session::{Attached, session};
use crate::state::local::{caller, hooks};
use crate::stream::record::{record, record_text};
use abi::kind;

hooks! {
    fn sl_phase(name: *const c_char) {
        let pc = caller();
        if !name.is_null() {
            // SAFETY: the caller says that it is a C string.
            record_text(kind::PHASE, pc, [], unsafe { CStr::from_ptr(name) }.to_bytes());
        }
    }
    fn sl_region_begin(region: u64) {
        record(kind::REGION_BEGIN, 0, caller(), [region]);
    }
    fn sl_region_end(region: u64) {
        record(kind::REGION_END, 0, caller(), [region]);
    }
    fn sl_persist_barrier() {
        record(kind::STRAND, 0, caller(), []);
    }
    fn sl_new_strand() {
        record(kind::STRAND, 1, caller(), []);
    }
    fn sl_join_strand() {
        record(kind::STRAND, 2, caller(), []);
    }

    fn __tsan_func_entry(back: u64) {
        if session().is_some_and(Attached::values) {
            let frame = &raw const back as u64;
            record(kind::CALL, 1, caller(), [back, frame]); // 1: not only helpers report themselves so
        }
    }
    fn __tsan_func_exit() {
        if session().is_some_and(Attached::values) {
            record(kind::RETURN, 0, caller(), []);
        }
    }
}

/// Called when a part of the program that was built with our hooks is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_init() {
    module::update();
}

/// Defines functions that do nothing.
macro_rules! nothing {
    ($($name:ident($($type:ty),*);)*) => { $(
        /// Does nothing.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $type),*) {}
    )* };
}

type At = *const c_void;
type Text = *const c_char;

nothing! {
    __tsan_acquire(At);
    __tsan_release(At);
    __tsan_flush_memory();
    __tsan_ignore_thread_begin();
    __tsan_ignore_thread_end();
    __tsan_mutex_create(At, c_uint);
    __tsan_mutex_destroy(At, c_uint);
    __tsan_mutex_pre_lock(At, c_uint);
    __tsan_mutex_post_lock(At, c_uint, c_int);
    __tsan_mutex_post_unlock(At, c_uint);
    __tsan_mutex_pre_signal(At, c_uint);
    __tsan_mutex_post_signal(At, c_uint);
    __tsan_mutex_pre_divert(At, c_uint);
    __tsan_mutex_post_divert(At, c_uint);
    __tsan_destroy_fiber(At);
    __tsan_switch_to_fiber(At, c_uint);
    __tsan_set_fiber_name(At, Text);
    AnnotateHappensBefore(Text, c_int, At);
    AnnotateHappensAfter(Text, c_int, At);
    AnnotateRWLockCreate(Text, c_int, At);
    AnnotateRWLockCreateStatic(Text, c_int, At);
    AnnotateRWLockDestroy(Text, c_int, At);
    AnnotateRWLockAcquired(Text, c_int, At, usize);
    AnnotateRWLockReleased(Text, c_int, At, usize);
    AnnotateIgnoreReadsBegin(Text, c_int);
    AnnotateIgnoreReadsEnd(Text, c_int);
    AnnotateIgnoreWritesBegin(Text, c_int);
    AnnotateIgnoreWritesEnd(Text, c_int);
    AnnotateIgnoreSyncBegin(Text, c_int);
    AnnotateIgnoreSyncEnd(Text, c_int);
    AnnotateBenignRace(Text, c_int, At, Text);
    AnnotateBenignRaceSized(Text, c_int, At, usize, Text);
    AnnotateThreadName(Text, c_int, Text);
    AnnotateNewMemory(Text, c_int, At, usize);
}

/// Does nothing; the lock is held as often as it was.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_mutex_pre_unlock(_: At, _: c_uint) -> c_int {
    0
}

/// There are no fibers.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_get_current_fiber() -> At {
    core::ptr::null()
}

/// There are no fibers.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_create_fiber(_: c_uint) -> At {
    core::ptr::null()
}
