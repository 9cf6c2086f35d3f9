//! OpenMP by GCC's library, `libgomp`: where its threads wait for each other.
//!
//! The library is not observed. A parallel region begins behind what its creator did and ends behind what all
//! did in it; barriers, the ends of loops and the like are one meeting of everybody; named and unnamed
//! critical sections, ordered parts and OpenMP's own locks are locks. Of the rest (`taskloop`, `doacross`)
//! nothing is known.

use core::ffi::{c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::base::sys;
use crate::memory::alloc;
use crate::real::next::next;
use crate::state::local::{caller, hooks, local};
use crate::stream::meeting::{acquired, released};
use crate::stream::record::record_position;
use abi::kind;

type Data = *mut c_void;
type Function = usize;

/// What stands for the meetings of all threads, for all tasks, for ordered parts, and for the critical
/// section without a name.
static MEETING: AtomicU8 = AtomicU8::new(0);
static TASKS: AtomicU8 = AtomicU8::new(0);
static ORDERED: AtomicU8 = AtomicU8::new(0);
static CRITICAL: AtomicU8 = AtomicU8::new(0);

fn of(object: &'static AtomicU8) -> u64 {
    &raw const *object as u64
}

/// The library's function of that name. A linker that found all of the program's calls here may have left the
/// library out.
fn look_up(name: &core::ffi::CStr) -> usize {
    let found = next(name);
    if found != 0 {
        return found;
    }
    // SAFETY: loads a library, and asks it, by C strings.
    let found = unsafe {
        let library = libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_LAZY);
        if library.is_null() { 0 } else { libc::dlsym(library, name.as_ptr()) as usize }
    };
    if found == 0 {
        sys::complain(&[b"strandline: there is no ", name.to_bytes(), b" of libgomp\n"]);
        sys::abort();
    }
    found
}

/// Calls the library's function of that name.
macro_rules! gomp {
    ($name:literal($($arg:expr => $type:ty),* $(,)?) $(-> $result:ty)?) => {{
        static CACHE: AtomicUsize = AtomicUsize::new(0);
        let mut found = CACHE.load(Ordering::Relaxed);
        if found == 0 {
            found = look_up($name);
            CACHE.store(found, Ordering::Relaxed);
        }
        // SAFETY: the library's function of that name has that type; the arguments are the program's, or have
        // the types of those.
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn($($type),*) $(-> $result)?>(found)($($arg),*) }
    }};
}

/// A parallel region: what its threads get in place of its data.
#[repr(C)]
struct Region {
    function: Function,
    data: Data,
    pc: u64,
    /// Stand for its beginning and its end.
    begin: u8,
    end: u8,
}

/// What each thread of a region does.
extern "C" fn member(region: *const Region) {
    // SAFETY: lies on its creator's stack until all have come back; the function is the program's.
    unsafe {
        acquired((*region).pc, &raw const (*region).begin as u64);
        core::mem::transmute::<usize, extern "C" fn(Data)>((*region).function)((*region).data);
        released((*region).pc, &raw const (*region).end as u64);
    }
}

/// Runs a region by `run`, which gets a function and its data.
fn parallel<T>(function: Function, data: Data, run: impl FnOnce(Function, Data) -> T) -> T {
    let pc = caller();
    let region = Region { function, data, pc, begin: 0, end: 0 };
    released(pc, &raw const region.begin as u64);
    let result = run(member as *const () as usize, (&raw const region).cast_mut().cast());
    acquired(pc, &raw const region.end as u64);
    result
}

/// Waits by `wait` for all threads.
fn meet<T>(wait: impl FnOnce() -> T) -> T {
    let pc = caller();
    released(pc, of(&MEETING));
    let result = wait();
    acquired(pc, of(&MEETING));
    acquired(pc, of(&TASKS));
    result
}

/// Obtains a lock by `wait`.
fn locked(lock: u64, wait: impl FnOnce()) {
    let pc = caller();
    local().stream.parked(wait);
    record_position(kind::LOCK, 0, pc, [lock]);
}

/// Records that a lock is about to be given up.
fn unlocking(lock: u64) {
    record_position(kind::UNLOCK, 0, caller(), [lock]);
}

/// What stands before a task's data.
#[repr(C)]
struct Task {
    function: Function,
    /// Copies the data, if that takes more than to copy bytes.
    copy: Function,
    /// Where the data are of which copies are made.
    data: Data,
    /// Bytes before the data.
    before: usize,
    pc: u64,
}

extern "C" fn copy_task(to: *mut Task, from: *const Task) {
    // SAFETY: the library gives room for as many bytes as it was asked for, and what it was given.
    unsafe {
        let task = from.read();
        to.write(from.read());
        let to = to.cast::<u8>().add(task.before);
        core::mem::transmute::<usize, extern "C" fn(Data, Data)>(task.copy)(to.cast(), task.data);
    }
}

extern "C" fn carry_out(task: *mut Task) {
    // SAFETY: `task` made it, and the library or `copy_task` copied it, with the data behind.
    unsafe {
        let Task { function, before, pc, .. } = task.read();
        acquired(pc, of(&TASKS));
        core::mem::transmute::<usize, extern "C" fn(Data)>(function)(task.cast::<u8>().add(before).cast());
        released(pc, of(&TASKS));
    }
}

hooks! {
    fn GOMP_parallel(function: Function, data: Data, threads: c_uint, flags: c_uint) {
        parallel(function, data, |function, data| {
            gomp!(c"GOMP_parallel"(function => Function, data => Data, threads => c_uint, flags => c_uint));
        });
    }
    fn GOMP_parallel_reductions(function: Function, data: Data, threads: c_uint, flags: c_uint) -> c_uint {
        parallel(function, data, |function, data| {
            gomp!(c"GOMP_parallel_reductions"(function => Function, data => Data, threads => c_uint, flags => c_uint) -> c_uint)
        })
    }
    fn GOMP_parallel_sections(function: Function, data: Data, threads: c_uint, count: c_uint, flags: c_uint) {
        parallel(function, data, |function, data| {
            gomp!(c"GOMP_parallel_sections"(function => Function, data => Data, threads => c_uint, count => c_uint, flags => c_uint));
        });
    }

    fn GOMP_critical_start() {
        locked(of(&CRITICAL), || gomp!(c"GOMP_critical_start"()));
    }
    fn GOMP_critical_end() {
        unlocking(of(&CRITICAL));
        gomp!(c"GOMP_critical_end"());
    }
    fn GOMP_critical_name_start(name: *mut Data) {
        locked(name as u64, || gomp!(c"GOMP_critical_name_start"(name => *mut Data)));
    }
    fn GOMP_critical_name_end(name: *mut Data) {
        unlocking(name as u64);
        gomp!(c"GOMP_critical_name_end"(name => *mut Data));
    }
    fn GOMP_atomic_start() {
        locked(of(&CRITICAL) + 1, || gomp!(c"GOMP_atomic_start"()));
    }
    fn GOMP_atomic_end() {
        unlocking(of(&CRITICAL) + 1);
        gomp!(c"GOMP_atomic_end"());
    }
    fn GOMP_ordered_start() {
        let pc = caller();
        gomp!(c"GOMP_ordered_start"());
        acquired(pc, of(&ORDERED));
    }
    fn GOMP_ordered_end() {
        released(caller(), of(&ORDERED));
        gomp!(c"GOMP_ordered_end"());
    }

    fn GOMP_task(
        function: Function,
        data: Data,
        copy: Function,
        bytes: c_long,
        alignment: c_long,
        at_once: bool,
        flags: c_uint,
        depend: *mut Data,
        priority: c_int,
        detach: Data,
    ) {
        let pc = caller();
        released(pc, of(&TASKS));
        let (bytes, alignment) = (bytes.max(0) as usize, alignment.max(16) as usize);
        let before = size_of::<Task>().next_multiple_of(alignment);
        // The library may carry the task out from here, so that the data have to be aligned.
        let room = alloc::obtain(before + bytes + alignment);
        if room.is_null() {
            return gomp!(c"GOMP_task"(
                function => Function, data => Data, copy => Function, bytes as c_long => c_long, alignment as c_long => c_long,
                at_once => bool, flags => c_uint, depend => *mut Data, priority => c_int, detach => Data,
            ));
        }
        let start = (room as usize).next_multiple_of(alignment) as *mut u8;
        // SAFETY: there is room for both.
        unsafe {
            start.cast::<Task>().write(Task { function, copy, data, before, pc });
            if copy == 0 {
                core::ptr::copy_nonoverlapping(data.cast::<u8>(), start.add(before), bytes);
            }
        }
        let copy = if copy == 0 { 0 } else { copy_task as *const () as usize };
        gomp!(c"GOMP_task"(
            carry_out as *const () as usize => Function, start.cast() => Data, copy => Function, (before + bytes) as c_long => c_long,
            alignment as c_long => c_long, at_once => bool, flags => c_uint, depend => *mut Data, priority => c_int, detach => Data,
        ));
        alloc::release(room.cast());
    }
    fn GOMP_taskwait() {
        let pc = caller();
        gomp!(c"GOMP_taskwait"());
        acquired(pc, of(&TASKS));
    }
    fn GOMP_taskgroup_end() {
        let pc = caller();
        gomp!(c"GOMP_taskgroup_end"());
        acquired(pc, of(&TASKS));
    }
}

/// Loops with a parallel region of their own.
macro_rules! loops {
    ($($name:ident = $text:literal($($arg:ident: $type:ty),*);)*) => { hooks! { $(
        fn $name(function: Function, data: Data, threads: c_uint, $($arg: $type),*) {
            parallel(function, data, |function, data| {
                gomp!($text(function => Function, data => Data, threads => c_uint, $($arg => $type),*));
            });
        }
    )* } };
}

loops! {
    GOMP_parallel_loop_static = c"GOMP_parallel_loop_static"(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_dynamic = c"GOMP_parallel_loop_dynamic"(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_guided = c"GOMP_parallel_loop_guided"(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_dynamic = c"GOMP_parallel_loop_nonmonotonic_dynamic"(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_guided = c"GOMP_parallel_loop_nonmonotonic_guided"(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_runtime = c"GOMP_parallel_loop_runtime"(start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_runtime = c"GOMP_parallel_loop_nonmonotonic_runtime"(start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime = c"GOMP_parallel_loop_maybe_nonmonotonic_runtime"(start: c_long, end: c_long, step: c_long, flags: c_uint);
}

/// Meetings of all threads of a region.
macro_rules! meetings {
    ($($name:ident = $text:literal($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => { hooks! { $(
        fn $name($($arg: $type),*) $(-> $result)? {
            meet(|| gomp!($text($($arg => $type),*) $(-> $result)?))
        }
    )* } };
}

meetings! {
    GOMP_barrier = c"GOMP_barrier"();
    GOMP_barrier_cancel = c"GOMP_barrier_cancel"() -> bool;
    GOMP_loop_end = c"GOMP_loop_end"();
    GOMP_loop_end_cancel = c"GOMP_loop_end_cancel"() -> bool;
    GOMP_sections_end = c"GOMP_sections_end"();
    GOMP_sections_end_cancel = c"GOMP_sections_end_cancel"() -> bool;
    GOMP_single_copy_start = c"GOMP_single_copy_start"() -> Data;
    GOMP_single_copy_end = c"GOMP_single_copy_end"(data: Data);
}

/// OpenMP's own locks.
macro_rules! locks {
    ($($set:ident = $set_text:literal $unset:ident = $unset_text:literal $test:ident = $test_text:literal;)*) => { hooks! { $(
        fn $set(lock: Data) {
            locked(lock as u64, || gomp!($set_text(lock => Data)));
        }
        fn $unset(lock: Data) {
            unlocking(lock as u64);
            gomp!($unset_text(lock => Data));
        }
        fn $test(lock: Data) -> c_int {
            let pc = caller();
            let had = gomp!($test_text(lock => Data) -> c_int);
            if had != 0 {
                record_position(kind::LOCK, 0, pc, [lock as u64]);
            }
            had
        }
    )* } };
}

locks! {
    omp_set_lock = c"omp_set_lock" omp_unset_lock = c"omp_unset_lock" omp_test_lock = c"omp_test_lock";
    omp_set_nest_lock = c"omp_set_nest_lock" omp_unset_nest_lock = c"omp_unset_nest_lock" omp_test_nest_lock = c"omp_test_nest_lock";
}
