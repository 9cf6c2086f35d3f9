//! To whom a program says what it has done: standard output, and where `--acks` says.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use libc::c_long;
use nix::unistd::Pid;
use rustix::net::SocketAddrAny;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::calls::{Call, Says};
use crate::look;

/// Sockets that are remembered.
const SOCKETS: usize = 4096;

/// Where a program acknowledges what it has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acks {
    /// A descriptor that it has when it begins.
    Descriptor(i32),
    /// A file, a pipe with a name, or a socket that is bound to this path: absolute.
    Path(String),
    /// Connections by this port, on either side.
    Port(u16),
}

impl Acks {
    /// Whether it may be a socket, by which the program sends.
    pub fn may_be_socket(&self) -> bool {
        match self {
            Acks::Descriptor(fd) => fs::read_link(format!("/proc/self/fd/{fd}"))
                .is_ok_and(|link| link.to_string_lossy().starts_with("socket:")),
            Acks::Path(path) => !look::is_file(path),
            Acks::Port(_) => true,
        }
    }
}

/// Who listens.
#[derive(Debug)]
pub struct Hearing {
    acks: Option<Acks>,
    /// What standard output and the descriptor of acknowledgements are, as the kernel writes it.
    stdout: Option<String>,
    descriptor: Option<String>,
    /// Sockets that were looked at: whether they are those of acknowledgements.
    sockets: HashMap<String, bool>,
}

impl Hearing {
    /// Nobody yet.
    pub fn new(acks: Option<Acks>) -> Self {
        Hearing { acks, stdout: None, descriptor: None, sockets: HashMap::new() }
    }

    /// The program's first process begins.
    pub fn begins(&mut self, pid: Pid) {
        self.stdout = look::named(pid, 1);
        if let Some(Acks::Descriptor(fd)) = self.acks {
            self.descriptor = look::named(pid, fd);
        }
    }

    /// To whom the call says something, if to anybody; `name` is what its descriptor is of.
    pub fn hears(&mut self, process: i32, call: &Call, name: &str) -> Option<Says> {
        const WRITES: [c_long; 3] = [libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64];
        const SENDS: [c_long; 2] = [libc::SYS_sendto, libc::SYS_sendmsg];
        let (writes, sends) = (WRITES.contains(&call.number), SENDS.contains(&call.number));
        if !writes && !sends {
            return None;
        }
        let fd = call.arguments[0] as i32;
        if self.is_for_acks(process, fd, name) {
            return Some(Says::Acked);
        }
        // Standard error may be the same terminal.
        (writes && fd != 2 && self.stdout.as_deref() == Some(name)).then_some(Says::Printed)
    }

    fn is_for_acks(&mut self, process: i32, fd: i32, link: &str) -> bool {
        match &self.acks {
            None => false,
            Some(Acks::Descriptor(_)) => self.descriptor.as_deref() == Some(link),
            Some(acks) if link.starts_with("socket:") => match self.sockets.get(link) {
                Some(&known) => known,
                None => {
                    let found = is_bound(process, fd, acks);
                    // A socket that is not connected yet may be so later.
                    if let Some(found) = found {
                        if self.sockets.len() >= SOCKETS {
                            self.sockets.clear();
                        }
                        self.sockets.insert(link.to_owned(), found);
                    }
                    found.unwrap_or(false)
                }
            },
            Some(Acks::Path(path)) => path == link,
            Some(Acks::Port(_)) => false,
        }
    }
}

/// Whether a socket is bound or connected to an address; `None` if it is connected to nothing yet.
fn is_bound(number: i32, fd: i32, acks: &Acks) -> Option<bool> {
    let process = rustix::process::Pid::from_raw(number)?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    let socket: OwnedFd = pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()?;
    let own = rustix::net::getsockname(&socket).ok();
    let other = rustix::net::getpeername(&socket).ok().flatten();
    let connected = other.is_some();
    let is_meant = |name: SocketAddrAny| match acks {
        Acks::Path(path) => rustix::net::SocketAddrUnix::try_from(name).is_ok_and(|name| {
            // As the program gave it: relative to its folder.
            let given = name.path_bytes().map(OsStr::from_bytes).filter(|given| !given.is_empty());
            let folder = fs::read_link(format!("/proc/{number}/cwd")).unwrap_or_default();
            let whole = given.map(|given| folder.join(given));
            whole.is_some_and(|whole| whole.canonicalize().unwrap_or(whole) == Path::new(path))
        }),
        Acks::Port(port) => std::net::SocketAddr::try_from(name).is_ok_and(|name| name.port() == *port),
        Acks::Descriptor(_) => false,
    };
    match own.into_iter().chain(other).any(is_meant) {
        true => Some(true),
        false => connected.then_some(false),
    }
}

/// Gives the program a standard output of its own where it would be the same as its standard error, which could not be
/// distinguished then (a shell writes `echo … >&2` by descriptor 1): what is printed there is passed on. A terminal stays.
pub fn apart(command: &mut Command, to_stderr: bool) -> io::Result<Option<JoinHandle<()>>> {
    let target = if to_stderr {
        io::stderr().as_fd().try_clone_to_owned()?
    } else {
        io::stdout().as_fd().try_clone_to_owned()?
    };
    let own = |fd: i32| fs::read_link(format!("/proc/self/fd/{fd}")).ok();
    let same = to_stderr || own(1).is_some() && own(1) == own(2);
    if !same || target.is_terminal() {
        if to_stderr {
            command.stdout(Stdio::from(target));
        }
        return Ok(None);
    }
    let (mut read, write) = io::pipe()?;
    command.stdout(Stdio::from(OwnedFd::from(write)));
    let mut target = fs::File::from(target);
    Ok(Some(std::thread::spawn(move || {
        // Whoever closed what we write to closes it for the program, too.
        if io::copy(&mut read, &mut target).is_ok() {
            target.flush().ok();
        }
    })))
}
