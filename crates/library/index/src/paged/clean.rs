//! Taking log pages out that nothing needs.

use std::ops::Deref;

use space::{Env, Space};

use super::entry::Entry;
use super::state::{State, Tail};
use super::{Paged, PagedFlaw};
use crate::Error;

/// Log pages of a file from which on cleaning is worthwhile.
const LEAST: usize = 4;

impl State {
    /// Whether less than half of the log is live.
    pub(super) fn wasteful(&self, page: u64) -> bool {
        self.log.len() >= LEAST && 2 * self.live.values().sum::<u64>() < self.log.len() as u64 * page
    }
}

impl<H> Paged<H>
where
    H: Deref<Target: Env + Sized>,
{
    /// Cleans a file's log; writes do so themselves when less than half of it is live.
    ///
    /// # Errors
    /// If there is no room for a copy of what is live; the file is as before.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn clean(&self, file: u32) -> Result<(), Error> {
        let mut state = self.env.write(self.lock_of(file));
        self.clean_log(file, &mut state)
    }

    pub(super) fn clean_log(&self, file: u32, state: &mut State) -> Result<(), Error> {
        self.unlink_dead(file, state);
        if state.wasteful(self.options.page) { self.copy_live(file, state) } else { Ok(()) }
    }

    /// Takes out the pages without a live entry, except the last one.
    fn unlink_dead(&self, file: u32, state: &mut State) {
        let space = self.env.space();
        let mut link = self.inode(file) + 8 + 16 * state.slot;
        let last = state.log.len().saturating_sub(1);
        let (mut kept, mut dead, mut changed) = (Vec::new(), Vec::new(), false);
        for (number, page) in std::mem::take(&mut state.log).into_iter().enumerate() {
            if number < last && state.live.get(&page).is_none_or(|live| *live == 0) {
                state.live.remove(&page);
                dead.push(page);
                changed = true;
                continue;
            }
            if changed {
                space.store_u64(link, page);
                space.flush(link, 8);
                changed = false;
            }
            link = page;
            kept.push(page);
        }
        state.log = kept;
        if !dead.is_empty() {
            // A page may be written again once no link leads to it, durably.
            space.fence();
            self.pools.give(&*self.env, dead);
        }
    }

    /// Copies the live entries to a log of their own, which then counts.
    fn copy_live(&self, file: u32, state: &mut State) -> Result<(), Error> {
        let space = self.env.space();
        let mut tail = Tail { page: 0, used: 0, added: Vec::new() };
        let mut copied = State { slot: 1 - state.slot, len: state.len, ..State::default() };
        let mut live: Vec<(u64, Entry)> = Vec::new();
        for (&page, known) in &state.pages {
            let len = state.len;
            if known.entry != 0 {
                live.push((known.entry, Entry::Data { page, len, data: known.data }));
            }
            let pending = known.pending.iter();
            live.extend(pending.map(|one| {
                (one.bytes, Entry::Embedded { page, len, at: one.at, count: one.count, bytes: one.bytes })
            }));
        }
        let order: Vec<u64> = state.log.clone();
        let page_bytes = self.options.page;
        let position = |at: u64| order.iter().position(|page| *page == at / page_bytes * page_bytes);
        live.sort_by_key(|(at, _)| (position(*at), *at));
        for (_, entry) in live {
            match self.copy_entry(file, &mut tail, entry) {
                Ok((at, entry)) => _ = copied.apply(entry, at, page_bytes),
                Err(error) => {
                    self.pools.give(&*self.env, tail.added);
                    return Err(error);
                }
            }
        }
        let slot = self.inode(file) + 8 + 16 * copied.slot;
        let end = if tail.page == 0 { 0 } else { tail.page + tail.used };
        space.store_words(slot, &[tail.added.first().copied().unwrap_or(0), end]);
        space.flush(slot, 16);
        if self.options.flaw != PagedFlaw::SwitchedEarly {
            space.fence();
        }
        space.store_u64(self.inode(file), copied.slot);
        space.persist(self.inode(file), 8);
        (copied.log, copied.used) = (tail.added, tail.used);
        let before = std::mem::replace(state, copied);
        self.pools.give(&*self.env, before.log);
        Ok(())
    }

    /// Writes an entry once more.
    fn copy_entry(&self, file: u32, tail: &mut Tail, entry: Entry) -> Result<(u64, Entry), Error> {
        let Entry::Embedded { page, len, at, count, bytes } = entry else {
            return Ok((self.append(file, tail, entry, &[])?, entry));
        };
        let mut content = vec![0; count as usize];
        self.env.space().load(bytes, &mut content);
        let stands = self.append(file, tail, entry, &content)?;
        let bytes = stands + super::entry::HEAD;
        Ok((stands, Entry::Embedded { page, len, at, count, bytes }))
    }
}
