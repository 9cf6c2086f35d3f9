//! The hardware: a page walker that completes a fault by itself.

use super::flaw::Flaw;
use super::layout::{
    DIRTY, ENABLED, FIRST_HUGE, HUGE, LOCK, NX, PRESENT, RW, SOFT_DIRTY, USED, VALID, field, is_locked,
    is_marked, mapped, table_frame, table_word, written,
};
use super::memory::Memory;
use super::system::{Access, System, Touched};

/// What a walk gives.
enum Walked {
    /// The entry that the access uses.
    Filled(u64),
    /// An exception.
    Fault,
}

impl<M: Memory> System<M> {
    /// One instruction of a program that touches a page: a walk, and the kernel's handler where it has to
    /// be.
    pub async fn touch(&self, access: Access) -> Touched {
        let Access { core, process, page, write } = access;
        loop {
            self.memory.label(page << 8 | core << 4 | u64::from(write));
            self.memory.store(self.scope.walking(core), 1).await;
            if let Walked::Filled(entry) = self.walk(access).await {
                self.perform(process, page, write, field(entry)).await;
                self.memory.store(self.scope.walking(core), 0).await;
                return Touched::Done;
            }
            self.memory.store(self.scope.walking(core), 0).await;
            if let Some(refused) = self.handle(access).await {
                return refused;
            }
        }
    }

    /// An instruction is fetched from a page of code.
    pub async fn fetch(&self, core: u64, process: u64, page: u64) -> Touched {
        let access = Access { core, process, page, write: false };
        loop {
            self.memory.label(0x8000 | page << 8 | core << 4);
            self.memory.store(self.scope.walking(core), 1).await;
            let walked = self.walk(access).await;
            self.memory.store(self.scope.walking(core), 0).await;
            match walked {
                Walked::Filled(entry) if entry & NX != 0 => {
                    self.memory
                        .fail(format!("page {page} of process {process} is code and may not be executed"));
                    return Touched::Done;
                }
                Walked::Filled(_) => return Touched::Done,
                Walked::Fault => {}
            }
            if let Some(refused) = self.handle(access).await {
                return refused;
            }
        }
    }

    /// The access itself, with what must hold at that moment.
    async fn perform(&self, process: u64, page: u64, write: bool, frame: u64) {
        let content = self.scope.content(frame);
        let bit = written(process, page);
        let before = if write {
            let before = self.memory.update(content, |there| there | bit).await;
            self.memory.poke(self.scope.wrote(process, page), 1);
            before
        } else {
            self.memory.load(content).await
        };
        let of_page = (0..self.scope.processes).map(|process| written(process, page)).sum::<u64>();
        if frame < FIRST_HUGE && before & !of_page != 0 {
            self.memory.fail(format!("page {page} of process {process} shows another page's bytes"));
        }
        if self.is_free(frame) {
            self.memory.fail(format!("process {process} uses memory {frame}, which is free"));
        }
        self.isolated(process, page, write, frame, before & of_page);
        let settled = self.memory.peek(self.scope.settled(process));
        if settled & 1 != 0 {
            self.memory.fail(format!("process {process} uses page {page} after it was unmapped"));
        }
        if settled & 4 != 0 && page == 0 {
            self.memory.fail(format!("process {process} uses page {page} after it was moved"));
        }
        if settled & 2 != 0 && write {
            self.memory.fail(format!("process {process} writes page {page} after it became read-only"));
        }
    }

    /// What `fork` promises: a process sees what its parent wrote before, and nothing that another wrote
    /// since.
    fn isolated(&self, process: u64, page: u64, write: bool, frame: u64, seen: u64) {
        let inherits = self.memory.peek(self.scope.inherits(process, page));
        let others = seen & !written(process, page);
        if inherits & 1 != 0 && seen == 0 {
            self.memory
                .fail(format!("page {page} of process {process} lacks what its parent wrote before fork"));
        }
        // Only process 0 forks.
        let may = if inherits & 2 != 0 { written(0, page) } else { 0 };
        if others & !may != 0 {
            self.memory.fail(format!("page {page} of process {process} shows what another process wrote"));
        }
        let has = |other: u64| {
            let there = |slot: u64| {
                let entry = self.memory.peek(slot);
                entry & PRESENT != 0 && field(entry) == frame
            };
            let upper = self.scope.upper(other);
            self.memory.peek(upper) & HUGE != 0 && there(upper)
                || (0..self.scope.pages).any(|page| there(self.scope.entry(other, page)))
        };
        // While fork shares it, a core may still be within a store.
        let lives = |other: &u64| *other != process && self.memory.peek(self.scope.alive(*other)) != 0;
        if write && (0..self.scope.processes).filter(lives).any(has) {
            self.memory.fail(format!("process {process} writes to memory {frame}, which another has, too"));
        }
    }

    async fn walk(&self, access: Access) -> Walked {
        let Access { core, process, page, write } = access;
        let memory = &self.memory;
        'again: loop {
            let upper = memory.load(self.scope.upper(process)).await;
            let huge = is_marked(upper) || upper & HUGE != 0;
            if !huge && upper & PRESENT == 0 {
                return Walked::Fault;
            }
            let slot = if huge { self.scope.upper(process) } else { self.scope.entry(process, page) };
            loop {
                let entry = if self.has(Flaw::WaitsForAccessed) {
                    memory.wait(slot, |entry| entry & LOCK == 0).await
                } else {
                    memory.wait(slot, |entry| !is_locked(entry)).await
                };
                if entry & PRESENT != 0 {
                    if huge && entry & HUGE == 0 {
                        continue 'again;
                    }
                    return if write && entry & RW == 0 { Walked::Fault } else { Walked::Filled(entry) };
                }
                if !is_marked(entry) || write && entry & RW == 0 || memory.load(ENABLED).await == 0 {
                    return Walked::Fault;
                }
                if self.has(Flaw::BlindLock) {
                    let before = memory.update(slot, |entry| entry | LOCK).await;
                    if is_locked(before) {
                        continue;
                    }
                } else if memory.cas(slot, entry, entry | LOCK).await.is_err() {
                    continue;
                }
                return self.fill(core, page, write, slot, entry, huge).await;
            }
        }
    }

    /// With the entry's lock held.
    async fn fill(&self, core: u64, page: u64, write: bool, slot: u64, entry: u64, huge: bool) -> Walked {
        let memory = &self.memory;
        let ring = self.scope.ring(core, huge);
        let tail = memory.load(ring.tail).await;
        let at = ring.entry(tail);
        let word = memory.load(at + 1).await;
        if word & VALID == 0 {
            if !self.has(Flaw::KeepsLock) {
                memory.store(slot, entry).await;
            }
            return Walked::Fault;
        }
        let frame = table_frame(word);
        let new = mapped(frame, entry, write);
        if self.has(Flaw::PublishFirst) {
            memory.store(slot, new).await;
        }
        memory.store(at, page << 12).await;
        memory.store(at + 1, table_word(frame, field(entry), USED)).await;
        memory.store(ring.tail, ring.next(tail)).await;
        if self.has(Flaw::PublishInParts) {
            memory.store(slot, new & !(LOCK | DIRTY | SOFT_DIRTY)).await;
        }
        if !self.has(Flaw::PublishFirst) {
            memory.store(slot, new).await;
        }
        Walked::Filled(new)
    }
}
