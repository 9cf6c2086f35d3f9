//! Recovery as after a reboot: what only a running system has is gone.
//!
//! A process of its own starts the recoveries of a job. It lives in namespaces in which the kernel has
//! another boot id, `/dev/shm` and `/run` are empty but for the image, no process of before is alive, and
//! there are no semaphores, queues and shared memory of System V. Entering namespaces takes a process
//! with one thread; so the running executable is started again under a name by which [`answer`] knows it.
//! A process that called neither [`answer`] nor [`answered_by`] does without a reboot.
//!
//! `inside.rs` is that process.

#![forbid(unsafe_code)]

mod inside;
mod process;
mod protocol;
mod watched;

pub use process::{Attempt, Recipe};
pub use protocol::BOOT_ID;
pub use tracer::Reads;
pub use watched::{Ended, run};

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use process::{LOOK, timespec};
use protocol::{NAME, Processes, Reply, STARTER, Setup, receive, send};

/// The executable that is started, which begins with [`answer`].
static ANSWERS: OnceLock<PathBuf> = OnceLock::new();

/// Starts recoveries if this process was started to do so, and returns the status with which it has to
/// end; `None` in a process that was started by another name. An executable calls this first in its
/// `main`; without that, there is no reboot.
#[must_use]
pub fn answer() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    if words.next().is_some_and(|name| name == NAME) {
        let role = words.next().unwrap_or_default();
        return Some(inside::run(&role.to_string_lossy()));
    }
    if let Ok(own) = std::env::current_exe() {
        answered_by(own);
    }
    None
}

/// Another executable calls [`answer`] first in its `main`: it is started in place of this one, which is an interpreter,
/// for example. The first one that was named counts.
pub fn answered_by(executable: PathBuf) {
    ANSWERS.set(executable).ok();
}

/// Whether recoveries run as after a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebooted {
    /// They do.
    Yes,
    /// The check did not ask for it.
    NotWanted,
    /// The system does not allow it, for this reason.
    Refused(String),
}

/// How the jobs of a check reboot.
#[derive(Debug)]
pub struct Reboots {
    seed: u64,
    state: Mutex<(Rebooted, Processes)>,
}

impl Reboots {
    /// Reboots if they are wanted; all with the boot id of this seed.
    pub fn new(wanted: bool, seed: u64) -> Self {
        let state = if wanted { Rebooted::Yes } else { Rebooted::NotWanted };
        Reboots { seed, state: Mutex::new((state, Processes::Own)) }
    }

    /// Whether recoveries run as after a reboot, as far as that was tried.
    pub fn state(&self) -> Rebooted {
        self.lock().0.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Rebooted, Processes)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process that starts recoveries, which print into `output` and find what is in this folder: in a
    /// system after a reboot, or in the one that is there; `None` if there is none.
    pub fn system(&self, recipe: &Recipe, folder: PathBuf, output: &File) -> io::Result<Option<System>> {
        loop {
            let (state, processes) = self.lock().clone();
            if state != Rebooted::Yes {
                let Some(executable) = ANSWERS.get() else { return Ok(None) };
                let setup = Setup { recipe: recipe.clone(), folder, boot_id: None };
                return Ok(System::start(executable, &setup, STARTER, output)?.ok());
            }
            let refusal = match ANSWERS.get() {
                None => "this program can't start itself again".to_owned(),
                Some(executable) => {
                    let boot_id = Some(boot_id(self.seed));
                    let setup = Setup { recipe: recipe.clone(), folder: folder.clone(), boot_id };
                    match System::start(executable, &setup, processes.role(), output)? {
                        Ok(system) => return Ok(Some(system)),
                        Err(refusal) => refusal,
                    }
                }
            };
            let mut state = self.lock();
            // A system that hides its processes may still allow all else.
            *state = match processes {
                Processes::Own => (Rebooted::Yes, Processes::Shared),
                Processes::Shared => (Rebooted::Refused(refusal), processes),
            };
        }
    }
}

/// The boot id of a seed, as the kernel writes one. It is not the real one, which chance made.
fn boot_id(seed: u64) -> String {
    let mut state = seed;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    };
    let (high, low) = (next(), next());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFF,
        low >> 48 & 0x3FFF | 0x8000,
        low & 0xFFFF_FFFF_FFFF
    )
}

/// A process that starts recoveries in a system after a reboot, or as it is; it ends with this.
#[derive(Debug)]
pub struct System {
    /// Our end of the line to it; none once it is to end.
    line: Option<BufReader<UnixStream>>,
    starter: Child,
}

impl System {
    fn start(
        executable: &Path,
        setup: &Setup,
        role: &str,
        output: &File,
    ) -> io::Result<Result<System, String>> {
        let (ours, theirs) = UnixStream::pair()?;
        let starter = Command::new(executable)
            .arg0(NAME)
            .arg(role)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .process_group(0)
            .spawn()?;
        let mut system = System { line: Some(BufReader::new(ours)), starter };
        Ok(match system.ask(setup)? {
            Reply::Ready => Ok(system),
            Reply::Refused(why) => Err(why),
            Reply::Ended(..) | Reply::Failed { .. } => Err("it answers what was not asked".to_owned()),
        })
    }

    fn ask(&mut self, question: &impl serde::Serialize) -> io::Result<Reply> {
        let line = self.line.as_mut().ok_or_else(ended)?;
        send(line.get_mut(), question)?;
        receive(line)?.ok_or_else(ended)
    }

    /// Runs one recovery; `None` if it was killed after its time, or because `given_up` said so.
    pub fn run(&mut self, attempt: &Attempt, given_up: &dyn Fn() -> bool) -> io::Result<Ended> {
        let line = self.line.as_mut().ok_or_else(ended)?;
        send(line.get_mut(), attempt)?;
        loop {
            let ready = poll(&mut [PollFd::new(line.get_ref(), PollFlags::IN)], Some(&timespec(LOOK)));
            match ready {
                Ok(0) | Err(Errno::INTR) if given_up() => {
                    // It ends with its line, and everything in it.
                    self.line = None;
                    return Ok((None, None));
                }
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        match receive(line)?.ok_or_else(ended)? {
            Reply::Ended(status, reads) => Ok((status.map(ExitStatus::from_raw), reads)),
            Reply::Failed { code: Some(code), .. } => Err(io::Error::from_raw_os_error(code)),
            Reply::Failed { why, .. } | Reply::Refused(why) => Err(io::Error::other(why)),
            Reply::Ready => Err(ended()),
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.line = None;
        self.starter.wait().ok();
    }
}

fn ended() -> io::Error {
    io::Error::other("the process that starts recoveries ended; try --no-reboot")
}

#[cfg(test)]
mod tests {
    use super::boot_id;

    #[test]
    fn a_boot_id_looks_like_the_kernels() {
        let id = boot_id(1);
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert!(id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{id}");
        assert_eq!(&id[14..15], "4", "{id}");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        assert_ne!(id, boot_id(2));
    }
}
