//! A machine to which a test speaks in loads and stores.

use event::{Batch, Event, FenceKind, FlushKind, NameId, Op, Sink, SiteId, Source, ThreadId};
use machine::{Config, Figures, Machine};

/// 4 lines of L1 in 2 sets of 2, 8 of L2 in 4 sets of 2, 16 of LLC in 8 sets of 2, one DIMM that writes lines.
pub const TINY: &str = r#"
name = "tiny"
seed = 7
[cores]
count = 4
combining_buffers = 2
[l1]
size = "256B"
ways = 2
replacement = "lru"
[l2]
size = "512B"
ways = 2
replacement = "lru"
[llc]
size = "1KiB"
ways = 2
replacement = "lru"
[memory]
dimms = 1
interleave = "4KiB"
[device]
unit = "64B"
"#;

pub fn tiny() -> Config {
    Config::parse(TINY, "tiny").expect("a valid description")
}

/// The preset with one DIMM, as the device experiments of the 3D XPoint paper use it.
pub fn one_xpoint_dimm() -> Config {
    let mut config = Config::preset("xpoint").expect("a valid description");
    config.memory.dimms = 1;
    config
}

pub struct Run {
    pub machine: Machine,
    thread: u32,
    site: u32,
}

impl Run {
    pub fn new(config: &Config) -> Self {
        let mut machine = Machine::new(config).expect("a valid description");
        machine.begin(&Source::synthetic("test")).expect("a source that sees all");
        Run { machine, thread: 0, site: 1 }
    }

    /// Whose events follow.
    pub fn thread(&mut self, thread: u32) -> &mut Self {
        self.thread = thread;
        self
    }

    /// Which code's events follow.
    pub fn site(&mut self, site: u32) -> &mut Self {
        self.site = site;
        self
    }

    pub fn op(&mut self, op: Op) -> &mut Self {
        let event = Event { op, site: SiteId(self.site), instructions: 1 };
        let batch = Batch { thread: ThreadId(self.thread), time_ns: 0, events: &[event], values: &[] };
        self.machine.push(batch).expect("a sound batch");
        self
    }

    pub fn load(&mut self, addr: u64) -> &mut Self {
        self.op(Op::Load { addr, len: 8 })
    }

    pub fn store(&mut self, addr: u64) -> &mut Self {
        self.op(Op::Store { addr, len: 8 })
    }

    pub fn store_nt(&mut self, addr: u64, len: u32) -> &mut Self {
        self.op(Op::StoreNt { addr, len })
    }

    pub fn flush(&mut self, addr: u64, kind: FlushKind) -> &mut Self {
        self.op(Op::Flush { addr, kind })
    }

    pub fn clwb(&mut self, addr: u64) -> &mut Self {
        self.flush(addr, FlushKind::Clwb)
    }

    pub fn fence(&mut self) -> &mut Self {
        self.op(Op::Fence(FenceKind::Store))
    }

    pub fn map(&mut self, addr: u64, len: u64) -> &mut Self {
        self.op(Op::Map { addr, len, name: NameId(0) })
    }

    /// The figures, after an audit.
    pub fn figures(&self) -> Figures {
        self.machine.audit().expect("books that balance");
        self.machine.figures()
    }

    /// Hits and misses of L1, L2, LLC.
    pub fn caches(&self) -> [(u64, u64); 3] {
        let figures = self.figures();
        [0, 1, 2].map(|level| (figures.caches[level].hits, figures.caches[level].misses))
    }
}

/// xorshift64*, for streams that need no more.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    }
}
