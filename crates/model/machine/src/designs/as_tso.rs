//! Hooks that a design leaves to the total store order inside it.

/// `as_tso!(write_slots, flush, fence, publish)` in a design's `impl Persistency`: these hooks are those of its field `tso`. `publish` stands
/// for both hooks of that name; `region` and `strand` are then marks that do nothing. What a design neither writes nor names here does
/// not compile, so that no hook is forgotten.
macro_rules! as_tso {
    (@ write_slots) => {
        fn write_slots(&self) -> u32 {
            self.tso.write_slots()
        }
    };
    (@ leaves_hits_alone) => {
        fn leaves_hits_alone(&self) -> bool {
            self.tso.leaves_hits_alone()
        }
    };
    (@ store) => {
        fn store(
            &mut self,
            core: &mut $crate::simulation::TimedCore,
            line: u64,
            bytes: u64,
            site: u32,
            shared: &mut $crate::simulation::Shared,
        ) -> Result<(), $crate::simulation::Later> {
            self.tso.store(core, line, bytes, site, shared)
        }
    };
    (@ flush) => {
        fn flush(
            &mut self,
            core: &mut $crate::simulation::TimedCore,
            line: u64,
            kind: event::FlushKind,
            site: u32,
            shared: &mut $crate::simulation::Shared,
        ) -> Result<(), $crate::simulation::Later> {
            self.tso.flush(core, line, kind, site, shared)
        }
    };
    (@ fence) => {
        fn fence(
            &mut self,
            core: &mut $crate::simulation::TimedCore,
            kind: event::FenceKind,
            site: u32,
            shared: &mut $crate::simulation::Shared,
        ) -> Result<(), $crate::simulation::Later> {
            self.tso.fence(core, kind, site, shared)
        }
    };
    (@ publish) => {
        fn publish(
            &mut self,
            core: &mut $crate::simulation::TimedCore,
            line: u64,
            shared: &mut $crate::simulation::Shared,
        ) -> Result<(), $crate::simulation::Later> {
            self.tso.publish(core, line, shared)
        }

        fn publish_all(
            &mut self,
            core: &mut $crate::simulation::TimedCore,
            shared: &mut $crate::simulation::Shared,
        ) -> Result<(), $crate::simulation::Later> {
            self.tso.publish_all(core, shared)
        }
    };
    (@ region) => {
        fn region(
            &mut self,
            core: &mut $crate::simulation::TimedCore,
            mark: $crate::designs::RegionMark,
            site: u32,
            shared: &mut $crate::simulation::Shared,
        ) -> Result<(), $crate::simulation::Later> {
            self.tso.region(core, mark, site, shared)
        }
    };
    (@ strand) => {
        fn strand(
            &mut self,
            core: &mut $crate::simulation::TimedCore,
            mark: event::StrandMark,
            site: u32,
            shared: &mut $crate::simulation::Shared,
        ) -> Result<(), $crate::simulation::Later> {
            self.tso.strand(core, mark, site, shared)
        }
    };
    ($($hook:ident),+ $(,)?) => {
        $($crate::designs::as_tso::as_tso!(@ $hook);)+
    };
}

pub(crate) use as_tso;
