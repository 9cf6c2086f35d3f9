//! The process that starts recoveries, and the system in which it does.
//!
//! It is started twice. The first process enters a user namespace, if it needs one to be allowed the
//! others, and a namespace of processes, of which only what it starts is a member. The second is the
//! first process of that namespace; what a recovery leaves running is its child and killed with all
//! others.

use std::ffi::CStr;
use std::fmt::Display;
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::process::{WaitOptions, getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, set_capabilities,
};

use crate::process::{Attempt, timespec};
use crate::protocol::{BOOT_ID, NAME, Processes, Reply, STARTER, Setup, receive, send};
use crate::watched;

/// Its further argument if it is the first of its namespace.
const FIRST: &str = "first";
/// What a reboot empties, and the rights of what is there then.
const EMPTIED: [(&str, &CStr); 2] = [("/dev/shm", c"mode=1777"), ("/run", c"mode=0755")];

/// Why there is no such system.
type Refusal = String;

/// Does what a process with this first argument is for.
pub fn run(role: &str) -> ExitCode {
    let Ok(line) = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3) else { return ExitCode::from(2) };
    let mut line = BufReader::new(UnixStream::from(line));
    let done = match role {
        STARTER => serve(&mut line, std::env::args_os().any(|word| word == FIRST)),
        role => outer(role == Processes::Own.role()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            send(line.get_mut(), &Reply::Refused(refusal)).ok();
            ExitCode::from(2)
        }
    }
}

/// The first process: waits for the second one.
fn outer(own_processes: bool) -> Result<(), Refusal> {
    let mut flags = CloneFlags::empty();
    flags.set(CloneFlags::CLONE_NEWPID, own_processes);
    let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if may {
        unshare(flags).map_err(refused("a namespace of processes"))?;
    } else {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        unshare(flags | CloneFlags::CLONE_NEWUSER).map_err(refused("a user namespace"))?;
        // Whoever it is stays who it is.
        let maps = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{user} {user} 1")),
            ("gid_map", format!("{group} {group} 1")),
        ];
        for (name, text) in maps {
            fs::write(format!("/proc/self/{name}"), text).map_err(refused(name))?;
        }
        hand_down().map_err(refused("a capability in the user namespace"))?;
    }
    let exe = std::env::current_exe().map_err(refused("this executable"))?;
    let mut inner = Command::new(exe);
    inner.arg0(NAME).arg(STARTER).args(own_processes.then_some(FIRST));
    let status = inner.status().map_err(refused("a process in the namespaces"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the process that starts recoveries ended with {status}")),
    }
}

/// Lets the second process, which need not be root, keep the right to mount.
fn hand_down() -> rustix::io::Result<()> {
    let sets = capabilities(None)?;
    let inheritable = sets.inheritable | CapabilitySet::SYS_ADMIN;
    set_capabilities(None, CapabilitySets { inheritable, ..sets })?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
}

/// The second process: makes the system, if there is to be one, then starts a recovery for each line. It does
/// so from little memory: a child of the check itself would have the images' contents in its page tables.
fn serve(line: &mut BufReader<UnixStream>, first: bool) -> Result<(), Refusal> {
    let setup: Option<Setup> = receive(line).map_err(refused("what is to be done"))?;
    let Some(setup) = setup else { return Ok(()) };
    let processes = if first { Processes::Own } else { Processes::Shared };
    if let Some(boot_id) = &setup.boot_id {
        reboot(&setup, boot_id, processes)?;
        // Recoveries have no more rights than the user. Whoever was root before has handed nothing down.
        clear_ambient_capability_set().map_err(refused("fewer capabilities"))?;
    }
    let mut reply = Reply::Ready;
    // Whoever does not listen has ended, and this ends, too.
    while send(line.get_mut(), &reply).is_ok() {
        let Ok(Some(attempt)) = receive::<Attempt>(line) else { break };
        let printed = || Ok([Stdio::inherit(), Stdio::inherit()]);
        let given_up = || hung_up(line.get_ref());
        reply = match watched::run(&setup.recipe, &attempt, &setup.folder, printed, &given_up) {
            Ok((status, reads)) => Reply::Ended(status.map(ExitStatusExt::into_raw), reads),
            Err(error) => Reply::Failed { code: error.raw_os_error(), why: error.to_string() },
        };
        if first {
            end_all();
        }
    }
    Ok(())
}

/// Whether nobody is at the other end.
fn hung_up(line: &UnixStream) -> bool {
    let mut ends = [PollFd::new(line, PollFlags::empty())];
    poll(&mut ends, Some(&timespec(std::time::Duration::ZERO))).is_ok()
        && ends[0].revents().contains(PollFlags::HUP)
}

/// Kills all processes of the namespace but this one, and waits for their ends.
fn end_all() {
    if kill(Pid::from_raw(-1), Signal::SIGKILL).is_ok() {
        while rustix::process::wait(WaitOptions::empty()).is_ok() {}
    }
}

/// Makes this the system after a reboot.
fn reboot(setup: &Setup, boot_id: &str, processes: Processes) -> Result<(), Refusal> {
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    unshare(own).map_err(refused("namespaces of mounts, of names and of System V's memory"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(refused("mounts of its own"))?;
    if processes == Processes::Own {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None).map_err(refused("a mount of /proc"))?;
    }
    let id = setup.folder.join("boot_id");
    write_boot_id(&id, boot_id).map_err(refused("a boot id"))?;
    let folder = std::env::current_dir().map_err(refused("the working directory"))?;
    let id = opened(&id).map_err(refused("a boot id"))?;
    let kept = kept(setup, &folder)?;
    for (place, options) in EMPTIED {
        if fs::canonicalize(place).is_ok_and(|real| real == Path::new(place)) {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            mount("tmpfs", place, "tmpfs", flags, Some(options)).map_err(refused(place))?;
        }
    }
    for kept in kept {
        kept.put_back().map_err(refused(&kept.path.to_string_lossy()))?;
    }
    if Path::new(BOOT_ID).exists() {
        bind(&id, Path::new(BOOT_ID)).map_err(refused("another boot id"))?;
    }
    // The path is the same, but it may be in what was emptied.
    std::env::set_current_dir(&folder).map_err(refused("the working directory"))
}

/// Something under a path that is emptied and that stays.
struct Kept {
    path: PathBuf,
    is_folder: bool,
    handle: OwnedFd,
}

/// The image, programs that the command names, and the working directory, as far as they are in what is
/// emptied.
fn kept(setup: &Setup, folder: &Path) -> Result<Vec<Kept>, Refusal> {
    // What runs is there after a reboot as well, wherever that is; data that the command names may be the
    // run's.
    let words = setup.recipe.words.iter().flat_map(|word| word.split_whitespace());
    let programs = words.map(|word| folder.join(word)).filter(|path| path.is_file() && is_executable(path));
    let mut paths: Vec<PathBuf> = programs.chain([folder.to_owned(), setup.folder.clone()]).collect();
    paths.retain(|path| {
        let inside = |place: &Path| path.starts_with(place) && path != place;
        path.exists() && EMPTIED.iter().any(|(place, _)| inside(Path::new(place)))
    });
    // Folders before what is in them; what is in one that stays does so, too.
    paths.sort();
    paths.dedup();
    let mut kept: Vec<Kept> = Vec::new();
    for path in paths {
        if kept.iter().any(|other| path.starts_with(&other.path)) {
            continue;
        }
        let what = path.to_string_lossy().into_owned();
        let handle = opened(&path).map_err(refused(&what))?;
        kept.push(Kept { is_folder: path.is_dir(), path, handle });
    }
    Ok(kept)
}

fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

impl Kept {
    fn put_back(&self) -> io::Result<()> {
        if self.is_folder {
            fs::create_dir_all(&self.path)?;
        } else {
            self.path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create(&self.path)?;
        }
        bind(&self.handle, &self.path)
    }
}

/// Shows what the handle stands for at the path, too.
fn bind(handle: &OwnedFd, path: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", handle.as_raw_fd());
    Ok(mount_bind_recursive(source, path)?)
}

/// A handle of this system's file or folder, whatever is mounted above it later.
fn opened(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn write_boot_id(path: &Path, id: &str) -> io::Result<()> {
    fs::write(path, format!("{id}\n"))?;
    fs::set_permissions(path, Permissions::from_mode(0o444))
}

/// A refusal: what is not allowed, and the system's reason.
fn refused<E: Display>(what: &str) -> impl FnOnce(E) -> Refusal {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}
