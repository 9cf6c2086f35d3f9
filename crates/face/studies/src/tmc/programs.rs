//! Small programs with the structures and habits of the source's, as events: the sizes are an eighth of a last-level cache's real
//! proportion, so that one run takes a fraction of a second.
//!
//! Six stand for the source's workloads (cactusBSSN, graph500, memcached, XSBench, canneal, HPCG), four are others: a B+-tree's
//! lookups, a store that appends to a log, a sort by merging, a hash join.

use event::{Batch, Event, Op, Sink, SinkError, SiteId, Source, ThreadId};

const LINE: u64 = 64;
const KIB: u64 = 1 << 10;
/// Events of a batch.
const BATCH: usize = 4096;

/// The programs' names: the source's six, then ours.
pub const ALL: [&str; 10] =
    ["cactus", "graph500", "memcached", "xsbench", "canneal", "hpcg", "btree", "log", "sort", "join"];

/// Runs a program of about so many accesses into a sink, from its beginning to its end.
pub fn run(name: &str, accesses: u64, seed: u64, sink: &mut dyn Sink) -> Result<(), SinkError> {
    sink.begin(&Source::synthetic(format!("studies: {name}")))?;
    let mut program = Program {
        events: Vec::new(),
        sink,
        left: accesses,
        next: 1 << 32,
        state: seed,
        site: 1,
        failed: None,
    };
    match name {
        "cactus" => program.cactus(),
        "graph500" => program.graph(),
        "memcached" => program.memcached(),
        "xsbench" => program.xsbench(),
        "canneal" => program.canneal(),
        "hpcg" => program.hpcg(),
        "btree" => program.btree(),
        "log" => program.log(),
        "sort" => program.sort(),
        _ => program.join(),
    }
    program.flush();
    match program.failed {
        Some(error) => Err(error),
        None => sink.finish(),
    }
}

struct Program<'a> {
    events: Vec<Event>,
    sink: &'a mut dyn Sink,
    left: u64,
    next: u64,
    state: u64,
    site: u32,
    failed: Option<SinkError>,
}

/// One allocation.
#[derive(Clone, Copy)]
struct Array {
    base: u64,
    bytes: u64,
}

impl Array {
    fn lines(self) -> u64 {
        self.bytes / LINE
    }
    fn line(self, number: u64) -> u64 {
        self.base + number % self.lines() * LINE
    }
}

impl Program<'_> {
    fn push(&mut self, op: Op, instructions: u32) {
        self.events.push(Event { op, site: SiteId(self.site), instructions });
        if self.events.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let events = std::mem::take(&mut self.events);
        let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] };
        if let Err(error) = self.sink.push(batch) {
            self.failed.get_or_insert(error);
            self.left = 0;
        }
        self.events = events;
        self.events.clear();
    }

    fn array(&mut self, bytes: u64) -> Array {
        let array = Array { base: self.next, bytes };
        self.next += bytes.next_multiple_of(4096) + 4096;
        self.site += 1;
        self.push(Op::Alloc { addr: array.base, len: bytes }, 50);
        array
    }

    fn load(&mut self, addr: u64, instructions: u32) {
        self.left = self.left.saturating_sub(1);
        self.push(Op::Load { addr, len: 8 }, instructions);
    }

    fn store(&mut self, addr: u64, instructions: u32) {
        self.left = self.left.saturating_sub(1);
        self.push(Op::Store { addr, len: 8 }, instructions);
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Some numbers come much more often than others, and neighbours have nothing to do with each other.
    fn skewed(&mut self, bound: u64) -> u64 {
        let uniform = self.below(1 << 20) as f64 / (1u64 << 20) as f64;
        let rank = ((bound as f64).powf(uniform) - 1.0) as u64;
        rank.wrapping_mul(2_654_435_761) % bound
    }

    /// A stencil over three grids with much arithmetic.
    fn cactus(&mut self) {
        let (now, before, next) = (self.array(2304 * KIB), self.array(2304 * KIB), self.array(2304 * KIB));
        let plane = 256;
        let mut at = plane;
        while self.left > 0 {
            for line in [at, at + 1, at + plane, at - plane] {
                self.load(now.line(line), 30);
            }
            self.load(before.line(at), 30);
            self.store(next.line(at), 40);
            at += 1;
            if at + plane >= now.lines() {
                at = plane;
            }
        }
    }

    /// Breadth-first search: edges of a vertex in order, their targets anywhere.
    fn graph(&mut self) {
        let (offsets, edges) = (self.array(1024 * KIB), self.array(6144 * KIB));
        let (parents, queue) = (self.array(1024 * KIB), self.array(256 * KIB));
        let mut head = 0;
        while self.left > 0 {
            self.load(queue.base + head * 8 % queue.bytes, 6);
            head += 1;
            let vertex = self.below(offsets.lines());
            self.load(offsets.line(vertex), 5);
            let first = self.below(edges.lines());
            for edge in 0..16u64 {
                self.load(edges.base + (first * LINE + edge * 8) % edges.bytes, 4);
                let target = self.below(parents.lines());
                self.load(parents.line(target), 6);
                if edge.is_multiple_of(4) {
                    self.store(parents.line(target), 4);
                }
            }
        }
    }

    /// A hash table, items of which few are popular, and their list of last use.
    fn memcached(&mut self) {
        let (table, items) = (self.array(512 * KIB), self.array(8192 * KIB));
        let (buffers, list) = (self.array(64 * KIB), self.array(512 * KIB));
        let mut number = 0;
        while self.left > 0 {
            number += 1;
            self.load(buffers.line(number), 180);
            let item = self.skewed(items.lines() / 4);
            self.load(table.line(item), 40);
            for line in 0..4 {
                self.load(items.line(item * 4 + line), 20);
            }
            self.store(list.line(item / 8), 30);
            self.store(buffers.line(number + 7), 120);
        }
    }

    /// A search in a grid of energies, then rows of cross sections anywhere.
    fn xsbench(&mut self) {
        let (grid, sections, materials) =
            (self.array(512 * KIB), self.array(10240 * KIB), self.array(16 * KIB));
        while self.left > 0 {
            let (mut low, mut high) = (0, grid.bytes / 8);
            let wanted = self.below(high);
            while high - low > 1 {
                let middle = (low + high) / 2;
                self.load(grid.base + middle * 8, 7);
                if middle <= wanted { low = middle } else { high = middle }
            }
            for nuclide in 0..10u64 {
                self.load(materials.line(nuclide), 8);
                let row = self.below(sections.lines());
                self.load(sections.line(row), 25);
            }
        }
    }

    /// Two elements anywhere, and what each is connected to.
    fn canneal(&mut self) {
        let (elements, nets, names) =
            (self.array(3072 * KIB), self.array(4096 * KIB), self.array(2048 * KIB));
        while self.left > 0 {
            for _ in 0..2 {
                let element = self.below(elements.lines());
                self.load(elements.line(element), 20);
                for net in 0..5 {
                    self.load(nets.line(element * 7 + net * 3), 15);
                    let other = self.below(elements.lines());
                    self.load(elements.line(other), 15);
                }
                if self.below(3) == 0 {
                    self.store(elements.line(element), 10);
                }
                if self.below(40) == 0 {
                    self.load(names.line(element), 30);
                }
            }
        }
    }

    /// A sparse matrix by a vector: values and columns in order, the vector near the diagonal.
    fn hpcg(&mut self) {
        let (values, columns) = (self.array(6144 * KIB), self.array(3072 * KIB));
        let (x, y) = (self.array(768 * KIB), self.array(768 * KIB));
        let rows = y.bytes / 8;
        let mut row = 0;
        while self.left > 0 {
            for entry in 0..9u64 {
                let number = row * 9 + entry;
                self.load(values.base + number * 8 % values.bytes, 3);
                self.load(columns.base + number * 4 % columns.bytes / 8 * 8, 2);
                let near = (row + rows + entry % 3 * 100 + entry / 3 * 3000) % rows;
                self.load(x.base + near * 8, 3);
            }
            self.store(y.base + row * 8, 5);
            row = (row + 1) % rows;
        }
    }

    /// A path from a root that is always used to a leaf that hardly ever is.
    fn btree(&mut self) {
        let (top, middle, leaves) = (self.array(8 * KIB), self.array(384 * KIB), self.array(8192 * KIB));
        while self.left > 0 {
            let key = self.below(leaves.lines());
            for (level, lines) in [(top, 4), (middle, 4), (leaves, 3)] {
                let node = key * level.lines() / leaves.lines() / 8 * 8;
                for step in 0..lines {
                    self.load(level.line(node + step * 2), 12);
                }
            }
        }
    }

    /// Records at the end of a log, an index anywhere, and old records now and then.
    fn log(&mut self) {
        let (log, index) = (self.array(8192 * KIB), self.array(1536 * KIB));
        let mut end = 0;
        while self.left > 0 {
            for line in 0..4 {
                self.store(log.line(end + line), 12);
            }
            let entry = self.below(index.lines());
            self.load(index.line(entry), 60);
            self.store(index.line(entry), 10);
            if end > 0 && self.below(4) == 0 {
                let old = self.below(end);
                self.load(log.line(old), 25);
            }
            end = (end + 4) % log.lines();
        }
    }

    /// Two sorted runs become one, in the other array.
    fn sort(&mut self) {
        let (one, two, keys) = (self.array(3072 * KIB), self.array(3072 * KIB), self.array(256 * KIB));
        let (mut left, mut right, mut out) = (0, one.bytes / 16, 0);
        while self.left > 0 {
            let at = if self.below(2) == 0 { &mut left } else { &mut right };
            *at += 1;
            let from = *at;
            self.load(one.base + from * 8 % one.bytes, 8);
            if from.is_multiple_of(4) {
                let key = self.below(keys.lines());
                self.load(keys.line(key), 6);
            }
            self.store(two.base + out * 8 % two.bytes, 8);
            out += 1;
        }
    }

    /// One table in order, the other's buckets anywhere.
    fn join(&mut self) {
        let (probe, buckets, chains) =
            (self.array(6144 * KIB), self.array(1024 * KIB), self.array(3072 * KIB));
        let mut at = 0;
        while self.left > 0 {
            self.load(probe.base + at * 16 % probe.bytes, 8);
            at += 1;
            let bucket = self.below(buckets.lines());
            self.load(buckets.line(bucket), 12);
            if self.below(2) == 0 {
                self.load(chains.line(bucket * 3), 10);
            }
        }
    }
}
