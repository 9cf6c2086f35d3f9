//! Virtualised NVM for C. The header `strandline_vnvm.h` says what each function does.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use vnvm::{Error, Mode, Options, Setup, Sizes, Vnvm};

use crate::calls::{bytes_of, path};
use crate::entry::{call, call_status, entries, run};
use crate::error::{Code, Failure};
use crate::handle::take_words;

/// `struct nv_options`.
#[repr(C)]
pub struct NvOptions {
    directory: *const c_char,
    nvm: *const c_char,
    log_bytes: u64,
    cache_bytes: u64,
    cache_page: u64,
    flags: u64,
}

/// `NV_DURABLE_FIRST`.
const DURABLE_FIRST: u64 = 1;
/// `NV_FORCE`.
const FORCE: u64 = 2;
/// `NV_WAIT`.
const WAIT: u64 = 4;
/// What zeros stand for.
const LOG_BYTES: u64 = 64 << 20;
const CACHE_BYTES: u64 = 256 << 20;

/// This process's NVM; null before `nv_init` and after `nv_release`.
static OPEN: AtomicPtr<Vnvm> = AtomicPtr::new(ptr::null_mut());
/// A word that is 1 in the process that called `nv_init`, and 0 in its children; null before the first one.
static MINE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// What `nv_failure` gave last.
    static FAILURE: RefCell<CString> = RefCell::default();
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let message = error.to_string();
        let (code, errno) = match error {
            Error::Map(error) => return error.into(),
            Error::NotOurs { .. } => (Code::NoPool, 0),
            Error::Version { .. } => (Code::Foreign, 0),
            Error::Damaged { .. } | Error::Cut { .. } => (Code::Damaged, 0),
            Error::Size { .. } | Error::Path { .. } => (Code::Argument, 0),
            Error::InUse { .. } => (Code::Locked, libc::EWOULDBLOCK),
            Error::TooMany { .. } | Error::LogFull { .. } => (Code::Full, 0),
            Error::Bounds { .. } => (Code::Reference, 0),
            Error::Aborted { .. } => (Code::Failed, 0),
            Error::Backing { source, .. } | Error::Directory { source, .. } => {
                (Code::File, source.raw_os_error().unwrap_or(libc::EIO))
            }
            Error::NotPersistent { .. } => (Code::File, libc::ENODEV),
            _ => (Code::State, 0),
        };
        Failure { code, message, errno }
    }
}

/// Whether this is the process that called `nv_init`, and not a child of it.
fn is_mine() -> bool {
    let mine = MINE.load(Ordering::Acquire);
    // SAFETY: null, or words that are never given back.
    unsafe { mine.as_ref() }.is_some_and(|word| word.load(Ordering::Relaxed) == 1)
}

/// The NVM. It stays as long as the caller's call lasts: whoever releases it while another thread is in a
/// call breaks the contract of `nv_release`.
fn opened() -> Result<&'static Vnvm, Failure> {
    // SAFETY: null, or made by `init` and given back by `release` only.
    let found = unsafe { OPEN.load(Ordering::Acquire).as_ref() };
    let found = found.ok_or_else(|| Failure::new(Code::State, "call nv_init first"))?;
    if !is_mine() {
        return Err(Error::Forked.into());
    }
    Ok(found)
}

/// A variable of the environment.
fn variable(name: &CStr) -> Option<PathBuf> {
    // SAFETY: the name is a C string; what is returned is one, until the environment changes, and is copied
    // at once.
    let found = unsafe { libc::getenv(name.as_ptr()).as_ref().map(|first| CStr::from_ptr(first)) };
    found.map(|text| PathBuf::from(OsStr::from_bytes(text.to_bytes())))
}

fn default_directory() -> PathBuf {
    variable(c"STRANDLINE_VNVM").unwrap_or_else(|| {
        // SAFETY: it has no arguments and does not fail.
        let user = unsafe { libc::getuid() };
        PathBuf::from(format!("/dev/shm/strandline-vnvm-{user}"))
    })
}

fn init(given: Option<&NvOptions>) -> Result<(), Failure> {
    if !OPEN.load(Ordering::Acquire).is_null() && is_mine() {
        return Err(Failure::new(Code::State, "nv_init was called already"));
    }
    let zeros = NvOptions {
        directory: ptr::null(),
        nvm: ptr::null(),
        log_bytes: 0,
        cache_bytes: 0,
        cache_page: 0,
        flags: 0,
    };
    let given = given.unwrap_or(&zeros);
    let unknown = given.flags & !(DURABLE_FIRST | FORCE | WAIT);
    if unknown != 0 {
        let message = format!("the options have flags that mean nothing: {unknown:#x}");
        return Err(Failure::new(Code::Argument, message));
    }
    let or = |value: u64, default: u64| if value == 0 { default } else { value };
    let (log, cache) = (or(given.log_bytes, LOG_BYTES), or(given.cache_bytes, CACHE_BYTES));
    let sizes = Sizes::new(log, cache, or(given.cache_page, 4096))?;
    let directory = match given.directory.is_null() {
        true => default_directory(),
        false => path(given.directory)?.to_owned(),
    };
    let mut setup = Setup { force: given.flags & FORCE != 0, ..Setup::new(sizes) };
    if !given.nvm.is_null() {
        setup.nvm = Some(path(given.nvm)?.to_owned());
    }
    let options = Options {
        durable_first: given.flags & DURABLE_FIRST != 0,
        bypass: given.flags & WAIT == 0,
        ..Options::default()
    };
    let opened = Vnvm::open(&directory, &setup, options)?;
    let words = take_words().map_err(|error| Failure::new(Code::File, format!("no memory: {error}")))?;
    words[0].store(1, Ordering::Relaxed);
    MINE.store(ptr::from_ref(&words[0]).cast_mut(), Ordering::Release);
    // What a parent had is the parent's: it is not closed here.
    OPEN.store(Box::into_raw(Box::new(opened)), Ordering::Release);
    Ok(())
}

fn release() -> Result<(), Failure> {
    opened()?;
    let at = OPEN.load(Ordering::Acquire);
    // SAFETY: made by `init`; the program says that no other thread is in a call.
    unsafe { &mut *at }.close()?;
    OPEN.store(ptr::null_mut(), Ordering::Release);
    // SAFETY: as above, and nobody finds it any more.
    drop(unsafe { Box::from_raw(at) });
    Ok(())
}

fn allocate(file: &Path, bytes: u64, mode: c_int) -> Result<*mut c_void, Failure> {
    let mode = match mode {
        0 => Mode::Private,
        1 => Mode::Shared,
        2 => Mode::Atomic,
        _ => return Err(Failure::new(Code::Argument, format!("there is no mode {mode}"))),
    };
    let region = opened()?.allocate(file, bytes, mode)?;
    Ok(ptr::with_exposed_provenance_mut(region.address()))
}

fn free(at: *mut c_void, bytes: u64) -> Result<(), Failure> {
    let vnvm = opened()?;
    let (region, offset) = vnvm.process().region_at(at.addr(), 1)?;
    if offset != 0 || region.len() != bytes {
        let text = format!(
            "a region is freed whole: this one has {} bytes, from {:#x} on",
            region.len(),
            region.address()
        );
        return Err(Failure::new(Code::Argument, text));
    }
    Ok(vnvm.free(&region)?)
}

fn write(tid: u64, to: *mut c_void, from: *const c_void, bytes: u64) -> Result<i64, Failure> {
    let process = opened()?.process();
    let (region, offset) = process.region_at(to.addr(), bytes as usize)?;
    Ok(process.write(tid, &region, offset, bytes_of(from, bytes)?)? as i64)
}

entries! {
    /// Joins with what the environment says.
    fn nv_init(; site) -> c_int {
        call_status(site, || init(None))
    }

    /// Joins.
    fn nv_init_with(options: *const NvOptions; site) -> c_int {
        // SAFETY: null, or what the program says is such a structure.
        call_status(site, || init(unsafe { options.as_ref() }))
    }

    /// Leaves.
    fn nv_release(; site) -> c_int {
        call_status(site, release)
    }

    /// Maps a file.
    fn nv_allocate(file: *const c_char, bytes: usize, mode: c_int; site) -> *mut c_void {
        call(site, ptr::null_mut(), || allocate(path(file)?, bytes as u64, mode))
    }

    /// Ends a region.
    fn nv_free(at: *mut c_void, bytes: usize; site) -> c_int {
        call_status(site, || free(at, bytes as u64))
    }

    /// Begins a transaction.
    fn nv_txbegin(; site) -> u64 {
        call(site, 0, || Ok(opened()?.process().begin()))
    }

    /// Logs bytes.
    fn nv_write(tid: u64, to: *mut c_void, from: *const c_void, bytes: usize; site) -> i64 {
        run(site, || write(tid, to, from, bytes as u64)).unwrap_or_else(|code| code as i64)
    }

    /// Commits.
    fn nv_commit(tid: u64; site) -> c_int {
        call_status(site, || Ok(opened()?.process().commit(tid)?))
    }

    /// Aborts.
    fn nv_abort(tid: u64; site) -> c_int {
        call_status(site, || Ok(opened()?.process().abort(tid)?))
    }

    /// Commits what changed.
    fn nv_sync(at: *mut c_void; site) -> i64 {
        let sync = || {
            let vnvm = opened()?;
            let (region, _) = vnvm.process().region_at(at.addr(), 1)?;
            Ok(vnvm.sync(&region)? as i64)
        };
        run(site, sync).unwrap_or_else(|code| code as i64)
    }

    /// What a worker could not do.
    fn nv_failure(; site) -> *const c_char {
        call(site, ptr::null(), || {
            let Some(text) = opened()?.failure() else { return Ok(ptr::null()) };
            let text = CString::new(text.replace('\0', "")).unwrap_or_default();
            Ok(FAILURE.with_borrow_mut(|last| {
                *last = text;
                last.as_ptr()
            }))
        })
    }
}
