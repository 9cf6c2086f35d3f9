//! What can go wrong with a server.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use keyspace::Trouble;

/// Why a server can't run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It can't listen.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// Everybody could read and write.
    #[error("{0} can be reached from other machines: give a password, too (--password, --password-file)")]
    Open(SocketAddr),
    /// A certificate or key is of no use.
    #[error("{path}: {why}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The store is of no use.
    #[error("{path}: {source}")]
    Store {
        /// The store.
        path: PathBuf,
        /// What is wrong.
        source: Trouble,
    },
    /// The store was made with another engine.
    #[error("{path} was made with the engine {found}: leave --engine out, or give another store")]
    Engine {
        /// The store.
        path: PathBuf,
        /// Its engine.
        found: &'static str,
    },
    /// The store can't be opened, or closed.
    #[error(transparent)]
    File(#[from] kv::Error),
    /// The system lacks something.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It ended since what was written could not be made durable.
    #[error("stopped: {0}")]
    Broken(String),
}
