//! Pools, as the program has them.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use observed::Observed;
use pmem::{Os, Synced};
use sfr::{Design, HEADER_BYTES, Options, Pool, Steps};
use space::Env as _;

use crate::failure::{Code, Failure, note, say};
use crate::local::{self, with};
use crate::{pruner, window};

/// The memory of a pool, with the operating system around it.
pub type Env = Os<Observed>;

/// An open pool; it stays as long as the process, so that a thread that looks at it as it is closed finds a
/// mark.
pub struct Open {
    mark: u64,
    /// Whether it was closed.
    closed: AtomicBool,
    pub pool: &'static Pool<'static, Env>,
    /// Where it is mapped.
    pub base: usize,
    pub bytes: u64,
    /// Whether somebody records what the program does.
    pub recorded: bool,
    /// Which opening of a pool it is.
    pub generation: u64,
    /// The descriptor that holds the file's lock; none for a negative number.
    pub descriptor: i32,
    /// The upper 16 bits of references into it.
    tag: u64,
}

const MARK: u64 = u64::from_le_bytes(*b"sl_sfr\0\x01");
static OPEN: AtomicPtr<Open> = AtomicPtr::new(ptr::null_mut());
static GENERATIONS: AtomicU64 = AtomicU64::new(0);
/// One opening or closing at a time.
static CHANGING: Mutex<()> = Mutex::new(());
/// The design that the program was linked for.
static DESIGN: OnceLock<String> = OnceLock::new();

/// The pool that is open.
#[inline(always)]
pub fn opened() -> Option<&'static Open> {
    // SAFETY: null, or leaked by `install`.
    unsafe { OPEN.load(Ordering::Acquire).as_ref() }
}

/// There is no pool any more, in a child of `fork`.
pub fn abandon() -> Option<&'static Open> {
    // SAFETY: as above.
    unsafe { OPEN.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() }
}

impl Open {
    /// The part of a range that lies in the pool, as offset and length.
    #[inline(always)]
    pub fn part(&self, address: usize, bytes: usize) -> Option<(u64, u64)> {
        let offset = address.wrapping_sub(self.base) as u64;
        if offset >= self.bytes {
            return None;
        }
        Some((offset, (bytes as u64).min(self.bytes - offset)))
    }

    fn reference(&self, offset: u64) -> u64 {
        self.tag << 48 | offset
    }

    fn offset(&self, reference: u64) -> Result<u64, Failure> {
        let offset = reference & ((1 << 48) - 1);
        if reference == 0 || reference >> 48 != self.tag || offset >= self.bytes {
            let message = format!("the reference {reference:#x} does not lead into this pool");
            return Err(Failure::new(Code::Reference, message));
        }
        Ok(offset)
    }

    fn of(pool: *const Open) -> Result<&'static Open, Failure> {
        if pool.is_null() || !pool.is_aligned() {
            return Err(Failure::new(Code::Argument, "the pool is null, or no pool"));
        }
        // SAFETY: the program says that it is a pool, and those are never given back; the mark is looked at
        // first.
        let open = unsafe { &*pool };
        if open.mark != MARK {
            return Err(Failure::new(Code::Argument, "the pointer is to no pool"));
        }
        match opened() {
            Some(now) if ptr::eq(now, open) => Ok(open),
            _ => Err(Failure::new(Code::State, "the pool was closed, or is the parent process's")),
        }
    }
}

/// Called by a constructor in the program, with the design that it was linked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_persist_design(name: *const c_char) {
    // SAFETY: the driver's assembly has a C string there.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    _ = DESIGN.set(name);
    if design_name() == "msync" {
        crate::mapping::enable();
    }
}

/// The name of the design that is in force.
pub fn design_name() -> String {
    let linked = || DESIGN.get().cloned().unwrap_or_else(|| "decoupled".to_owned());
    std::env::var("STRANDLINE_PERSIST").ok().filter(|name| !name.is_empty()).unwrap_or_else(linked)
}

fn options(layout: &str, base: usize) -> Result<Options, Failure> {
    let name = design_name();
    let design: Design = match name.as_str() {
        "msync" => {
            return Err(Failure::new(
                Code::State,
                "a program built with --persist=msync has no pools: it maps files",
            ));
        }
        name => name
            .parse()
            .map_err(|error| Failure::new(Code::Argument, format!("STRANDLINE_PERSIST: {error}")))?,
    };
    let steps = match std::env::var("STRANDLINE_PERSIST_STEPS").as_deref() {
        Ok("log") => Steps::Log,
        Ok("flush") => Steps::Flush,
        Ok("data") => Steps::Data,
        Ok("commit" | "") | Err(_) => Steps::Commit,
        Ok(other) => {
            let message = format!("STRANDLINE_PERSIST_STEPS={other}: there are log, flush, data and commit");
            return Err(Failure::new(Code::Argument, message));
        }
    };
    let locks_only = match std::env::var("STRANDLINE_PERSIST_ATLAS").as_deref() {
        Ok("published") => true,
        Ok("sound" | "") | Err(_) => false,
        Ok(other) => {
            let message = format!("STRANDLINE_PERSIST_ATLAS={other}: there are sound and published");
            return Err(Failure::new(Code::Argument, message));
        }
    };
    Ok(Options { steps, locks_only, base: base as u64, layout: layout.to_owned(), ..Options::new(design) })
}

/// `struct sl_pool_options`.
#[repr(C)]
pub struct PoolOptions {
    engine: *const c_char,
    flags: u64,
}

/// What of the options there is.
unsafe fn force(options: *const PoolOptions) -> Result<bool, Failure> {
    // SAFETY: null, or the program's.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(false) };
    if !options.engine.is_null() {
        let message = "a program built with --persist chooses no engine: the design is its engine";
        return Err(Failure::new(Code::Argument, message));
    }
    match options.flags {
        0 => Ok(false),
        1 => Ok(true),
        _ => {
            Err(Failure::new(Code::Argument, "a pool of a program built with --persist takes SL_FORCE alone"))
        }
    }
}

unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a CStr, Failure> {
    if pointer.is_null() {
        return Err(Failure::new(Code::Argument, format!("the {what} is null")));
    }
    // SAFETY: the program says that a string is there.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// An address for a new pool: anywhere in the window, so that two programs' pools rarely want the same.
fn somewhere(bytes: u64) -> usize {
    let mut random = [0_u8; 8];
    // SAFETY: so many bytes are there; without randomness it is the first place.
    unsafe { libc::syscall(libc::SYS_getrandom, random.as_mut_ptr(), random.len(), 0) };
    const STEP: usize = 1 << 30;
    let places = (window::BYTES - (bytes as usize).min(window::BYTES / 2)) / STEP - 1;
    window::BEGIN + (u64::from_le_bytes(random) as usize % places) * STEP
}

fn environment(memory: pmem::Mapped, path: &Path, made: bool) -> Result<Box<Env>, Failure> {
    let memory = Synced::new(memory);
    if !made {
        memory.confirm()?;
    }
    Ok(Box::new(Os::new(Observed::new(memory, path, made, 0))))
}

/// Makes a pool the open one.
fn install(env: &'static Env, pool: Pool<'static, Env>, descriptor: Option<i32>) -> &'static Open {
    let pool: &'static Pool<'static, Env> = Box::leak(Box::new(pool));
    let open = Box::leak(Box::new(Open {
        mark: MARK,
        closed: AtomicBool::new(false),
        pool,
        base: env.space().address(),
        bytes: pool.bytes(),
        recorded: env.space().is_recorded(),
        generation: GENERATIONS.fetch_add(1, Ordering::Relaxed) + 1,
        descriptor: descriptor.unwrap_or(-1),
        tag: pool.number() & 0x7FFF | 0x8000,
    }));
    OPEN.store(open, Ordering::Release);
    pruner::start(open);
    open
}

fn alone() -> Result<(), Failure> {
    match opened() {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            Code::State,
            "a pool is open already; a program built with --persist has one at a time, close that first",
        )),
    }
}

fn create(path: &Path, layout: &str, bytes: u64, root: u64, force: bool) -> Result<&'static Open, Failure> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    alone()?;
    let base = somewhere(bytes);
    let options = options(layout, base)?;
    let memory = pmem::Options::new().force(force).at(base).create(path, bytes)?;
    let descriptor = memory.descriptor();
    let made = (|| {
        let env: &'static Env = Box::leak(environment(memory, path, true)?);
        // A pool is there with its root object or not at all.
        let options = sfr::Options { root, ..options };
        let pool = Pool::create(env, &options).map_err(|error| Failure::from(error).of_file(path))?;
        Ok((env, pool))
    })();
    match made {
        Ok((env, pool)) => Ok(install(env, pool, descriptor)),
        Err(error) => {
            // The first error is the one to tell.
            _ = fs::remove_file(path);
            Err(error)
        }
    }
}

fn open(path: &Path, layout: &str, force: bool) -> Result<&'static Open, Failure> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    alone()?;
    let mut header = Vec::new();
    let file = |source: std::io::Error| Failure {
        errno: source.raw_os_error().unwrap_or(libc::EIO),
        ..Failure::new(Code::File, format!("{}: {source}", path.display()))
    };
    fs::File::open(path)
        .and_then(|file| file.take(HEADER_BYTES as u64).read_to_end(&mut header))
        .map_err(file)?;
    if header.iter().take(8).all(|&byte| byte == 0) {
        let message =
            "there is no pool in the file, or its making was interrupted; remove it, and make the pool again";
        return Err(Failure::new(Code::NoPool, message).of_file(path));
    }
    if header.starts_with(b"SLPOOL") {
        let message = "a pool of libstrandline, with regions; this program is built with --persist, which has pools of its own";
        return Err(Failure::new(Code::Foreign, message).of_file(path));
    }
    let base = Pool::<Env>::base_of(&header).map_err(|error| Failure::from(error).of_file(path))?;
    let options = options(layout, base as usize)?;
    if !window::contains(base as usize) {
        return Err(Failure::new(
            Code::Foreign,
            "the pool wants to be mapped elsewhere than C programs map theirs",
        )
        .of_file(path));
    }
    let memory = pmem::Options::new().force(force).at(base as usize).open(path)?;
    let descriptor = memory.descriptor();
    let env: &'static Env = Box::leak(environment(memory, path, false)?);
    let (pool, recovered) = Pool::open(env, &options).map_err(|error| Failure::from(error).of_file(path))?;
    if let Some(overlap) = recovered.overlap {
        say(&format!(
            "{}: offset {:#x}: a region that survived overwrote one that did not; is there a race on these bytes?",
            path.display(),
            overlap.offset
        ));
    }
    Ok(install(env, pool, descriptor))
}

fn result(made: Result<&'static Open, Failure>) -> *const Open {
    match made {
        Ok(open) => open,
        Err(failure) => {
            note(failure);
            ptr::null()
        }
    }
}

/// Runs as long as a signal's handler may not come between.
fn outside<R>(work: impl FnOnce() -> R) -> R {
    let before = local::local(|local| local.inside.replace(true));
    let result = work();
    local::local(|local| local.inside.set(before));
    crate::signals::left();
    result
}

/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sl_pool_create(
    path: *const c_char,
    layout: *const c_char,
    bytes: u64,
    root: u64,
    options: *const PoolOptions,
) -> *const Open {
    result(outside(|| {
        // SAFETY: the program's strings and options.
        let (path, layout, force) =
            unsafe { (text(path, "path")?, text(layout, "layout")?, force(options)?) };
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        create(path, &layout.to_string_lossy(), bytes, root, force)
    }))
}

/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sl_pool_open(
    path: *const c_char,
    layout: *const c_char,
    options: *const PoolOptions,
) -> *const Open {
    result(outside(|| {
        // SAFETY: the program's strings and options.
        let (path, layout, force) =
            unsafe { (text(path, "path")?, text(layout, "layout")?, force(options)?) };
        open(Path::new(OsStr::from_bytes(path.to_bytes())), &layout.to_string_lossy(), force)
    }))
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn sl_pool_close(pool: *const Open) -> c_int {
    let closed = outside(|| {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let open = Open::of(pool)?;
        local::local(|local| local.depart(Some(open)));
        OPEN.store(ptr::null_mut(), Ordering::Release);
        pruner::stop();
        open.pool.sync();
        crate::process::write_stats(open);
        open.closed.store(true, Ordering::Release);
        let env = ptr::from_ref(open.pool.env()).cast_mut();
        let pool = ptr::from_ref(open.pool).cast_mut();
        // SAFETY: both were leaked by `install` and its callers. Other threads are in no call with the pool,
        // as the contract of this function says; what they keep of it they compare with its generation first.
        drop(unsafe { Box::from_raw(pool) });
        // SAFETY: as above; the pool that borrowed it is gone.
        drop(unsafe { Box::from_raw(env) });
        Ok(())
    });
    closed.map_or_else(note, |()| 0)
}

/// The object from which everything in the pool is reached.
#[unsafe(no_mangle)]
pub extern "C" fn sl_root(pool: *const Open) -> u64 {
    let found = Open::of(pool).and_then(|open| match open.pool.root() {
        0 => Err(Failure::new(Code::Reference, "the pool was made without a root object")),
        root => Ok(open.reference(root)),
    });
    found.unwrap_or_else(|failure| {
        note(failure);
        0
    })
}

fn allocate(pool: *const Open, bytes: u64, zeros: bool) -> u64 {
    let made = Open::of(pool).and_then(|open| {
        let made = with(|thread, _| if zeros { thread.zalloc(bytes) } else { thread.alloc(bytes) });
        let made =
            made.ok_or_else(|| Failure::new(Code::State, "not in a signal's handler within this call"))?;
        Ok(open.reference(made?))
    });
    made.unwrap_or_else(|failure| {
        note(failure);
        0
    })
}

/// A new block with anything in it.
#[unsafe(no_mangle)]
pub extern "C" fn sl_alloc(pool: *const Open, bytes: u64) -> u64 {
    allocate(pool, bytes, false)
}

/// A new block of zeros.
#[unsafe(no_mangle)]
pub extern "C" fn sl_zalloc(pool: *const Open, bytes: u64) -> u64 {
    allocate(pool, bytes, true)
}

/// Gives a block back.
#[unsafe(no_mangle)]
pub extern "C" fn sl_free(pool: *const Open, block: u64) -> c_int {
    let freed = Open::of(pool).and_then(|open| {
        let offset = open.offset(block)?;
        let freed = with(|thread, _| thread.free(offset));
        freed
            .ok_or_else(|| Failure::new(Code::State, "not in a signal's handler within this call"))?
            .map_err(Failure::from)
    });
    freed.map_or_else(note, |()| 0)
}

/// Bytes of the block that begins there; 0 if none does.
#[unsafe(no_mangle)]
pub extern "C" fn sl_block_bytes(pool: *const Open, block: u64) -> u64 {
    let bytes = Open::of(pool).and_then(|open| {
        let offset = open.offset(block)?;
        let usable = with(|thread, _| thread.usable(offset));
        usable.map_or(Ok(0), |usable| usable.map(|(_, room)| room).map_err(Failure::from))
    });
    bytes.unwrap_or_else(|failure| {
        note(failure);
        0
    })
}

/// Bytes of the pool.
#[unsafe(no_mangle)]
pub extern "C" fn sl_pool_bytes(pool: *const Open) -> u64 {
    Open::of(pool).map_or(0, |open| open.bytes)
}

/// An ordinary pointer to a reference's place; null for none.
#[unsafe(no_mangle)]
pub extern "C" fn sl_at(pool: *const Open, reference: u64) -> *mut c_void {
    if reference == 0 {
        return ptr::null_mut();
    }
    match Open::of(pool).and_then(|open| Ok(open.base + open.offset(reference)? as usize)) {
        Ok(address) => address as *mut c_void,
        Err(failure) => {
            note(failure);
            ptr::null_mut()
        }
    }
}

/// The reference of an ordinary pointer into the pool; 0 for a null pointer.
#[unsafe(no_mangle)]
pub extern "C" fn sl_ref_of(pool: *const Open, pointer: *const c_void) -> u64 {
    if pointer.is_null() {
        return 0;
    }
    let found = Open::of(pool).and_then(|open| match open.part(pointer as usize, 1) {
        Some((offset, _)) => Ok(open.reference(offset)),
        None => Err(Failure::new(Code::Reference, "the pointer does not lead into the pool")),
    });
    found.unwrap_or_else(|failure| {
        note(failure);
        0
    })
}

/// Ends the calling thread's region, and waits until it is durable, and with it all that it could have seen.
/// The pool may be given and need not: there is one.
#[unsafe(no_mangle)]
pub extern "C" fn sl_psync() -> c_int {
    with(|thread, _| thread.sync());
    0
}

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn sl_version() -> *const c_char {
    const { concat!(env!("CARGO_PKG_VERSION"), "\0") }.as_ptr().cast()
}

/// What becomes of what is stored in the pool.
#[unsafe(no_mangle)]
pub extern "C" fn sl_pool_durability(pool: *const Open) -> *const c_char {
    static NAME: Mutex<Option<&'static CStr>> = Mutex::new(None);
    let name = Open::of(pool).map(|open| {
        let durability = open.pool.env().space().durability();
        if durability.forced { "forced".to_owned() } else { durability.domain.name().to_owned() }
    });
    let Ok(name) = name else { return ptr::null() };
    let mut kept = NAME.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.is_none_or(|kept| kept.to_bytes() != name.as_bytes()) {
        *kept = CString::new(name).ok().map(|name| &*Box::leak(name.into_boxed_c_str()));
    }
    kept.map_or(ptr::null(), CStr::as_ptr)
}
