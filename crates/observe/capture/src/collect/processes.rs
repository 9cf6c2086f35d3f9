//! Which processes attached to the session, and which of them still live.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

use crate::session::SessionFile;
use abi::CHUNK_FREE;

enum Life {
    /// Becomes readable when the process ends, even while nobody has waited for it.
    Watched(OwnedFd),
    /// Without a descriptor: the system has none to give.
    Unwatched(Pid),
    Dead,
}

/// The processes seen in a session.
#[derive(Default)]
pub struct Processes {
    lives: HashMap<u32, Life>,
    modules_read: usize,
}

impl Processes {
    /// Notes who has registered code or writes into chunks.
    pub fn refresh(&mut self, session: &SessionFile) {
        while let Some(module) = session.module(self.modules_read) {
            self.modules_read += 1;
            self.see(module.pid);
        }
        for at in 0..session.chunks() {
            let chunk = session.chunk(at);
            if chunk.state.load(Ordering::Acquire) != CHUNK_FREE {
                self.see(chunk.pid.load(Ordering::Relaxed));
            }
        }
    }

    fn see(&mut self, pid: u32) {
        let Some(system) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
        self.lives.entry(pid).or_insert_with(|| match pidfd_open(system, PidfdFlags::empty()) {
            Ok(descriptor) => Life::Watched(descriptor),
            Err(_) => Life::Unwatched(system),
        });
    }

    /// The processes that were found to have died since the last call.
    pub fn newly_dead(&mut self) -> Vec<u32> {
        let mut dead = Vec::new();
        for (&pid, life) in &mut self.lives {
            let died = match life {
                Life::Watched(descriptor) => {
                    let mut watched = [PollFd::new(descriptor, PollFlags::IN)];
                    poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
                }
                Life::Unwatched(pid) => test_kill_process(*pid) == Err(rustix::io::Errno::SRCH),
                Life::Dead => false,
            };
            if died {
                *life = Life::Dead;
                dead.push(pid);
            }
        }
        dead
    }

    /// Processes that live.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.lives.values().filter(|life| !matches!(life, Life::Dead)).count()
    }

    /// All processes ever seen, in the order of their numbers.
    #[must_use]
    pub fn all(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.lives.keys().copied().collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_dead_before_anybody_waited_for_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut processes = Processes::default();
        processes.see(child.id());
        processes.see(std::process::id());
        assert!(processes.newly_dead().is_empty());
        child.kill().unwrap();
        let dead = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            Some(processes.newly_dead()).filter(|dead| !dead.is_empty())
        });
        assert_eq!(dead, Some(vec![child.id()]));
        assert_eq!(processes.alive(), 1);
        child.wait().unwrap();
    }
}
