//! Total store order with the marks of strands lowered to what x86 has: designs that differ in one choice each.
//!
//! | mark | `x86`, `switch` | `non-atomic` |
//! |---|---|---|
//! | persist barrier | store fence | nothing in a region, store fence behind its end |
//! | new strand | nothing | nothing |
//! | join | store fence | store fence |
//!
//! `x86` is the baseline of the strand persistency study (Gogte, thesis, section 5.5): log and update of each store are separated by
//! `sfence`, which also holds back later stores. `non-atomic` leaves that fence out, and keeps those
//! by which a log is cleared behind a region's end (of a program that marks no regions all barriers are taken for the former); nothing it writes can be recovered, and no
//! design that orders log and update should be faster. `switch` is `x86` in front of a CXL switch whose buffer is persistent:
//! a line is durable when the switch has it, and the switch writes it to memory behind that (`Shared::write_from_core`).

use event::{Capabilities, FenceKind, StrandMark};

use super::as_tso::as_tso;
use super::persistency::{Persistency, RegionMark};
use super::tso::Tso;
use crate::Config;
use crate::simulation::{Later, Shared, TimedCore};

/// Total store order in which marks order.
pub(crate) struct Marked {
    tso: Tso,
    /// Whether a persist barrier within a region is a fence.
    barriers: bool,
    /// By core: regions that it is in, once it has been in one.
    depths: Vec<Option<u32>>,
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
        Marked { tso: Tso::new(config), barriers: true, depths: vec![None; config.cores.count as usize] }
    }
}

impl NonAtomic {
    /// The list of designs makes each by this name.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(config: &Config) -> Marked {
        Marked { barriers: false, ..X86::new(config) }
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
    as_tso!(write_slots, leaves_hits_alone, store, flush, fence, publish);

    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS | Capabilities::FENCES
    }

    fn region(
        &mut self,
        core: &mut TimedCore,
        mark: RegionMark,
        _site: u32,
        _: &mut Shared,
    ) -> Result<(), Later> {
        // The program's own flushes and fences make the region durable.
        let depth = self.depths[core.number].get_or_insert(0);
        *depth = match mark {
            RegionMark::Begin(_) => *depth + 1,
            RegionMark::End(_) => depth.saturating_sub(1),
        };
        Ok(())
    }

    fn strand(
        &mut self,
        core: &mut TimedCore,
        mark: StrandMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let fences = match mark {
            StrandMark::Barrier => self.barriers || self.depths[core.number] == Some(0),
            StrandMark::Join => true,
            StrandMark::New => false,
        };
        if fences { self.tso.fence(core, FenceKind::Store, site, shared) } else { Ok(()) }
    }
}
