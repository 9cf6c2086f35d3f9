//! The kernel's side of a region: fault handler, `munmap`, `mprotect`, `fork`, exit.
//!
//! Whoever changes an entry holds the lock of the process's page tables, except the walker, which has bit 5
//! alone. So the kernel changes a marked entry only by a compare-and-swap from its unlocked value, or with
//! bit 5 taken.

use super::flaw::Flaw;
use super::layout::{
    DIRTY, FIRST_HUGE, HUGE, LOCK, NX, PRESENT, RW, field, is_locked, is_marked, mapped, marked,
};
use super::memory::Memory;
use super::system::{Access, System, Touched};

impl<M: Memory> System<M> {
    /// The fault handler. `None`: the access is to be tried again.
    pub(super) async fn handle(&self, access: Access) -> Option<Touched> {
        let table = self.scope.table_lock(access.process);
        self.lock(table).await;
        let result = self.handle_locked(access).await;
        self.unlock(table).await;
        result
    }

    async fn handle_locked(&self, access: Access) -> Option<Touched> {
        let Access { process, page, write, .. } = access;
        let (memory, scope) = (&self.memory, &self.scope);
        let refused = memory.load(scope.alive(process)).await == 0
            || page < memory.peek(scope.first(process))
            || write && memory.load(scope.writable(process)).await == 0;
        if refused {
            return Some(Touched::Refused);
        }
        let upper = memory.load(scope.upper(process)).await;
        if is_marked(upper) {
            if self.fill_huge(access).await {
                return None;
            }
        } else if upper & HUGE != 0 {
            return if write && upper & RW == 0 {
                self.copy_on_write(process, scope.upper(process), upper).await
            } else {
                None
            };
        } else if upper == 0 {
            memory.store(scope.upper(process), PRESENT).await;
        }
        let slot = scope.entry(process, page);
        let mut entry = memory.load(slot).await;
        if entry & PRESENT != 0 {
            return if write && entry & RW == 0 {
                self.copy_on_write(process, slot, entry).await
            } else {
                None
            };
        }
        if is_marked(entry) {
            if self.has(Flaw::HandlerSeesSwap) {
                memory.fail(format!(
                    "the fault on page {page} of process {process} is lost: no such swap entry"
                ));
                return Some(Touched::Refused);
            }
            if !self.has(Flaw::HandlerIgnoresLock) {
                match self.lock_entry(slot).await {
                    Some(old) => entry = old,
                    None => return None,
                }
            }
        } else {
            entry = if memory.load(scope.writable(process)).await != 0 { RW } else { 0 };
        }
        let Some(frame) = self.allocate(false).await else {
            if is_marked(entry) {
                memory.store(slot, entry).await;
            }
            return Some(Touched::NoMemory);
        };
        self.map(process, slot, frame, entry, write).await;
        None
    }

    /// Fills a marked upper entry with a huge page, or puts a table there if there is none. Whether it is
    /// done.
    async fn fill_huge(&self, access: Access) -> bool {
        let slot = self.scope.upper(access.process);
        let Some(entry) = self.lock_entry(slot).await else { return true };
        if let Some(frame) = self.allocate(true).await {
            self.map(access.process, slot, frame, entry, access.write).await;
            return true;
        }
        if self.has(Flaw::SplitIgnoresLock) {
            // As if the lock had been given up before the table is there.
            self.memory.store(slot, entry).await;
        }
        self.memory.store(slot, PRESENT).await;
        false
    }

    async fn map(&self, process: u64, slot: u64, frame: u64, entry: u64, write: bool) {
        self.memory.store(self.scope.mappings(frame), 1).await;
        self.memory.poke(self.scope.charged(frame), 1);
        self.memory.update(self.scope.counter(process), |count| count.wrapping_add(1)).await;
        let code = if self.scope.executable { NX } else { 0 };
        self.memory.store(slot, mapped(frame, entry, write) & !code).await;
    }

    /// Takes bit 5 of a marked entry; gives its value without the lock. `None` if it is marked no more.
    async fn lock_entry(&self, slot: u64) -> Option<u64> {
        loop {
            let entry = self.memory.wait(slot, |entry| !is_locked(entry)).await;
            if !is_marked(entry) {
                return None;
            }
            if self.memory.cas(slot, entry, entry | LOCK).await.is_ok() {
                return Some(entry);
            }
        }
    }

    async fn copy_on_write(&self, process: u64, slot: u64, entry: u64) -> Option<Touched> {
        let (memory, old) = (&self.memory, field(entry));
        if memory.load(self.scope.mappings(old)).await == 0 {
            self.account_all(process).await;
        }
        if memory.load(self.scope.mappings(old)).await == 1 || self.has(Flaw::CopyKeepsShared) {
            memory.store(slot, entry | RW | DIRTY).await;
            return None;
        }
        let Some(new) = self.allocate(old >= FIRST_HUGE).await else { return Some(Touched::NoMemory) };
        let bytes = memory.load(self.scope.content(old)).await;
        memory.store(self.scope.content(new), bytes).await;
        memory.store(self.scope.mappings(new), 1).await;
        memory.poke(self.scope.charged(new), 1);
        memory.store(slot, mapped(new, entry | RW, true)).await;
        self.shoot_down().await;
        self.unmap_frame(old).await;
        None
    }

    async fn unmap_frame(&self, frame: u64) {
        let before = self.memory.update(self.scope.mappings(frame), |count| count.wrapping_sub(1)).await;
        if before == 0 {
            self.memory.fail(format!("memory {frame} is unmapped, and nobody had counted it"));
        }
        if before == 1 {
            if self.memory.peek(self.scope.charged(frame)) == 0 {
                self.memory.fail(format!("memory {frame} is uncharged, and was charged to nobody"));
            }
            self.memory.poke(self.scope.charged(frame), 0);
            self.release(frame).await;
        }
    }

    /// All entries of a process's region, the upper one first.
    fn slots(&self, process: u64) -> impl Iterator<Item = u64> + use<M> {
        let scope = self.scope;
        std::iter::once(scope.upper(process))
            .chain((0..scope.pages).map(move |page| scope.entry(process, page)))
    }

    /// Unmaps the region.
    pub async fn unmap(&self, process: u64) {
        let (memory, scope) = (&self.memory, &self.scope);
        self.lock(scope.table_lock(process)).await;
        memory.store(scope.alive(process), 0).await;
        for slot in self.slots(process) {
            self.zap(process, slot).await;
        }
        self.shoot_down().await;
        memory.poke(scope.settled(process), memory.peek(scope.settled(process)) | 1);
        self.unlock(scope.table_lock(process)).await;
    }

    async fn zap(&self, process: u64, slot: u64) {
        let memory = &self.memory;
        loop {
            let ignores = self.has(Flaw::ZapIgnoresLock);
            let entry = if ignores {
                memory.load(slot).await
            } else {
                memory.wait(slot, |entry| !is_locked(entry)).await
            };
            let table = slot == self.scope.upper(process) && entry & (PRESENT | HUGE) == PRESENT;
            if entry == 0 || table || is_marked(entry) && self.has(Flaw::ZapSkipsMarked) {
                return;
            }
            if ignores {
                memory.store(slot, 0).await;
            } else if memory.cas(slot, entry, 0).await.is_err() {
                continue;
            }
            if is_marked(entry) && self.has(Flaw::ZapSeesSwap) {
                memory.fail(format!(
                    "unmapping frees a slot of the swap device that process {process} never had"
                ));
            }
            if entry & PRESENT != 0 {
                self.drop_page(process, field(entry)).await;
            }
            return;
        }
    }

    /// As in the kernel, a page is accounted for and leaves the counts before the shootdown, and is free
    /// after it.
    async fn drop_page(&self, process: u64, frame: u64) {
        let memory = &self.memory;
        let counted = memory.load(self.scope.mappings(frame)).await != 0;
        if !counted && !self.has(Flaw::ScanAfterFree) && !self.has(Flaw::NoTeardownScan) {
            self.account_all(process).await;
        }
        if !self.has(Flaw::NoShootdown) {
            self.shoot_down().await;
        }
        if counted || !self.has(Flaw::ScanAfterFree) && !self.has(Flaw::NoTeardownScan) {
            self.unmap_frame(frame).await;
        } else {
            self.release(frame).await;
            if self.has(Flaw::ScanAfterFree) {
                self.account_all(process).await;
                memory.update(self.scope.mappings(frame), |count| count.wrapping_sub(1)).await;
            }
        }
        memory.update(self.scope.counter(process), |count| count.wrapping_sub(1)).await;
    }

    /// Makes the region read-only.
    pub async fn protect(&self, process: u64) {
        let (memory, scope) = (&self.memory, &self.scope);
        self.lock(scope.table_lock(process)).await;
        memory.store(scope.writable(process), 0).await;
        for slot in self.slots(process) {
            loop {
                let ignores = self.has(Flaw::ProtectIgnoresLock);
                let entry = if ignores {
                    memory.load(slot).await
                } else {
                    memory.wait(slot, |entry| !is_locked(entry)).await
                };
                let skipped = is_marked(entry) && self.has(Flaw::ProtectSkipsMarked);
                if entry & RW == 0 || skipped {
                    break;
                }
                if ignores {
                    memory.store(slot, entry & !RW).await;
                    break;
                }
                if memory.cas(slot, entry, entry & !RW).await.is_ok() {
                    break;
                }
            }
        }
        self.shoot_down().await;
        memory.poke(scope.settled(process), memory.peek(scope.settled(process)) | 2);
        self.unlock(scope.table_lock(process)).await;
    }

    /// Copies the region of `parent` to `child`, which then is the process `tgid`.
    pub async fn fork(&self, parent: u64, child: u64, tgid: u64) {
        let (memory, scope) = (&self.memory, &self.scope);
        self.lock(scope.table_lock(parent)).await;
        memory.store(scope.tgid(child), tgid).await;
        for page in 0..scope.pages {
            memory.poke(scope.inherits(child, page), memory.peek(scope.wrote(parent, page)));
        }
        if self.has(Flaw::ForkLate) {
            self.born(parent, child).await;
        }
        let slots = self.slots(parent).zip(self.slots(child));
        for (number, (from, to)) in slots.enumerate() {
            // The upper entry comes first: where it is a huge page's, there are no others.
            let done = self.fork_entry(parent, child, tgid, (from, to), number == 0).await;
            if done {
                break;
            }
        }
        if !self.has(Flaw::ForkLate) {
            self.born(parent, child).await;
        }
        self.unlock(scope.table_lock(parent)).await;
    }

    /// The child runs from now on. What its parent writes later is none of the child's.
    async fn born(&self, parent: u64, child: u64) {
        let (memory, scope) = (&self.memory, &self.scope);
        let writable = memory.load(scope.writable(parent)).await;
        memory.store(scope.writable(child), writable).await;
        memory.store(scope.alive(child), 1).await;
        for page in 0..scope.pages {
            let (note, wrote) = (scope.inherits(child, page), memory.peek(scope.wrote(parent, page)));
            memory.poke(note, memory.peek(note) | wrote << 1);
        }
    }

    /// Whether the entry is a huge page's, or will be.
    async fn fork_entry(&self, parent: u64, child: u64, tgid: u64, slots: (u64, u64), upper: bool) -> bool {
        let (memory, (from, to)) = (&self.memory, slots);
        loop {
            let copies_lock = self.has(Flaw::ForkCopiesLock);
            let entry = if copies_lock {
                memory.load(from).await
            } else {
                memory.wait(from, |entry| !is_locked(entry)).await
            };
            if upper && entry & (PRESENT | HUGE) == PRESENT {
                memory.store(to, PRESENT).await;
                return false;
            }
            if upper && entry != 0 && self.has(Flaw::ForkSkipsHuge) {
                memory.store(to, PRESENT).await;
                return true;
            }
            if entry & PRESENT != 0 {
                let keeps =
                    self.has(if upper { Flaw::ForkKeepsHugeWritable } else { Flaw::ForkKeepsWritable });
                if !keeps && memory.cas(from, entry, entry & !RW).await.is_err() {
                    continue;
                }
                self.share(parent, child, to, entry).await;
                self.shoot_down().await;
            } else if is_marked(entry) {
                if self.has(Flaw::ForkSeesSwap) {
                    memory.fail(format!("fork of process {parent} fails: no such swap entry"));
                }
                let lock = if copies_lock { entry & LOCK } else { 0 };
                let named = if self.has(Flaw::ForkKeepsTgid) { field(entry) } else { tgid };
                memory.store(to, marked(named, entry & RW != 0) | lock).await;
            }
            return upper && entry != 0;
        }
    }

    async fn share(&self, parent: u64, child: u64, to: u64, entry: u64) {
        let (memory, frame) = (&self.memory, field(entry));
        if memory.load(self.scope.mappings(frame)).await == 0 && !self.has(Flaw::ForkSkipsScan) {
            self.account_all(parent).await;
        }
        memory.update(self.scope.mappings(frame), |count| count.wrapping_add(1)).await;
        memory.update(self.scope.counter(child), |count| count.wrapping_add(1)).await;
        memory.store(to, entry & !(RW | DIRTY)).await;
    }

    /// Moves the first page of the region to the second one's place, which has none: `mremap`.
    pub async fn move_first(&self, process: u64) {
        let (memory, scope) = (&self.memory, &self.scope);
        let (from, to) = (scope.entry(process, 0), scope.entry(process, 1));
        self.lock(scope.table_lock(process)).await;
        memory.poke(scope.first(process), 1);
        loop {
            let ignores = self.has(Flaw::MoveIgnoresLock);
            let entry = if ignores {
                memory.load(from).await
            } else {
                memory.wait(from, |entry| !is_locked(entry)).await
            };
            if entry == 0 || is_marked(entry) && self.has(Flaw::MoveSkipsMarked) {
                break;
            }
            if ignores {
                memory.store(from, 0).await;
            } else if memory.cas(from, entry, 0).await.is_err() {
                continue;
            }
            self.shoot_down().await;
            // What was written moves along; notes for checks.
            if entry & PRESENT != 0 {
                let content = scope.content(field(entry));
                memory.poke(content, memory.peek(content) << 1);
                memory.poke(scope.wrote(process, 1), memory.peek(scope.wrote(process, 0)));
            }
            memory.poke(scope.wrote(process, 0), 0);
            memory.store(to, entry).await;
            break;
        }
        memory.poke(scope.settled(process), memory.peek(scope.settled(process)) | 4);
        self.unlock(scope.table_lock(process)).await;
    }

    /// A swap device goes: pages that are swapped to it are read in. There are none; marked entries look like them.
    pub async fn swap_off(&self, process: u64) {
        let (memory, scope) = (&self.memory, &self.scope);
        self.lock(scope.table_lock(process)).await;
        for page in 0..scope.pages {
            let slot = scope.entry(process, page);
            let entry = memory.load(slot).await;
            if self.has(Flaw::SwapOffSeesSwap)
                && is_marked(entry)
                && let Some(frame) = self.allocate(false).await
            {
                memory.poke(scope.content(frame), 1 << 63);
                self.map(process, slot, frame, entry, false).await;
            }
        }
        self.unlock(scope.table_lock(process)).await;
    }

    /// Ends the process: its TGID may be given to another from then on.
    pub async fn exit(&self, process: u64) {
        if self.has(Flaw::ExitDropsTgid) {
            self.memory.store(self.scope.tgid(process), 0).await;
        }
        self.unmap(process).await;
        self.memory.store(self.scope.tgid(process), 0).await;
    }
}
