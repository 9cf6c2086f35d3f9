//! Stores of others.
//!
//! Those with a C interface are a page of C each (`c/`) around a common harness. The page is compiled into
//! the contest's folder with the machine's compiler, against the headers and library that are installed;
//! what is missing is named with the package that has it.

mod child;
mod compile;
#[cfg(feature = "peers")]
mod rust;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::runner::Use;
use crate::terms::{Durability, Setup, Skipped};

/// Somebody else's store.
#[derive(Debug)]
pub struct Peer {
    pub name: &'static str,
    pub summary: &'static str,
    /// Whether it can scan.
    pub ordered: bool,
    /// Whether each write waits until it is durable.
    durable: Promise,
    made: Made,
}

/// What a peer waits for when it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// A sync.
    Sync,
    /// Flush and fence where that is enough, else a sync.
    Flush,
    Nothing,
}

/// How a peer is made.
#[derive(Clone, Copy, Debug)]
enum Made {
    /// A program in C.
    C {
        source: &'static str,
        /// Beside `-O2`.
        libraries: &'static [&'static str],
        /// Of Debian.
        package: &'static str,
        /// The argument that chooses between two ways of using it.
        mode: &'static str,
    },
    /// A crate.
    Rust(#[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "named to say how to get it"))] Crate),
}

/// Those that the feature `peers` compiles in.
#[derive(Clone, Copy, Debug)]
enum Crate {
    Redb,
    Fjall,
}

const LMDB: &str = include_str!("c/lmdb.c");
const ROCKSDB: &str = include_str!("c/rocksdb.c");
const LEVELDB: &str = include_str!("c/leveldb.c");
const PMEMOBJ: &str = include_str!("c/pmemobj.c");

const fn in_c(
    name: &'static str,
    summary: &'static str,
    durable: Promise,
    source: (&'static str, &'static [&'static str], &'static str),
    mode: &'static str,
) -> Peer {
    let (source, libraries, package) = source;
    let ordered = !matches!(durable, Promise::Flush);
    Peer { name, summary, ordered, durable, made: Made::C { source, libraries, package, mode } }
}

const PEERS: &[Peer] = &[
    in_c(
        "lmdb",
        "LMDB, a transaction for each write",
        Promise::Sync,
        (LMDB, &["-llmdb"], "liblmdb-dev"),
        "durable",
    ),
    in_c(
        "lmdb-nosync",
        "LMDB with MDB_NOSYNC, a transaction for each write",
        Promise::Nothing,
        (LMDB, &["-llmdb"], "liblmdb-dev"),
        "fast",
    ),
    in_c(
        "rocksdb",
        "RocksDB, its log synced at each write",
        Promise::Sync,
        (ROCKSDB, &["-lrocksdb"], "librocksdb-dev"),
        "durable",
    ),
    in_c(
        "rocksdb-nowal",
        "RocksDB without its log",
        Promise::Nothing,
        (ROCKSDB, &["-lrocksdb"], "librocksdb-dev"),
        "fast",
    ),
    in_c(
        "leveldb",
        "LevelDB, its log synced at each write",
        Promise::Sync,
        (LEVELDB, &["-lleveldb"], "libleveldb-dev"),
        "durable",
    ),
    in_c(
        "leveldb-nosync",
        "LevelDB, its log not synced",
        Promise::Nothing,
        (LEVELDB, &["-lleveldb"], "libleveldb-dev"),
        "fast",
    ),
    in_c(
        "pmemobj-hash",
        "a hash table on libpmemobj, by its atomic allocations",
        Promise::Flush,
        (PMEMOBJ, &["-lpmemobj"], "libpmemobj-dev"),
        "atomic",
    ),
    in_c(
        "pmemobj-hash-tx",
        "the same by its transactions",
        Promise::Flush,
        (PMEMOBJ, &["-lpmemobj"], "libpmemobj-dev"),
        "tx",
    ),
    in_rust("redb", "redb, Durability::Immediate", Promise::Sync, Crate::Redb),
    in_rust("redb-nosync", "redb, Durability::None", Promise::Nothing, Crate::Redb),
    in_rust("fjall", "fjall, synced at each write", Promise::Sync, Crate::Fjall),
    in_rust("fjall-nosync", "fjall, not synced", Promise::Nothing, Crate::Fjall),
];

const fn in_rust(name: &'static str, summary: &'static str, durable: Promise, made: Crate) -> Peer {
    Peer { name, summary, ordered: true, durable, made: Made::Rust(made) }
}

impl Peer {
    /// All of them.
    pub fn all() -> impl Iterator<Item = &'static Peer> {
        PEERS.iter()
    }

    /// What it promises in a folder of memory, or an ordinary one.
    pub fn durability(&self, memory: bool) -> Durability {
        match self.durable {
            Promise::Flush if memory => Durability::Flushed,
            Promise::Flush | Promise::Sync => Durability::Synced,
            Promise::Nothing => Durability::Not,
        }
    }

    /// Why it can't take part, if so.
    pub fn refusal(&self, setup: &Setup) -> Option<String> {
        let lmdb = self.name.starts_with("lmdb") && setup.threads > 120;
        lmdb.then(|| "LMDB has room for 126 readers".to_owned())
    }

    /// Makes it, empty, and uses it; or says what is missing.
    ///
    /// # Errors
    /// If it can't be made, or `use_it` fails.
    pub fn compete(&self, setup: &Setup, use_it: Use<'_>) -> Result<Option<Skipped>, Error> {
        let skipped = |why: String, package: Option<&str>| Skipped {
            name: self.name.to_owned(),
            why,
            package: package.map(str::to_owned),
        };
        match self.made {
            Made::C { source, libraries, package, mode } => {
                match compile::program(&setup.folder, self.name, source, libraries) {
                    Ok(program) => child::compete(&program, self.name, mode, setup, use_it).map(|()| None),
                    Err(compile::Missing::Library) => {
                        let why = format!("it is not installed; apt-get install {package}");
                        Ok(Some(skipped(why, Some(package))))
                    }
                    Err(compile::Missing::Compiler(why)) => {
                        Ok(Some(skipped(format!("{why}; apt-get install gcc"), Some("gcc"))))
                    }
                    Err(compile::Missing::Failed(why)) => Ok(Some(skipped(why, None))),
                }
            }
            #[cfg(feature = "peers")]
            Made::Rust(which) => {
                let synced = self.durable == Promise::Sync;
                rust::compete(which, self.name, synced, setup, use_it).map(|()| None)
            }
            #[cfg(not(feature = "peers"))]
            Made::Rust(_) => {
                let why = "this strandline was built without it; cargo install --locked --path \
                           crates/face/strandline --features peers";
                Ok(Some(skipped(why.to_owned(), None)))
            }
        }
    }
}
