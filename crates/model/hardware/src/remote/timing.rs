//! The replicated log with time: NIC, wire, the replica's NIC with its buffer, bus, cache and memory.
//!
//! ```text
//!  client ─▶ NIC ─▶ wire ─▶ NIC, buffer ─▶ bus ─┬─▶ memory's queue ─▶ device     without DDIO
//!                                               └─▶ ways of the cache ─▶ memory  with DDIO, when evicted or flushed
//! ```
//!
//! A connection keeps its order. A write completes when the replica's NIC has it. Its lines leave the NIC's buffer for the bus, one
//! behind the other; a full buffer holds up what comes behind it. A read passes no write: its answer leaves when all that the connection
//! wrote is placed. A flush is answered when all that is durable, for which lines in the cache are looked up and written back. What
//! memory's queue has accepted is durable. A connection that breaks loses what is on its way; the client connects again and sends the append
//! again, which does no harm, as it writes the same.
//!
//! [`Outcome::lost`] is what a power failure of the replica at the worst moment takes: records that had been acknowledged and were not yet
//! durable. Who loses something here loses by enumeration, too ([`super::losses`]); not the other way round, as the answer may take longer
//! than the line to memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use device::Device;
use machine::{Config, ConfigError, LINE_BYTES, Time};

use super::Way;

/// A path to another machine. The defaults are guesses of the order of published ones; each is a key of a test's or study's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// From NIC to NIC.
    pub wire: Time,
    /// A NIC's own work per message.
    pub nic: Time,
    /// Of the wire, per line of 64 bytes.
    pub wire_line: Time,
    /// From the replica's NIC over its bus to the memory system, and as much back.
    pub bus: Time,
    /// Of the bus, per line.
    pub bus_line: Time,
    /// Lines that the replica's NIC buffers.
    pub nic_lines: usize,
    /// Whether the NIC writes into the cache.
    pub ddio: bool,
    /// Lines that it may have there; more evict the oldest.
    pub ddio_lines: usize,
    /// To look up a line in the cache for a flush.
    pub look_up: Time,
    /// To connect again.
    pub reconnect: Time,
}

impl Default for Path {
    fn default() -> Self {
        Path {
            wire: Time::from_ns(600),
            nic: Time::from_ns(150),
            wire_line: Time::from_ns(5),
            bus: Time::from_ns(250),
            bus_line: Time::from_ns(4),
            nic_lines: 64,
            ddio: true,
            ddio_lines: 32_768,
            look_up: Time::from_ns(30),
            reconnect: Time::from_ns(1_000_000),
        }
    }
}

/// What is replicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// How an append is made durable.
    pub way: Way,
    /// Bytes of a record.
    pub bytes: u64,
    /// Connections, a log each.
    pub connections: usize,
    /// Appends that a connection has under way; each begins when one is acknowledged.
    pub depth: usize,
    /// Appends in all.
    pub appends: u64,
    /// When the first connection breaks.
    pub breaks: Vec<Time>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the last append was acknowledged.
    pub elapsed: Time,
    /// How long appends took, on average and at most.
    pub mean: Time,
    /// At most.
    pub longest: Time,
    /// Records that were acknowledged and not durable, at the worst moment.
    pub lost: u64,
    /// Appends that were sent again because their connection broke.
    pub again: u64,
    /// Lines that the replica's memory was written.
    pub lines: u64,
}

/// What the machines share.
struct Replica {
    device: Box<dyn Device>,
    accept: Time,
    path: Path,
    sender: Time,
    receiver: Time,
    bus: Time,
    /// When lines leave the NIC's buffer.
    buffer: VecDeque<Time>,
    /// Lines in the cache that memory does not have, oldest first, by the number of their last write.
    cached: VecDeque<(u64, u64)>,
    newest: HashMap<u64, u64>,
    writes: u64,
    /// The last request to the device.
    asked: Time,
    lines: u64,
    /// When each write that is not waited for any longer was durable.
    durable: HashMap<u64, Time>,
}

#[derive(Clone, Debug, Default)]
struct Connection {
    arrived: Time,
    /// When all that it wrote so far is placed, and durable, if it goes to memory.
    placed: Time,
    /// Writes that the cache may have.
    writes: Vec<(u64, u64)>,
}

impl Replica {
    fn new(path: Path, memory: &Config) -> Result<Self, ConfigError> {
        // A machine's description that has no timing is refused by the machine.
        machine::Simulation::new(memory)?;
        let timing = memory.device.timing.clone().unwrap_or_else(|| unreachable!("the machine has time"));
        let queue = memory.memory.timing.as_ref();
        Ok(Replica {
            device: device::build(&memory.device, &timing, memory.seed),
            accept: queue.map_or(Time::ZERO, |queue| queue.write_accept),
            path,
            sender: Time::ZERO,
            receiver: Time::ZERO,
            bus: Time::ZERO,
            buffer: VecDeque::new(),
            cached: VecDeque::new(),
            newest: HashMap::new(),
            writes: 0,
            asked: Time::ZERO,
            lines: 0,
            durable: HashMap::new(),
        })
    }

    /// A message of so many lines is sent at `at`. Returns when the replica's NIC has it.
    fn arrives(&mut self, at: Time, lines: u64, connection: &mut Connection) -> Time {
        let path = self.path;
        self.sender = self.sender.max(at) + path.nic + path.wire_line * lines;
        let there = (self.sender + path.wire).max(connection.arrived).max(self.receiver);
        self.receiver = there + path.nic;
        connection.arrived = self.receiver;
        self.receiver
    }

    /// Memory is written a line. Returns when it is durable.
    fn memory(&mut self, at: Time, line: u64) -> Time {
        self.asked = self.asked.max(at + self.accept);
        self.asked = self.device.write(self.asked, line, true);
        self.lines += 1;
        self.asked
    }

    /// Lines of a write that has arrived.
    fn place(&mut self, arrived: Time, line: u64, connection: &mut Connection) {
        let mut start = arrived.max(self.bus);
        if self.buffer.len() >= self.path.nic_lines {
            start = start.max(self.buffer.pop_front().unwrap_or(Time::ZERO));
            self.receiver = self.receiver.max(start);
        }
        self.bus = start + self.path.bus_line;
        let there = self.bus + self.path.bus;
        self.writes += 1;
        let number = self.writes;
        if self.path.ddio {
            self.buffer.push_back(self.bus);
            connection.placed = connection.placed.max(there);
            connection.writes.push((line, number));
            if let Some(older) = self.newest.insert(line, number) {
                // It is durable when the newer is, or never.
                self.cached.retain(|&(_, cached)| cached != older);
            }
            self.cached.push_back((line, number));
            while self.cached.len() > self.path.ddio_lines {
                let Some((line, number)) = self.cached.pop_front() else { break };
                self.newest.remove(&line);
                let durable = self.memory(there, line);
                self.durable.insert(number, durable);
            }
        } else {
            let durable = self.memory(there, line);
            self.buffer.push_back(durable);
            connection.placed = connection.placed.max(durable);
            self.durable.insert(number, durable);
        }
    }

    /// A read or flush that has arrived. Returns when its answer is back.
    fn answer(&mut self, arrived: Time, flush: bool, connection: &mut Connection) -> Time {
        let mut ready = (arrived + self.path.bus).max(connection.placed);
        if flush && self.path.ddio {
            for (line, number) in std::mem::take(&mut connection.writes) {
                if self.newest.get(&line) != Some(&number) {
                    // Evicted, or overwritten since, which is flushed with what overwrote it.
                    continue;
                }
                ready += self.path.look_up;
                self.newest.remove(&line);
                self.cached.retain(|&(_, cached)| cached != number);
                let durable = self.memory(ready, line);
                self.durable.insert(number, durable);
                ready = ready.max(durable);
            }
        }
        ready + self.path.bus + self.path.wire + self.path.nic
    }
}

/// An append under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Client {
    connection: usize,
    begun: Time,
    /// The record is written and flushed; the end is next.
    second: bool,
}

impl Load {
    /// Runs it on a path to a machine of that memory.
    ///
    /// # Errors
    /// If the machine's description has no timing or is wrong.
    pub fn run(&self, path: Path, memory: &Config) -> Result<Outcome, ConfigError> {
        let mut replica = Replica::new(path, memory)?;
        let mut connections = vec![Connection::default(); self.connections];
        let mut breaks: VecDeque<Time> = self.breaks.iter().copied().collect();
        let client = |connection| Client { connection, begun: Time::ZERO, second: false };
        let mut ready: BinaryHeap<Reverse<(Time, Client)>> = (0..self.connections * self.depth)
            .map(|number| Reverse((Time::ZERO, client(number % self.connections))))
            .collect();
        let (mut begun, mut outcome, mut total) = (ready.len() as u64, Outcome::default(), Time::ZERO);
        // When each record was acknowledged, and the last of its writes.
        let mut acknowledged: Vec<(Time, Vec<u64>)> = Vec::new();
        let lines = self.bytes.div_ceil(LINE_BYTES).max(1);
        while let Some(Reverse((at, client))) = ready.pop() {
            let connection = &mut connections[client.connection];
            let area = (client.connection as u64) << 24;
            let record = area + 1 + (acknowledged.len() as u64 * lines) % (1 << 22);
            let mut end_at = Time::ZERO;
            let first = replica.writes + 1;
            if !client.second {
                let arrived = replica.arrives(at, lines, connection);
                (0..lines).for_each(|line| replica.place(arrived, record + line, connection));
                end_at = arrived + path.wire + path.nic;
            }
            if client.second || self.way != Way::FlushBoth {
                let arrived = replica.arrives(at, 1, connection);
                replica.place(arrived, area, connection);
                end_at = arrived + path.wire + path.nic;
            }
            if self.way != Way::Completion {
                let arrived = replica.arrives(at, 0, connection);
                end_at = replica.answer(arrived, self.way != Way::Read, connection);
            }
            // A connection that breaks takes with it what waits for a completion.
            if client.connection == 0 && breaks.front().is_some_and(|&cut| cut < end_at) {
                let cut = breaks.pop_front().unwrap_or(at).max(at);
                outcome.again += 1;
                ready.push(Reverse((cut + path.reconnect, Client { second: false, ..client })));
                continue;
            }
            if self.way == Way::FlushBoth && !client.second {
                ready.push(Reverse((end_at, Client { second: true, ..client })));
                continue;
            }
            // The end's line is overwritten by the next append; the record's are its own.
            acknowledged.push((end_at, (first..first + lines.min(replica.writes + 1 - first)).collect()));
            let took = end_at.since(client.begun);
            total += took;
            (outcome.elapsed, outcome.longest) = (outcome.elapsed.max(end_at), outcome.longest.max(took));
            if begun < self.appends {
                begun += 1;
                ready.push(Reverse((end_at, Client { begun: end_at, second: false, ..client })));
            }
        }
        let count = acknowledged.len().max(1) as u64;
        outcome.mean = Time(total.0 / count);
        outcome.lines = replica.lines;
        outcome.lost = worst(&acknowledged, &replica.durable);
        Ok(outcome)
    }
}

/// Records acknowledged and not durable, at the worst moment.
fn worst(acknowledged: &[(Time, Vec<u64>)], durable: &HashMap<u64, Time>) -> u64 {
    let mut changes: Vec<(Time, i64)> = Vec::new();
    for (at, writes) in acknowledged {
        let when = |write| durable.get(write).copied().unwrap_or(Time::NEVER);
        let safe = writes.iter().map(when).max().unwrap_or(Time::ZERO);
        if safe > *at {
            changes.extend([(*at, 1), (safe, -1)]);
        }
    }
    changes.sort_unstable();
    let mut open = 0;
    let most = changes.iter().map(|(_, change)| {
        open += change;
        open
    });
    most.max().unwrap_or(0).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::super::losses;
    use super::*;

    fn load(way: Way) -> Load {
        Load { way, bytes: 256, connections: 1, depth: 1, appends: 200, breaks: Vec::new() }
    }

    fn run(load: &Load, path: Path) -> Outcome {
        let memory = Config::preset("xpoint").expect("a preset");
        load.run(path, &memory).expect("a machine with time")
    }

    #[test]
    fn what_loses_by_enumeration_loses_with_time() {
        for ddio in [false, true] {
            for way in Way::ALL {
                let far = Path { ddio, bus: Time::from_ns(2000), ..Path::default() };
                let timed = run(&load(way), far);
                let counted = losses(2, way, ddio);
                assert_eq!(timed.lost > 0, counted.lost > 0, "{way:?} DDIO {ddio}: {timed:?} {counted:?}");
            }
        }
    }

    /// On an idle path the answer takes longer than the line to memory, so a test of the real thing may find nothing: it is under load that
    /// records are lost.
    #[test]
    fn a_wrong_way_may_look_right_until_there_is_load() {
        let path = Path { ddio: false, ..Path::default() };
        assert_eq!(run(&load(Way::Completion), path).lost, 0);
        let deep = Load { depth: 64, appends: 2000, bytes: 4096, ..load(Way::Completion) };
        assert!(run(&deep, path).lost > 0);
        assert_eq!(run(&Load { way: Way::Flush, ..deep }, path).lost, 0);
    }

    #[test]
    fn an_append_takes_what_a_hand_counts() {
        let path = Path { ddio: false, ..Path::default() };
        let one = |way| run(&Load { appends: 1, ..load(way) }, path).mean.ns();
        // Sender, wire and receiver for the record's four lines and the end's one behind it, and the way back.
        let arrives = 150.0 + 20.0 + 150.0 + 5.0 + 600.0 + 150.0;
        assert_eq!(one(Way::Completion), arrives + 600.0 + 150.0);
        let read = one(Way::Read);
        assert!(read >= one(Way::Completion) + 150.0 + 2.0 * 250.0, "{read}");
        assert_eq!(read, one(Way::Flush), "without a cache they ask for the same");
    }

    #[test]
    fn what_is_safe_takes_longer() {
        for ddio in [false, true] {
            let took = Way::ALL.map(|way| run(&load(way), Path { ddio, ..Path::default() }).mean);
            assert!(took[0] < took[1] && took[1] <= took[2] && took[2] < took[3], "DDIO {ddio}: {took:?}");
        }
        let [with, without] =
            [true, false].map(|ddio| run(&load(Way::Flush), Path { ddio, ..Path::default() }).mean);
        assert!(with > without, "lines are looked up: {with:?} {without:?}");
    }

    #[test]
    fn a_small_cache_evicts_and_a_small_buffer_holds_up() {
        let deep = Load { depth: 32, appends: 2000, ..load(Way::Completion) };
        let ways = |ddio_lines| run(&deep, Path { ddio_lines, ..Path::default() });
        assert_eq!(ways(1 << 20).lines, 0, "nothing is evicted, nothing is durable");
        assert!(ways(64).lines > 7000 && ways(64).lost < ways(1 << 20).lost);
        let buffer = |nic_lines| run(&deep, Path { ddio: false, nic_lines, ..Path::default() });
        assert!(buffer(1).elapsed > buffer(64).elapsed);
    }

    #[test]
    fn appends_overlap_until_something_is_busy() {
        let at = |depth| run(&Load { depth, appends: 2000, ..load(Way::Flush) }, Path::default()).elapsed;
        assert!(at(1) > at(4) && at(4) > at(16), "{} {} {}", at(1), at(4), at(16));
    }

    #[test]
    fn a_broken_connection_sends_again_and_loses_nothing_that_was_acknowledged() {
        let breaks = vec![Time::from_ns(20_000), Time::from_ns(1_100_000)];
        let broken = Load { breaks, ..load(Way::FlushBoth) };
        let (with, without) = (run(&broken, Path::default()), run(&load(Way::FlushBoth), Path::default()));
        assert_eq!((with.again, with.lost), (2, 0));
        assert!(with.elapsed >= without.elapsed + Time::from_ns(2_000_000), "{with:?} {without:?}");
        assert!(with.longest >= Time::from_ns(1_000_000));
    }
}
