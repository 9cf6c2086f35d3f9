//! Our variants and the baselines, by name, and the memory that they get.

use index::hash::{self, HashTable};
use index::log_structured::{self, LogTree};
use index::tree::{self, FastFair, FastFairSp, PersistentUnsorted, Plain, Tree, UnsortedLeaf, Wal};
use index::{BTree, OrderedMap, Whole, btree};
use kv::{Engine, Placement};
use persistency::Domain;
use pmem::{Mapped, Os, Synced};
use space::{Env, Image};
use workload::load::Target;

use super::fixed::{OfId, OfMap};
use super::stores::{self, OfStore};
use super::volatile::{Volatile, VolatileBytes};
use crate::error::Error;
use crate::record::KeyKind;
use crate::runner::{InProcess, Use};
use crate::terms::{Role, Setup, Subject};

/// One of ours, or a baseline.
#[derive(Debug)]
pub struct Variant {
    pub subject: Subject,
    pub name: &'static str,
    pub role: Role,
    pub summary: &'static str,
    /// Whether it can scan.
    pub ordered: bool,
    /// Whether a write that returned is durable.
    pub durable: bool,
    made: Made,
}

/// What it is made of.
#[derive(Clone, Copy, Debug)]
enum Made {
    Volatile,
    VolatileBytes,
    InSpace(Structure),
}

/// What is in a space.
#[derive(Clone, Copy, Debug)]
enum Structure {
    BTree,
    Published(Published),
    LogStructured,
    Hash,
    Store(Engine, Placement),
}

/// The trees of the index study.
#[derive(Clone, Copy, Debug)]
enum Published {
    Sorted,
    Unsorted,
    Logged,
    Shifted,
    UnsortedDurable,
    ShiftedSelective,
}

/// All of them.
pub const VARIANTS: &[Variant] = &[
    Variant {
        subject: Subject::Index,
        name: "btree",
        role: Role::Ours,
        summary: "the ordered map: leaves of sealed slots, inner nodes in ordinary memory",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::BTree),
    },
    Variant {
        subject: Subject::Index,
        name: "sorted",
        role: Role::Ours,
        summary: "the index study's btree: sorted nodes, nothing flushed",
        ordered: true,
        durable: false,
        made: Made::InSpace(Structure::Published(Published::Sorted)),
    },
    Variant {
        subject: Subject::Index,
        name: "unsorted",
        role: Role::Ours,
        summary: "its unsorted leaf: as sorted, with unsorted leaves",
        ordered: true,
        durable: false,
        made: Made::InSpace(Structure::Published(Published::Unsorted)),
    },
    Variant {
        subject: Subject::Index,
        name: "logged",
        role: Role::Ours,
        summary: "its btree-WAL: sorted nodes, a write-ahead log",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::Published(Published::Logged)),
    },
    Variant {
        subject: Subject::Index,
        name: "shifted",
        role: Role::Ours,
        summary: "FAST/FAIR: sorted nodes, shifted in order",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::Published(Published::Shifted)),
    },
    Variant {
        subject: Subject::Index,
        name: "unsorted-durable",
        role: Role::Ours,
        summary: "its persistent unsorted: a durable slot before its bit",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::Published(Published::UnsortedDurable)),
    },
    Variant {
        subject: Subject::Index,
        name: "shifted-selective",
        role: Role::Ours,
        summary: "FAST/FAIR with its upper levels in ordinary memory",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::Published(Published::ShiftedSelective)),
    },
    Variant {
        subject: Subject::Index,
        name: "log-structured",
        role: Role::Ours,
        summary: "its btree-LS: leaves as chains of records in logs",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::LogStructured),
    },
    Variant {
        subject: Subject::Index,
        name: "hash",
        role: Role::Ours,
        summary: "the hash table: sealed slots, fingerprints in ordinary memory",
        ordered: false,
        durable: true,
        made: Made::InSpace(Structure::Hash),
    },
    Variant {
        subject: Subject::Index,
        name: "std-btree",
        role: Role::Baseline,
        summary: "the standard library's BTreeMap in ordinary memory, under one lock",
        ordered: true,
        durable: false,
        made: Made::Volatile,
    },
    Variant {
        subject: Subject::Kv,
        name: "slab",
        role: Role::Ours,
        summary: "slots in superblocks, index in ordinary memory",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::Store(Engine::Slab, Placement::Volatile)),
    },
    Variant {
        subject: Subject::Kv,
        name: "log",
        role: Role::Ours,
        summary: "a log for each thread with garbage collection, index in ordinary memory",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::Store(Engine::Log, Placement::Volatile)),
    },
    Variant {
        subject: Subject::Kv,
        name: "slab-indexed",
        role: Role::Ours,
        summary: "slots in superblocks, index in the file",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::Store(Engine::Slab, Placement::Persistent)),
    },
    Variant {
        subject: Subject::Kv,
        name: "log-indexed",
        role: Role::Ours,
        summary: "logs with garbage collection, index in the file",
        ordered: true,
        durable: true,
        made: Made::InSpace(Structure::Store(Engine::Log, Placement::Persistent)),
    },
    Variant {
        subject: Subject::Kv,
        name: "std-btree",
        role: Role::Baseline,
        summary: "the standard library's BTreeMap of byte strings in ordinary memory, under one lock",
        ordered: true,
        durable: false,
        made: Made::VolatileBytes,
    },
];

impl Variant {
    /// Why it can't take part, if so.
    pub fn refusal(&self, setup: &Setup) -> Option<String> {
        let fits = matches!((setup.key, setup.value), (KeyKind::Word, 8) | (KeyKind::Pair, 16));
        (self.subject == Subject::Index && !fits)
            .then(|| "it takes keys and values of 8 bytes both, or of 16".to_owned())
    }

    /// Makes it, empty, and uses it.
    ///
    /// # Errors
    /// If there is no memory for it, or `use_it` fails.
    pub fn compete(&self, setup: &Setup, use_it: Use<'_>) -> Result<(), Error> {
        match self.made {
            Made::VolatileBytes => self.in_memory(setup, use_it, &VolatileBytes::new(setup.key, setup.value)),
            Made::Volatile if setup.key == KeyKind::Word => {
                self.in_memory(setup, use_it, &OfMap::ordered(&Volatile::<u64, u64>::new()))
            }
            Made::Volatile => {
                self.in_memory(setup, use_it, &OfMap::ordered(&Volatile::<[u64; 2], [u64; 2]>::new()))
            }
            Made::InSpace(structure) => {
                let path = setup.folder.join(self.name);
                let pairs = pairs_bytes(setup);
                let memory = Mapped::create(&path, pairs + structure.beside(setup))?;
                // The mapping stays. If this process is killed, the memory goes.
                std::fs::remove_file(&path).map_err(Error::file("remove", &path))?;
                memory.prefault(0, pairs)?;
                if memory.durability().domain == Domain::Sync {
                    self.in_space(structure, &Os::new(Synced::new(memory)), setup, use_it)
                } else {
                    self.in_space(structure, &Os::new(memory), setup, use_it)
                }
            }
        }
    }

    /// Uses a target that needs no space.
    fn in_memory(&self, setup: &Setup, use_it: Use<'_>, target: &dyn Target) -> Result<(), Error> {
        self.on(&Os::new(Image::new(64)), setup, use_it, target)
    }

    fn on<E: Env>(&self, env: &E, setup: &Setup, use_it: Use<'_>, target: &dyn Target) -> Result<(), Error> {
        use_it(&mut InProcess { env, target, name: self.name, many: setup.many })
    }

    /// Makes it in the environment's space, and uses it.
    fn in_space<E: Env + Send>(
        &self,
        structure: Structure,
        env: &E,
        setup: &Setup,
        use_it: Use<'_>,
    ) -> Result<(), Error> {
        match (structure, setup.key) {
            (Structure::Store(engine, index), _) => {
                let store =
                    stores::create(engine, index, env).map_err(|error| Error::of(self.name, error))?;
                self.on(env, setup, use_it, &OfStore::new(&store, setup))
            }
            (_, KeyKind::Word) => self.map::<E, u64>(structure, env, setup, use_it),
            _ => self.map::<E, [u64; 2]>(structure, env, setup, use_it),
        }
    }

    /// The same of a map of fixed words.
    fn map<E: Env + Send, T: OfId>(
        &self,
        structure: Structure,
        env: &E,
        setup: &Setup,
        use_it: Use<'_>,
    ) -> Result<(), Error> {
        let said = |error: index::Error| Error::of(self.name, error);
        let whole = || Whole::create(env.space(), FIRST).map_err(said);
        match structure {
            Structure::Hash => {
                let map = HashTable::<&E, _, T, T>::create(env, whole()?, &hash::Options::default());
                self.on(env, setup, use_it, &OfMap::unordered(&map.map_err(said)?))
            }
            Structure::LogStructured => {
                let logs = setup.threads.clamp(8, 1024) as usize;
                let options = log_structured::Options { logs, ..log_structured::Options::default() };
                let map = LogTree::<&E, T, T, _>::create(env, whole()?, &options);
                self.ordered(env, setup, use_it, map)
            }
            Structure::Published(published) => self.published::<E, T>(published, env, setup, use_it),
            Structure::BTree | Structure::Store(..) => {
                let options = btree::Options { batch: setup.many, ..btree::Options::default() };
                self.ordered(env, setup, use_it, BTree::<&E, T, T, _>::create(env, whole()?, &options))
            }
        }
    }

    /// The same of a tree of the index study.
    fn published<E: Env + Send, T: OfId>(
        &self,
        published: Published,
        env: &E,
        setup: &Setup,
        use_it: Use<'_>,
    ) -> Result<(), Error> {
        let whole = Whole::create(env.space(), FIRST).map_err(|error| Error::of(self.name, error))?;
        let options = tree::Options { batch: setup.many, ..tree::Options::default() };
        macro_rules! of {
            ($variant:ty) => {
                self.ordered(env, setup, use_it, Tree::<&E, T, T, _, $variant>::create(env, whole, &options))
            };
        }
        match published {
            Published::Sorted => of!(Plain),
            Published::Unsorted => of!(UnsortedLeaf),
            Published::Logged => of!(Wal),
            Published::Shifted => of!(FastFair),
            Published::UnsortedDurable => of!(PersistentUnsorted),
            Published::ShiftedSelective => of!(FastFairSp),
        }
    }

    fn ordered<E: Env, T: OfId>(
        &self,
        env: &E,
        setup: &Setup,
        use_it: Use<'_>,
        map: Result<impl OrderedMap<T, T>, index::Error>,
    ) -> Result<(), Error> {
        let map = map.map_err(|error| Error::of(self.name, error))?;
        self.on(env, setup, use_it, &OfMap::ordered(&map))
    }
}

impl Structure {
    /// Bytes of the space beside those of the pairs: engines have a chunk for each thread and size, and
    /// garbage.
    fn beside(self, setup: &Setup) -> u64 {
        let chunks = if matches!(self, Structure::Store(..)) { 4 + 8 * u64::from(setup.threads) } else { 1 };
        chunks * (4 << 20)
    }
}

/// Bytes that the pairs need, with half-empty nodes and room to divide them.
fn pairs_bytes(setup: &Setup) -> u64 {
    let record = (setup.key.bytes() + setup.value) as u64;
    setup.records.saturating_mul(4 * record + 64).saturating_add(8 << 20).next_multiple_of(4096)
}

/// Bytes of a map's first extent.
const FIRST: u64 = 1 << 20;
