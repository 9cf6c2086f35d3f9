//! TPCC: New Order, as in `examples/c/sfr/tpcc.c`: a district's lock over the whole order, an item's for each
//! of its lines.

use sfr::{Error, Thread};
use space::Env;

use super::program::{Locks, Program, mix, payload};
use crate::pattern::Draw;

/// The benchmark.
pub(super) struct Orders<E: Env> {
    /// Those of districts, then those of items.
    locks: Locks<E>,
    warehouses: u64,
    stores: u64,
}

const WAREHOUSES: u64 = 4;
const DISTRICTS: u64 = 10;
const ITEMS: u64 = 1000;
const LINES_MAX: u64 = 15;
const DISTRICT: u64 = 64;
const STOCK: u64 = 24;
const WAREHOUSE: u64 = DISTRICTS * DISTRICT + ITEMS * STOCK;
/// An order: the one before, its number, customer, lines, lines filled.
const ORDER: u64 = 40;

impl<E: Env> Program<E> for Orders<E> {
    fn setup(thread: &mut Thread<'_, '_, E>, _: u64) -> Result<u64, Error> {
        let warehouses = thread.zalloc(WAREHOUSES * WAREHOUSE)?;
        for warehouse in 0..WAREHOUSES {
            let at = warehouses + warehouse * WAREHOUSE;
            (0..DISTRICTS).for_each(|district| thread.store_u64(at + district * DISTRICT, 1));
            let stock = at + DISTRICTS * DISTRICT;
            (0..ITEMS).for_each(|item| thread.store_u64(stock + item * STOCK, 10 + mix(item) % 91));
        }
        Ok(warehouses)
    }

    fn start(env: &E, root: u64, stores: u64) -> Self {
        Orders { locks: Locks::new(env, WAREHOUSES * (DISTRICTS + ITEMS)), warehouses: root, stores }
    }

    fn operate(&self, env: &E, thread: &mut Thread<'_, '_, E>, draw: &mut Draw) -> Result<(), Error> {
        let (warehouse, district) = (draw.below(WAREHOUSES), draw.below(DISTRICTS));
        let lines = 5 + draw.below(LINES_MAX - 4);
        let at = self.warehouses + warehouse * WAREHOUSE;
        let district_at = at + district * DISTRICT;
        let line_bytes = 24 + self.stores * 8;
        let held = self.locks.take(env, thread, warehouse * DISTRICTS + district);
        let order = thread.alloc(ORDER + lines * line_bytes)?;
        let (number, before) = (thread.load_u64(district_at), thread.load_u64(district_at + 8));
        for (word, value) in [before, number, draw.below(3000), lines, 0].into_iter().enumerate() {
            thread.store_u64(order + word as u64 * 8, value);
        }
        thread.store_u64(district_at, number + 1);
        thread.store_u64(district_at + 8, order);
        for line in 0..lines {
            let (item, quantity) = (draw.below(ITEMS), 1 + draw.below(10));
            let stock = at + DISTRICTS * DISTRICT + item * STOCK;
            let line_at = order + ORDER + line * line_bytes;
            let of = self.locks.take(env, thread, WAREHOUSES * DISTRICTS + warehouse * ITEMS + item);
            let left = thread.load_u64(stock);
            thread
                .store_u64(stock, if left >= quantity + 10 { left - quantity } else { left + 91 - quantity });
            let (sold, count) = (thread.load_u64(stock + 8), thread.load_u64(stock + 16));
            thread.store_u64(stock + 8, sold + quantity);
            thread.store_u64(stock + 16, count + 1);
            thread.store_u64(line_at, item);
            thread.store_u64(line_at + 8, quantity);
            thread.store_u64(line_at + 16, quantity * (100 + mix(item) % 9901));
            payload(thread, line_at + 24, self.stores, item, number);
            thread.store_u64(order + 32, line + 1);
            of.give(thread);
        }
        held.give(thread);
        Ok(())
    }
}
