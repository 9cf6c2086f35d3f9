//! The table of the process's code, so that the collector can name code addresses.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use libc::{PT_LOAD, dl_phdr_info};

use crate::base::session::{Attached, session};
use crate::base::sys;
use abi::{MODULE_PATH, MODULES};

/// How many times something was loaded when the table was last brought up to date.
static LOADED: AtomicU64 = AtomicU64::new(0);
/// Somebody is at it.
static BUSY: AtomicBool = AtomicBool::new(false);

/// The C library's `dl_iterate_phdr`: a program that keeps the list of its libraries defines its own.
static REAL: AtomicUsize = AtomicUsize::new(0);

type Enter = unsafe extern "C" fn(*mut dl_phdr_info, usize, *mut c_void) -> c_int;
type DlIteratePhdr = unsafe extern "C" fn(Option<Enter>, *mut c_void) -> c_int;

/// Finds it. Called once, from the library's constructor.
pub fn prepare() {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dl_iterate_phdr".as_ptr()) as usize };
    REAL.store(found, Ordering::Relaxed);
}

/// Enters what is not in the table yet. Called when the process starts and when a part of it that was built
/// with our hooks is loaded: those begin with a call of `__tsan_init`. We don't stand in front of `dlopen`,
/// because it finds libraries by who calls it.
pub fn update() {
    if session().is_none() || BUSY.swap(true, Ordering::Acquire) {
        return;
    }
    let mut state = Pass::First;
    let found = REAL.load(Ordering::Relaxed);
    if found != 0 {
        // SAFETY: the C library's function of that name has that type. The callback has the right type, and
        // gets the state's address, which is valid during the call.
        unsafe {
            core::mem::transmute::<usize, DlIteratePhdr>(found)(Some(enter), (&raw mut state).cast());
        }
    }
    BUSY.store(false, Ordering::Release);
}

/// Which module [`enter`] is called for.
#[derive(PartialEq, Eq)]
enum Pass {
    First,
    Further,
}

unsafe extern "C" fn enter(info: *mut dl_phdr_info, _: usize, state: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker says that the one is valid during the call, `update` the other.
    let (info, state) = unsafe { (&*info, &mut *state.cast::<Pass>()) };
    let Some(session) = session() else { return 1 };
    let before = LOADED.swap(info.dlpi_adds, Ordering::Relaxed);
    if *state == Pass::First && before == info.dlpi_adds {
        return 1;
    }
    *state = Pass::Further;
    let Some((start, end)) = extent(info) else { return 0 };
    // SAFETY: a C string, or null.
    let name = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
    let mut buffer = [0; 4096];
    let mut joined = [0; 4096];
    let path = match name.to_bytes() {
        // The program itself comes first and without a name.
        b"" => sys::read_link(c"/proc/self/exe", &mut buffer).unwrap_or_default(),
        path if path[0] == b'/' => path,
        // Not a file: the kernel's.
        path if !path.contains(&b'/') => return 0,
        path => {
            let mut text = sys::Text::new(&mut joined);
            text.push(sys::working_directory(&mut buffer));
            text.push(b"/");
            text.push(path);
            text.c_str().to_bytes()
        }
    };
    if !is_entered(session, start, path) {
        add(session, 0, (info.dlpi_addr, start, end), path);
    }
    0
}

/// First address, and the one after the last, of what is mapped.
fn extent(info: &dl_phdr_info) -> Option<(u64, u64)> {
    // SAFETY: the dynamic linker says that there are so many.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let mapped = headers.iter().filter(|header| header.p_type == PT_LOAD);
    let range = |header: &libc::Elf64_Phdr| {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        (start & !4095, (start + header.p_memsz).next_multiple_of(4096))
    };
    mapped.map(range).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

fn is_entered(session: &Attached, start: u64, path: &[u8]) -> bool {
    let pid = session.pid.load(Ordering::Relaxed);
    let used = session.head().next_module.load(Ordering::Acquire) as usize;
    (0..used.min(MODULES)).filter_map(|at| session.module(at)).any(|module| {
        // SAFETY: in the table; `ready` orders the other fields, which do not change after.
        let module = unsafe { &*module };
        module.ready.load(Ordering::Acquire) == 1
            && (module.pid, module.start, module.parent) == (pid, start, 0)
            && module.path.get(..module.path_len as usize) == Some(shortened(path))
    })
}

fn shortened(path: &[u8]) -> &[u8] {
    &path[..path.len().min(MODULE_PATH)]
}

fn add(session: &Attached, parent: u32, (bias, start, end): (u64, u64, u64), path: &[u8]) {
    let at = session.head().next_module.fetch_add(1, Ordering::AcqRel) as usize;
    let Some(module) = session.module(at) else { return };
    let path = shortened(path);
    // SAFETY: the entry is ours alone until `ready` is set: nobody else was given its number.
    unsafe {
        (*module).pid = session.pid.load(Ordering::Relaxed);
        (*module).parent = parent;
        (*module).path_len = path.len() as u32;
        (*module).bias = bias;
        (*module).start = start;
        (*module).end = end;
        core::ptr::copy_nonoverlapping(path.as_ptr(), (&raw mut (*module).path).cast::<u8>(), path.len());
        (*module).ready.store(1, Ordering::Release);
    }
}

/// Says that this process was forked from `parent`.
pub fn forked(session: &Attached, parent: u32) {
    BUSY.store(false, Ordering::Release);
    add(session, parent, (0, 0, 0), b"");
}
