//! OpenMP's tasks as gcc has them.
//!
//! A task may run on any thread at any later time, with a copy of its data that the library makes, so only its function
//! says which task it is. Each function of a task gets one of ours in its place, which knows it by its own number: it
//! acquires what was done before, calls the program's, and releases what that did.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::atomics::{acquired, released};
use crate::real::real;

/// What stands for all of OpenMP.
pub const OMP: usize = 1 << 58;
/// Functions of tasks that a program may have.
const MOST: usize = 256;
/// The program's functions, in the order in which they were first used; 0 for none.
static FUNCTIONS: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

type Function = unsafe extern "C-unwind" fn(usize);

unsafe extern "C-unwind" fn run<const NUMBER: usize>(data: usize) {
    acquired(OMP);
    let function = FUNCTIONS[NUMBER].load(Ordering::Acquire);
    // SAFETY: the program's function of a task, set before anything was given this one.
    let function = unsafe { std::mem::transmute::<usize, Function>(function) };
    // SAFETY: the library's copy of the task's data.
    unsafe { function(data) };
    released(OMP);
}

macro_rules! sixteen {
    ($first:expr) => {
        [
            run::<{ $first }>,
            run::<{ $first + 1 }>,
            run::<{ $first + 2 }>,
            run::<{ $first + 3 }>,
            run::<{ $first + 4 }>,
            run::<{ $first + 5 }>,
            run::<{ $first + 6 }>,
            run::<{ $first + 7 }>,
            run::<{ $first + 8 }>,
            run::<{ $first + 9 }>,
            run::<{ $first + 10 }>,
            run::<{ $first + 11 }>,
            run::<{ $first + 12 }>,
            run::<{ $first + 13 }>,
            run::<{ $first + 14 }>,
            run::<{ $first + 15 }>,
        ]
    };
}

static OURS: [[Function; 16]; MOST / 16] = [
    sixteen!(0),
    sixteen!(16),
    sixteen!(32),
    sixteen!(48),
    sixteen!(64),
    sixteen!(80),
    sixteen!(96),
    sixteen!(112),
    sixteen!(128),
    sixteen!(144),
    sixteen!(160),
    sixteen!(176),
    sixteen!(192),
    sixteen!(208),
    sixteen!(224),
    sixteen!(240),
];

/// Our function in place of the program's.
pub fn ours(function: usize) -> usize {
    for (number, place) in FUNCTIONS.iter().enumerate() {
        let known = place.compare_exchange(0, function, Ordering::AcqRel, Ordering::Acquire);
        if known.is_ok() || known == Err(function) {
            return OURS[number / 16][number % 16] as *const () as usize;
        }
    }
    crate::failure::end("the program has more than 256 functions of OpenMP tasks")
}

macro_rules! tasks {
    ($($name:ident: $c:literal ($($arg:ident: $type:ty),*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            function: usize, data: usize, copy: usize, bytes: usize, align: usize $(, $arg: $type)*
        ) {
            released(OMP);
            let real = real!($c, fn(usize, usize, usize, usize, usize $(, tasks!(@same $type))*));
            // SAFETY: the caller's arguments, but for the function, which has the same type.
            unsafe { real(ours(function), data, copy, bytes, align $(, $arg)*) };
            acquired(OMP);
        }
    )* };
    (@same $type:ty) => { $type };
}

tasks! {
    GOMP_task: c"GOMP_task" (when: bool, flags: u32, depend: usize, priority: c_int, detach: usize);
    GOMP_taskloop: c"GOMP_taskloop" (
        flags: u32, count: usize, priority: c_int, begin: usize, end: usize, step: usize
    );
    GOMP_taskloop_ull: c"GOMP_taskloop_ull" (
        flags: u32, count: usize, priority: c_int, begin: usize, end: usize, step: usize
    );
}
