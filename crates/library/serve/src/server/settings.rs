//! How a server is run.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate, with those that it rests on.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// How a server is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens.
    pub bind: IpAddr,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// The password that clients need.
    pub password: Option<Vec<u8>>,
    /// Speak TLS, and nothing else.
    pub tls: Option<Tls>,
    /// Whether replies are sent before what they show is durable.
    pub early: bool,
    /// Clients at a time.
    pub connections: usize,
    /// Bytes of a request; an argument has at most as many.
    pub request: usize,
    /// Bytes of replies that wait for one client, and for all clients together.
    pub queued: usize,
    /// The same for all clients together.
    pub queued_all: usize,
    /// Requests of one client that are done before others get their turn.
    pub pipeline: usize,
    /// How long a client may leave replies unread.
    pub patience: Duration,
    /// For random choices, as of `SPOP`.
    pub seed: u64,
    /// The engine's name, for `INFO`.
    pub engine: String,
    /// The store's path, for `INFO`.
    pub path: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 6379,
            password: None,
            tls: None,
            early: false,
            connections: 10_000,
            request: 64 << 20,
            queued: 64 << 20,
            queued_all: 1 << 30,
            pipeline: 256,
            patience: Duration::from_secs(30),
            seed: 1,
            engine: String::new(),
            path: String::new(),
        }
    }
}
