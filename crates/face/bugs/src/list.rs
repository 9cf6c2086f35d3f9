//! A list to which two threads append under a lock: `tail.next = node; tail = node`.

use space::{Env, LINE, Observer, Space};

use super::arena::{Arena, ROOT};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    OneFence,
    Outside,
}

const HEAD: u64 = ROOT;
const TAIL: u64 = ROOT + LINE;
/// Of a node: what it holds, and the next one.
const VALUE: u64 = 0;
const NEXT: u64 = 8;

const THREADS: u32 = 2;
const APPENDS: u64 = 4;

impl Variant {
    /// Appends a node behind `count` others. Returns a link that has to be made durable later.
    fn append<S: Space>(self, arena: &Arena<'_, S>, count: u64) -> Result<Option<u64>, String> {
        let node = arena.allocate(16)?;
        arena.set(node + VALUE, count + 1);
        let link = arena.get(TAIL)? + NEXT;
        arena.space.store_u64(link, node);
        match self {
            Variant::Fixed => arena.space.persist(link, 8),
            Variant::OneFence => arena.space.flush(link, 8),
            Variant::Outside => {}
        }
        arena.set(TAIL, node);
        Ok((self == Variant::Outside).then_some(link))
    }
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), 2 * LINE);
        let first = arena.allocate(16)?;
        arena.put(HEAD, first);
        arena.put(TAIL, first);
        arena.space.fence();
        arena.ready();
        let count = env.mutex(Ok(0));
        env.threads(THREADS, |_| {
            let arena = Arena::over(env.space());
            for _ in 0..APPENDS {
                let mut count = env.lock(&count);
                let Ok(before) = *count else { return };
                arena.space.observer().region_begin(before + 1);
                let late = self.append(&arena, before);
                *count = late.as_ref().map(|_| before + 1).map_err(String::clone);
                drop(count);
                if let Ok(Some(link)) = late {
                    arena.space.persist(link, 8);
                }
                arena.space.observer().region_end(before + 1);
            }
        });
        let result = env.lock(&count).clone();
        result.map(drop)
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        let tail = arena.get(TAIL)?;
        let mut node = arena.get(HEAD)?;
        let (mut count, mut seen) = (0, false);
        loop {
            seen |= node == tail;
            let (value, next) = (arena.get(node + VALUE)?, arena.get(node + NEXT)?);
            if value != count {
                return Err(format!("entry {count} of the list has the value {value}"));
            }
            if next == 0 {
                break;
            }
            (node, count) = (next, count + 1);
        }
        if !seen {
            return Err(format!("the list ends after {count} entries and does not reach its tail"));
        }
        if count < done {
            return Err(format!("the list has {count} entries after {done} operations"));
        }
        arena.set(TAIL, node);
        Ok(())
    }
}
