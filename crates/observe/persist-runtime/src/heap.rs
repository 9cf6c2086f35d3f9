//! The library's own memory.
//!
//! A signal's handler is code of the program and may store to the pool while its thread is in the C
//! library's `malloc`. So nothing here may call that one. Blocks have sizes of powers of two, and those
//! that were given back are kept for the next of their size. While a thread is in here its signals wait.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::local::local;
use crate::signals;

/// The smallest block is of `1 << SMALLEST` bytes; all are aligned to their size, up to a page.
const SMALLEST: u32 = 4;
/// From this size on a block is a mapping of its own.
const LARGE: usize = 1 << 20;
const CLASSES: usize = (LARGE.trailing_zeros() - SMALLEST) as usize;
/// Bytes that are taken from the system at once.
const PIECE: usize = 4 << 20;
const PAGE: usize = 4096;

struct Heap {
    locked: AtomicBool,
    lists: UnsafeCell<Lists>,
}

struct Lists {
    /// Blocks that were given back: each begins with the next one's address.
    free: [*mut u8; CLASSES],
    /// What is left of the last piece.
    next: usize,
    end: usize,
}

// SAFETY: the lists are looked at under the lock alone.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap {
    locked: AtomicBool::new(false),
    lists: UnsafeCell::new(Lists { free: [ptr::null_mut(); CLASSES], next: 0, end: 0 }),
};

fn class(layout: Layout) -> usize {
    let bytes = layout.size().max(layout.align()).max(1 << SMALLEST).next_power_of_two();
    (bytes.trailing_zeros() - SMALLEST) as usize
}

fn is_large(layout: Layout) -> bool {
    layout.size().max(layout.align()) > LARGE / 2
}

/// Memory of the system's, zeros; null if there is none.
fn map(bytes: usize) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, wherever the system likes.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { ptr::null_mut() } else { mapped.cast() }
}

impl Heap {
    fn lock(&self) {
        while self.locked.swap(true, Ordering::Acquire) {
            spin_loop();
        }
    }

    fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }

    fn with<R>(&self, work: impl FnOnce(&mut Lists) -> R) -> R {
        let before = local(|local| local.inside.replace(true));
        self.lock();
        // SAFETY: under the lock, and no handler of this thread comes between.
        let result = work(unsafe { &mut *self.lists.get() });
        self.unlock();
        local(|local| local.inside.set(before));
        if !before {
            signals::left();
        }
        result
    }
}

// SAFETY: blocks are of the class's size, which is at least what was asked for, and aligned to it; none is
// given out twice.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            if layout.align() > PAGE {
                return ptr::null_mut();
            }
            return map(layout.size());
        }
        let class = class(layout);
        self.with(|lists| {
            let block = lists.free[class];
            if !block.is_null() {
                // SAFETY: a free block holds the next one's address.
                lists.free[class] = unsafe { block.cast::<*mut u8>().read() };
                return block;
            }
            let bytes = 1_usize << (class as u32 + SMALLEST);
            let at = lists.next.next_multiple_of(bytes);
            if at + bytes <= lists.end {
                lists.next = at + bytes;
                return at as *mut u8;
            }
            // Twice as much as the largest block, so that there is room for it wherever it begins.
            let piece = map(PIECE);
            if piece.is_null() {
                return piece;
            }
            let at = (piece as usize).next_multiple_of(bytes);
            (lists.next, lists.end) = (at + bytes, piece as usize + PIECE);
            at as *mut u8
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: a mapping of its own.
            unsafe { libc::munmap(block.cast(), layout.size()) };
            return;
        }
        let class = class(layout);
        self.with(|lists| {
            // SAFETY: nobody else uses the block any more, and it is aligned and long enough.
            unsafe { block.cast::<*mut u8>().write(lists.free[class]) };
            lists.free[class] = block;
        });
    }
}

/// Before `fork`: no other thread is in here while the process is copied, nor a handler of this one.
pub extern "C" fn before_fork() {
    local(|local| local.before_fork.set(local.inside.replace(true)));
    HEAP.lock();
}

/// After it, in the parent and the child.
pub extern "C" fn after_fork() {
    HEAP.unlock();
    local(|local| local.inside.set(local.before_fork.get()));
    signals::left();
}
