//! Pools seen from outside, without the types that are in them.

use space::{Env, Space};

use crate::engine::{Atomicity, Engine, Recovered};
use crate::header::Header;
use crate::heap::{Heap, Usage};
use crate::pool::{confirm, root_offset};
use crate::{Error, for_each_engine};

/// What there is to know of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// What the header says.
    pub header: Header,
    /// The engine's name.
    pub engine: String,
    /// Copies of the header that are damaged, by their offsets, or that a crash left behind. Opening the pool
    /// makes them anew.
    pub damaged_copies: Vec<u64>,
    /// What was found in the logs.
    pub recovered: Recovered,
    /// What of the heap is taken and free.
    pub usage: Usage,
    /// All blocks that somebody has: offset and bytes.
    pub blocks: Vec<(u64, u64)>,
    /// Offset of the root object.
    pub root: u64,
}

/// Recovers the pool in a space as opening it would, whatever its layout, and describes it. To change
/// nothing, hand in a copy.
///
/// # Errors
/// As [`crate::Pool::open`].
pub fn inspect<E: Env>(env: &E) -> Result<Inspection, Error> {
    let header = Header::read(env.space())?;
    type With<E> = fn(&E, Header) -> Result<Inspection, Error>;
    let by_number = for_each_engine!([A => (<A as Atomicity>::NUMBER, inspect_with::<E, A> as With<E>)]);
    let number = header.engine;
    let unknown = Error::UnknownEngine { offset: 12, number };
    let (_, with) = by_number.into_iter().find(|(known, _)| *known == number).ok_or(unknown)?;
    with(env, header)
}

fn inspect_with<E: Env, A: Atomicity>(env: &E, header: Header) -> Result<Inspection, Error> {
    let space: &E::Space = env.space();
    let damaged_copies: Vec<u64> = header.differing(space).collect();
    confirm(space, &header);
    let recovered = A::Engine::<E>::recover(space, &header.logs())?;
    let heap = Heap::open(env, &header)?;
    let root = root_offset(env, &heap)?;
    if !damaged_copies.is_empty() {
        header.write(space);
    }
    debug_assert!(space.len() >= header.bytes);
    Ok(Inspection {
        engine: A::NAME.to_owned(),
        damaged_copies,
        recovered,
        usage: heap.usage(env),
        blocks: heap.blocks(env),
        root,
        header,
    })
}

#[cfg(test)]
mod tests {
    use space::Image;
    use space::sim::{self, Schedule};

    use super::*;
    use crate::Geometry;

    #[test]
    fn an_engine_that_nobody_knows_is_reported() {
        let space = Image::new(1 << 20);
        let geometry = Geometry::for_size(1 << 20);
        let layout = "a layout".to_owned();
        Header { engine: 77, pool: 1, generation: 1, bytes: 1 << 20, geometry, layout }.write(&space);
        let found = sim::run(space, &Schedule::walk(1), |env| inspect(env).map(|_| ())).result;
        let found = found.unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(found, Err(Error::UnknownEngine { offset: 12, number: 77 }));
    }
}
