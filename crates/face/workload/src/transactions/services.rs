//! What applications of the sources do in a transaction: orders, rows, cached items, reservations, a queue.
//!
//! Smaller than the applications, with their writes: what is read to find the place, and which words a transaction changes.

use region::{Atomicity, Error, Layout, Ptr, Tx};
use space::Env;

use super::structure::{Structure, scatter};

/// A queue in a list: half of the operations append, half take.
pub struct Queue;

region::persistent! { Queue:
    /// An element.
    pub struct Element { value: u64, next: Ptr<Element, Queue> }
}

impl Layout for Queue {
    const NAME: &'static str = "queue";
    /// First and last.
    type Root = [Ptr<Element, Queue>; 2];
}

impl Structure for Queue {
    const TITLE: &'static str = "Queue";
    const KEYS: u64 = 1 << 12;
    const FILLED: bool = true;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        let [first, last] = [0, 1].map(|at| tx.root().element(at));
        let head = tx.get(first);
        // While it is filled, keys come with their numbers; all of these are appended.
        if random.is_multiple_of(2) && !head.is_null() && random > Self::KEYS {
            let next = tx.get(Element::next(head));
            tx.set(first, next)?;
            if next.is_null() {
                tx.set(last, next)?;
            }
            return tx.free(head);
        }
        let at = tx.alloc(Element { value: key, next: Ptr::NULL })?;
        match tx.get(last).get() {
            Some(tail) => tx.set(Element::next(tail), at)?,
            None => tx.set(first, at)?,
        }
        tx.set(last, at)
    }
}

/// Buckets of the map, and entries of each.
const BUCKETS: usize = 1 << 15;
const WAYS: usize = 4;

/// A hash map of words with open buckets: half of the operations read, half update in place.
pub struct HashMap;

impl Layout for HashMap {
    const NAME: &'static str = "hashmap";
    /// Keys and values, bucket by bucket.
    type Root = [[u64; 2 * WAYS]; BUCKETS];
}

impl Structure for HashMap {
    const TITLE: &'static str = "Hashmap";
    const KEYS: u64 = 1 << 16;
    const FILLED: bool = false;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        let bucket = tx.root().element((key % BUCKETS as u64) as usize);
        let slot = (scatter(key) % WAYS as u64) as usize;
        let known = tx.get(bucket.element(2 * slot));
        if random % 2 == 1 && known != 0 {
            return Ok(());
        }
        if known != key {
            tx.set(bucket.element(2 * slot), key)?;
        }
        tx.set(bucket.element(2 * slot + 1), random)
    }
}

/// Rows of the table, words of a row, and of its fields: ten of about 100 bytes.
const ROWS: usize = 1 << 14;
const FIELD: usize = 13;
const ROW: usize = 128;

/// A table of rows as key-value benchmarks have it; `READS` of 100 transactions read a row, the others update a field.
pub struct Rows<const READS: u64>;

impl<const READS: u64> Layout for Rows<READS> {
    const NAME: &'static str = "rows";
    type Root = [[u64; ROW]; ROWS];
}

impl<const READS: u64> Structure for Rows<READS> {
    const TITLE: &'static str = "Rows";
    const KEYS: u64 = ROWS as u64;
    const FILLED: bool = false;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        let row = tx.root().element((key % ROWS as u64) as usize);
        if random % 100 < READS {
            (0..ROW).step_by(8).for_each(|word| {
                tx.get(row.element(word));
            });
            return Ok(());
        }
        let field = (scatter(random) % 9) as usize * FIELD;
        (0..FIELD).try_for_each(|word| tx.set(row.element(field + word), random ^ word as u64))
    }
}

/// Districts, items, and the lines of an order at most.
const DISTRICTS: usize = 10;
const ITEMS: usize = 1 << 14;
const ORDERS: usize = 1 << 12;

/// New orders: a district's counter, an order with five to fifteen lines, and each item's stock.
pub struct Orders;

region::persistent! { Orders:
    /// All of the warehouse.
    pub struct Warehouse { districts: [[u64; 8]; DISTRICTS], stock: [[u64; 4]; ITEMS], orders: [[[u64; 64]; ORDERS]; DISTRICTS] }
}

impl Layout for Orders {
    const NAME: &'static str = "orders";
    type Root = Warehouse;
}

impl Structure for Orders {
    const TITLE: &'static str = "TPCC";
    const KEYS: u64 = DISTRICTS as u64;
    const FILLED: bool = false;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        let root = tx.root();
        let district = (key % DISTRICTS as u64) as usize;
        let counter = Warehouse::districts(root).element(district).element(0);
        let number = tx.get(counter);
        tx.set(counter, number + 1)?;
        let order = Warehouse::orders(root).element(district).element((number % ORDERS as u64) as usize);
        let lines = 5 + random % 11;
        tx.set(order.element(0), number)?;
        tx.set(order.element(1), scatter(random))?;
        tx.set(order.element(2), lines)?;
        for line in 0..lines {
            let item = (scatter(random ^ line << 40) % ITEMS as u64) as usize;
            let stock = Warehouse::stock(root).element(item);
            let quantity = tx.get(stock.element(0));
            tx.set(stock.element(0), if quantity > 10 { quantity - 5 } else { quantity + 91 })?;
            tx.set(stock.element(1), number)?;
            let at = 4 + 4 * line as usize;
            tx.set(order.element(at), item as u64)?;
            tx.set(order.element(at + 1), 5)?;
            tx.set(order.element(at + 2), quantity)?;
        }
        Ok(())
    }
}

/// Items of the cache.
const CACHED: usize = 1 << 16;

/// A cache of small items as memcached has it: nine of ten operations set an item, the others get one.
pub struct Cache;

region::persistent! { Cache:
    /// Items, and what is counted.
    pub struct Store { items: [[u64; 8]; CACHED], counts: [[u64; 8]; 64] }
}

impl Layout for Cache {
    const NAME: &'static str = "cache";
    type Root = Store;
}

impl Structure for Cache {
    const TITLE: &'static str = "Memcached";
    const KEYS: u64 = CACHED as u64;
    const FILLED: bool = false;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        let root = tx.root();
        let item = Store::items(root).element((scatter(key) % CACHED as u64) as usize);
        let time = tx.get(item.element(1));
        if random.is_multiple_of(10) {
            return Ok(());
        }
        let head = Store::counts(root).element((key % 64) as usize);
        // The least recently used list of the item's class moves the item to its front: its head, and the one before.
        let before = tx.get(head.element(0));
        tx.set(head.element(0), key)?;
        tx.set(Store::items(root).element((scatter(before) % CACHED as u64) as usize).element(7), key)?;
        tx.set(item.element(0), key)?;
        tx.set(item.element(1), time + 1)?;
        (2..6).try_for_each(|word| tx.set(item.element(word), random ^ word as u64))
    }
}

/// Cars, flights or rooms, and customers.
const OFFERS: usize = 1 << 14;
const CUSTOMERS: usize = 1 << 14;

/// Reservations: a customer books the dearest of some offers.
pub struct Reservations;

region::persistent! { Reservations:
    /// A booking.
    pub struct Booking { offer: u64, price: u64, next: Ptr<Booking, Reservations> }
    /// All tables.
    pub struct Agency { offers: [[u64; 4]; OFFERS], customers: [Ptr<Booking, Reservations>; CUSTOMERS] }
}

impl Layout for Reservations {
    const NAME: &'static str = "reservations";
    type Root = Agency;
}

impl Structure for Reservations {
    const TITLE: &'static str = "Vacation";
    const KEYS: u64 = CUSTOMERS as u64;
    const FILLED: bool = false;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        let root = tx.root();
        let mut best = (0, 0);
        for at in 0..8u64 {
            let number = (scatter(random ^ at << 50) % OFFERS as u64) as usize;
            let price =
                tx.get(Agency::offers(root).element(number).element(0)) + scatter(number as u64) % 100;
            if price >= best.0 {
                best = (price, number);
            }
        }
        let (price, number) = best;
        let offer = Agency::offers(root).element(number);
        let used = tx.get(offer.element(1));
        tx.set(offer.element(1), used + 1)?;
        let customer = Agency::customers(root).element((key % CUSTOMERS as u64) as usize);
        let first = tx.get(customer);
        if let Some(old) = first.get().filter(|_| random % 4 == 3) {
            // One of four gives the last booking back.
            let next = tx.get(Booking::next(old));
            tx.set(customer, next)?;
            return tx.free(old);
        }
        let booking = tx.alloc(Booking { offer: number as u64, price, next: first })?;
        tx.set(customer, booking)
    }
}
