//! Total store order with the marks of strands lowered to what x86 has: designs that differ in one choice each.
//!
//! | mark | `x86`, `switch` | `non-atomic` |
//! |---|---|---|
//! | persist barrier | store fence | nothing |
//! | new strand | nothing | nothing |
//! | join | store fence | store fence |
//!
//! `x86` is the baseline of the strand persistency study (Gogte, thesis, section 5.5): log and update of each store are separated by
//! `sfence`, which also holds back later stores. `non-atomic` leaves that fence out; nothing it writes can be recovered, and no
//! design that orders log and update should be faster. `switch` is `x86` in front of a CXL switch whose buffer is persistent:
//! a line is durable when the switch has it, and the switch writes it to memory behind that (`Shared::write_from_core`).

use event::{Capabilities, FenceKind, FlushKind, StrandMark};

use super::persistency::{Persistency, RegionMark};
use super::tso::Tso;
use crate::Config;
use crate::simulation::{Later, Shared, TimedCore};

/// Total store order in which marks order.
pub(crate) struct Marked {
    tso: Tso,
    /// Whether a persist barrier is a fence.
    barriers: bool,
}

/// The design `x86`.
pub(crate) struct X86;
/// The design `non-atomic`.
pub(crate) struct NonAtomic;
/// The design `switch`.
pub(crate) struct Switch;

impl X86 {
    /// The list of designs makes each by this name.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(config: &Config) -> Marked {
        Marked { tso: Tso::new(config), barriers: true }
    }
}

impl NonAtomic {
    /// The list of designs makes each by this name.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(config: &Config) -> Marked {
        Marked { tso: Tso::new(config), barriers: false }
    }
}

impl Switch {
    /// The list of designs makes each by this name.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(config: &Config) -> Marked {
        X86::new(config)
    }
}

impl Persistency for Marked {
    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS | Capabilities::FENCES
    }

    fn write_slots(&self) -> u32 {
        self.tso.write_slots()
    }

    fn leaves_hits_alone(&self) -> bool {
        true
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.tso.store(core, line, bytes, site, shared)
    }

    fn flush(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        kind: FlushKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.tso.flush(core, line, kind, site, shared)
    }

    fn fence(
        &mut self,
        core: &mut TimedCore,
        kind: FenceKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.tso.fence(core, kind, site, shared)
    }

    fn publish(&mut self, _: &mut TimedCore, _line: u64, _: &mut Shared) -> Result<(), Later> {
        // Stores become visible by themselves.
        Ok(())
    }

    fn publish_all(&mut self, _: &mut TimedCore, _: &mut Shared) -> Result<(), Later> {
        Ok(())
    }

    fn region(
        &mut self,
        _: &mut TimedCore,
        mark: RegionMark,
        _site: u32,
        _: &mut Shared,
    ) -> Result<(), Later> {
        match mark {
            // The program's own flushes and fences make the region durable.
            RegionMark::Begin(_) | RegionMark::End(_) => Ok(()),
        }
    }

    fn strand(
        &mut self,
        core: &mut TimedCore,
        mark: StrandMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let fences = match mark {
            StrandMark::Barrier => self.barriers,
            StrandMark::Join => true,
            StrandMark::New => false,
        };
        if fences { self.tso.fence(core, FenceKind::Store, site, shared) } else { Ok(()) }
    }
}
