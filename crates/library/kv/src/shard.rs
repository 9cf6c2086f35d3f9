//! Shards: parts of the index, each with a latch for those who change it and a version for those who read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use region::Ticket;
use space::Env;

use crate::table::Table;

/// Times that a reader looks without the latch.
const LOOKS: u32 = 8;

/// The keys whose hashes begin alike.
#[repr(align(128))]
pub(crate) struct Shard<E: Env> {
    /// Odd while the table changes.
    version: AtomicU64,
    pub(crate) table: Table,
    /// Keys that are not in the table but in the file's index. Changed with the latch held.
    elsewhere: AtomicU64,
    latch: E::Latch<Keys>,
    /// Its keys are still where closing left them.
    pub(crate) is_left: AtomicBool,
}

/// What only the holder of a shard's latch knows.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The newest timestamp of a record of these keys.
    timestamp: u64,
    /// Records of them that opening read.
    pub(crate) recovered: u64,
    /// Records in slots that were replaced, until their slots may be used again.
    pub(crate) replaced: Vec<Replaced>,
    /// Whether new keys and deleted ones are noted, because somebody keeps keys in order.
    pub(crate) ordered: bool,
    /// These: whether the key is there now.
    pub(crate) changes: Vec<(Box<[u8]>, bool)>,
}

/// A record in a slot that nobody needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    pub(crate) hash: u64,
    pub(crate) offset: u64,
    /// Its first word is 0 already; else that waits until what replaced it is durable.
    pub(crate) cleared: bool,
    /// When that, or the zero, is durable.
    pub(crate) ticket: Ticket,
}

impl Keys {
    pub(crate) fn next_timestamp(&mut self) -> u64 {
        self.timestamp += 1;
        self.timestamp
    }

    /// The newest timestamp so far.
    pub(crate) fn newest(&self) -> u64 {
        self.timestamp
    }

    /// No timestamp from here on is one of those up to this.
    pub(crate) fn seen(&mut self, timestamp: u64) {
        self.timestamp = self.timestamp.max(timestamp);
    }
}

impl<E: Env> Shard<E> {
    pub(crate) fn new(env: &E) -> Self {
        Shard {
            version: AtomicU64::new(0),
            table: Table::new(),
            elsewhere: AtomicU64::new(0),
            latch: env.latch(Keys::default()),
            is_left: AtomicBool::new(false),
        }
    }

    pub(crate) fn hold<'a>(&'a self, env: &'a E) -> E::LatchGuard<'a, Keys> {
        env.hold(&self.latch)
    }

    /// Changes the table. The caller holds the latch.
    #[inline]
    pub(crate) fn change(&self, change: impl FnOnce(&Table)) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        change(&self.table);
        self.version.store(version + 2, Ordering::Release);
    }

    /// Keys of the shard.
    pub(crate) fn count(&self) -> u64 {
        self.table.count() + self.elsewhere.load(Ordering::Relaxed)
    }

    /// It has `count` keys, which are where closing left them, or in the file's index. Nobody else is there.
    pub(crate) fn leave(&self, count: u64, in_file: bool) {
        self.elsewhere.store(count, Ordering::Relaxed);
        self.is_left.store(!in_file, Ordering::Relaxed);
    }

    /// Takes these keys back. The caller holds the latch.
    pub(crate) fn take_back(&self, fill: impl FnOnce(&Table)) {
        self.change(|table| {
            fill(table);
            self.elsewhere.store(0, Ordering::Relaxed);
        });
        self.is_left.store(false, Ordering::Release);
    }

    /// The file's index changed: readers look again. `came` and `went`: keys.
    pub(crate) fn changed_elsewhere(&self, came: u64, went: u64) {
        self.change(|_| {
            let count = self.elsewhere.load(Ordering::Relaxed);
            self.elsewhere.store((count + came).saturating_sub(went), Ordering::Relaxed);
        });
    }

    /// What `look` finds, looking at the index and at records that do not change meanwhile. It may be called
    /// several times, and may see nonsense in all but the last call.
    #[inline]
    pub(crate) fn read<T>(&self, env: &E, mut look: impl FnMut() -> T) -> T {
        for _ in 0..LOOKS {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let found = look();
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    return found;
                }
            }
        }
        let _held = self.hold(env);
        look()
    }
}
