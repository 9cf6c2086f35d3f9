//! What the tasks of a server share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use keyspace::{Core, Records, Trouble};
use tokio::sync::{Notify, watch};

use crate::request::Limits;
use crate::server::settings::Options;

/// A client's connection.
pub struct Connected {
    /// What ends it.
    pub end: Arc<Notify>,
    /// Bytes of replies that wait for the client and are counted among those of all.
    pub unread: Arc<AtomicUsize>,
}

/// What the tasks of a server share.
pub struct Hub {
    core: Mutex<Core>,
    records: Arc<dyn Records>,
    /// How the server is run.
    pub options: Options,
    /// How large requests may be.
    pub limits: Limits,
    /// Bytes of replies that wait for all clients.
    queued: AtomicUsize,
    /// The newest ticket that is durable.
    durable: watch::Sender<u64>,
    /// The newest ticket that somebody waits for.
    wanted: AtomicU64,
    wake: Notify,
    connections: Mutex<BTreeMap<u64, Connected>>,
    /// Changes whenever there is something that clients may wait for.
    pub news: watch::Sender<u64>,
    /// Whether the server ends.
    pub ends: watch::Sender<bool>,
}

/// Milliseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Hub {
    /// Of a server without clients.
    pub fn new(core: Core, options: Options) -> Hub {
        let limits = Limits {
            arguments: 1 << 20,
            argument: options.request,
            // The lengths before the arguments count, too.
            request: options.request.saturating_add(1 << 20),
        };
        let records = Arc::clone(core.keyspace.records());
        Hub {
            core: Mutex::new(core),
            records,
            options,
            limits,
            queued: AtomicUsize::new(0),
            durable: watch::Sender::new(0),
            wanted: AtomicU64::new(0),
            wake: Notify::new(),
            connections: Mutex::new(BTreeMap::new()),
            news: watch::Sender::new(0),
            ends: watch::Sender::new(false),
        }
    }

    /// The store, for one client at a time.
    pub fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Connected>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows a client's connection from now on.
    pub fn enter(&self, id: u64, connected: Connected) {
        self.connections().insert(id, connected);
    }

    /// Forgets a client that is gone, and the replies that it left.
    pub fn leave(&self, id: u64) {
        if let Some(connected) = self.connections().remove(&id) {
            self.queued.fetch_sub(connected.unread.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// So many bytes wait for a client. If it is too much for all together, those for whom most waits are
    /// dropped; whether this client may stay.
    pub fn count(&self, id: u64, unread: &AtomicUsize, now: usize) -> bool {
        if now != unread.load(Ordering::Relaxed) {
            self.queued.fetch_add(now, Ordering::Relaxed);
            self.queued.fetch_sub(unread.swap(now, Ordering::Relaxed), Ordering::Relaxed);
        }
        self.queued.load(Ordering::Relaxed) <= self.options.queued_all || self.drop_slowest(id)
    }

    /// Drops clients until what waits for the others is not too much; whether `id` is not among them.
    fn drop_slowest(&self, id: u64) -> bool {
        let (mut dropped, mut stays) = (0, true);
        let connections = self.connections();
        while self.queued.load(Ordering::Relaxed) > self.options.queued_all {
            let most = connections.iter().max_by_key(|(_, of)| of.unread.load(Ordering::Relaxed));
            let Some((slowest, of)) = most else { break };
            // It counts no more, or others would be dropped until it has gone.
            let bytes = of.unread.swap(0, Ordering::Relaxed);
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            if bytes == 0 {
                break;
            }
            dropped += 1;
            stays &= *slowest != id;
            of.end.notify_one();
        }
        drop(connections);
        self.core().shared.stats.slow += dropped;
        stays
    }

    /// Ends clients.
    pub fn end(&self, ids: &[u64]) {
        for id in ids {
            if let Some(connected) = self.connections().get(id) {
                connected.end.notify_one();
            }
        }
    }

    /// The newest ticket that is durable, as it changes.
    pub fn durable(&self) -> watch::Receiver<u64> {
        self.durable.subscribe()
    }

    /// Has everything up to a ticket made durable: at once where that takes no time, or together with what
    /// other clients wait for. Whether it is durable already.
    pub fn want(&self, ticket: u64) -> bool {
        if ticket <= *self.durable.borrow() {
            return true;
        }
        if !self.records.is_slow() {
            return self.make_durable(ticket).is_ok();
        }
        self.wanted.fetch_max(ticket, Ordering::AcqRel);
        self.wake.notify_one();
        false
    }

    /// Waits, and says so.
    fn make_durable(&self, ticket: u64) -> Result<(), Trouble> {
        self.announce(ticket, self.records.wait(ticket))
    }

    /// Says to whom it may concern that a wait has ended.
    fn announce(&self, ticket: u64, result: Result<(), Trouble>) -> Result<(), Trouble> {
        let mut core = self.core();
        core.shared.stats.syncs += 1;
        match &result {
            Ok(()) => self.durable.send_if_modified(|durable| {
                let newer = ticket > *durable;
                *durable = ticket.max(*durable);
                newer
            }),
            Err(trouble) => {
                let why = || format!("what was written could not be made durable ({trouble})");
                core.shared.broken.get_or_insert_with(why);
                self.ends.send_replace(true)
            }
        };
        result
    }

    /// Makes durable what clients wait for: while one wait goes on, those that come form the next.
    pub async fn make_durable_together(self: Arc<Hub>) {
        loop {
            self.wake.notified().await;
            loop {
                if self.wanted.load(Ordering::Acquire) <= *self.durable.borrow() {
                    break;
                }
                // What was written since somebody began to wait comes along.
                let ticket = self.core().keyspace.ticket();
                let records = Arc::clone(&self.records);
                // Said here and not there: a thread that is not the runtime's own wakes each client by a
                // system call.
                let Ok(waited) = tokio::task::spawn_blocking(move || records.wait(ticket)).await else {
                    return;
                };
                if self.announce(ticket, waited).is_err() {
                    return;
                }
            }
        }
    }

    /// Makes everything durable, before the server ends.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn finish(&self) -> Result<(), Trouble> {
        let ticket = self.core().keyspace.ticket();
        self.make_durable(ticket)
    }

    /// Whether something that was written could not be made durable.
    pub fn broken(&self) -> Option<String> {
        self.core().shared.broken.clone()
    }
}
