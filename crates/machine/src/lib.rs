//! The modelled machine: cores, caches, controllers, devices.
//!
//! A [`Machine`] is a [`Sink`](event::Sink): it is built from a [`Config`], eats the events of a program and
//! tells in [`Figures`] where the bytes went: cache hits, what each memory read and wrote, how much of that its
//! media had to read and write again, and which lines of source are to blame.
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
//! takes it down: a line that needs its place, a flush, another core. So the order in which lines reach
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
//! # What is not modelled
//!
//! Time. Batches of different threads run in the order in which they come, and nothing takes longer than anything
//! else. What depends on time alone is therefore absent: queues at the controller, the device's lazy
//! draining (by which a rewritten unit can absorb several rewrites), stalls. Nor are there prefetchers, a TLB,
//! instruction fetches, physical page placement (addresses are used as they are) or NUMA. A partial line that meets
//! another partial line in the device's buffer still counts as partial, even if the two make a whole.
//!
//! # Another machine, another device
//!
//! A machine is a TOML file; start from a copy of one of the presets ([`Config::preset_text`]). A device is
//! its unit and its buffer: one without combining has no `[device.buffer]`, one with larger units or another
//! buffer has other numbers there. A device with a *mechanism* of its own goes into `dimm.rs`, behind `read`
//! and `write` of a line, and gets its keys in `config.rs`; it counts its [`Traffic`], shares each media
//! write among the sites, and states its `balances`. A replacement policy goes into `replacement.rs`, behind
//! `touch` and `victim`, and serves caches and buffers alike.
//!
//! # Speed
//!
//! Nearly every event of a real program hits in the L1, so [`Machine`] has one loop for just that case: a table
//! of hints names the way where the line was last, one comparison confirms it, and counters and
//! replacement state are a handful of stores. No hashing, no allocation, no coherence: who else has a line is
//! asked on an L2 miss or a store to a shared line. Searches compare a byte per way, eight at a time.
//!
//! A modelled miss costs what the computer's own cache misses cost: the LLC's slots are far larger than its near
//! caches. So a slot is 16 bytes, and before a run of misses one pass reads the places that all of them are going to
//! need, so that these reads overlap (`lookahead.rs`). It changes no figure.
#![forbid(unsafe_code)]

mod audit;
mod cache;
mod combining;
mod config;
mod core;
pub mod device;
mod dimm;
mod divisor;
mod figures;
mod hierarchy;
mod link;
mod lookahead;
mod machine;
mod memory;
mod memory_side;
mod program;
mod ranges;
mod replacement;
mod simulation;
mod size;
mod time;
mod timeline;

pub use audit::AuditError;
pub use config::{
    Buffer, CacheLevel, Config, ConfigError, Controller, ControllerTiming, Cores, Device, LINE_BYTES,
    Ordering, OtherMemory, Persistence, Pipeline, Prefetch, Replacement, Sockets, WriteOut,
};
pub use device::{DeviceCounters, DeviceTiming};
pub use figures::{CacheFigures, Figures, MemoryFigures, SiteFigures, SiteMemory, Slice, Traffic};
pub use link::LinkTiming;
pub use machine::Machine;
pub use memory::PERSISTENT;
pub use memory_side::{AdrEstimate, Histogram, MemorySide, MemoryTiming, Occupancy, Request, Stall};
pub use program::{Next, Program};
pub use simulation::{Phase, Simulation, Span, Stalls, ThreadTiming, TimedFigures, TimedSlice};
pub use size::{Size, SizeError};
pub use time::{Time, TimeError};
