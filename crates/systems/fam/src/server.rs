//! The fault server at the target: faults first, then what the timer or a recorded order asks for.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Error;
use super::layout::{Layout, Region};
use super::space::{Space, Step};
use super::transport::Transport;
use super::uffd::{Event, PAGE, Uffd};

/// How pages are served.
#[derive(Clone, Debug)]
pub struct Options {
    /// After so long without a fault all remaining pages are pushed; none: never.
    pub timer: Option<Duration>,
    /// Bytes pushed between two looks at the faults.
    pub push: u64,
    /// Pages in the order in which an earlier restore touched them: pushed from the start, in this order.
    pub prefetch: Vec<u64>,
    /// Go on after the last page, until the process ends: what it drops must read as zero although the file has it.
    /// Needed where pages are mapped, not copied.
    pub stay: bool,
    /// The restored process: its end ends the service.
    pub process: Option<u32>,
    /// Who hears it when the last page is there.
    pub complete: Option<Sender<Served>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            timer: Some(Duration::from_millis(100)),
            push: 256 << 10,
            prefetch: Vec::new(),
            stay: false,
            process: None,
            complete: None,
        }
    }
}

/// What a fault server did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Served {
    /// Faults answered with a page of the checkpoint.
    pub faults: u64,
    /// Pages installed because of faults.
    pub pages_by_fault: u64,
    /// Pages installed unasked.
    pub pages_pushed: u64,
    /// From the start of the service until the last page was there, in seconds.
    pub resume_s: f64,
    /// The same until the first fault.
    pub first_fault_s: Option<f64>,
    /// Address spaces served: one, and one for each fork in between.
    pub spaces: usize,
    /// Pages in the order of their faults, as addresses in the checkpoint.
    #[serde(skip)]
    pub order: Vec<u64>,
}

struct Server<'a> {
    spaces: Vec<Space>,
    transport: &'a mut dyn Transport,
    queue: VecDeque<(usize, u64)>,
    options: Options,
    served: Served,
    start: Instant,
    pushing: bool,
    cursor: usize,
}

/// Serves the faults of a restored process until all pages of the regions are installed.
///
/// `uffd` was made in that process, with [`super::uffd::EVENTS`], and [`super::uffd::SHMEM`] where files are mapped; its
/// ranges are registered.
///
/// # Errors
/// [`Error::SourceLost`] if pages are nowhere any more, after which the process can't go on; [`Error::TargetLost`].
pub fn serve(
    uffd: OwnedFd,
    regions: &[Region],
    transport: &mut dyn Transport,
    options: Options,
) -> Result<Served, Error> {
    let layout = Arc::new(Layout::new(regions, 0));
    let process = options.process.map(pidfd).transpose()?;
    let mut server = Server {
        spaces: vec![Space::new(Uffd::from_fd(uffd), layout)],
        transport,
        queue: VecDeque::new(),
        options,
        served: Served { spaces: 1, ..Served::default() },
        start: Instant::now(),
        pushing: false,
        cursor: 0,
    };
    server.options.prefetch.reverse();
    server.run(process.as_ref())?;
    Ok(server.served)
}

impl Server<'_> {
    fn run(&mut self, process: Option<&OwnedFd>) -> Result<(), Error> {
        let mut quiet_since = Instant::now();
        loop {
            if self.left() == 0 && self.served.resume_s == 0.0 {
                self.served.resume_s = self.start.elapsed().as_secs_f64();
                self.transport.bye();
                if let Some(complete) = self.options.complete.take() {
                    let _ = complete.send(self.served.clone());
                }
            }
            if self.left() == 0 && !self.options.stay {
                return Ok(());
            }
            let ready = self.poll(process, self.patience(quiet_since))?;
            if ready.ended || self.spaces.is_empty() {
                return if self.left() == 0 { Ok(()) } else { Err(Error::TargetLost) };
            }
            if ready.news {
                self.transport.news()?;
            }
            for index in 0..self.spaces.len() {
                self.read(index)?;
            }
            if self.queue.is_empty() {
                let expired = self.options.timer.is_some_and(|timer| quiet_since.elapsed() >= timer);
                self.pushing |= expired;
                self.push()?;
            } else {
                while let Some((index, page)) = self.queue.pop_front() {
                    self.fault(index, page)?;
                }
                quiet_since = Instant::now();
            }
            self.bury();
        }
    }

    fn left(&self) -> u64 {
        self.spaces.iter().map(Space::left).sum()
    }

    /// Milliseconds that the next poll may wait; -1 for ever.
    fn patience(&self, quiet_since: Instant) -> i32 {
        if self.left() > 0 && (self.pushing || !self.options.prefetch.is_empty()) {
            return 0;
        }
        let Some(timer) = self.options.timer.filter(|_| self.left() > 0) else { return 1000 };
        let left = timer.saturating_sub(quiet_since.elapsed());
        left.as_micros().div_ceil(1000).min(1000) as i32
    }

    fn poll(&self, process: Option<&OwnedFd>, patience: i32) -> Result<Ready, Error> {
        let wanted = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds: Vec<libc::pollfd> = vec![
            wanted(process.map_or(-1, AsRawFd::as_raw_fd)),
            wanted(self.transport.news_fd().unwrap_or(-1)),
        ];
        fds.extend(self.spaces.iter().map(|space| wanted(space.fd())));
        // SAFETY: as many structures as said.
        let rc = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, patience) };
        if rc < 0 {
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(Error::Os { what: "poll".into(), source: error });
            }
            return Ok(Ready { ended: false, news: false });
        }
        Ok(Ready { ended: fds[0].revents != 0, news: fds[1].revents != 0 })
    }

    /// Reads events of one space: faults into the queue, the rest into its books.
    fn read(&mut self, index: usize) -> Result<(), Error> {
        for event in self.spaces[index].uffd().read()? {
            if let Event::Fault { page, .. } = event {
                self.queue.push_back((index, page));
            } else if let Some(child) = self.spaces[index].note(event) {
                self.spaces.push(child);
                self.served.spaces += 1;
            }
        }
        Ok(())
    }

    fn fault(&mut self, index: usize, page: u64) -> Result<(), Error> {
        loop {
            let space = &mut self.spaces[index];
            let original = space.original(page);
            let before = space.left();
            let known = space.has(original);
            let step = if known { space.resolve(page)? } else { self.transport.fault(original, space)? };
            let after = self.spaces[index].left();
            self.served.pages_by_fault += before - after;
            match step {
                Step::Done => {
                    if !known {
                        self.served.faults += 1;
                        self.served.order.push(original);
                        let now = self.start.elapsed().as_secs_f64();
                        self.served.first_fault_s.get_or_insert(now);
                        // Who faulted while the page came by another fault or a push sleeps still.
                        if after == before {
                            let _ = self.spaces[index].resolve(page)?;
                        }
                    }
                    return Ok(());
                }
                Step::Busy => self.read(index)?,
                Step::Gone => return Ok(()),
            }
        }
    }

    /// Installs one grain that nobody asked for: of the recorded order first, in order of addresses once the timer is over.
    fn push(&mut self) -> Result<(), Error> {
        for index in 0..self.spaces.len() {
            let Some((start, bytes)) = self.next_push(index) else { continue };
            let before = self.spaces[index].left();
            let step = self.transport.push(start, bytes, &mut self.spaces[index])?;
            self.served.pages_pushed += before - self.spaces[index].left();
            match step {
                Step::Busy => self.read(index)?,
                Step::Done => {}
                Step::Gone if index > 0 => drop(self.spaces.remove(index)),
                Step::Gone => return Err(Error::TargetLost),
            }
            return Ok(());
        }
        Ok(())
    }

    fn next_push(&mut self, index: usize) -> Option<(u64, u64)> {
        let space = &self.spaces[index];
        while let Some(page) = self.options.prefetch.pop() {
            if space.has(page) {
                continue;
            }
            let mut bytes = PAGE;
            // Neighbours that follow each other in the order go together.
            while bytes < self.options.push && self.options.prefetch.last() == Some(&(page + bytes)) {
                self.options.prefetch.pop();
                bytes += PAGE;
            }
            let vector = space.layout().vectors()[space.layout().find(page)?];
            return Some((page, bytes.min(vector.end() - page)));
        }
        if !self.pushing || space.left() == 0 {
            return None;
        }
        let next = space.next_vector(self.cursor).or_else(|| space.next_vector(0))?;
        self.cursor = next;
        let vector = space.layout().vectors()[next];
        let (start, bytes) = space.missing(vector.start, vector.end())?;
        Some((start, bytes.min(self.options.push.max(PAGE))))
    }

    /// Forgets children that have ended: nothing is left to do for them.
    fn bury(&mut self) {
        if self.spaces.len() > 1 && self.queue.is_empty() {
            let mut index = 0;
            self.spaces.retain(|space| {
                index += 1;
                index == 1 || space.lives()
            });
        }
    }
}

struct Ready {
    ended: bool,
    news: bool,
}

fn pidfd(pid: u32) -> Result<OwnedFd, Error> {
    // SAFETY: system call without pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ESRCH) => Error::TargetLost,
            _ => Error::last("pidfd_open"),
        });
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
