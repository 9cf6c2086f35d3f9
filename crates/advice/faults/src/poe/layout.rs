//! Where the words of the model are, and what their bits mean.

/// Bit 0 of an entry: a page is mapped.
pub const PRESENT: u64 = 1;
/// Bit 1: it may be written.
pub const RW: u64 = 1 << 1;
/// Bit 2: accessible to user mode; of an entry that is not present: the walker may fill it (POEable).
pub const USER: u64 = 1 << 2;
/// Bit 5: accessed; the entry's lock while it is not present.
pub const LOCK: u64 = 1 << 5;
/// Bit 6.
pub const DIRTY: u64 = 1 << 6;
/// Bit 7 of an upper entry: it maps 2 MiB.
pub const HUGE: u64 = 1 << 7;
/// Bit 11: the kernel's second dirty bit.
pub const SOFT_DIRTY: u64 = 1 << 11;
/// Bit 63: no code.
pub const NX: u64 = 1 << 63;
/// An entry of the pre-allocation table holds a page that nobody has.
pub const VALID: u64 = 1;
/// It holds a page that the walker has mapped and the kernel has not yet accounted for.
pub const USED: u64 = 1 << 1;

const FIELD: u64 = 12;
const FIELD_MASK: u64 = ((1 << 34) - 1) << FIELD;
/// The first number of a huge page.
pub const FIRST_HUGE: u64 = 32;

/// An entry that the walker may fill for the process `tgid`.
#[must_use]
pub fn marked(tgid: u64, writable: bool) -> u64 {
    USER | if writable { RW } else { 0 } | tgid << FIELD
}

/// Whether the walker may fill it.
#[must_use]
pub fn is_marked(entry: u64) -> bool {
    entry & (PRESENT | USER) == USER
}

/// Whether somebody is filling it: bit 5 is a lock only while no page is present.
#[must_use]
pub fn is_locked(entry: u64) -> bool {
    entry & (PRESENT | LOCK) == LOCK
}

/// The page number or, where no page is present, the process.
#[must_use]
pub fn field(entry: u64) -> u64 {
    (entry & FIELD_MASK) >> FIELD
}

/// A present entry for `frame`, with the permission of `old`.
#[must_use]
pub fn mapped(frame: u64, old: u64, write: bool) -> u64 {
    let dirty = if write { DIRTY | SOFT_DIRTY } else { 0 };
    let huge = if frame >= FIRST_HUGE { HUGE } else { 0 };
    PRESENT | USER | LOCK | NX | huge | (old & RW) | dirty | frame << FIELD
}

/// Second word of a table's entry: page 34 bits, process 22 bits, used, valid.
#[must_use]
pub fn table_word(frame: u64, tgid: u64, state: u64) -> u64 {
    frame << 24 | tgid << 2 | state
}

/// The page of such a word.
#[must_use]
pub fn table_frame(word: u64) -> u64 {
    word >> 24
}

/// The process of such a word.
#[must_use]
pub fn table_tgid(word: u64) -> u64 {
    word >> 2 & ((1 << 22) - 1)
}

/// The bit of a page's content that says: this process wrote this page of its region there.
#[must_use]
pub fn written(process: u64, page: u64) -> u64 {
    1 << (16 * process + page)
}

/// The size of a modelled system. Numbers of pages are small: every interleaving is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Pages of the region that each process has.
    pub pages: u64,
    /// Processes.
    pub processes: u64,
    /// Cores, each with two tables.
    pub cores: u64,
    /// Entries of a table, without its header.
    pub entries: u64,
    /// Pages of memory, at most 31.
    pub frames: u64,
    /// Huge pages of memory, at most 31.
    pub huge_frames: u64,
    /// Whether regions hold code.
    pub executable: bool,
}

/// A pre-allocation table: one producer (the kernel), one consumer (the walker).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Word of the header's head: where the kernel fills next. The four fields of a header are words of
    /// their own here, since no two actors write one of them and no access covers two.
    pub head: u64,
    /// Of its tail: where the walker takes next.
    pub tail: u64,
    /// Of its lock, which keeps teardown and delayed work apart.
    pub lock: u64,
    first: u64,
    entries: u64,
    /// Whether its pages are huge.
    pub huge: bool,
}

impl Ring {
    /// The word of an entry (from 1) that holds the faulting address; the next word holds the rest.
    #[must_use]
    pub fn entry(&self, number: u64) -> u64 {
        self.first + 2 * (number - 1)
    }

    /// The entry behind one.
    #[must_use]
    pub fn next(&self, number: u64) -> u64 {
        if number == self.entries { 1 } else { number + 1 }
    }

    /// Entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }
}

/// Word of the set of free pages.
pub const FREE: u64 = 0;
/// Word of the set of free huge pages.
pub const FREE_HUGE: u64 = 1;
/// Word of the enable bit that all cores have in CR9.
pub const ENABLED: u64 = 2;
/// Word of the number of processes that have the engine enabled.
pub const USERS: u64 = 3;
/// The lock of enabling and disabling.
pub const ENABLE_LOCK: u64 = 4;
const SHARED: u64 = 5;

impl Scope {
    fn core_words(&self) -> u64 {
        1 + 2 * (3 + 2 * self.entries)
    }

    fn processes_at(&self) -> u64 {
        SHARED + self.cores * self.core_words()
    }

    fn process(&self, process: u64, word: u64) -> u64 {
        self.processes_at() + process * (8 + 3 * self.pages) + word
    }

    fn frames_at(&self) -> u64 {
        self.process(self.processes, 0)
    }

    /// Words of the whole.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.frames_at() + 3 * 64
    }

    /// 1 while a core is within an instruction that walks: interrupts wait until it is done.
    #[must_use]
    pub fn walking(&self, core: u64) -> u64 {
        SHARED + core * self.core_words()
    }

    /// A core's table of small or of huge pages.
    #[must_use]
    pub fn ring(&self, core: u64, huge: bool) -> Ring {
        let head = self.walking(core) + 1 + u64::from(huge) * (3 + 2 * self.entries);
        Ring { head, tail: head + 1, lock: head + 2, first: head + 3, entries: self.entries, huge }
    }

    /// All tables.
    pub fn rings(self) -> impl Iterator<Item = Ring> {
        (0..self.cores).flat_map(move |core| [false, true].map(|huge| self.ring(core, huge)))
    }

    /// The lock of a process's page tables.
    #[must_use]
    pub fn table_lock(&self, process: u64) -> u64 {
        self.process(process, 0)
    }

    /// Whether its region exists.
    #[must_use]
    pub fn alive(&self, process: u64) -> u64 {
        self.process(process, 1)
    }

    /// Whether its region may be written.
    #[must_use]
    pub fn writable(&self, process: u64) -> u64 {
        self.process(process, 2)
    }

    /// Its number of resident pages, as the kernel counts.
    #[must_use]
    pub fn counter(&self, process: u64) -> u64 {
        self.process(process, 3)
    }

    /// Its TGID, 0 if there is no such process.
    #[must_use]
    pub fn tgid(&self, process: u64) -> u64 {
        self.process(process, 4)
    }

    /// Note for checks: bit 0, `munmap` has returned; bit 1, `mprotect` to read-only has; bit 2, `mremap` of the first page has.
    #[must_use]
    pub fn settled(&self, process: u64) -> u64 {
        self.process(process, 5)
    }

    /// The upper entry of its region.
    #[must_use]
    pub fn upper(&self, process: u64) -> u64 {
        self.process(process, 6)
    }

    /// The first page of its region: pages before it were moved away.
    #[must_use]
    pub fn first(&self, process: u64) -> u64 {
        self.process(process, 7)
    }

    /// The entry of a page.
    #[must_use]
    pub fn entry(&self, process: u64, page: u64) -> u64 {
        self.process(process, 8 + 3 * page)
    }

    /// Note for checks: whether a write to the page was done.
    #[must_use]
    pub fn wrote(&self, process: u64, page: u64) -> u64 {
        self.process(process, 9 + 3 * page)
    }

    /// Note for checks: bit 0, the parent had written to the page when `fork` began, so the child sees that;
    /// bit 1, when `fork` was done: it may.
    #[must_use]
    pub fn inherits(&self, process: u64, page: u64) -> u64 {
        self.process(process, 10 + 3 * page)
    }

    /// How often a page of memory is mapped, as the kernel counts: 0 until it has accounted for a fill.
    #[must_use]
    pub fn mappings(&self, frame: u64) -> u64 {
        self.frames_at() + 3 * frame
    }

    /// What a page of memory holds: 0, or the [`written`] bits of who wrote which page there.
    #[must_use]
    pub fn content(&self, frame: u64) -> u64 {
        self.frames_at() + 3 * frame + 1
    }

    /// Whether a page of memory is charged to a memory group.
    #[must_use]
    pub fn charged(&self, frame: u64) -> u64 {
        self.frames_at() + 3 * frame + 2
    }

    /// The words before anything runs: all memory free, no region, a full-width enable bit of 0.
    #[must_use]
    pub fn initial(&self) -> Vec<u64> {
        let mut words = vec![0; self.words() as usize];
        words[FREE as usize] = ((1 << self.frames) - 1) << 1;
        words[FREE_HUGE as usize] = ((1 << self.huge_frames) - 1) << 1;
        for ring in self.rings() {
            words[ring.head as usize] = 1;
            words[ring.tail as usize] = 1;
        }
        words
    }
}
