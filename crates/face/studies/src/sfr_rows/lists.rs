//! CQ, a queue under one lock, and LL, a sorted list with hand-over-hand locking.

use std::sync::atomic::{AtomicU64, Ordering};

use sfr::{Error, Thread};
use space::Env;

use super::program::{Locks, Program, mix, payload};
use crate::pattern::Draw;

/// CQ: blocks of the pool, inserted and deleted.
pub(super) struct Queue<E: Env> {
    lock: Locks<E>,
    queue: u64,
    stores: u64,
}

/// Elements at most.
const LENGTH: u64 = 1024;
/// Fields of the queue.
const HEAD: u64 = 0;
const TAIL: u64 = 8;
const INSERTED: u64 = 16;
const DELETED: u64 = 24;

fn insert<E: Env>(thread: &mut Thread<'_, '_, E>, queue: u64, stores: u64) -> Result<(), Error> {
    let node = thread.alloc(16 + stores * 8)?;
    let serial = thread.load_u64(queue + INSERTED) + 1;
    thread.store_u64(node, 0);
    thread.store_u64(node + 8, serial);
    payload(thread, node + 16, stores, serial, mix(serial));
    let tail = thread.load_u64(queue + TAIL);
    thread.store_u64(tail, node);
    thread.store_u64(queue + TAIL, node);
    thread.store_u64(queue + INSERTED, serial);
    Ok(())
}

impl<E: Env> Program<E> for Queue<E> {
    fn setup(thread: &mut Thread<'_, '_, E>, stores: u64) -> Result<u64, Error> {
        let queue = thread.zalloc(32)?;
        let first = thread.zalloc(16 + stores * 8)?;
        thread.store_u64(queue + HEAD, first);
        thread.store_u64(queue + TAIL, first);
        (0..LENGTH / 2).try_for_each(|_| insert(thread, queue, stores))?;
        Ok(queue)
    }

    fn start(env: &E, root: u64, stores: u64) -> Self {
        Queue { lock: Locks::new(env, 1), queue: root, stores }
    }

    fn operate(&self, env: &E, thread: &mut Thread<'_, '_, E>, draw: &mut Draw) -> Result<(), Error> {
        let wanted = draw.below(2) == 1;
        let held = self.lock.take(env, thread, 0);
        let deleted = thread.load_u64(self.queue + DELETED);
        let length = thread.load_u64(self.queue + INSERTED) - deleted;
        let done = if length == 0 || (wanted && length < LENGTH) {
            insert(thread, self.queue, self.stores)
        } else {
            let old = thread.load_u64(self.queue + HEAD);
            let next = thread.load_u64(old);
            thread.store_u64(self.queue + HEAD, next);
            thread.store_u64(self.queue + DELETED, deleted + 1);
            thread.free(old)
        };
        held.give(thread);
        done
    }
}

/// LL: updates, insertions and deletions, a lock per node.
pub(super) struct List<E: Env> {
    locks: Locks<E>,
    /// The node that was never used and comes next.
    fresh: AtomicU64,
    nodes: u64,
    stores: u64,
}

/// Elements at the beginning; keys are twice as many.
const ELEMENTS: u64 = 32;
/// Nodes, node 0 is the head. None is used twice, so that locks are taken in the order of keys all the time:
/// operations that are carried out in another order than they were recorded in can't wait for each other.
const NODES: u64 = 1024;
const NEXT: u64 = 0;
const KEY: u64 = 8;

impl<E: Env> List<E> {
    fn bytes(stores: u64) -> u64 {
        16 + stores * 8
    }

    fn at(&self, node: u64) -> u64 {
        self.nodes + node * Self::bytes(self.stores)
    }
}

impl<E: Env> Program<E> for List<E> {
    fn setup(thread: &mut Thread<'_, '_, E>, stores: u64) -> Result<u64, Error> {
        let nodes = thread.zalloc(NODES * Self::bytes(stores))?;
        for number in 0..ELEMENTS {
            let (before, at) =
                (nodes + number * Self::bytes(stores), nodes + (number + 1) * Self::bytes(stores));
            thread.store_u64(at + KEY, 2 * number + 1);
            payload(thread, at + 16, stores, 2 * number + 1, 1);
            // Links are numbers of nodes; 0 is none.
            thread.store_u64(before + NEXT, number + 1);
        }
        Ok(nodes)
    }

    fn start(env: &E, root: u64, stores: u64) -> Self {
        let fresh = AtomicU64::new(1 + ELEMENTS);
        List { locks: Locks::new(env, NODES), fresh, nodes: root, stores }
    }

    fn operate(&self, env: &E, thread: &mut Thread<'_, '_, E>, draw: &mut Draw) -> Result<(), Error> {
        let (key, what) = (draw.below(2 * ELEMENTS) + 1, draw.below(3));
        let mut before = 0;
        let mut held = self.locks.take(env, thread, before);
        let mut node = thread.load_u64(self.at(before) + NEXT);
        let mut next = (node != 0).then(|| self.locks.take(env, thread, node));
        while let Some(of) = next.take() {
            if thread.load_u64(self.at(node) + KEY) >= key {
                next = Some(of);
                break;
            }
            let behind = thread.load_u64(self.at(node) + NEXT);
            next = (behind != 0).then(|| self.locks.take(env, thread, behind));
            std::mem::replace(&mut held, of).give(thread);
            (before, node) = (node, behind);
        }
        let found = node != 0 && thread.load_u64(self.at(node) + KEY) == key;
        match what {
            0 if !found => {
                let new = self.fresh.fetch_add(1, Ordering::Relaxed);
                thread.store_u64(self.at(new) + KEY, key);
                payload(thread, self.at(new) + 16, self.stores, key, 1);
                thread.store_u64(self.at(new) + NEXT, node);
                thread.store_u64(self.at(before) + NEXT, new);
            }
            1 if found => {
                let behind = thread.load_u64(self.at(node) + NEXT);
                thread.store_u64(self.at(before) + NEXT, behind);
            }
            _ if found => {
                let version = thread.load_u64(self.at(node) + 16) + 1;
                payload(thread, self.at(node) + 16, self.stores, key, version);
            }
            _ => {}
        }
        if let Some(next) = next {
            next.give(thread);
        }
        held.give(thread);
        Ok(())
    }
}
