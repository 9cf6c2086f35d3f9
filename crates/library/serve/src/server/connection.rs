//! One client: requests in, replies out.
//!
//! Requests are read and done while replies wait, so that a client may send many before it reads. Replies
//! wait for two things: that what they show is durable, and that the client reads. Both are bounded; a client
//! that leaves too much unread, or for too long, is dropped.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::BytesMut;
use keyspace::{Client, Reply, Session, Version};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, watch};

use crate::request::{Limits, Parser};
use crate::server::hub::{Connected, Hub, now};

/// Bytes that are read at a time, at least.
const READ: usize = 16 * 1024;
/// A buffer that was larger is given back when it is empty.
const KEPT: usize = 1 << 20;

/// Replies that were not sent yet.
#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    /// How many of these were sent.
    sent: usize,
    /// How many may be sent: what they show is durable.
    ready: usize,
    /// Where replies end that wait for a ticket.
    marks: VecDeque<(usize, u64)>,
}

impl Outgoing {
    /// Everything up to here may be sent once the ticket is durable.
    fn mark(&mut self, ticket: u64) {
        match self.marks.back_mut() {
            Some((end, last)) if *last == ticket => *end = self.bytes.len(),
            _ => self.marks.push_back((self.bytes.len(), ticket)),
        }
    }

    fn release(&mut self, durable: u64) {
        while let Some((end, _)) = self.marks.front().filter(|(_, ticket)| *ticket <= durable) {
            self.ready = *end;
            self.marks.pop_front();
        }
    }

    fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    fn was_sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            if self.bytes.capacity() > KEPT {
                self.bytes = Vec::new();
            }
            self.bytes.clear();
            (self.sent, self.ready) = (0, 0);
        } else if self.sent > KEPT {
            self.bytes.drain(..self.sent);
            self.ready -= self.sent;
            self.marks.iter_mut().for_each(|(end, _)| *end -= self.sent);
            self.sent = 0;
        }
    }
}

/// A client's connection.
struct Connection {
    hub: Arc<Hub>,
    session: Session,
    input: BytesMut,
    parser: Parser,
    output: Outgoing,
    id: u64,
    /// What of the output is counted among the replies of all clients.
    counted: Arc<AtomicUsize>,
    /// Whether there may be whole requests in the input.
    more: bool,
    /// Whether what the client waits for is tried again.
    again: bool,
    durable: watch::Receiver<u64>,
    news: watch::Receiver<u64>,
    end: Arc<Notify>,
}

/// Serves a client until it, or the server, ends.
pub async fn serve<S>(hub: Arc<Hub>, stream: S, addresses: [SocketAddr; 2], id: u64)
where
    S: AsyncRead + AsyncWrite,
{
    let end = Arc::new(Notify::new());
    let session = Session::new(id, hub.options.password.is_none());
    let time = now();
    let client = Client {
        addresses: addresses.map(|address| address.to_string()),
        since: time,
        active: time,
        last: "NULL",
        database: 0,
        queued: -1,
        name: Vec::new(),
        library: [Vec::new(), Vec::new()],
        version: Version::Two,
    };
    hub.core().shared.clients.insert(id, client);
    let counted = Arc::new(AtomicUsize::new(0));
    hub.enter(id, Connected { end: Arc::clone(&end), unread: Arc::clone(&counted) });
    let (durable, news) = (hub.durable(), hub.news.subscribe());
    let mut connection = Connection {
        hub,
        session,
        input: BytesMut::with_capacity(READ),
        parser: Parser::default(),
        output: Outgoing::default(),
        id,
        counted,
        more: false,
        again: false,
        durable,
        news,
        end,
    };
    // How a connection ends is the client's business: it is gone in any case.
    _ = connection.run(stream).await;
    let Connection { hub, mut session, .. } = connection;
    hub.core().leave(&mut session);
    hub.leave(id);
}

impl Connection {
    async fn run<S: AsyncRead + AsyncWrite>(&mut self, stream: S) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut ends = self.hub.ends.subscribe();
        loop {
            self.perform();
            if !self.hub.count(self.id, &self.counted, self.output.unsent()) {
                return Ok(());
            }
            let waits = !self.output.marks.is_empty();
            if self.session.ends && self.output.unsent() == 0 {
                return writer.shutdown().await;
            }
            if *ends.borrow_and_update() && (!self.session.ends || waits) {
                if self.hub.broken().is_some() {
                    // What waits will never be durable.
                    return Ok(());
                }
                if !self.session.ends {
                    self.session.ends = true;
                    continue;
                }
            }
            let unsent = self.output.sent..self.output.ready;
            let writes = !unsent.is_empty();
            let waiting = self.session.waiting.is_some();
            let until = self.session.waiting.as_ref().and_then(|waiting| waiting.until);
            let reads = !self.session.ends && !self.more && self.input.len() < self.hub.limits.request;
            let turn = self.more && !self.is_full() && !waiting;
            if self.input.capacity() - self.input.len() < READ && reads {
                let wanted = self.parser.wanted().saturating_sub(self.input.len());
                // What is announced is believed by a megabyte at a time.
                self.input.reserve(wanted.clamp(READ, KEPT));
            }
            let patience = self.hub.options.patience;
            let slow = pin!(async {
                tokio::time::sleep(patience).await;
            });
            let time_up = pin!(async {
                let rest = until.unwrap_or(0).saturating_sub(now());
                tokio::time::sleep(Duration::from_millis(rest)).await;
            });
            tokio::select! {
                biased;
                sent = writer.write(&self.output.bytes[unsent]), if writes => match sent? {
                    0 => return Ok(()),
                    sent => self.output.was_sent(sent),
                },
                changed = self.durable.changed(), if waits => {
                    changed.map_err(io::Error::other)?;
                    let durable = *self.durable.borrow_and_update();
                    self.output.release(durable);
                }
                read = reader.read_buf(&mut self.input), if reads => match read? {
                    0 => self.session.ends = true,
                    _ => self.more = true,
                },
                () = tokio::task::yield_now(), if turn => {}
                _ = self.news.changed(), if waiting => self.again = true,
                () = time_up, if until.is_some() => self.again = true,
                () = self.end.notified() => return Ok(()),
                _ = ends.changed() => {}
                () = slow, if writes => {
                    self.hub.core().shared.stats.slow += 1;
                    return Ok(());
                }
            }
        }
    }

    /// Does the requests that are there, as many as are a client's turn.
    fn perform(&mut self) {
        if !(self.more || self.again) || self.session.ends {
            return;
        }
        let time = now();
        let hub = Arc::clone(&self.hub);
        let mut core = hub.core();
        let mut done = 0;
        if std::mem::take(&mut self.again)
            && let Some(reply) = core.execute_again(&mut self.session, time)
        {
            reply.write(self.session.version, &mut self.output.bytes);
            self.more = true;
        }
        while self.more && !self.session.ends && self.session.waiting.is_none() {
            if done >= hub.options.pipeline || self.is_full() {
                break;
            }
            let limits = if self.session.trusted { hub.limits } else { Limits::STRANGER };
            match self.parser.advance(&self.input, &limits) {
                Ok(false) => self.more = false,
                Ok(true) => {
                    let args = self.parser.arguments(&self.input);
                    let reply = core.execute(&mut self.session, &args, time);
                    reply.write(self.session.version, &mut self.output.bytes);
                    self.parser.take(&mut self.input);
                    done += 1;
                }
                Err(malformed) => {
                    let error = Reply::Error(format!("ERR {malformed}").into_bytes());
                    error.write(self.session.version, &mut self.output.bytes);
                    self.session.ends = true;
                }
            }
        }
        let ticket = core.keyspace.ticket();
        let ends = core.shared.ends;
        if std::mem::take(&mut core.shared.news) {
            hub.news.send_modify(|news| *news += 1);
        }
        let killed = std::mem::take(&mut core.shared.killed);
        drop(core);
        hub.end(&killed);
        self.output.mark(ticket);
        if hub.want(ticket) || hub.options.early {
            self.output.release(ticket);
        }
        if ends {
            hub.ends.send_replace(true);
        }
        if self.input.is_empty() && self.input.capacity() > KEPT {
            self.input = BytesMut::with_capacity(READ);
        }
    }

    /// Whether so much waits for the client that nothing more is done for it.
    fn is_full(&self) -> bool {
        self.output.unsent() > self.hub.options.queued
    }
}
