//! The seccomp filter, and the start of a program under it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use libc::{c_long, sock_filter};

const ALLOW: u32 = 0x7fff_0000;
const TRACE: u32 = 0x7ff0_0000;
const ERRNO: u32 = 0x0005_0000;
/// `AUDIT_ARCH_X86_64`.
const ARCH: u32 = 0xc000_003e;

/// Calls that stop the program whatever their arguments are.
const CALLS: &[c_long] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_creat,
    libc::SYS_openat2,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_symlink,
    libc::SYS_symlinkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_sync,
    libc::SYS_msync,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_mknod,
    libc::SYS_mknodat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_io_uring_setup,
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
    crate::aio::PGETEVENTS,
    libc::SYS_io_destroy,
    libc::SYS_ptrace,
];
/// Calls that stop the program if it acknowledges by a socket.
const SENDS: [c_long; 2] = [libc::SYS_sendto, libc::SYS_sendmsg];
/// Requests of `ioctl` that change contents: `FICLONE`, `FICLONERANGE`, `FIDEDUPERANGE`, `EXT4_IOC_MOVE_EXT`.
pub const REQUESTS: [u32; 4] = [0x4004_9409, 0x4020_940d, 0xc018_9436, 0xc028_660f];
/// `__O_TMPFILE` without `O_DIRECTORY`.
pub const TMPFILE: i32 = 0o20_000_000;

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

/// The offset of the low half of an argument in `seccomp_data`.
fn argument(number: u32) -> u32 {
    16 + 8 * number
}

fn program(sends: bool) -> Vec<sock_filter> {
    let load = |at| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let equal = |k, jt, jf| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, k);
    let any = |k, jt, jf| instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, jt, jf, k);
    let ret = |k| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, k);
    // A 32-bit call has other numbers; 32-bit programs are refused when they are executed.
    let enosys = ERRNO | libc::ENOSYS as u32;
    let mut code = vec![load(4), equal(ARCH, 1, 0), ret(enosys), load(0)];
    let sends = if sends { &SENDS[..] } else { &[] };
    for &call in CALLS.iter().chain(sends) {
        code.extend([equal(call as u32, 0, 1), ret(TRACE)]);
    }
    code.extend([equal(libc::SYS_ioctl as u32, 0, 2 + 2 * REQUESTS.len() as u8), load(argument(1))]);
    for request in REQUESTS {
        code.extend([equal(request, 0, 1), ret(TRACE)]);
    }
    code.push(ret(ALLOW));
    let changes = (libc::O_CREAT | libc::O_TRUNC | TMPFILE) as u32;
    for (call, flags) in [(libc::SYS_open, 1), (libc::SYS_openat, 2)] {
        code.extend([
            equal(call as u32, 0, 4),
            load(argument(flags)),
            any(changes, 0, 1),
            ret(TRACE),
            ret(ALLOW),
        ]);
    }
    code.extend([
        equal(libc::SYS_madvise as u32, 0, 4),
        load(argument(2)),
        equal(libc::MADV_REMOVE as u32, 0, 1),
        ret(TRACE),
        ret(ALLOW),
    ]);
    // A shared mapping, which `mprotect` can make writable later. MAP_SHARED_VALIDATE has the bit of MAP_SHARED.
    code.extend([
        equal(libc::SYS_mmap as u32, 0, 4),
        load(argument(3)),
        any(libc::MAP_SHARED as u32, 0, 1),
        ret(TRACE),
        ret(ALLOW),
    ]);
    code.push(ret(ALLOW));
    code
}

/// Which calls stop a program.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// Each of that number.
    Stop(c_long),
    /// Those whose argument has none of the bits.
    StopWithout { call: c_long, argument: u32, bits: u32 },
    /// Those whose argument is this value.
    StopAt { call: c_long, argument: u32, value: u32 },
}

/// A filter of these rules alone.
fn of_rules(rules: &[Rule]) -> Vec<sock_filter> {
    let load = |at| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let equal = |k, jt, jf| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, k);
    let any = |k, jt, jf| instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, jt, jf, k);
    let ret = |k| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, k);
    let mut code = vec![load(4), equal(ARCH, 1, 0), ret(TRACE), load(0)];
    for &rule in rules {
        match rule {
            Rule::Stop(call) => code.extend([equal(call as u32, 0, 1), ret(TRACE)]),
            Rule::StopWithout { call, argument: number, bits } => code.extend([
                equal(call as u32, 0, 4),
                load(argument(number)),
                any(bits, 1, 0),
                ret(TRACE),
                ret(ALLOW),
            ]),
            // The number of the call is there again for the next rule.
            Rule::StopAt { call, argument: number, value } => code.extend([
                equal(call as u32, 0, 4),
                load(argument(number)),
                equal(value, 0, 1),
                ret(TRACE),
                load(0),
            ]),
        }
    }
    code.push(ret(ALLOW));
    code
}

/// As [`spawn`], with other calls that stop it.
pub fn spawn_under(command: &mut Command, rules: &[Rule]) -> io::Result<Child> {
    spawn_with(command, of_rules(rules))
}

/// Starts the command, traced by this thread and under the filter; it stops when it has been executed. With
/// `sends`, it stops at what it sends by sockets, too.
pub fn spawn(command: &mut Command, sends: bool) -> io::Result<Child> {
    spawn_with(command, program(sends))
}

fn spawn_with(command: &mut Command, code: Vec<sock_filter>) -> io::Result<Child> {
    let install = move || {
        let filter = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
        nix::sys::ptrace::traceme()?;
        // SAFETY: constant arguments; it changes the calling process only, which is the new child.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `filter` and the instructions it points to outlive the call, which copies them.
        if unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls and allocates nothing.
    unsafe { command.pre_exec(install) };
    command.spawn()
}
