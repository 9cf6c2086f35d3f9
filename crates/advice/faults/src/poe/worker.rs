//! The kernel's threads: marking, delayed work, disabling; and the accounting that they share with
//! teardown.

use super::flaw::Flaw;
use super::layout::{
    ENABLE_LOCK, ENABLED, PRESENT, Ring, USED, USERS, VALID, marked, table_frame, table_tgid, table_word,
};
use super::memory::Memory;
use super::system::System;

impl<M: Memory> System<M> {
    /// Marks all pages of a region that have none, a page at a time; huge: the region's upper entry
    /// instead.
    pub async fn mark(&self, process: u64, huge: bool) {
        let (memory, scope) = (&self.memory, &self.scope);
        if scope.executable && !self.has(Flaw::MarksCode) {
            return;
        }
        let pages = if huge { 1 } else { scope.pages };
        for page in 0..pages {
            memory.label(0x1000 | page);
            if !self.has(Flaw::MarkUnlocked) {
                self.lock(scope.table_lock(process)).await;
                if memory.load(scope.alive(process)).await == 0 {
                    self.unlock(scope.table_lock(process)).await;
                    return;
                }
            }
            if !huge && memory.load(scope.upper(process)).await == 0 {
                memory.store(scope.upper(process), PRESENT).await;
            }
            let slot = if huge { scope.upper(process) } else { scope.entry(process, page) };
            let there = memory.load(slot).await;
            if there == 0 || huge && there == PRESENT && self.has(Flaw::MarkOverTable) {
                let writable = memory.load(scope.writable(process)).await != 0;
                let tgid = memory.load(scope.tgid(process)).await;
                memory.store(slot, marked(tgid, writable)).await;
            }
            if !self.has(Flaw::MarkUnlocked) {
                self.unlock(scope.table_lock(process)).await;
            }
        }
    }

    /// One round of the delayed work over one table: account for what the walker took, put in new pages.
    pub async fn delayed_work(&self, ring: Ring) {
        let memory = &self.memory;
        memory.label(0x2000 | ring.head);
        self.lock_table(&ring).await;
        if memory.load(ENABLED).await != 0 {
            let mut at = memory.load(ring.head).await;
            let mut filling = true;
            for _ in 0..ring.entries() {
                let word = memory.load(ring.entry(at) + 1).await;
                if word & VALID != 0 {
                    break;
                }
                if word & USED != 0 && !self.has(Flaw::WorkSkipsUsed) {
                    self.account(word).await;
                    memory.store(ring.entry(at) + 1, 0).await;
                }
                let page = if filling { self.allocate(ring.huge).await } else { None };
                if let Some(page) = page {
                    memory.store(ring.entry(at) + 1, table_word(page, 0, VALID)).await;
                    memory.store(ring.head, ring.next(at)).await;
                } else {
                    filling = false;
                    if self.has(Flaw::HeadPassesHole) {
                        memory.store(ring.head, ring.next(at)).await;
                        break;
                    }
                }
                at = ring.next(at);
            }
        }
        self.unlock_table(&ring).await;
    }

    /// What the kernel does for a page that the walker mapped: mapping count, reverse map, resident pages.
    pub(super) async fn account(&self, word: u64) {
        let (frame, tgid) = (table_frame(word), table_tgid(word));
        let mut owner = None;
        for process in 0..self.scope.processes {
            if self.memory.load(self.scope.tgid(process)).await == tgid {
                owner = Some(process);
                break;
            }
        }
        let Some(owner) = owner else {
            self.memory.fail(format!("memory {frame} is accounted to process {tgid}, which is gone"));
            return;
        };
        if self.is_free(frame) {
            self.memory.fail(format!("memory {frame} is accounted for after it was freed"));
        }
        let before = self.memory.update(self.scope.mappings(frame), |count| count.wrapping_add(1)).await;
        if before != 0 {
            self.memory.fail(format!("memory {frame} is accounted for twice"));
        }
        if !self.has(Flaw::NoCharge) {
            self.memory.poke(self.scope.charged(frame), 1);
        }
        self.memory.update(self.scope.counter(owner), |count| count.wrapping_add(1)).await;
    }

    /// Accounts for all pages of a process that no delayed work has seen yet.
    pub(super) async fn account_all(&self, process: u64) {
        let tgid = self.memory.load(self.scope.tgid(process)).await;
        for ring in self.scope.rings() {
            let skipped = ring.huge && self.has(Flaw::ScanSkipsHuge)
                || ring.head > self.scope.walking(1) && self.has(Flaw::ScanSkipsCores);
            if skipped {
                continue;
            }
            self.lock_table(&ring).await;
            for number in 1..=ring.entries() {
                let at = ring.entry(number) + 1;
                let word = self.memory.load(at).await;
                if word & USED != 0 && table_tgid(word) == tgid {
                    self.account(word).await;
                    self.memory.store(at, 0).await;
                }
            }
            self.unlock_table(&ring).await;
        }
    }

    /// A process uses the engine from now on. Delayed work fills the tables.
    pub async fn enable(&self) {
        self.lock_enabling().await;
        if self.memory.update(USERS, |users| users + 1).await == 0 {
            self.memory.store(ENABLED, 1).await;
        }
        self.unlock_enabling().await;
    }

    async fn lock_enabling(&self) {
        if !self.has(Flaw::EnableUnlocked) {
            self.lock(ENABLE_LOCK).await;
        }
    }

    async fn unlock_enabling(&self) {
        if !self.has(Flaw::EnableUnlocked) {
            self.unlock(ENABLE_LOCK).await;
        }
    }

    /// A process no longer uses the engine; the last one takes the tables down.
    pub async fn disable(&self) {
        self.lock_enabling().await;
        if self.memory.update(USERS, |users| users - 1).await == 1 {
            self.take_down().await;
        }
        self.unlock_enabling().await;
    }

    async fn take_down(&self) {
        let memory = &self.memory;
        memory.store(ENABLED, 0).await;
        if !self.has(Flaw::DisableWhileWalking) {
            self.shoot_down().await;
        }
        for ring in self.scope.rings() {
            self.lock_table(&ring).await;
            for number in 1..=ring.entries() {
                let at = ring.entry(number) + 1;
                let word = memory.load(at).await;
                if word & USED != 0 && !self.has(Flaw::DisableDropsUsed) {
                    self.account(word).await;
                }
                if word & VALID != 0 {
                    self.release(table_frame(word)).await;
                }
                if word != 0 {
                    memory.store(at, 0).await;
                }
            }
            if !self.has(Flaw::DisableKeepsHead) {
                // Whoever enables the engine again fills from where walkers take.
                let tail = memory.load(ring.tail).await;
                memory.store(ring.head, tail).await;
            }
            self.unlock_table(&ring).await;
        }
    }
}
