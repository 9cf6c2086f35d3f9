//! TPCC and TATP as a database in memory does them: rows changed in place, an undo record before and a redo
//! record behind each change, in rings.

use space::Space;

use crate::pattern::Draw;

/// Bytes of the space.
pub(super) const BYTES: u64 = 48 << 20;
/// The rings of redo and undo records: 48 MB and 64 MB over 256.
const REDO: u64 = 192 << 10;
const UNDO: u64 = 256 << 10;
/// Tables begin behind them.
const TABLES: u64 = 1 << 20;

/// A database.
struct Database<'s, S> {
    space: &'s S,
    redo: u64,
    undo: u64,
    next: u64,
}

/// Rows of one size, side by side.
#[derive(Clone, Copy)]
struct Table {
    first: u64,
    bytes: u64,
    rows: u64,
}

impl Table {
    fn at(self, row: u64) -> u64 {
        self.first + row % self.rows * self.bytes
    }
}

impl<'s, S: Space> Database<'s, S> {
    fn new(space: &'s S) -> Self {
        Database { space, redo: 0, undo: 0, next: TABLES }
    }

    fn table(&mut self, bytes: u64, rows: u64) -> Table {
        let table = Table { first: self.next.next_multiple_of(4096), bytes, rows };
        self.next = table.first + rows * bytes;
        table
    }

    /// Appends to a ring.
    fn append(space: &S, ring: &mut u64, base: u64, size: u64, bytes: &[u8]) {
        if *ring + bytes.len() as u64 > size {
            *ring = 0;
        }
        space.store(base + *ring, bytes);
        *ring += bytes.len().next_multiple_of(8) as u64;
    }

    /// Changes `bytes` bytes of a row, from a multiple of eight on.
    fn change(&mut self, row: u64, offset: u64, bytes: u64) {
        let record = [3; 96];
        let length = (32 + bytes as usize).min(record.len());
        Self::append(self.space, &mut self.undo, REDO, UNDO, &record[..length]);
        self.space.store((row + offset) / 8 * 8, &record[..bytes as usize]);
        Self::append(self.space, &mut self.redo, 0, REDO, &record[..length]);
    }

    /// Writes a new row.
    fn insert(&mut self, table: Table, row: u64) {
        let record = [5; 96];
        let at = table.at(row) / 8 * 8;
        for from in (0..table.bytes).step_by(record.len()) {
            let length = (table.bytes - from).min(record.len() as u64);
            self.space.store(at + from, &record[..length as usize]);
        }
        let length = (24 + table.bytes as usize).min(record.len());
        Self::append(self.space, &mut self.redo, 0, REDO, &record[..length]);
    }

    fn read(&self, table: Table, row: u64) {
        let at = table.at(row);
        (at / 64..=(at + table.bytes - 1) / 64).for_each(|line| _ = self.space.load_u64(line * 64));
    }
}

/// TPCC's choice of rows that are not alike.
fn uneven(draw: &mut Draw, a: u64, rows: u64) -> u64 {
    ((draw.below(a + 1) | draw.below(rows)) + 259) % rows
}

/// TPCC with 8 warehouses of a hundredth of the customers and stock; transactions in its default shares.
pub(super) fn tpcc<S: Space>(space: &S, transactions: u64) -> u64 {
    const WAREHOUSES: u64 = 8;
    const CUSTOMERS: u64 = 300;
    const STOCK: u64 = 1000;
    let mut database = Database::new(space);
    let warehouse = database.table(89, WAREHOUSES);
    let district = database.table(95, WAREHOUSES * 10);
    let customer = database.table(655, WAREHOUSES * 10 * CUSTOMERS);
    let stock = database.table(306, WAREHOUSES * STOCK);
    // What is appended, over and over again.
    let orders = database.table(24, 30_000);
    let new_orders = database.table(8, 9_000);
    let order_lines = database.table(54, 300_000);
    let history = database.table(46, 30_000);
    let mut draw = Draw::new(3);
    let (mut order, mut line, mut payment) = (0, 0, 0);
    for _ in 0..transactions {
        let home = draw.below(WAREHOUSES);
        let part = home * 10 + draw.below(10);
        let buyer = part * CUSTOMERS + uneven(&mut draw, 255, CUSTOMERS);
        match draw.below(100) {
            0..45 => {
                database.read(warehouse, home);
                database.read(customer, buyer);
                database.change(district.at(part), 80, 8);
                database.insert(orders, order);
                database.insert(new_orders, order);
                for _ in 0..5 + draw.below(11) {
                    let item = home * STOCK + uneven(&mut draw, 1023, STOCK);
                    database.read(stock, item);
                    database.change(stock.at(item), 8, 24);
                    database.insert(order_lines, line);
                    line += 1;
                }
                order += 1;
            }
            45..88 => {
                database.change(warehouse.at(home), 72, 8);
                database.change(district.at(part), 72, 8);
                database.change(customer.at(buyer), 120, 24);
                database.insert(history, payment);
                payment += 1;
            }
            88..92 => {
                for district in 0..10 {
                    let done = order.saturating_sub(700 + district);
                    database.change(new_orders.at(done), 0, 8);
                    database.change(orders.at(done), 16, 8);
                    for at in 0..10 {
                        database.change(order_lines.at(done * 10 + at), 32, 8);
                    }
                    let owner = (home * 10 + district) * CUSTOMERS + draw.below(CUSTOMERS);
                    database.change(customer.at(owner), 120, 16);
                }
            }
            92..96 => {
                database.read(customer, buyer);
                (0..10).for_each(|at| database.read(order_lines, draw.below(line + 1) + at));
            }
            _ => (0..20).for_each(|_| database.read(stock, home * STOCK + draw.below(STOCK))),
        }
    }
    database.next
}

/// TATP with 64 Ki subscribers; a fifth of the transactions write.
pub(super) fn tatp<S: Space>(space: &S, transactions: u64) -> u64 {
    const SUBSCRIBERS: u64 = 64 << 10;
    let mut database = Database::new(space);
    let subscriber = database.table(200, SUBSCRIBERS);
    let access = database.table(60, SUBSCRIBERS * 5 / 2);
    let facility = database.table(56, SUBSCRIBERS * 5 / 2);
    let forwarding = database.table(48, SUBSCRIBERS * 15 / 4);
    let mut draw = Draw::new(4);
    for _ in 0..transactions {
        let who = uneven(&mut draw, 65_535, SUBSCRIBERS);
        match draw.below(100) {
            0..35 => database.read(subscriber, who),
            35..70 => database.read(access, who * 5 / 2 + draw.below(2)),
            70..80 => {
                database.read(facility, who * 5 / 2);
                database.read(forwarding, who * 15 / 4);
            }
            80..94 => database.change(subscriber.at(who), 184, 8),
            94..96 => {
                database.change(subscriber.at(who), 24, 8);
                database.change(facility.at(who * 5 / 2 + draw.below(2)), 16, 8);
            }
            96..98 => database.insert(forwarding, who * 15 / 4 + draw.below(3)),
            _ => database.change(forwarding.at(who * 15 / 4 + draw.below(3)), 0, 8),
        }
    }
    database.next
}
