//! Tickets: the place of a committed region in commit order.

/// What a commit returns: the place of a region in its pool's commit order. A ticket is *due* once its region
/// is durable, and with it each region that was committed before. A ticket of another pool, or of an earlier
/// opening, means nothing here; to wait for it does no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket of a region that is durable when its commit returns.
    pub const DUE: Ticket = Ticket(0);

    /// The ticket of that number. 0 is [`Ticket::DUE`].
    #[must_use]
    pub const fn new(number: u64) -> Ticket {
        Ticket(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// [`Engine::is_due`](crate::Engine::is_due), [`Engine::wait`](crate::Engine::wait) and
/// [`Engine::sync`](crate::Engine::sync) of an engine whose regions are durable when they are committed. For
/// use within `impl<E: Env> Engine<E> for …`.
#[macro_export]
macro_rules! due_at_commit {
    ($E:ty) => {
        #[inline(always)]
        fn is_due(&self, _: &$E, _: $crate::Ticket) -> bool {
            true
        }

        #[inline(always)]
        fn wait(&self, _: &$E, _: $crate::Ticket) -> Result<(), $crate::Error> {
            Ok(())
        }

        #[inline(always)]
        fn sync(&self, _: &$E) -> Result<(), $crate::Error> {
            Ok(())
        }
    };
}
