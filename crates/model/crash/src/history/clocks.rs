//! What each thread knows of the others: vector clocks over the run's synchronisation.

use std::collections::HashMap;

use event::{Op, ThreadId};

use super::Stamp;

/// Times by agent; an agent beyond the end is not known at all.
type Clock = Vec<u32>;

fn merge(into: &mut Clock, from: &[u32]) -> bool {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    let mut changed = false;
    for (into, &from) in into.iter_mut().zip(from) {
        changed |= from > *into;
        *into = from.max(*into);
    }
    changed
}

fn know(clock: &mut Clock, agent: u32, time: u32) -> bool {
    let agent = agent as usize;
    if clock.len() <= agent {
        clock.resize(agent + 1, 0);
    }
    let changed = time > clock[agent];
    clock[agent] = time.max(clock[agent]);
    changed
}

#[derive(Debug)]
struct Agent {
    time: u32,
    clock: Clock,
    /// The segment that has `clock`; `None` if it changed since.
    segment: Option<u32>,
}

#[derive(Debug, Default)]
struct Thread {
    agent: u32,
    /// Agents since the last join; without strands only `agent`.
    strands: Vec<u32>,
    /// What a new strand knows: everything up to the last join.
    joined: Clock,
    /// What was acquired since; a strand knows it only behind the next join.
    acquired: Clock,
}

/// Gives out stamps.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// Whether synchronisation takes effect at joins only.
    strands: bool,
    threads: HashMap<ThreadId, Thread>,
    agents: Vec<Agent>,
    pub segments: Vec<Clock>,
    published: HashMap<u64, Clock>,
    /// What the parent knew, and what an ended thread knew.
    starts: HashMap<ThreadId, Clock>,
    ends: HashMap<ThreadId, Clock>,
}

impl Clocks {
    pub fn new(strands: bool) -> Self {
        Clocks { strands, ..Clocks::default() }
    }

    pub fn agents(&self) -> u32 {
        self.agents.len() as u32
    }

    /// Whether more than one thread was seen.
    pub fn concurrent(&self) -> bool {
        self.threads.len() > 1
    }

    fn new_agent(&mut self, clock: Clock) -> u32 {
        self.agents.push(Agent { time: 0, clock, segment: None });
        self.agents.len() as u32 - 1
    }

    fn thread(&mut self, thread: ThreadId) -> &mut Thread {
        if !self.threads.contains_key(&thread) {
            let clock = self.starts.get(&thread).cloned().unwrap_or_default();
            let agent = self.new_agent(clock.clone());
            self.threads.insert(
                thread,
                Thread { agent, strands: vec![agent], joined: clock, acquired: Clock::new() },
            );
        }
        self.threads.entry(thread).or_default()
    }

    /// The agent that a thread is now.
    pub fn agent(&mut self, thread: ThreadId) -> u32 {
        self.thread(thread).agent
    }

    /// Agents of the thread since its last join.
    pub fn strands(&mut self, thread: ThreadId) -> Vec<u32> {
        self.thread(thread).strands.clone()
    }

    /// The stamp of something that the thread does now.
    pub fn tick(&mut self, thread: ThreadId) -> Stamp {
        let agent = self.thread(thread).agent;
        self.tick_agent(agent)
    }

    pub fn tick_agent(&mut self, agent: u32) -> Stamp {
        let state = &mut self.agents[agent as usize];
        state.time += 1;
        let segment = *state.segment.get_or_insert_with(|| {
            self.segments.push(state.clock.clone());
            self.segments.len() as u32 - 1
        });
        Stamp { agent, time: state.time, segment }
    }

    /// Whether what the thread does next comes after `before` for certain.
    pub fn knows(&mut self, thread: ThreadId, before: Stamp) -> bool {
        let agent = self.thread(thread).agent;
        agent == before.agent
            || self.agents[agent as usize]
                .clock
                .get(before.agent as usize)
                .is_some_and(|&time| time >= before.time)
    }

    /// As [`Clocks::knows`], of a thread that was seen before.
    pub fn known(&self, thread: ThreadId, before: Stamp) -> bool {
        self.threads.get(&thread).is_some_and(|state| {
            let clock = &self.agents[state.agent as usize].clock;
            state.agent == before.agent
                || clock.get(before.agent as usize).is_some_and(|&time| time >= before.time)
        })
    }

    /// The thread starts a strand that knows only what it knew at its last join.
    pub fn new_strand(&mut self, thread: ThreadId) {
        let clock = self.thread(thread).joined.clone();
        let agent = self.new_agent(clock);
        let state = self.thread(thread);
        state.agent = agent;
        state.strands.push(agent);
    }

    /// All strands of the thread end; what follows knows all of them, and what was acquired.
    pub fn join_strands(&mut self, thread: ThreadId) {
        let strands = std::mem::take(&mut self.thread(thread).strands);
        let mut clock = std::mem::take(&mut self.thread(thread).acquired);
        for agent in strands {
            let state = &self.agents[agent as usize];
            merge(&mut clock, &state.clock);
            know(&mut clock, agent, state.time);
        }
        let agent = self.new_agent(clock.clone());
        let state = self.thread(thread);
        state.agent = agent;
        state.strands = vec![agent];
        state.joined = clock;
    }

    /// What others learn from the thread now.
    fn knowledge(&mut self, thread: ThreadId) -> Clock {
        let strands = self.strands;
        let state = self.thread(thread);
        if strands {
            return state.joined.clone();
        }
        let agent = state.agent;
        let mut clock = self.agents[agent as usize].clock.clone();
        know(&mut clock, agent, self.agents[agent as usize].time);
        clock
    }

    fn learn(&mut self, thread: ThreadId, clock: &[u32]) {
        let strands = self.strands;
        let state = self.thread(thread);
        if strands {
            merge(&mut state.acquired, clock);
            return;
        }
        let agent = state.agent as usize;
        if merge(&mut self.agents[agent].clock, clock) {
            self.agents[agent].segment = None;
        }
    }

    /// The thread read what was stored at `stored`.
    pub fn read_from(&mut self, thread: ThreadId, stored: Stamp) {
        if self.strands || self.knows(thread, stored) {
            return;
        }
        // What the writer knew when it stored, and the store itself.
        let mut clock = self.segments[stored.segment as usize].clone();
        know(&mut clock, stored.agent, stored.time);
        self.learn(thread, &clock);
    }

    /// Takes note of a synchronisation.
    pub fn synchronise(&mut self, thread: ThreadId, op: &Op) {
        match *op {
            Op::Release { var, .. } | Op::Unlock { lock: var, .. } => {
                let clock = self.knowledge(thread);
                merge(self.published.entry(var).or_default(), &clock);
            }
            Op::Acquire { var, .. } | Op::Lock { lock: var, .. } => {
                if let Some(clock) = self.published.get(&var).cloned() {
                    self.learn(thread, &clock);
                }
            }
            Op::Spawn { child, .. } => {
                let clock = self.knowledge(thread);
                self.starts.insert(child, clock);
            }
            Op::ThreadStart { .. } => {
                self.thread(thread);
            }
            Op::ThreadEnd { .. } => {
                let clock = self.knowledge(thread);
                self.ends.insert(thread, clock);
            }
            Op::Join { thread: ended, .. } => {
                if let Some(clock) = self.ends.get(&ended).cloned() {
                    self.learn(thread, &clock);
                }
            }
            // No synchronisation.
            Op::Load { .. }
            | Op::Store { .. }
            | Op::StoreNt { .. }
            | Op::Flush { .. }
            | Op::Demote { .. }
            | Op::Prefetch { .. }
            | Op::Context
            | Op::Fence(_)
            | Op::Alloc { .. }
            | Op::Free { .. }
            | Op::Map { .. }
            | Op::MapOffset { .. }
            | Op::MapSync { .. }
            | Op::Unmap { .. }
            | Op::RegionBegin { .. }
            | Op::RegionEnd { .. }
            | Op::Phase { .. }
            | Op::Strand(_)
            | Op::Process { .. }
            | event::file_operations!() => {}
        }
    }
}
