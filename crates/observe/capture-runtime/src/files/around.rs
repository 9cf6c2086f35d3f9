//! Ways to change files that are seen and not recorded: rings (`io_uring`), asynchronous writes, clones of
//! contents.
//!
//! The calls are carried out as they are, so that the program does what it does without us; that they were
//! made is said, and a check of the run has no verdict. Rings that nobody was seen to make are found when
//! the process ends.

use core::ffi::{CStr, c_int, c_long, c_uint, c_ulong, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::caller::who;
use super::named::{Path, complain, complain_of, watching};
use crate::base::sys;
use crate::real::calls::real_call;
use crate::real::next::next;
use crate::state::local::{caller, hooks};

/// What the kernel calls a ring's descriptor.
const RING: &[u8] = b"anon_inode:[io_uring]";
/// What the kernel calls the memory of a context for asynchronous calls.
const CONTEXT: &[u8] = b"/[aio] (deleted)";

/// `iocb.aio_lio_opcode` of a write, a sync, a data sync, a vectored write.
const CHANGING: [u16; 4] = [1, 2, 3, 8];
/// `aiocb.aio_lio_opcode` of a write.
const LIO_WRITE: c_int = 1;

/// Requests that change contents: by another file's (`FICLONE`, `FICLONERANGE`, `FIDEDUPERANGE`, ext4's
/// exchange of extents), by holes and zeros, by writes that only a commit makes durable.
const CLONING: [(c_ulong, &[u8]); 8] = [
    (0x4004_9409, b"ioctl(FICLONE)"),
    (0x4020_940D, b"ioctl(FICLONERANGE)"),
    (0xC018_9436, b"ioctl(FIDEDUPERANGE)"),
    (0xC028_660F, b"ioctl(EXT4_IOC_MOVE_EXT)"),
    (0x4030_5829, b"ioctl(FS_IOC_UNRESVSP)"),
    (0x4030_582B, b"ioctl(FS_IOC_UNRESVSP64)"),
    (0x4030_5839, b"ioctl(FS_IOC_ZERO_RANGE)"),
    (0xF501, b"ioctl(F2FS_IOC_START_ATOMIC_WRITE)"),
];

/// The beginning of the kernel's `iocb`.
#[repr(C)]
struct Submitted {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: c_int,
}

/// The beginning of the C library's `aiocb`.
#[repr(C)]
struct Asynchronous {
    fd: c_int,
    opcode: c_int,
}

const SUBMIT: &[u8] = b"io_submit";
const SETUP: &[u8] = b"io_uring_setup: what is submitted to a ring";

/// Says that a ring was made.
pub fn ring() {
    if watching() {
        complain(SETUP, b"");
    }
}

/// Says that a ring was made by the code at `pc`.
pub fn ring_at(pc: u64) {
    complain_of(pc, SETUP, b"");
}

/// Says that there is a ring that nobody was seen to make.
fn ring_found() {
    complain_of(0, SETUP, b"");
}

/// Says that a call changed the file of a descriptor, if the user named that.
fn changed(call: &[u8], fd: c_int) {
    if watching()
        && let Some(path) = Path::of(fd).and_then(Path::watched)
    {
        complain(call, path.bytes());
    }
}

/// Says, of the code at `pc`, which of the blocks that it submits to the kernel change files.
///
/// # Safety
/// A list of that length of blocks that are null or valid.
pub unsafe fn submitting(pc: u64, count: usize, blocks: *const *const c_void) {
    // SAFETY: the caller's.
    unsafe {
        each_submitted(count, blocks, |fd| {
            if let Some(path) = Path::of(fd).and_then(Path::watched) {
                complain_of(pc, SUBMIT, path.bytes());
            }
        });
    }
}

/// Does something with the descriptor of each block that changes a file.
///
/// # Safety
/// A list of that length of blocks that are null or valid.
unsafe fn each_submitted(count: usize, blocks: *const *const c_void, each: impl Fn(c_int)) {
    if !watching() || blocks.is_null() {
        return;
    }
    for at in 0..count {
        // SAFETY: the caller's.
        let block = unsafe { (*blocks.add(at)).cast::<Submitted>().as_ref() };
        if let Some(block) = block.filter(|block| CHANGING.contains(&block.opcode)) {
            each(block.fd);
        }
    }
}

/// Whether a descriptor is open for writing.
fn is_writable(fd: c_int) -> bool {
    // SAFETY: nothing but numbers.
    let flags = unsafe { sys::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as c_int & libc::O_ACCMODE != libc::O_RDONLY
}

/// The function of that name in a library that was loaded later than us, or is no library of the program's
/// own; 0 if there is none.
fn later(cache: &AtomicUsize, name: &CStr, libraries: &[&CStr]) -> usize {
    let mut found = cache.load(Ordering::Relaxed);
    if found == 0 {
        found = next(name);
        for library in libraries {
            if found != 0 {
                break;
            }
            // SAFETY: C strings; nothing is loaded that is not there.
            let loaded = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if !loaded.is_null() {
                // SAFETY: a library's handle and a C string. The handle is kept: the function stays.
                found = unsafe { libc::dlsym(loaded, name.as_ptr()) } as usize;
            }
        }
        cache.store(found, Ordering::Relaxed);
    }
    found
}

/// A function of such a library; without it the result is `-ENOSYS`, as these libraries give errors.
macro_rules! of_library {
    ($libraries:expr, $name:ident($($arg:ident: $type:ty),*)) => {{
        static CACHE: AtomicUsize = AtomicUsize::new(0);
        const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name ends with a zero byte"),
        };
        match later(&CACHE, NAME, &$libraries) {
            0 => -libc::ENOSYS,
            // SAFETY: the library's function of that name has that type; the arguments are the program's.
            found => unsafe {
                core::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> c_int>(found)($($arg),*)
            },
        }
    }};
}

const URING: [&CStr; 2] = [c"liburing.so.2", c"liburing.so.1"];
const AIO: [&CStr; 2] = [c"libaio.so.1", c"libaio.so.1t64"];

/// The descriptor of a control block; of a null block none.
///
/// # Safety
/// It is null or valid.
unsafe fn descriptor_of(block: *const c_void) -> c_int {
    // SAFETY: the caller's.
    unsafe { block.cast::<Asynchronous>().as_ref() }.map_or(-1, |block| block.fd)
}

/// Makes a call with a control block, and says what it does if it is carried out: a write to what is not open
/// for writing is not.
///
/// # Safety
/// The block is null or valid.
unsafe fn asynchronous(
    call: &[u8],
    writes: bool,
    block: *const c_void,
    made: impl FnOnce() -> c_int,
) -> c_int {
    if !watching() {
        return made();
    }
    // SAFETY: the caller's. The block may be gone when the call is over.
    let fd = unsafe { descriptor_of(block) };
    // Nor is it known then who made it.
    let pc = who(caller());
    let result = made();
    if result == 0
        && (!writes || is_writable(fd))
        && let Some(path) = Path::of(fd).and_then(Path::watched)
    {
        complain_of(pc, call, path.bytes());
    }
    result
}

/// Says which of a list of blocks write.
///
/// # Safety
/// A list of that length of blocks that are null or valid.
unsafe fn listed(list: *const *const c_void, count: c_int) {
    if !watching() || list.is_null() {
        return;
    }
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's.
        let block = unsafe { *list.add(at) };
        // SAFETY: as above.
        let block = unsafe { block.cast::<Asynchronous>().as_ref() };
        if let Some(block) = block.filter(|block| block.opcode == LIO_WRITE && is_writable(block.fd)) {
            changed(b"lio_listio", block.fd);
        }
    }
}

/// Says what a request did that succeeded.
pub fn requested(fd: c_int, request: c_ulong) {
    // The C library's request is as wide as a word, the kernel's is not.
    let cloning = CLONING.iter().find(|(number, _)| *number == request & 0xFFFF_FFFF);
    cloning.iter().for_each(|(_, call)| changed(call, fd));
}

/// Looks for rings and contexts that nobody was seen to make: the process is about to end.
pub fn look() {
    if !watching() {
        return;
    }
    if let Some(fds) = sys::open(c"/proc/self/fd", libc::O_RDONLY | libc::O_DIRECTORY) {
        let mut entries = [0; 2048];
        loop {
            let args = [fds as usize, entries.as_mut_ptr() as usize, entries.len(), 0, 0, 0];
            // SAFETY: the buffer is valid for its length.
            let count = unsafe { sys::call(libc::SYS_getdents64, args) };
            let Some(mut rest) =
                usize::try_from(count).ok().filter(|&count| count > 0).map(|count| &entries[..count])
            else {
                break;
            };
            // An entry has its length in bytes 16 and 17, and its name from byte 19 on.
            while let Some(len) =
                rest.get(16..18).map(|len| usize::from(u16::from_ne_bytes([len[0], len[1]])))
            {
                let Some((entry, behind)) = rest.split_at_checked(len.max(19)) else { break };
                descriptor(&entry[19..]);
                rest = behind;
            }
        }
        sys::close(fds);
    }
    mappings();
}

/// Looks at the descriptor of this name, which a zero byte ends.
fn descriptor(name: &[u8]) {
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut bytes = [0; 48];
    let mut text = sys::Text::new(&mut bytes);
    text.push(b"/proc/self/fd/");
    text.push(name);
    let mut buffer = [0; 64];
    if sys::read_link(text.c_str(), &mut buffer) == Some(RING) {
        ring_found();
    }
}

/// Looks for contexts among the mappings.
fn mappings() {
    let Some(maps) = sys::open(c"/proc/self/maps", libc::O_RDONLY) else { return };
    let mut buffer = [0; 4096];
    let mut kept = 0;
    loop {
        let read = sys::read(maps, &mut buffer[kept..]).len();
        if read == 0 {
            break;
        }
        let filled = &buffer[..kept + read];
        if filled.windows(CONTEXT.len()).any(|part| part == CONTEXT) {
            complain_of(0, b"io_setup: what is submitted to the kernel's asynchronous input and output", b"");
            break;
        }
        let end = kept + read;
        let tail = CONTEXT.len().min(end);
        buffer.copy_within(end - tail..end, 0);
        kept = tail;
    }
    sys::close(maps);
}

/// Whether a path is a ring's.
pub fn is_ring(path: &[u8]) -> bool {
    path == RING
}

hooks! {
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int {
        self::ring();
        of_library!(URING, io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint))
    }
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, about: *mut c_void) -> c_int {
        self::ring();
        of_library!(URING, io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, about: *mut c_void))
    }
    fn io_uring_setup(entries: c_uint, params: *mut c_void) -> c_int {
        ring();
        of_library!(URING, io_uring_setup(entries: c_uint, params: *mut c_void))
    }
    fn io_submit(context: *mut c_void, count: c_long, blocks: *mut *mut c_void) -> c_int {
        let blocks_read = blocks as *const *const c_void;
        // SAFETY: the program says that there are so many, each null or valid.
        unsafe { each_submitted(usize::try_from(count).unwrap_or(0), blocks_read, |fd| changed(SUBMIT, fd)) };
        of_library!(AIO, io_submit(context: *mut c_void, count: c_long, blocks: *mut *mut c_void))
    }
    fn aio_write(block: *mut c_void) -> c_int {
        let made = || real_call!(aio_write(block));
        // SAFETY: the program's block.
        unsafe { asynchronous(b"aio_write", true, block, made) }
    }
    fn aio_write64(block: *mut c_void) -> c_int {
        let made = || real_call!(aio_write(block));
        // SAFETY: as above.
        unsafe { asynchronous(b"aio_write", true, block, made) }
    }
    fn aio_fsync(kind: c_int, block: *mut c_void) -> c_int {
        let made = || real_call!(aio_fsync(kind, block));
        // SAFETY: as above.
        unsafe { asynchronous(b"aio_fsync", false, block, made) }
    }
    fn aio_fsync64(kind: c_int, block: *mut c_void) -> c_int {
        let made = || real_call!(aio_fsync(kind, block));
        // SAFETY: as above.
        unsafe { asynchronous(b"aio_fsync", false, block, made) }
    }
    fn lio_listio(mode: c_int, list: *const *const c_void, count: c_int, event: *mut c_void) -> c_int {
        // SAFETY: the program's list.
        unsafe { listed(list, count) };
        real_call!(lio_listio(mode, list, count, event))
    }
    fn lio_listio64(mode: c_int, list: *const *const c_void, count: c_int, event: *mut c_void) -> c_int {
        // SAFETY: as above.
        unsafe { listed(list, count) };
        real_call!(lio_listio(mode, list, count, event))
    }
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        let result = real_call!(ioctl(fd, request, argument));
        if result >= 0 {
            requested(fd, request);
        }
        result
    }
}
