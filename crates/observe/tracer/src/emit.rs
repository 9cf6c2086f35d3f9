//! Calls to events: names, sites, order.

use std::collections::{BTreeMap, HashMap, VecDeque};

use event::{Batch, Definition, Event, Frame, NameId, Op, Order, Sink, SinkError, Site, SiteId, ThreadId};

use crate::stack::{Place, Stacks};

/// The variable whose acquires and releases put all calls in one order.
const ORDER: u64 = 1;
/// Call stacks that are distinguished.
const SITES: usize = 20_000;

/// Texts that were printed that are remembered.
const TEXTS: usize = 4096;
/// Bytes of writes that wait for a sync to return; more calls wait in front of theirs.
const WAITING: usize = 64 << 20;

/// What a call did, before its place in the order is known.
#[derive(Debug)]
pub struct Done {
    /// Who did it.
    pub thread: ThreadId,
    /// Which call.
    pub site: SiteId,
    /// Its operations.
    pub ops: Vec<Op>,
    /// The bytes of its writes.
    pub values: Vec<u8>,
    /// Whether others that follow come behind it.
    pub releases: bool,
}

/// Events on their way to a sink.
pub struct Emitter<'s> {
    sink: &'s mut dyn Sink,
    names: BTreeMap<String, NameId>,
    /// Names of what was printed: any number, so not all are remembered.
    texts: BTreeMap<String, NameId>,
    named_so_far: u32,
    sites: HashMap<(&'static str, Vec<Place>), SiteId>,
    /// Sites by what they are called: other addresses may have the same names.
    named: HashMap<Vec<Frame>, SiteId>,
    /// Calls in order; `None` where a sync has not returned yet.
    queue: VecDeque<(u64, Option<Done>)>,
    /// Bytes of the writes in it.
    waiting: usize,
    tickets: u64,
    seq: u64,
    /// Events delivered.
    pub events: u64,
}

impl<'s> Emitter<'s> {
    /// Nothing yet.
    pub fn new(sink: &'s mut dyn Sink) -> Self {
        let (names, texts, sites, named, queue) = Default::default();
        let (named_so_far, waiting, tickets, seq, events) = Default::default();
        Emitter { sink, names, texts, named_so_far, sites, named, queue, waiting, tickets, seq, events }
    }

    /// The number of a path.
    pub fn name(&mut self, path: &str) -> Result<NameId, SinkError> {
        if let Some(&id) = self.names.get(path) {
            return Ok(id);
        }
        let id = self.new_name(path)?;
        self.names.insert(path.to_owned(), id);
        Ok(id)
    }

    fn new_name(&mut self, name: &str) -> Result<NameId, SinkError> {
        self.named_so_far += 1;
        let id = NameId(self.named_so_far);
        self.sink.define(Definition::Name(id, name))?;
        Ok(id)
    }

    /// Whether so much waits for a sync that nothing more should be added.
    pub fn is_full(&self) -> bool {
        self.waiting > WAITING
    }

    /// The site of a call with this name, made with this stack.
    pub fn site(
        &mut self,
        call: &'static str,
        places: Vec<Place>,
        stacks: &mut Stacks,
        program: &str,
    ) -> Result<SiteId, SinkError> {
        // A run may call from any number of places; beyond these, only the call is named.
        let places = if self.sites.len() < SITES { places } else { Vec::new() };
        let key = (call, places);
        if let Some(&id) = self.sites.get(&key) {
            return Ok(id);
        }
        let mut frames = vec![Frame { function: call.to_owned(), file: String::new(), line: 0 }];
        frames.extend(stacks.names(call, &key.1));
        let id = match self.named.get(&frames) {
            Some(&id) => id,
            None => {
                let id = SiteId(self.named.len() as u32 + 1);
                let site =
                    Site { frames: frames.clone(), module: program.to_owned(), address: u64::from(id.0) };
                self.sink.define(Definition::Site(id, &site))?;
                self.named.insert(frames, id);
                id
            }
        };
        self.sites.insert(key, id);
        Ok(id)
    }

    /// The functions of a site, without the call itself.
    pub fn frames(&self, site: SiteId) -> Vec<Frame> {
        let found = self.named.iter().find(|(_, id)| **id == site);
        found.map_or_else(Vec::new, |(frames, _)| frames.iter().skip(1).cloned().collect())
    }

    /// A place in the order for a call that has begun.
    pub fn reserve(&mut self) -> u64 {
        self.tickets += 1;
        self.queue.push_back((self.tickets, None));
        self.tickets
    }

    /// What the call of that place did; `None` if it failed.
    pub fn resolve(&mut self, ticket: u64, done: Option<Done>) -> Result<(), SinkError> {
        if let Some(at) = self.queue.iter().position(|(number, _)| *number == ticket) {
            match done {
                Some(done) => {
                    self.waiting += done.values.len();
                    self.queue[at].1 = Some(done);
                }
                None => drop(self.queue.remove(at)),
            }
        }
        self.drain()
    }

    /// Gives the sink what stands in order. The thread is stopped meanwhile: to wake it on the processor that works here is
    /// far cheaper than to be woken on another one.
    fn drain(&mut self) -> Result<(), SinkError> {
        while let Some((_, Some(_))) = self.queue.front() {
            if let Some((_, Some(done))) = self.queue.pop_front() {
                self.waiting -= done.values.len();
                self.push(&done)?;
            }
        }
        Ok(())
    }

    /// A call that is over.
    pub fn done(&mut self, done: Done) -> Result<(), SinkError> {
        let ticket = self.reserve();
        self.resolve(ticket, Some(done))
    }

    /// A call that printed or acknowledged something; the name says what.
    pub fn said(&mut self, thread: ThreadId, site: SiteId, name: &str) -> Result<(), SinkError> {
        let known = self.texts.get(name).copied();
        let id = match known {
            Some(id) => id,
            None => {
                let id = self.new_name(name)?;
                if self.texts.len() >= TEXTS {
                    self.texts.clear();
                }
                self.texts.insert(name.to_owned(), id);
                id
            }
        };
        let region = event::printed_region(id);
        let ops = vec![Op::RegionBegin { region }, Op::RegionEnd { region }];
        self.done(Done { thread, site, ops, values: Vec::new(), releases: true })
    }

    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn push(&mut self, done: &Done) -> Result<(), SinkError> {
        let mut ops = Vec::with_capacity(done.ops.len() + 2);
        let start = |op: &Op| matches!(op, Op::ThreadStart { .. } | Op::Process { .. });
        let mut acquired = false;
        for &op in &done.ops {
            if !start(&op) && !acquired {
                ops.push(Op::Acquire { var: ORDER, order: Order::AcqRel, seq: self.next() });
                acquired = true;
            }
            ops.push(match op {
                Op::ThreadStart { .. } => Op::ThreadStart { seq: self.next() },
                Op::ThreadEnd { .. } => Op::ThreadEnd { seq: self.next() },
                Op::Spawn { child, .. } => Op::Spawn { child, seq: self.next() },
                op => op,
            });
        }
        if done.releases {
            ops.push(Op::Release { var: ORDER, order: Order::AcqRel, seq: self.next() });
        }
        self.events += ops.len() as u64;
        let mut values = &done.values[..];
        // A batch ends at each synchronisation.
        for op in ops {
            let event = Event { op, site: done.site, instructions: 0 };
            let (own, rest) = values.split_at(op.value_len().unwrap_or(0) as usize);
            values = rest;
            self.sink.push(Batch { thread: done.thread, time_ns: 0, events: &[event], values: own })?;
        }
        Ok(())
    }
}
