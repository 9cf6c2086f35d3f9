//! The memory side: everything below the last-level cache, with time.
//!
//! A request for a line comes with the time at which it leaves the caches, and gets the time of its completion at once. On the way it
//! takes what it needs, for as long as it needs it:
//!
//! ```text
//!   read   way to the channel ─ crowd ─ entry of the DIMM's read queue ─ device ─ way back
//!   write  thread's own order ─ credit ─ entry of the DIMM's write queue ┄ device, when its turn comes
//!          (a line that the last-level cache evicts has neither: only the entry)
//! ```
//!
//! A write is done when the write queue has accepted it: from there it reaches the device even if power fails (ADR). The
//! queue hands lines to the device one after the other. While a line waits to be accepted, its thread's later lines
//! wait behind it, whichever DIMM they are for: so one slow DIMM holds up a thread's traffic to all.

mod channel;
mod crowd;
mod figures;
mod histogram;

pub use figures::{AdrEstimate, MemoryTiming, Occupancy};
pub use histogram::Histogram;

use device::{Direction, Rng};

use crate::config::{Config, ConfigError};
use crate::interleave::{Interleave, PERSISTENT};
use crate::link::Interconnect;
use crate::{Stall, Time, Traffic};

use channel::Channel;
pub use channel::NO_THREAD;

/// Who wants which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the line (address / 64), with [`PERSISTENT`](crate::PERSISTENT) if it is of persistent memory.
    pub line: u64,
    /// The simulated thread, or [`NO_THREAD`].
    pub thread: u32,
    /// The core that it runs on.
    pub core: u32,
}

/// Controllers and DIMMs of both memories.
#[derive(Debug)]
pub struct MemorySide {
    /// Other memory, then persistent memory.
    memories: [Memory; 2],
    sockets: Interconnect,
}

#[derive(Debug)]
struct Memory {
    interleave: Interleave,
    channels: Vec<Channel>,
    /// By thread: when the last of its writes was accepted.
    accepted: Vec<Time>,
    behind_own: Stall,
    /// The end of everything so far.
    horizon: Time,
}

impl MemorySide {
    /// An idle memory side.
    ///
    /// # Errors
    /// If the description has no timing, by the name of the missing table.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let memory = |number: u64| {
            let persistent = number == 1;
            let ((controller, device), (queues, timing)) =
                (config.side(persistent), config.side_timing(persistent)?);
            let channel = |dimm| {
                let seed = config.seed ^ (1 << 40 | number << 32 | u64::from(dimm));
                Channel::new(queues, device::build(device, timing, seed), Rng::part(seed, 1))
            };
            Ok(Memory {
                interleave: Interleave::new(controller),
                channels: (0..controller.dimms).map(channel).collect(),
                accepted: Vec::new(),
                behind_own: Stall::default(),
                horizon: Time::ZERO,
            })
        };
        Ok(MemorySide { memories: [memory(0)?, memory(1)?], sockets: Interconnect::new(config) })
    }

    /// A line that no cache has. Returns when it has come to the last-level cache.
    pub fn read(&mut self, at: Time, request: Request) -> Time {
        let at = self.sockets.request(request.core, at, Direction::Read);
        let memory = self.memory(request.line);
        let (dimm, local) = memory.interleave.place(request.line & !PERSISTENT);
        let done = memory.channels[dimm].read(at, local);
        memory.horizon = memory.horizon.max(done);
        self.sockets.response(request.core, done, Direction::Read)
    }

    /// A core is about to write to a line that is not its own alone. Returns when the directory has given it leave, if the line's
    /// device keeps the directory; if not, the caches settle that among themselves. A device with a directory is near all
    /// sockets: links are not crossed.
    pub fn own(&mut self, at: Time, request: Request) -> Option<Time> {
        let memory = self.memory(request.line);
        let (dimm, local) = memory.interleave.place(request.line & !PERSISTENT);
        memory.channels[dimm].own(at, local)
    }

    /// A core is about to write a line that is in none of its caches. Returns when it knows that the caches of the memory's
    /// socket don't have it.
    pub fn ask(&mut self, at: Time, core: u32) -> Time {
        self.sockets.ask(core, at)
    }

    /// A line that leaves the caches or a combining buffer, new in all of its bytes or (`whole` is false) in a part. Returns
    /// when the write queue has accepted it; under ADR it is durable from then on.
    pub fn write(&mut self, at: Time, request: Request, whole: bool) -> Time {
        let at = self.sockets.request(request.core, at, Direction::Write);
        let memory = self.memory(request.line);
        let (dimm, local) = memory.interleave.place(request.line & !PERSISTENT);
        let ready = at + memory.channels[dimm].write_accept();
        let thread = (request.thread != NO_THREAD).then_some(request.thread as usize);
        let mut in_line = ready;
        if let Some(thread) = thread {
            if memory.accepted.len() <= thread {
                memory.accepted.resize(thread + 1, Time::ZERO);
            }
            in_line = ready.max(memory.accepted[thread]);
            memory.behind_own.waited(ready, in_line);
        }
        let done = memory.channels[dimm].write(in_line, local, request.thread, whole);
        memory.channels[dimm].write_latency.record(done - at);
        if let Some(thread) = thread {
            memory.accepted[thread] = done;
        }
        memory.horizon = memory.horizon.max(done);
        self.sockets.response(request.core, done, Direction::Write)
    }

    /// How long a line that the last-level cache evicted at `at` would wait for an entry of its DIMM's write queue.
    pub(crate) fn wait(&mut self, at: Time, line: u64) -> Time {
        let memory = self.memory(line);
        let (dimm, _) = memory.interleave.place(line & !PERSISTENT);
        let channel = &mut memory.channels[dimm];
        let arrived = at + channel.write_accept();
        channel.wait(arrived)
    }

    /// Does what is due by `at` without anybody asking.
    pub fn advance_to(&mut self, at: Time) {
        self.channels().for_each(|channel| channel.advance_to(at));
        self.memories.iter_mut().for_each(|memory| memory.horizon = memory.horizon.max(at));
    }

    /// Writes everything to the media that waits in queues and in the devices. Returns when that is done.
    pub fn drain(&mut self, at: Time) -> Time {
        let done = self.channels().map(|channel| channel.drain(at)).max().unwrap_or(at);
        self.memories.iter_mut().for_each(|memory| memory.horizon = memory.horizon.max(done));
        done
    }

    /// Everything measured so far: other memory, then persistent memory.
    #[must_use]
    pub fn figures(&self) -> [MemoryTiming; 2] {
        self.memories.each_ref().map(Memory::figures)
    }

    /// Bytes moved so far: other memory, then persistent memory.
    #[must_use]
    pub fn traffic(&self) -> [Traffic; 2] {
        self.memories.each_ref().map(|memory| {
            let mut total = Traffic::default();
            memory.channels.iter().for_each(|channel| total.add(&channel.traffic()));
            total
        })
    }

    fn memory(&mut self, line: u64) -> &mut Memory {
        &mut self.memories[usize::from(line & PERSISTENT != 0)]
    }

    fn channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.memories.iter_mut().flat_map(|memory| &mut memory.channels)
    }
}

impl Memory {
    fn figures(&self) -> MemoryTiming {
        let mut figures = MemoryTiming { behind_own: self.behind_own, ..MemoryTiming::default() };
        for channel in &self.channels {
            channel.add_to(&mut figures, self.horizon);
        }
        figures
    }
}
