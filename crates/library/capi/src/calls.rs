//! What C calls. The header `strandline_pool.h` says what each one does.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;

use persistency::Domain;
use region::{Recovered, Ticket};

use crate::engines::OpenTx;
use crate::entry::{call, call_status, entries, own_entries, run};
use crate::error::{self, Code, Failure};
use crate::files::{self, How};
use crate::handle::{Handle, not_reserved};
use crate::regions;

/// `struct sl_pool_options`.
#[repr(C)]
pub struct PoolOptions {
    engine: *const c_char,
    flags: u64,
}

/// `SL_FORCE`.
const FORCE: u64 = 1;
/// `SL_GROW`.
const GROW: u64 = 2;
/// `SL_READ_ONLY`.
const READ_ONLY: u64 = 4;

/// `struct sl_recovered`.
#[repr(C)]
pub struct RecoveredOut {
    redone: u64,
    undone: u64,
    torn_lines: u64,
    moved_lines: u64,
}

/// `struct sl_usage`.
#[repr(C)]
pub struct UsageOut {
    heap: u64,
    taken: u64,
    blocks: u64,
    free_chunks: u64,
    longest_free: u64,
}

/// `struct sl_block`.
#[repr(C)]
pub struct BlockOut {
    at: u64,
    bytes: u64,
}

/// Bytes that are filled or copied at a time.
const PIECE: u64 = 4096;

fn text<'a>(text: *const c_char, what: &str) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(Failure::new(Code::Argument, format!("{what} is null")));
    }
    // SAFETY: the program says that it is a C string, which stays as it is during the call.
    Ok(unsafe { CStr::from_ptr(text) })
}

pub(crate) fn path<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    text(path, "the path").map(|path| Path::new(OsStr::from_bytes(path.to_bytes())))
}

pub(crate) fn name<'a>(name: *const c_char, what: &str) -> Result<&'a str, Failure> {
    let not_text = |_| Failure::new(Code::Argument, format!("{what} is not text in UTF-8"));
    text(name, what)?.to_str().map_err(not_text)
}

fn how<'a>(options: *const PoolOptions) -> Result<How<'a>, Failure> {
    // SAFETY: null, or what the program says is such a structure.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(How::default()) };
    let unknown = options.flags & !(FORCE | GROW | READ_ONLY);
    if unknown != 0 {
        let message = format!("the options have flags that mean nothing: {unknown:#x}");
        return Err(Failure::new(Code::Argument, message));
    }
    let has = |flag| options.flags & flag != 0;
    if has(GROW) && has(READ_ONLY) {
        return Err(Failure::new(Code::Argument, "a pool that is opened to read only does not grow"));
    }
    let engine = match options.engine.is_null() {
        true => None,
        false => Some(name(options.engine, "the engine's name")?),
    };
    Ok(How { engine, force: has(FORCE), grows: has(GROW), read_only: has(READ_ONLY) })
}

/// The program's bytes to write to.
fn bytes_mut<'a>(at: *mut c_void, bytes: u64) -> Result<&'a mut [u8], Failure> {
    check_bytes(at, bytes)?;
    if bytes == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the program says that so many bytes are its own there during the call. Any bytes are `u8`s, and
    // those that it left uninitialised are no more than unknown on this side of the call.
    Ok(unsafe { slice::from_raw_parts_mut(at.cast(), bytes as usize) })
}

/// The program's bytes to read.
pub(crate) fn bytes_of<'a>(at: *const c_void, bytes: u64) -> Result<&'a [u8], Failure> {
    check_bytes(at, bytes)?;
    if bytes == 0 {
        return Ok(&[]);
    }
    // SAFETY: as in `bytes_mut`.
    Ok(unsafe { slice::from_raw_parts(at.cast(), bytes as usize) })
}

fn check_bytes(at: *const c_void, bytes: u64) -> Result<(), Failure> {
    if at.is_null() && bytes > 0 {
        return Err(Failure::new(Code::Argument, format!("the memory of {bytes} bytes is null")));
    }
    if bytes > isize::MAX as u64 {
        return Err(Failure::new(Code::Argument, format!("{bytes} bytes are more than memory can have")));
    }
    Ok(())
}

/// Writes a result where the program wants it.
pub(crate) fn put<T>(place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::new(Code::Argument, "the place for the result is null"));
    }
    // SAFETY: the program says that there is room for it.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes zeros, or another byte, in pieces.
fn fill(tx: &mut dyn OpenTx, at: u64, byte: u8, bytes: u64) -> Result<(), Failure> {
    tx.check(at, bytes)?;
    let piece = [byte; PIECE as usize];
    for from in (0..bytes).step_by(PIECE as usize) {
        tx.store(at + from, &piece[..PIECE.min(bytes - from) as usize])?;
    }
    Ok(())
}

/// Settling and measuring are for threads without a region.
fn no_region(pool: &Handle) -> Result<(), Failure> {
    if regions::is_open(pool) {
        return Err(Failure::new(Code::State, "this thread has a region under way; end it first"));
    }
    Ok(())
}

own_entries! {
    /// A new pool in a new file.
    fn sl_pool_create(file: *const c_char, layout: *const c_char, bytes: u64, root_bytes: u64, options: *const PoolOptions; site) -> *const Handle {
        call(site, ptr::null(), || {
            let layout = name(layout, "the layout's name")?;
            let pool = files::create(path(file)?, layout, bytes, root_bytes, how(options)?, site)?;
            Handle::new(pool, Recovered::default())
        })
    }

    /// The pool in a file.
    fn sl_pool_open(file: *const c_char, layout: *const c_char, options: *const PoolOptions; site) -> *const Handle {
        call(site, ptr::null(), || {
            let layout = name(layout, "the layout's name")?;
            let (pool, recovered) = files::open(path(file)?, layout, how(options)?, site)?;
            Handle::new(pool, recovered)
        })
    }

    /// Closes a pool.
    fn sl_pool_close(pool: *const Handle; site) -> c_int {
        call_status(site, || Handle::of(pool)?.close())
    }

    /// Leaves nothing for recovery to do.
    fn sl_pool_checkpoint(pool: *const Handle; site) -> c_int {
        call_status(site, || {
            let handle = Handle::of(pool)?;
            no_region(handle)?;
            Ok(handle.opened()?.pool.checkpoint()?)
        })
    }

    /// Does ahead some of what commits would stop for. 1 if there is more to do, 0 if not.
    fn sl_pool_consolidate(pool: *const Handle; site) -> c_int {
        run(site, || Ok(Handle::of(pool)?.opened()?.pool.consolidate()?)).map_or_else(|code| code as c_int, c_int::from)
    }

    /// Measures from how many bytes on non-temporal write-back is cheaper.
    fn sl_pool_measure_threshold(pool: *const Handle, result: *mut u64; site) -> c_int {
        call_status(site, || {
            let handle = Handle::of(pool)?;
            no_region(handle)?;
            // Nothing is measured, and set, that there is no place for.
            put(result, 0)?;
            put(result, handle.opened()?.pool.measure_threshold()?)
        })
    }

    /// Makes the pool and its file longer.
    fn sl_pool_grow(pool: *const Handle, bytes: u64; site) -> c_int {
        call_status(site, || Handle::of(pool)?.opened()?.pool.grow(bytes))
    }
}

entries! {
    /// Bytes of the pool.
    fn sl_pool_bytes(pool: *const Handle; site) -> u64 {
        call(site, 0, || Ok(Handle::of(pool)?.opened()?.pool.header().bytes))
    }

    /// Finds out which blocks are worth moving.
    fn sl_moving_begin(pool: *const Handle; site) -> i64 {
        call(site, -1, || {
            let opened = Handle::of(pool)?.opened()?;
            let mut moving = opened.moving();
            if moving.is_some() {
                let message = "blocks are being moved already: end that by sl_moving_end first";
                return Err(Failure::new(Code::State, message));
            }
            Ok(moving.insert(opened.pool.begin_moving()).blocks().len() as i64)
        })
    }

    /// Whether a block is worth moving.
    fn sl_moving_wants(pool: *const Handle, at: u64; site) -> c_int {
        call(site, 0, || {
            let opened = Handle::of(pool)?.opened()?;
            let moving = opened.moving();
            Ok(c_int::from(moving.as_ref().is_some_and(|sparse| opened.pool.wants(sparse, at))))
        })
    }

    /// Ends that; bytes that are free now.
    fn sl_moving_end(pool: *const Handle; site) -> i64 {
        call(site, -1, || {
            let opened = Handle::of(pool)?.opened()?;
            let Some(sparse) = opened.moving().take() else {
                let message = "no blocks are being moved: begin that by sl_moving_begin";
                return Err(Failure::new(Code::State, message));
            };
            Ok(opened.pool.end_moving(sparse)? as i64)
        })
    }

    /// What recovery did when the pool was opened.
    fn sl_pool_recovered(pool: *const Handle, result: *mut RecoveredOut; site) -> c_int {
        call_status(site, || {
            let found = Handle::of(pool)?.opened()?.recovered;
            let Recovered { replayed: redone, undone, torn_lines, moved_lines, .. } = found;
            put(result, RecoveredOut { redone, undone, torn_lines, moved_lines })
        })
    }

    /// The engine's name.
    fn sl_pool_engine(pool: *const Handle; site) -> *const c_char {
        call(site, ptr::null(), || Ok(Handle::of(pool)?.opened()?.engine.as_ptr()))
    }

    /// The layout's name.
    fn sl_pool_layout(pool: *const Handle; site) -> *const c_char {
        call(site, ptr::null(), || Ok(Handle::of(pool)?.opened()?.layout.as_ptr()))
    }

    /// What becomes of what is committed.
    fn sl_pool_durability(pool: *const Handle; site) -> *const c_char {
        call(site, ptr::null(), || {
            let durability = Handle::of(pool)?.opened()?.pool.durability();
            let name = match durability.domain {
                _ if durability.forced => c"forced",
                Domain::Volatile => c"volatile",
                Domain::Adr => c"adr",
                Domain::Eadr => c"eadr",
                Domain::Dax => c"dax",
                Domain::Sync => c"synced",
                Domain::Fabric => c"fabric",
                Domain::Remote => c"remote",
            };
            Ok(name.as_ptr())
        })
    }

    /// What of the heap is taken and free.
    fn sl_pool_usage(pool: *const Handle, result: *mut UsageOut; site) -> c_int {
        call_status(site, || {
            let usage = Handle::of(pool)?.opened()?.pool.usage();
            let (heap, taken, blocks) = (usage.heap, usage.taken, usage.blocks);
            let (free_chunks, longest_free) = (usage.free_chunks, usage.longest_free);
            put(result, UsageOut { heap, taken, blocks, free_chunks, longest_free })
        })
    }

    /// All blocks, as far as there is room; how many there are.
    fn sl_pool_blocks(pool: *const Handle, result: *mut BlockOut, room: u64; site) -> i64 {
        call(site, -1, || {
            let blocks = Handle::of(pool)?.opened()?.pool.blocks();
            if result.is_null() && room > 0 {
                return Err(Failure::new(Code::Argument, "the place for the result is null"));
            }
            for (at, &(reference, bytes)) in blocks.iter().take(room as usize).enumerate() {
                // SAFETY: the program says that there is room for `room` of them.
                unsafe { result.add(at).write(BlockOut { at: reference, bytes }) };
            }
            Ok(blocks.len() as i64)
        })
    }

    /// The root object.
    fn sl_root(pool: *const Handle; site) -> u64 {
        call(site, 0, || Ok(Handle::of(pool)?.opened()?.pool.root().0))
    }

    /// Bytes of a block.
    fn sl_block_bytes(pool: *const Handle, at: u64; site) -> u64 {
        call(site, 0, || Ok(Handle::of(pool)?.opened()?.pool.block_bytes(at)?))
    }

    /// Begins a region.
    fn sl_begin(pool: *const Handle; site) -> c_int {
        call_status(site, || regions::begin(Handle::of(pool)?))
    }

    /// Commits it.
    fn sl_commit(pool: *const Handle; site) -> c_int {
        call_status(site, || regions::commit(Handle::of(pool)?))
    }

    /// Commits it, and may return before it is durable.
    fn sl_commit_async(pool: *const Handle, ticket: *mut u64; site) -> c_int {
        call_status(site, || {
            if ticket.is_null() {
                return Err(Failure::new(Code::Argument, "the place for the ticket is null"));
            }
            put(ticket, regions::commit_async(Handle::of(pool)?)?.number())
        })
    }

    /// Waits until the region of that ticket is durable.
    fn sl_wait(pool: *const Handle, ticket: u64; site) -> c_int {
        call_status(site, || Ok(Handle::of(pool)?.opened()?.pool.wait(Ticket::new(ticket))?))
    }

    /// Makes every committed region durable.
    fn sl_sync(pool: *const Handle; site) -> c_int {
        call_status(site, || Ok(Handle::of(pool)?.opened()?.pool.sync()?))
    }

    /// Whether the region of that ticket is durable.
    fn sl_is_due(pool: *const Handle, ticket: u64; site) -> c_int {
        run(site, || Ok(Handle::of(pool)?.opened()?.pool.is_due(Ticket::new(ticket)))).map_or_else(|code| code as c_int, c_int::from)
    }

    /// Gives it up.
    fn sl_abort(pool: *const Handle; site) -> c_int {
        call_status(site, || regions::abort(Handle::of(pool)?))
    }

    /// Whether this thread has a region under way.
    fn sl_in_region(pool: *const Handle; site) -> c_int {
        call(site, 0, || Ok(c_int::from(regions::is_open(Handle::of(pool)?))))
    }

    /// Reads.
    fn sl_read(pool: *const Handle, at: u64, to: *mut c_void, bytes: u64; site) -> c_int {
        call_status(site, || {
            let to = bytes_mut(to, bytes)?;
            let read = Handle::of(pool).and_then(|handle| regions::read(handle, at, to));
            // Nobody goes on with what was there before.
            read.inspect_err(|_| to.fill(0))
        })
    }

    /// Writes.
    fn sl_write(pool: *const Handle, at: u64, from: *const c_void, bytes: u64; site) -> c_int {
        call_status(site, || {
            regions::within(Handle::of(pool)?, |tx| Ok(tx.store(at, bytes_of(from, bytes)?)?))
        })
    }

    /// Fills with a byte.
    fn sl_fill(pool: *const Handle, at: u64, byte: c_int, bytes: u64; site) -> c_int {
        call_status(site, || regions::within(Handle::of(pool)?, |tx| fill(tx, at, byte as u8, bytes)))
    }

    /// Copies within the pool.
    fn sl_copy(pool: *const Handle, to: u64, from: u64, bytes: u64; site) -> c_int {
        call_status(site, || {
            regions::within(Handle::of(pool)?, |tx| {
                tx.check(from, bytes)?;
                // All of it is read first, because the two may overlap.
                let mut piece = Vec::new();
                let no_memory = |_| Failure::new(Code::Argument, format!("no memory for a copy of {bytes} bytes"));
                piece.try_reserve_exact(bytes as usize).map_err(no_memory)?;
                piece.resize(bytes as usize, 0);
                tx.load(from, &mut piece)?;
                Ok(tx.store(to, &piece)?)
            })
        })
    }

    /// A new block.
    fn sl_alloc(pool: *const Handle, bytes: u64; site) -> u64 {
        call(site, 0, || regions::within(Handle::of(pool)?, |tx| alloc(tx, bytes)))
    }

    /// A new block of zeros.
    fn sl_zalloc(pool: *const Handle, bytes: u64; site) -> u64 {
        call(site, 0, || {
            regions::within(Handle::of(pool)?, |tx| {
                let block = alloc(tx, bytes)?;
                fill(tx, block, 0, bytes).map(|()| block)
            })
        })
    }

    /// Reserves a block of zeros.
    fn sl_reserve(pool: *const Handle, bytes: u64; site) -> u64 {
        call(site, 0, || {
            let opened = Handle::of(pool)?.opened()?;
            if bytes == 0 {
                return Err(Failure::new(Code::Argument, "a block has at least 1 byte"));
            }
            let reserved = opened.pool.reserve(bytes)?;
            let reference = reserved.reference();
            opened.reserved().insert(reference, reserved);
            Ok(reference)
        })
    }

    /// Fills a part of a reserved block.
    fn sl_reserved_write(pool: *const Handle, at: u64, from: *const c_void, bytes: u64; site) -> c_int {
        call_status(site, || {
            let opened = Handle::of(pool)?.opened()?;
            let from = bytes_of(from, bytes)?;
            let mut reserved = opened.reserved();
            let (begin, block) = reserved.range_mut(..=at).next_back().ok_or_else(|| not_reserved(at))?;
            Ok(block.write(at - begin, from)?)
        })
    }

    /// Makes a reserved block part of the pool, together with the reference to it.
    fn sl_publish(pool: *const Handle, block: u64, cell: u64; site) -> c_int {
        call_status(site, || {
            let handle = Handle::of(pool)?;
            let reserved = handle.opened()?.take_reserved(block)?;
            regions::begin(handle)?;
            match regions::within(handle, |tx| Ok(tx.publish(reserved, cell)?)) {
                Ok(_) => regions::commit(handle),
                Err(failure) => {
                    regions::abort(handle)?;
                    Err(failure)
                }
            }
        })
    }

    /// Gives a reserved block up.
    fn sl_cancel(pool: *const Handle, block: u64; site) -> c_int {
        call_status(site, || Handle::of(pool)?.opened()?.take_reserved(block).map(drop))
    }

    /// Moves a block.
    fn sl_move(pool: *const Handle, cell: u64; site) -> u64 {
        call(site, 0, || regions::within(Handle::of(pool)?, |tx| Ok(tx.relocate(cell)?)))
    }

    /// Gives a block back.
    fn sl_free(pool: *const Handle, at: u64; site) -> c_int {
        call_status(site, || regions::within(Handle::of(pool)?, |tx| Ok(tx.free(at)?)))
    }
}

fn alloc(tx: &mut dyn OpenTx, bytes: u64) -> Result<u64, Failure> {
    if bytes == 0 {
        return Err(Failure::new(Code::Argument, "a block has at least 1 byte"));
    }
    Ok(tx.alloc(bytes)?)
}

/// The number of the thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn sl_error_code() -> c_int {
    error::last_code()
}

/// Its text.
#[unsafe(no_mangle)]
pub extern "C" fn sl_error() -> *const c_char {
    error::last_text()
}

/// The library's version.
#[unsafe(no_mangle)]
pub extern "C" fn sl_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
