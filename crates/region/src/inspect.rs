//! Pools seen from outside, without the types that are in them.

use space::{Env, Space};

use crate::Error;
use crate::engine::{Atomicity, Engine, MicroBuffer, Recovered, Redo, Shadow, Ssp, Undo, Unprotected};
use crate::header::Header;
use crate::heap::{Heap, Usage};
use crate::pool::{confirm, root_offset};

/// What there is to know of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// What the header says.
    pub header: Header,
    /// The engine's name.
    pub engine: String,
    /// Copies of the header that are damaged, by their offsets, or that a crash left behind. Opening the pool makes them anew.
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

/// Recovers the pool in a space as opening it would, whatever its layout, and tells what it is then. To look without a change, hand in a copy.
///
/// # Errors
/// As [`crate::Pool::open`].
pub fn inspect<E: Env>(env: &E) -> Result<Inspection, Error> {
    let header = Header::read(env.space())?;
    match header.engine {
        <Redo as Atomicity>::NUMBER => inspect_with::<E, Redo>(env, header),
        <Undo as Atomicity>::NUMBER => inspect_with::<E, Undo>(env, header),
        <Unprotected as Atomicity>::NUMBER => inspect_with::<E, Unprotected>(env, header),
        <MicroBuffer as Atomicity>::NUMBER => inspect_with::<E, MicroBuffer>(env, header),
        <Shadow as Atomicity>::NUMBER => inspect_with::<E, Shadow>(env, header),
        <Ssp as Atomicity>::NUMBER => inspect_with::<E, Ssp>(env, header),
        number => Err(Error::UnknownEngine { offset: 12, number }),
    }
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
    fn an_engine_that_nobody_knows_is_told() {
        let space = Image::new(1 << 20);
        let geometry = Geometry::for_size(1 << 20);
        let layout = "a layout".to_owned();
        Header { engine: 77, pool: 1, generation: 1, bytes: 1 << 20, geometry, layout }.write(&space);
        let found = sim::run(space, &Schedule::walk(1), |env| inspect(env).map(|_| ())).result;
        let found = found.unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(found, Err(Error::UnknownEngine { offset: 12, number: 77 }));
    }
}
