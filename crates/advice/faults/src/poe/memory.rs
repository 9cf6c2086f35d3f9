//! `Memory`: the shared words of the model, seen by its actors one atomic access at a time.

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use space::{Env, Space};

/// Words that actors share. Each call is one atomic access; between two of them any other actor may run.
///
/// The actors are `async` so that an explorer can stop each of them before every access. On an [`Env`]
/// ([`Over`]) nothing ever waits inside a future, and [`finish`] runs an actor as ordinary code.
pub trait Memory {
    /// The word with index `at`.
    fn load(&self, at: u64) -> impl Future<Output = u64>;
    /// Writes it.
    fn store(&self, at: u64, value: u64) -> impl Future<Output = ()>;
    /// Writes `new` if the word is `old`: `Ok(old)`, else `Err` of what is there.
    fn cas(&self, at: u64, old: u64, new: u64) -> impl Future<Output = Result<u64, u64>>;
    /// Waits until `ready` holds of the word, and gives it.
    fn wait(&self, at: u64, ready: fn(u64) -> bool) -> impl Future<Output = u64>;
    /// Replaces the word by `change` of it, in one locked instruction; gives the old value.
    fn update(&self, at: u64, change: impl Fn(u64) -> u64) -> impl Future<Output = u64>;
    /// Writes a word without a step: part of the access before it, or a note for checks that no actor
    /// reads.
    fn poke(&self, at: u64, value: u64);
    /// The word, without a step: for checks of invariants, never for decisions of an actor.
    fn peek(&self, at: u64) -> u64;
    /// Says that the actor's local state is a function of `label` alone, so that an explorer may merge
    /// states.
    fn label(&self, label: u64);
    /// Reports that an invariant is broken.
    fn fail(&self, what: String);
}

/// The memory of an environment: the same actors on simulated or on real threads.
#[derive(Debug)]
pub struct Over<'a, E>(pub &'a E);

impl<E: Env> Memory for Over<'_, E> {
    fn load(&self, at: u64) -> impl Future<Output = u64> {
        ready(self.0.space().load_u64(8 * at))
    }

    fn store(&self, at: u64, value: u64) -> impl Future<Output = ()> {
        self.0.space().store_u64(8 * at, value);
        ready(())
    }

    fn cas(&self, at: u64, old: u64, new: u64) -> impl Future<Output = Result<u64, u64>> {
        ready(self.0.space().cas_u64(8 * at, old, new))
    }

    fn wait(&self, at: u64, ready: fn(u64) -> bool) -> impl Future<Output = u64> {
        let mut value = self.0.space().load_u64(8 * at);
        while !ready(value) {
            // A failed compare-and-swap lets other simulated threads go on.
            let _ = self.0.space().cas_u64(8 * at, !value, !value);
            value = self.0.space().load_u64(8 * at);
        }
        std::future::ready(value)
    }

    fn update(&self, at: u64, change: impl Fn(u64) -> u64) -> impl Future<Output = u64> {
        let space = self.0.space();
        let mut old = space.load_u64(8 * at);
        while let Err(there) = space.cas_u64(8 * at, old, change(old)) {
            old = there;
        }
        ready(old)
    }

    fn poke(&self, at: u64, value: u64) {
        self.0.space().store_u64(8 * at, value);
    }

    fn peek(&self, at: u64) -> u64 {
        self.0.space().load_u64(8 * at)
    }

    fn label(&self, _: u64) {}

    fn fail(&self, what: String) {
        panic!("{what}");
    }
}

/// Runs an actor on an [`Over`].
///
/// # Panics
/// If a future waits: those of [`Over`] never do.
pub fn finish<T>(actor: impl Future<Output = T>) -> T {
    match pin!(actor).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("memory of an environment answers at once"),
    }
}
