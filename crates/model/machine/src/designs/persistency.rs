//! The seam between the machine and a persistency design.

use event::{Capabilities, FenceKind, FlushKind, StrandMark};

use crate::simulation::{Later, Shared, TimedCore};

/// What a core does so that its stores become visible and durable in the order that a persistency model promises.
///
/// One object serves all cores of a machine; [`TimedCore::number`] says which one executes. A design decides *when* a store
/// commits, *which* lines are written back and *what* stalls. The mechanisms (window, store queue, caches, write-back
/// queue) are the core's; `docs/new-design.md` lists them.
///
/// # Order of time
///
/// A hook that asks for something that cores share asks in the order of time: [`TimedCore::turn`] and what calls it
/// returns [`Later`] while another core is behind. The hook passes that on with `?` and is called again for the same
/// event. So a hook changes its own state only behind its last `?`, or so that a second call finds it done.
pub(crate) trait Persistency: Send {
    /// What of a stream the design can't do without, beside loads and stores. A source that lacks it is refused by name.
    fn needs(&self) -> Capabilities;

    /// Lines that a core may have on their way to memory because it flushed them or stored them.
    fn write_slots(&self) -> u32;

    /// Queues by which a core's lines leave beside each other, and the entries of each, if there is more than one queue.
    fn lanes(&self) -> Option<(usize, usize)> {
        None
    }

    /// Whether loads and stores that hit the L1 need no hook: a store goes to the store queue and no further. The machine
    /// then carries out runs of hits without a call.
    fn leaves_hits_alone(&self) -> bool;

    /// Whether [`Persistency::notice`] is to be called.
    fn wants_notices(&self) -> bool {
        false
    }

    /// A load of (a part of) `line`.
    fn load(&mut self, core: &mut TimedCore, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        core.load(line, site, shared)
    }

    /// A store to the `bytes` (a mask) of `line`.
    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later>;

    /// A non-temporal store to the `bytes` (a mask) of `line`.
    fn store_nt(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        core.store_nt(line, bytes, site, shared)
    }

    /// A flush of `line`. Where caches are durable (eADR), flushes do nothing and this is not called.
    fn flush(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        kind: FlushKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later>;

    /// A demotion of `line` by the program.
    fn demote(&mut self, core: &mut TimedCore, line: u64, shared: &mut Shared) -> Result<(), Later> {
        core.demote(line, shared)
    }

    /// A fence.
    fn fence(
        &mut self,
        core: &mut TimedCore,
        kind: FenceKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later>;

    /// `line` has to become visible to other cores, if the core keeps stores to it private.
    fn publish(&mut self, core: &mut TimedCore, line: u64, shared: &mut Shared) -> Result<(), Later>;

    /// All stores have to become visible: a release, an unlock, a thread's start or end follows.
    fn publish_all(&mut self, core: &mut TimedCore, shared: &mut Shared) -> Result<(), Later>;

    /// The program marks a failure-atomic region.
    fn region(
        &mut self,
        core: &mut TimedCore,
        mark: RegionMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later>;

    /// The program marks a strand.
    fn strand(
        &mut self,
        core: &mut TimedCore,
        mark: StrandMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later>;

    /// An eviction or a snoop that the event at hand caused; `core` is the one that executes it. Called after the event's
    /// hook. It may stall the core and queue write-backs; it asks for nothing shared.
    fn notice(&mut self, core: &mut TimedCore, notice: Notice, shared: &mut Shared) {
        let _ = (core, notice, shared);
    }
}

/// A mark of a failure-atomic region, with the region's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionMark {
    Begin(u64),
    End(u64),
}

/// Something that happened to a line because of a core's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The line left the private caches of the core on which `thread` runs, towards the LLC.
    LeftCore { line: u64, thread: u32, dirty: bool },
    /// The LLC evicted the line, dirty; it left at `at`. `thread` stored to it last.
    LeftCaches { line: u64, thread: u32, at: crate::Time },
    /// The core of number `by` asked for the line beyond its own caches, for itself alone if `own`. Every other core can
    /// see that.
    Snooped { line: u64, by: usize, own: bool },
}
