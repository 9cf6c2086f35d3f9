//! Which lines of the window were stored to.
//!
//! Three bitmaps over the whole window, of lines, of pages with such lines, and of groups of pages, so that a hook needs
//! no look-up and a collection looks only at what is dirty. Memory of a bitmap that is not used costs nothing.
//!
//! A hook comes *before* its store. A collection that takes a line's bit in between would lose the store, so each thread
//! also shows, in a slot, the lines of its latest hook: whoever collects marks these again. The slot is written before
//! the bits are set, and read after they are taken.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use crate::failure;
use crate::window;

/// Bytes whose stores are distinguished.
pub const LINE: usize = 64;
/// Bytes of a page, whose lines are one word of the bitmap.
pub const PAGE: usize = 4096;
const LINES: usize = window::BYTES / LINE;
const PAGES: usize = window::BYTES / PAGE;
const GROUPS: usize = PAGES / 64;

/// Where the bitmaps begin; 0 as long as there are none.
static BITMAPS: AtomicUsize = AtomicUsize::new(0);
const OF_LINES: usize = 0;
const OF_PAGES: usize = OF_LINES + LINES / 8;
const OF_GROUPS: usize = OF_PAGES + PAGES / 8;
/// Pages that were ever stored to: the others still show what is in the file.
const OF_OWN: usize = OF_GROUPS + GROUPS / 8;
const BYTES: usize = OF_OWN + PAGES / 8;

/// Sets the bitmaps up; whether there is address space for them.
pub fn prepare() -> bool {
    let (how, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let kind = kind | libc::MAP_NORESERVE;
    // SAFETY: new memory, wherever it is.
    let at = unsafe { libc::syscall(libc::SYS_mmap, 0_usize, BYTES, how, kind, -1, 0_usize) };
    if at == -1 {
        return false;
    }
    // SAFETY: the mapping just made; it is of no interest in a dump.
    unsafe { libc::syscall(libc::SYS_madvise, at, BYTES, libc::MADV_DONTDUMP) };
    BITMAPS.store(at as usize, Ordering::Release);
    true
}

/// Whether there are bitmaps, and with them the design.
#[inline(always)]
pub fn is_on() -> bool {
    BITMAPS.load(Ordering::Relaxed) != 0
}

fn word(bitmap: usize, index: usize) -> &'static AtomicU64 {
    let at = BITMAPS.load(Ordering::Relaxed) + bitmap + index * 8;
    // SAFETY: callers have checked that the bitmaps are there; the index is of an address in the window.
    unsafe { &*ptr::without_provenance::<AtomicU64>(at) }
}

/// Sets a bit, if it is not.
fn set(bitmap: usize, bit: usize) {
    let (word, mask) = (word(bitmap, bit / 64), 1 << (bit % 64));
    if word.load(Ordering::SeqCst) & mask == 0 {
        word.fetch_or(mask, Ordering::SeqCst);
    }
}

/// Sets the lines of a page.
fn set_lines(page: usize, lines: u64) {
    word(OF_LINES, page).fetch_or(lines, Ordering::SeqCst);
    set(OF_PAGES, page);
    set(OF_GROUPS, page / 64);
    set(OF_OWN, page);
}

/// Bits of a word from one to before another, at most 64.
fn bits(range: Range<usize>) -> u64 {
    u64::MAX << range.start & u64::MAX >> (64 - range.end)
}

fn set_range(lines: Range<usize>) {
    let mut line = lines.start;
    while line < lines.end {
        let page = line / 64;
        let end = lines.end.min((page + 1) * 64);
        set_lines(page, bits(line % 64..end - page * 64));
        line = end;
    }
}

/// Threads that can store at a time.
const THREADS: usize = 4096;

#[repr(align(64))]
struct Slot {
    taken: AtomicBool,
    /// The first line, shifted left by [`COUNT`], and how many; 0 for none.
    lines: AtomicU64,
}

const COUNT: u32 = 28;
static SLOTS: [Slot; THREADS] =
    [const { Slot { taken: AtomicBool::new(false), lines: AtomicU64::new(0) } }; THREADS];
/// Slots behind this were never taken.
static USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}

#[cold]
fn take_slot() -> &'static Slot {
    let taken = SLOTS.iter().position(|slot| !slot.taken.swap(true, Ordering::SeqCst));
    let Some(index) = taken else {
        failure::end("more threads store to mapped files than there is room for");
    };
    USED.fetch_max(index + 1, Ordering::SeqCst);
    let slot = &SLOTS[index];
    OWN.set(Some(slot));
    // SAFETY: a key of ours, and a value that is not null, so that the slot is given back.
    unsafe { libc::pthread_setspecific(key(), ptr::from_ref(slot).cast()) };
    slot
}

fn key() -> libc::pthread_key_t {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a place for a key, and a function that stays.
        if unsafe { libc::pthread_key_create(&mut key, Some(give_back)) } != 0 {
            failure::end("the process has no thread-specific key left");
        }
        key
    })
}

/// A thread ends; one that stores after this takes a slot again.
unsafe extern "C" fn give_back(slot: *mut c_void) {
    OWN.set(None);
    // SAFETY: a slot, as `take_slot` set it.
    let slot = unsafe { &*slot.cast_const().cast::<Slot>() };
    slot.lines.store(0, Ordering::SeqCst);
    slot.taken.store(false, Ordering::SeqCst);
}

/// A store to these bytes of the window comes next.
pub fn mark(address: usize, bytes: usize) {
    if !is_on() || bytes == 0 {
        return;
    }
    let begin = address - window::BEGIN;
    let end = (begin + bytes).min(window::BYTES);
    let lines = begin / LINE..end.div_ceil(LINE);
    let count = (lines.len() as u64).min((1 << COUNT) - 1);
    let shown = (lines.start as u64) << COUNT | count;
    let slot = OWN.get().unwrap_or_else(take_slot);
    // What is shown already is marked, and stays so whatever is collected.
    if slot.lines.load(Ordering::Relaxed) != shown {
        slot.lines.store(shown, Ordering::SeqCst);
        set_range(lines);
    }
}

/// The calling thread's stores are all made.
#[inline(always)]
pub fn catch_up() {
    if is_on()
        && let Some(slot) = OWN.get()
    {
        slot.lines.store(0, Ordering::Release);
    }
}

/// The lines of the calling thread's latest hook, for [`show_again`].
pub fn shown() -> u64 {
    if is_on() { OWN.get().map_or(0, |slot| slot.lines.load(Ordering::Relaxed)) } else { 0 }
}

/// The store of that hook may be still to come, and an `msync` may have taken its lines since.
pub fn show_again(shown: u64) {
    if shown != 0
        && let Some(slot) = OWN.get()
    {
        slot.lines.store(shown, Ordering::SeqCst);
        let (first, count) = ((shown >> COUNT) as usize, shown as usize & ((1 << COUNT) - 1));
        set_range(first..if count == (1 << COUNT) - 1 { LINES } else { first + count });
    }
}

/// Lines that were stored to: a page of the window, and a bit for each of its lines.
pub type Dirty = Vec<(usize, u64)>;

/// Takes what was stored to in so many bytes, of whole pages.
pub fn collect(address: usize, bytes: usize) -> Dirty {
    catch_up();
    let mut dirty = Vec::new();
    let pages = (address - window::BEGIN) / PAGE..(address + bytes - window::BEGIN).div_ceil(PAGE);
    let mut page = pages.start;
    while page < pages.end {
        let group = page / 64;
        let end = pages.end.min((group + 1) * 64);
        // A word of groups at a time, where nothing is.
        if page % (64 * 64) == 0 && word(OF_GROUPS, group / 64).load(Ordering::SeqCst) == 0 {
            page += 64 * 64;
            continue;
        }
        collect_group(group, bits(page % 64..end - group * 64), &mut dirty);
        page = end;
    }
    fence(Ordering::SeqCst);
    for slot in &SLOTS[..USED.load(Ordering::SeqCst)] {
        let shown = slot.lines.load(Ordering::SeqCst);
        let (first, count) = ((shown >> COUNT) as usize, shown as usize & ((1 << COUNT) - 1));
        if count > 0 {
            let last = if count == (1 << COUNT) - 1 { LINES } else { first + count };
            let (first, last) = (first.max(pages.start * 64), last.min(pages.end * 64));
            set_range(first..last.max(first));
        }
    }
    dirty
}

/// Upper bitmaps first: who sets a line looks at them afterwards.
fn collect_group(group: usize, wanted: u64, dirty: &mut Dirty) {
    let (groups, mask) = (word(OF_GROUPS, group / 64), 1 << (group % 64));
    if groups.load(Ordering::SeqCst) & mask == 0 {
        return;
    }
    groups.fetch_and(!mask, Ordering::SeqCst);
    let pages = word(OF_PAGES, group);
    let mut taken = pages.fetch_and(!wanted, Ordering::SeqCst) & wanted;
    while taken != 0 {
        let page = group * 64 + taken.trailing_zeros() as usize;
        taken &= taken - 1;
        match word(OF_LINES, page).swap(0, Ordering::SeqCst) {
            0 => {}
            lines => dirty.push((page, lines)),
        }
    }
    if pages.load(Ordering::SeqCst) != 0 {
        groups.fetch_or(mask, Ordering::SeqCst);
    }
}

/// Whether nothing was stored to a page since it was last taken. Asked behind a copy of it, this says that the copy has
/// nothing newer: a bit is set before its store.
pub fn is_clean(address: usize) -> bool {
    fence(Ordering::SeqCst);
    word(OF_LINES, (address - window::BEGIN) / PAGE).load(Ordering::SeqCst) == 0
}

/// Marks once more what was taken.
pub fn put_back(dirty: &Dirty) {
    dirty.iter().for_each(|&(page, lines)| set_lines(page, lines));
}

/// Whether a page was ever stored to since it was mapped.
pub fn is_own(address: usize) -> bool {
    let page = (address - window::BEGIN) / PAGE;
    word(OF_OWN, page / 64).load(Ordering::Relaxed) >> (page % 64) & 1 == 1
}

/// Pages are mapped no more.
pub fn forget(address: usize, bytes: usize) {
    _ = collect(address, bytes);
    for page in (address - window::BEGIN) / PAGE..(address + bytes - window::BEGIN).div_ceil(PAGE) {
        let (word, mask) = (word(OF_OWN, page / 64), 1 << (page % 64));
        // Most were not, of a large mapping; a load leaves memory of zeros untouched.
        if word.load(Ordering::Relaxed) & mask != 0 {
            word.fetch_and(!mask, Ordering::Relaxed);
        }
    }
}
