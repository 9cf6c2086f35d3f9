//! Key-value stores for C. The header `strandline_kv.h` says what each function does.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Bound;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use kv::{Batch, Engine, Error, Options, Ticket};
use pmem::Os;

use space::Env;

use crate::calls::{bytes_of, name, path, put};
use crate::entry::{call, call_status, entries, run};
use crate::error::{Code, Failure};
use crate::handle::take_words;
use observed::Observed;

/// A store of which a recording hears.
type Store = kv::Store<Os<Observed>>;

/// `struct sl_kv_options`.
#[repr(C)]
pub struct KvOptions {
    engine: *const c_char,
    bytes: u64,
    max_bytes: u64,
    flags: u64,
}

/// `SL_KV_ABSENT`.
const ABSENT: c_int = 1;
/// `SL_KV_EXISTING`.
const EXISTING: u64 = 1;

/// First word of a [`KvHandle`].
const MARK: u64 = u64::from_le_bytes(*b"sl_kv\0\0\x01");
/// First word of a [`BatchHandle`].
const BATCH: u64 = u64::from_le_bytes(*b"sl_batch");

/// A store that was opened. As a pool's handle, it is never given back, and a child of `fork` finds zeros.
#[repr(C)]
pub struct KvHandle {
    mark: AtomicU64,
    /// The store; null once it is closed.
    open: AtomicPtr<Store>,
}

/// A batch that C puts together.
#[repr(C)]
pub struct BatchHandle {
    mark: AtomicU64,
    batch: Batch,
}

thread_local! {
    /// The ticket of this thread's last change.
    static TICKET: Cell<u64> = const { Cell::new(0) };
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = error.to_string();
        let code = match error {
            Error::Map(error) => return error.into(),
            Error::File { source, .. } => return Failure { message: text, ..Failure::from(*source) },
            Error::NotAStore { .. } => Code::NoPool,
            Error::Version { .. } | Error::Setting { .. } | Error::NotEmpty { .. } => Code::Foreign,
            Error::Short { .. } | Error::Damaged { .. } => Code::Damaged,
            Error::Full { .. } => Code::Full,
            Error::TooLong { .. } | Error::Options(_) => Code::Argument,
            Error::Failed => Code::Sync,
            _ => Code::Internal,
        };
        Failure::new(code, text)
    }
}

/// The store of a handle. It stays open as long as the caller's call lasts: whoever closes it while another
/// thread is in a call breaks the contract of `sl_kv_close`.
fn opened(kv: *const KvHandle) -> Result<&'static Store, Failure> {
    // SAFETY: null, or made by `opened_as` and given back by `close` only.
    let store = unsafe { handle(kv)?.open.load(Ordering::SeqCst).as_ref() };
    store.ok_or_else(|| Failure::new(Code::State, "the store was closed"))
}

fn handle(kv: *const KvHandle) -> Result<&'static KvHandle, Failure> {
    if kv.is_null() || !kv.is_aligned() {
        return Err(Failure::new(Code::Argument, "the pointer is to no store"));
    }
    // SAFETY: the program says that it is a store, and those are never given back. Alignment, and the mark
    // where memory is readable, are all that can be looked at before it is believed.
    let mark = unsafe { (&raw const (*kv).mark).cast::<u64>().read() };
    match mark {
        // SAFETY: as above.
        MARK => Ok(unsafe { &*kv }),
        0 => Err(Failure::new(
            Code::State,
            "the store was opened by the process that forked this one, and is that one's; open it here",
        )),
        _ => Err(Failure::new(Code::Argument, "the pointer is to no store")),
    }
}

/// What the program gets for an open store.
fn opened_as(store: Store) -> Result<*const KvHandle, Failure> {
    let no_memory = |error| Failure::new(Code::File, format!("no memory for one more store: {error}"));
    let words = take_words().map_err(no_memory)?;
    const { assert!(size_of::<KvHandle>() <= 64 && align_of::<KvHandle>() <= 8) };
    // SAFETY: a handle consists of atomic words and has room there; zeros are one; nobody else has these
    // words, and they are never given back.
    let handle = unsafe { &*words.as_ptr().cast::<KvHandle>() };
    handle.open.store(Box::into_raw(Box::new(store)), Ordering::SeqCst);
    handle.mark.store(MARK, Ordering::SeqCst);
    Ok(handle)
}

fn close(kv: *const KvHandle) -> Result<(), Failure> {
    let store = handle(kv)?.open.swap(ptr::null_mut(), Ordering::SeqCst);
    if store.is_null() {
        return Err(Failure::new(Code::State, "the store was closed before"));
    }
    // SAFETY: made by `opened_as`, and nobody else has swapped it out; no call of another thread uses it, as
    // the contract of `sl_kv_close` says.
    let store = unsafe { Box::from_raw(store) };
    Ok((*store).close()?)
}

fn options(options: *const KvOptions) -> Result<(Options, bool), Failure> {
    let mut chosen = Options::default();
    // SAFETY: null, or what the program says is such a structure.
    let Some(given) = (unsafe { options.as_ref() }) else { return Ok((chosen, false)) };
    if given.flags & !EXISTING != 0 {
        let message = format!("the options have flags that mean nothing: {:#x}", given.flags & !EXISTING);
        return Err(Failure::new(Code::Argument, message));
    }
    if !given.engine.is_null() {
        chosen.engine = match name(given.engine, "the engine's name")? {
            "slab" => Engine::Slab,
            "log" => Engine::Log,
            other => {
                let message = format!("there is no engine {other:?} for stores; choose \"slab\" or \"log\"");
                return Err(Failure::new(Code::Argument, message));
            }
        };
    }
    if given.bytes != 0 {
        chosen.bytes = given.bytes;
    }
    chosen.max_bytes = (given.max_bytes != 0).then_some(given.max_bytes);
    Ok((chosen, given.flags & EXISTING != 0))
}

fn open(file: &Path, options: &Options, existing: bool, site: u64) -> Result<Store, Failure> {
    let grow = |env: &Os<Observed>, bytes: u64| Ok(env.space().grow(bytes)?);
    let made = !existing && !file.exists();
    let env = |memory| Os::new(Observed::new(memory, file, made, site));
    let open = if made { Store::create_as } else { Store::open_as };
    Ok(open(file, options, env, grow)?)
}

/// Remembers the ticket of a change.
fn changed(ticket: Ticket) {
    // A thread whose variables are gone already asks no more.
    _ = TICKET.try_with(|last| last.set(ticket.number()));
}

/// A copy for the program, which frees it.
fn copied(bytes: &[u8]) -> Result<*mut c_void, Failure> {
    // SAFETY: any size may be asked for.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) };
    if copy.is_null() {
        return Err(Failure::new(Code::File, format!("no memory for a value of {} bytes", bytes.len())));
    }
    // SAFETY: so many bytes were given just now, and nobody else knows of them.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), bytes.len()) };
    Ok(copy)
}

fn batch<'a>(batch: *mut BatchHandle) -> Result<&'a mut BatchHandle, Failure> {
    if batch.is_null() || !batch.is_aligned() {
        return Err(Failure::new(Code::Argument, "the pointer is to no batch"));
    }
    // SAFETY: the program says that it is a batch that was not freed, and that no other thread uses it
    // meanwhile.
    let batch = unsafe { &mut *batch };
    if batch.mark.load(Ordering::Relaxed) != BATCH {
        return Err(Failure::new(Code::Argument, "the pointer is to no batch"));
    }
    Ok(batch)
}

fn found_or_code(result: Result<bool, Code>) -> c_int {
    match result {
        Ok(true) => 0,
        Ok(false) => ABSENT,
        Err(code) => code as c_int,
    }
}

fn at(bytes: &[u8]) -> *const c_void {
    bytes.as_ptr().cast()
}

/// What `sl_kv_scan` calls.
type Visit = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int;

entries! {
    /// Opens or makes a store.
    fn sl_kv_open(file: *const c_char, given: *const KvOptions; site) -> *const KvHandle {
        call(site, ptr::null(), || {
            let (options, existing) = options(given)?;
            opened_as(open(path(file)?, &options, existing, site)?)
        })
    }

    /// Closes a store.
    fn sl_kv_close(kv: *const KvHandle; site) -> c_int {
        call_status(site, || close(kv))
    }

    /// Sets a value.
    fn sl_kv_put(
        kv: *const KvHandle, key: *const c_void, key_bytes: usize,
        value: *const c_void, value_bytes: usize;
        site
    ) -> c_int {
        call_status(site, || {
            let (key, value) = (bytes_of(key, key_bytes as u64)?, bytes_of(value, value_bytes as u64)?);
            changed(opened(kv)?.put(key, value)?);
            Ok(())
        })
    }

    /// Gives a copy of a value.
    fn sl_kv_get(
        kv: *const KvHandle, key: *const c_void, key_bytes: usize,
        value: *mut *mut c_void, value_bytes: *mut usize;
        site
    ) -> c_int {
        found_or_code(run(site, || {
            let found = opened(kv)?.get_with(bytes_of(key, key_bytes as u64)?, |found| {
                put(value_bytes, found.len())?;
                if value.is_null() {
                    return Err(Failure::new(Code::Argument, "the place for the result is null"));
                }
                put(value, copied(found)?)
            })?;
            found.transpose().map(|found| found.is_some())
        }))
    }

    /// Takes a key out.
    fn sl_kv_delete(kv: *const KvHandle, key: *const c_void, key_bytes: usize; site) -> c_int {
        found_or_code(run(site, || {
            let deleted = opened(kv)?.delete(bytes_of(key, key_bytes as u64)?)?;
            Ok(deleted.map(changed).is_some())
        }))
    }

    /// Visits keys in order.
    fn sl_kv_scan(
        kv: *const KvHandle, from: *const c_void, from_bytes: usize,
        visit: Option<Visit>, argument: *mut c_void;
        site
    ) -> c_int {
        call_status(site, || {
            let null = || Failure::new(Code::Argument, "the function to be called is null");
            let visit = visit.ok_or_else(null)?;
            let range = (Bound::Included(bytes_of(from, from_bytes as u64)?), Bound::Unbounded);
            Ok(opened(kv)?.scan(range, |key, value| {
                // SAFETY: the program says that it is such a function, which takes this argument.
                let stop = unsafe { visit(argument, at(key), key.len(), at(value), value.len()) };
                stop == 0
            })?)
        })
    }

    /// An empty batch.
    fn sl_kv_batch_new(; site) -> *mut BatchHandle {
        call(site, ptr::null_mut(), || {
            Ok(Box::into_raw(Box::new(BatchHandle { mark: AtomicU64::new(BATCH), batch: Batch::new() })))
        })
    }

    /// Adds a value to a batch.
    fn sl_kv_batch_put(
        changes: *mut BatchHandle, key: *const c_void, key_bytes: usize,
        value: *const c_void, value_bytes: usize;
        site
    ) -> c_int {
        call_status(site, || {
            let (key, value) = (bytes_of(key, key_bytes as u64)?, bytes_of(value, value_bytes as u64)?);
            batch(changes)?.batch.put(key, value);
            Ok(())
        })
    }

    /// Adds a delete to a batch.
    fn sl_kv_batch_delete(changes: *mut BatchHandle, key: *const c_void, key_bytes: usize; site) -> c_int {
        call_status(site, || {
            let key = bytes_of(key, key_bytes as u64)?;
            batch(changes)?.batch.delete(key);
            Ok(())
        })
    }

    /// Gives a batch back.
    fn sl_kv_batch_free(changes: *mut BatchHandle; site) -> c_int {
        call_status(site, || {
            let freed: *mut BatchHandle = batch(changes)?;
            // SAFETY: made by `sl_kv_batch_new`, and not freed before, as its mark says.
            let freed = unsafe { Box::from_raw(freed) };
            freed.mark.store(0, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Makes the changes of a batch.
    fn sl_kv_write(kv: *const KvHandle, changes: *mut BatchHandle; site) -> c_int {
        call_status(site, || {
            changed(opened(kv)?.write(&batch(changes)?.batch)?);
            Ok(())
        })
    }

    /// The ticket of this thread's last change.
    fn sl_kv_ticket(; site) -> u64 {
        call(site, 0, || Ok(TICKET.try_with(Cell::get).unwrap_or(0)))
    }

    /// Waits for a change.
    fn sl_kv_wait(kv: *const KvHandle, ticket: u64; site) -> c_int {
        call_status(site, || Ok(opened(kv)?.wait(Ticket::new(ticket))?))
    }

    /// Waits for all changes.
    fn sl_kv_sync(kv: *const KvHandle; site) -> c_int {
        call_status(site, || Ok(opened(kv)?.sync()?))
    }

    /// Keys that there are.
    fn sl_kv_count(kv: *const KvHandle; site) -> u64 {
        call(site, 0, || Ok(opened(kv)?.stats().keys))
    }
}
