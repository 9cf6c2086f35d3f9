//! Which node a page is on: that of the thread that touched it first, as systems place pages that nobody placed.

use std::collections::HashMap;

const PAGES_MAX: usize = 1 << 20;

/// Pages by number, with the thread that touched them first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    first: HashMap<u64, u32>,
    pub(crate) misses: u64,
    pub(crate) remote: u64,
    /// Of the latter: who touched the page first, who used it, how often.
    pub(crate) pairs: HashMap<(u32, u32), u64>,
}

/// The node of a thread: threads go round the cores, and nodes have equal parts of them.
fn node(thread: u32, cores: u32, nodes: u32) -> u32 {
    let cores = cores.max(nodes).max(1);
    thread % cores * nodes / cores
}

impl Pages {
    /// A thread misses a line of a page; whether the page is on another node.
    pub(crate) fn missed(&mut self, addr: u64, thread: u32, cores: u32, nodes: u32) -> bool {
        let page = addr >> 12;
        if self.first.len() >= PAGES_MAX && !self.first.contains_key(&page) {
            return false;
        }
        let first = *self.first.entry(page).or_insert(thread);
        self.misses += 1;
        let remote = node(first, cores, nodes) != node(thread, cores, nodes);
        if remote {
            self.remote += 1;
            if self.pairs.len() < 4096 {
                *self.pairs.entry((first, thread)).or_default() += 1;
            }
        }
        remote
    }
}
