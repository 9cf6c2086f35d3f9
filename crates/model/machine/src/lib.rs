//! The modelled machine: cores, caches, controllers, devices; counting bytes ([`Machine`]) or with time
//! ([`Simulation`]).
//!
//! A [`Machine`] is a [`Sink`](event::Sink): it is built from a [`Config`] and consumes the events of a
//! program. Its [`Figures`] say where the bytes went: cache hits, what each memory read and wrote, how much of that its
//! media read and wrote again, and which lines of source caused it.
//!
//! ```
//! use event::{Batch, Event, Op, Sink, SiteId, ThreadId};
//! use machine::{Config, Machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut machine = Machine::new(&Config::preset("xpoint")?)?;
//! // Two lines, each alone in its 256 B unit.
//! let store = |addr| Event { op: Op::StoreNt { addr, len: 64 }, site: SiteId(1), instructions: 1 };
//! let events = [store(0), store(4096)];
//! machine.push(Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] })?;
//! machine.finish()?;
//! machine.drain();
//! assert_eq!(machine.figures().volatile.total.ewr(), Some(0.25));
//! # Ok(())
//! # }
//! ```
//!
//! # What happens to a store
//!
//! ```text
//!   core 0                core 1 …            thread t runs on core t % count
//!   ┌────────┬─────────┐
//!   │   L1   │combining│                      64 B buffers for non-temporal stores
//!   │   L2   │ buffers │                      the L2 holds every line of its L1
//!   └───┬────┴────┬────┘
//!   ┌───┴───┐     │                           takes what the L2s push out
//!   │  LLC  │     │
//!   └───┬───┘     │
//!   ┌───┴─────────┴────┐
//!   │    controller    │                      interleaves addresses over the DIMMs
//!   └───┬──────────┬───┘
//!    DIMM 0 …   DIMM n                        buffer of units in front of the media
//! ```
//!
//! An ordinary store needs its line in the L1: the line comes from the L2, the LLC, another
//! core or memory (write-allocate), is made exclusive, and becomes dirty. It stays so until something
//! takes it down: a line that needs its slot, a flush, another core. So the order in which lines reach
//! memory is not the order in which the program stored, and this is all there is behind the
//! worst numbers of persistent memory: the device's buffer waits for the other lines of a unit, and they
//! are evicted much later. A flush after each line keeps the order; a non-temporal store takes a way around the
//! caches.
//!
//! The device reads and writes *units*. Lines that arrive are combined in its buffer; what it writes, and what
//! it must read first because a part was missing, is counted when it happens. **Write amplification and
//! effective write ratio are ratios of these counts and nowhere an input.**
//!
//! Each dirty line remembers the code site that stored to it last. When the media writes a unit, its cost is
//! shared among the sites whose lines were new in it.
//!
//! Persistent ranges are what the program maps ([`Op::Map`](event::Op::Map)); they lie on their own set of
//! DIMMs, of the same kind as those of all other memory. A line's number says which of the two it is of.
//!
//! # Books that balance
//!
//! Every component counts what comes in, what goes out and what it holds, and
//! [`Machine::audit`] checks that these agree, from the single L1 to the sum over all sites. Tests
//! audit after every event, debug builds at the end of each stream. The end of a stream writes nothing back:
//! what a program left in the caches is reported as held. [`Machine::drain`] writes it back.
//!
//! # Time
//!
//! A [`Simulation`] is the same machine with time: the same caches hold the same lines, and each access also takes what
//! it needs of pipelines, queues and devices, for as long as it needs it. It needs `[memory.timing]` and
//! `[device.timing]`; all other keys of time have defaults. It is a [`Sink`](event::Sink), too, and runs [`Program`]s,
//! threads that produce their next events, given the time, when the ones before have been carried out.
//!
//! ```
//! use event::{Event, FenceKind, Op, SiteId, ThreadId};
//! use machine::{Config, Next, Program, Simulation, Time};
//!
//! /// Loads a far line and waits for it, so many times.
//! struct Loads(u64);
//!
//! impl Program for Loads {
//!     fn next(&mut self, _now: Time, events: &mut Vec<Event>) -> Next {
//!         self.0 -= 1;
//!         for op in [Op::Load { addr: self.0 << 20, len: 8 }, Op::Fence(FenceKind::Full)] {
//!             events.push(Event { op, site: SiteId(1), instructions: 1 });
//!         }
//!         if self.0 == 0 { Next::Done } else { Next::Run }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut simulation = Simulation::new(&Config::preset("dram")?)?;
//! simulation.run(vec![(ThreadId(0), Box::new(Loads(100)))])?;
//! let figures = simulation.figures();
//! assert_eq!(figures.caches[2].misses, 100);
//! assert!((60.0..150.0).contains(&(figures.elapsed.ns() / 100.0)));
//! # Ok(())
//! # }
//! ```
//!
//! The head of `simulation/mod.rs` says how it works, `memory_side` the way below the LLC, devices in crate
//! [`device`].
//!
//! # What is not modelled
//!
//! By [`Machine`]: time. Batches of different threads run in the order in which they come, and what depends on time
//! alone is absent: queues at the controller (an LLC that goes by them, `queue-aware`, replaces at random), the device's lazy draining (by which a rewritten unit can absorb several
//! rewrites), stalls. A partial line that meets another partial line in the device's buffer still counts as partial,
//! even if the two make a whole.
//!
//! By [`Simulation`]:
//!
//! - *Which instruction needs which result.* A trace has no registers. Loads overlap as far as window, load queue and
//!   fill buffers allow, so a program that follows pointers runs too fast. `cores.pipeline.dependent_loads` makes a share
//!   of the load misses wait for the one before; it is the user's knowledge, not the model's guess. Arithmetic takes no
//!   longer than the issue width says.
//! - *Wrong paths*: no branch prediction, no instruction fetches.
//! - *Page placement*: addresses are used as they are. A TLB, page walks and page faults are modelled where the description has
//!   `[tlb]` (`simulation/walk.rs`); without it they cost nothing.
//! - *Bandwidth between cores and LLC*, ports of the L1, banks of the LLC: only latencies and miss registers. Nor does a
//!   core pay for lines that others take away from it.
//! - *How a first cache that is written through keeps its lines*: `cores.pipeline.visible_in_llc` says when a store is visible, but what
//!   was stored still has its slot in the L1, which its core's loads find there. Nor does a private buffer empty itself after
//!   a time, or distinguish the bytes of a line that were stored.
//! - *The states that a directory on a device knows*: it is asked by a store that finds its line in no cache, before the line is read,
//!   and by one to a line that several cores have. A line that was read by a core alone is taken to be that core's.
//! - *Time that a program spent elsewhere*: a sleep, a system call or a wait for input in a recorded run takes no time.
//!   The recorded clock is of another machine and is not used.
//! - *Another outcome of a race*: in a recorded run, threads meet in the recorded order at each lock and variable,
//!   however fast they come.
//!
//! - *Whatever else* a real LLC holds besides a program's data, and page tables without `[tlb]`: sets are in step more than they would be.
//! - *The LLC's real policy*, which is unpublished: `queue-aware` is true LRU while write queues have room.
//!
//! In both: one LLC for all cores and sockets.
//!
//! # Another machine, another device
//!
//! A machine is a TOML file; start from a copy of one of the presets ([`Config::preset_text`]). Where only bytes are
//! counted, a device is its unit and its buffer: one without combining has no `[device.buffer]`, one with larger units or another
//! buffer has other numbers there. A device with a *mechanism* of its own and with time is an implementation of
//! [`device::Device`]; `docs/new-device.md` says step by step how to add one. What a core does at stores, flushes, fences and
//! marks is a persistency design ([`Design`]); `docs/new-design.md` says how to add one. A replacement policy goes into
//! `replacement.rs` of crate `device` and serves caches and buffers alike.
//!
//! # Speed
//!
//! Nearly every event of a real program hits in the L1, so [`Machine`] has one loop for just that case: a table
//! of hints names the way where the line was last, one comparison confirms it, and counters and
//! replacement state are a handful of stores. No hashing, no allocation, no coherence: who else has a line is
//! asked on an L2 miss or a store to a shared line. Searches compare a byte per way, eight at a time.
//!
//! A modelled miss costs what the computer's own cache misses cost: the LLC's slots are far larger than its near
//! caches. So a slot is 16 bytes, and before several misses one pass reads the addresses that all of them are going to
//! need, so that these reads overlap (`lookahead.rs`). It changes no figure.
//!
//! With time, an L1 hit costs a few additions more, and a miss what its device's bookkeeping costs: `docs/performance.md`.
#![forbid(unsafe_code)]

mod audit;
mod below;
mod blocks;
mod cache;
mod combining;
mod config;
mod core;
mod designs;
mod figures;
mod hierarchy;
mod interleave;
mod link;
mod lookahead;
mod machine;
mod memory;
mod memory_side;
mod program;
mod ranges;
mod simulation;
mod slices;
mod tallies;
mod timeline;

pub use audit::AuditError;
pub use config::{
    CacheLevel, Config, ConfigError, Controller, ControllerTiming, Cores, Eager, HardwarePrestores, Offload,
    OtherMemory, PageFaults, Pipeline, Prefetch, Sockets, Tlb, TlbLevel,
};
pub use designs::Design;
/// What a [`Config`] and figures have of devices.
pub use device::{
    Buffer, DeviceConfig, DeviceCounters, DeviceTiming, LINE_BYTES, LinkTiming, Replacement, Size, SizeError,
    Stall, Time, TimeError, Traffic, WriteOut,
};
pub use figures::{CacheFigures, Figures, MemoryFigures, SiteFigures, SiteMemory, Slice};
pub use interleave::PERSISTENT;
pub use machine::Machine;
pub use memory::WriteLog;
pub use memory_side::{AdrEstimate, Histogram, MemorySide, MemoryTiming, NO_THREAD, Occupancy, Request};
pub use program::{Next, Program};
pub use simulation::{
    Awaited, Persist, PersistencyFigures, Phase, Simulation, Span, Stalls, ThreadTiming, TimedFigures,
    TimedSlice, TranslationFigures,
};
