//! OpenMP as gcc compiles it.
//!
//! Its library synchronises by system calls and atomics of its own. So one object stands for all of it: what
//! a thread did before a call comes before what follows a later call of another.

use std::ffi::c_void;

use crate::atomics::{acquired, released};
use crate::real::real;
use crate::tasks::OMP;

macro_rules! calls {
    ($($name:ident;)*) => { $(
        /// Interposed: whatever it takes and returns goes through.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            one: usize, two: usize, three: usize, four: usize, five: usize, six: usize,
        ) -> usize {
            released(OMP);
            let name = const {
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                }
            };
            let real = real!(name, fn(usize, usize, usize, usize, usize, usize) -> usize);
            // SAFETY: the caller's arguments, of which the function uses as many as it has.
            let result = unsafe { real(one, two, three, four, five, six) };
            acquired(OMP);
            result
        }
    )* };
}

calls! {
    GOMP_barrier; GOMP_barrier_cancel;
    GOMP_critical_start; GOMP_critical_end; GOMP_critical_name_start; GOMP_critical_name_end;
    GOMP_atomic_start; GOMP_atomic_end;
    GOMP_ordered_start; GOMP_ordered_end;
    GOMP_single_start; GOMP_single_copy_start; GOMP_single_copy_end;
    GOMP_loop_end; GOMP_loop_end_cancel; GOMP_sections_end; GOMP_sections_end_cancel;
    GOMP_taskwait; GOMP_taskwait_depend; GOMP_taskyield; GOMP_taskgroup_end;
    GOMP_doacross_post; GOMP_doacross_wait; GOMP_doacross_ull_post; GOMP_doacross_ull_wait;
    GOMP_workshare_task_reduction_unregister; omp_fulfill_event;
    omp_set_lock; omp_unset_lock; omp_test_lock;
    omp_set_nest_lock; omp_unset_nest_lock; omp_test_nest_lock;
}

/// A parallel piece of code.
struct Piece {
    function: usize,
    data: usize,
}

extern "C-unwind" fn begin(piece: *const c_void) {
    // SAFETY: `GOMP_parallel`'s, which waits for all threads.
    let Piece { function, data } = unsafe { piece.cast::<Piece>().read() };
    acquired(OMP);
    // SAFETY: the program's function.
    let function = unsafe { std::mem::transmute::<usize, extern "C-unwind" fn(usize)>(function) };
    function(data);
    released(OMP);
}

macro_rules! parallel {
    ($($name:ident: $c:literal ($($arg:ident),*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            function: usize, data: usize, threads: usize, $($arg: usize),*
        ) {
            released(OMP);
            let piece = Piece { function, data };
            let real = real!($c, fn(usize, *const Piece, usize $(, parallel!(@word $arg))*));
            // SAFETY: the caller's arguments, but for the function, which has the same type.
            unsafe { real(begin as *const () as usize, &raw const piece, threads, $($arg),*) };
            acquired(OMP);
        }
    )* };
    (@word $arg:ident) => { usize };
}

parallel! {
    GOMP_parallel: c"GOMP_parallel" (flags);
    GOMP_parallel_loop_dynamic: c"GOMP_parallel_loop_dynamic" (begin_at, end, step, chunk, flags);
    GOMP_parallel_loop_guided: c"GOMP_parallel_loop_guided" (begin_at, end, step, chunk, flags);
    GOMP_parallel_loop_runtime: c"GOMP_parallel_loop_runtime" (begin_at, end, step, flags);
    GOMP_parallel_loop_static: c"GOMP_parallel_loop_static" (begin_at, end, step, chunk, flags);
    GOMP_parallel_loop_nonmonotonic_dynamic:
        c"GOMP_parallel_loop_nonmonotonic_dynamic" (begin_at, end, step, chunk, flags);
    GOMP_parallel_loop_nonmonotonic_guided:
        c"GOMP_parallel_loop_nonmonotonic_guided" (begin_at, end, step, chunk, flags);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime:
        c"GOMP_parallel_loop_maybe_nonmonotonic_runtime" (begin_at, end, step, flags);
    GOMP_parallel_sections: c"GOMP_parallel_sections" (count, flags);
    GOMP_teams_reg: c"GOMP_teams_reg" (limit, flags);
}

/// Interposed: with reductions over tasks; returns the number of threads.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_parallel_reductions(
    function: usize,
    data: *mut c_void,
    threads: usize,
    flags: usize,
) -> usize {
    // The library writes into the data that it is given, and hands it on, so the function is known by itself.
    released(OMP);
    let real = real!(c"GOMP_parallel_reductions", fn(usize, *mut c_void, usize, usize) -> usize);
    // SAFETY: the caller's arguments, but for the function, which has the same type.
    let count = unsafe { real(crate::tasks::ours(function), data, threads, flags) };
    acquired(OMP);
    count
}
