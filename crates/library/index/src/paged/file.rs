//! Reading and writing a file.

use std::ops::Deref;

use space::{Env, Space};

use super::entry::{Entry, FIRST, HEAD};
use super::state::{Page, State, Tail};
use super::{Paged, PagedFlaw, Placement};
use crate::Error;

/// A part of a page that is written.
struct Piece<'b> {
    page: u64,
    at: u64,
    bytes: &'b [u8],
    /// Length of the file afterwards.
    len: u64,
}

impl<H> Paged<H>
where
    H: Deref<Target: Env + Sized>,
{
    /// Reads the bytes at `at`; how many there are, at most as many as fit.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn read(&self, file: u32, at: u64, buffer: &mut [u8]) -> usize {
        let state = self.env.read(self.lock_of(file));
        let count = (buffer.len() as u64).min(state.len.saturating_sub(at));
        let (mut at, mut rest) = (at, &mut buffer[..count as usize]);
        while !rest.is_empty() {
            let within = at % self.options.page;
            let part = (self.options.page - within).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(part as usize);
            self.load(state.pages.get(&(at / self.options.page)), within, now);
            (at, rest) = (at + part, later);
        }
        count as usize
    }

    /// Bytes of a page, with what is pending laid over.
    fn load(&self, page: Option<&Page>, at: u64, buffer: &mut [u8]) {
        let space = self.env.space();
        let Some(page) = page else {
            buffer.fill(0);
            return;
        };
        let end = at + buffer.len() as u64;
        let whole = page.pending.last().is_some_and(|last| last.at <= at && end <= last.at + last.count);
        match page.data {
            _ if whole => {}
            0 => buffer.fill(0),
            data => space.load(data + at, buffer),
        }
        for pending in &page.pending {
            let (from, to) = (pending.at.max(at), (pending.at + pending.count).min(end));
            if from < to {
                let part = &mut buffer[(from - at) as usize..(to - at) as usize];
                space.load(pending.bytes + from - pending.at, part);
            }
        }
    }

    /// Writes bytes, durably and as a whole.
    ///
    /// # Errors
    /// If there is no room, or the file would have more than 2^64 bytes; it is as before.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn write(&self, file: u32, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut state = self.env.write(self.lock_of(file));
        let end = at.checked_add(bytes.len() as u64);
        let len = state.len.max(end.ok_or(Error::Options("a file of 2^64 bytes"))?);
        let (mut at, mut rest) = (at, bytes);
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let within = at % self.options.page;
            let (now, later) = rest.split_at(((self.options.page - within) as usize).min(rest.len()));
            pieces.push(Piece { page: at / self.options.page, at: within, bytes: now, len });
            (at, rest) = (at + now.len() as u64, later);
        }
        self.change(file, &mut state, &pieces)
    }

    /// Copies every page that has embedded writes pending, so that each page is in one place.
    ///
    /// # Errors
    /// If there is no room; some pages may have been copied.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn flatten(&self, file: u32) -> Result<(), Error> {
        let mut state = self.env.write(self.lock_of(file));
        let pending = state.pages.iter().filter(|(_, page)| !page.pending.is_empty());
        for page in pending.map(|(page, _)| *page).collect::<Vec<_>>() {
            let mut content = vec![0; self.options.page as usize];
            self.load(state.pages.get(&page), 0, &mut content);
            let piece = Piece { page, at: 0, bytes: &content, len: state.len };
            self.change(file, &mut state, &[piece])?;
        }
        Ok(())
    }

    /// Writes pieces of different pages, all together.
    fn change(&self, file: u32, state: &mut State, pieces: &[Piece<'_>]) -> Result<(), Error> {
        let mut tail = state.tail();
        let mut taken = Vec::new();
        let mut entries = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match self.prepare(file, state, piece, &mut tail, &mut taken) {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    // Nothing leads to them: the log ends where it did.
                    self.pools.give(&*self.env, taken.into_iter().chain(tail.added));
                    return Err(error);
                }
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        let space = self.env.space();
        let slot = self.inode(file) + 8 + 16 * state.slot;
        if state.log.is_empty() {
            space.store_u64(slot, tail.added[0]);
            space.flush(slot, 8);
        }
        if self.options.flaw != PagedFlaw::EndedEarly {
            space.fence();
        }
        space.store_u64(slot + 8, tail.page + tail.used);
        space.persist(slot + 8, 8);
        let grown = !tail.added.is_empty();
        state.log.append(&mut tail.added);
        state.used = tail.used;
        let replaced = entries.iter().filter_map(|(at, entry)| state.apply(*entry, *at, self.options.page));
        let replaced: Vec<u64> = replaced.collect();
        self.pools.give(&*self.env, replaced);
        if grown && state.wasteful(self.options.page) { self.clean_log(file, state) } else { Ok(()) }
    }

    /// Writes a piece and its entry where nothing leads yet; the entry, and where it stands.
    fn prepare(
        &self,
        file: u32,
        state: &State,
        piece: &Piece<'_>,
        tail: &mut Tail,
        taken: &mut Vec<u64>,
    ) -> Result<(u64, Entry), Error> {
        let Piece { page, at, len, bytes } = *piece;
        let count = bytes.len() as u64;
        let known = state.pages.get(&page);
        let fits = count <= self.options.embed.min(self.options.page - FIRST - HEAD);
        let pending = known.map_or(0, |known| known.pending.len());
        if fits && count < self.options.page && pending < self.options.pending {
            let entry = Entry::Embedded { page, len, at, count, bytes: 0 };
            let stands = self.append(file, tail, entry, bytes)?;
            return Ok((stands, Entry::Embedded { page, len, at, count, bytes: stands + HEAD }));
        }
        let data = self.take(file)?;
        taken.push(data);
        let mut content = Vec::new();
        if count < self.options.page {
            content.resize(self.options.page as usize, 0);
            self.load(known, 0, &mut content);
            content[at as usize..(at + count) as usize].copy_from_slice(bytes);
        }
        self.env.space().store_nt(data, if content.is_empty() { bytes } else { &content });
        let entry = Entry::Data { page, len, data };
        Ok((self.append(file, tail, entry, &[])?, entry))
    }

    /// Writes an entry behind the last one, without waiting; where it stands.
    pub(super) fn append(
        &self,
        file: u32,
        tail: &mut Tail,
        entry: Entry,
        content: &[u8],
    ) -> Result<u64, Error> {
        let space = self.env.space();
        let mut buffer = Vec::new();
        if tail.page == 0 || tail.used + entry.bytes() > self.options.page {
            let next = self.take(file)?;
            tail.added.push(next);
            space.store_nt(next, &[0; FIRST as usize]);
            if tail.page != 0 {
                if tail.used < self.options.page {
                    Entry::GoesOn.encode(&[], &mut buffer);
                    space.store_nt(tail.page + tail.used, &buffer);
                }
                space.store_u64(tail.page, next);
                space.flush(tail.page, 8);
            }
            (tail.page, tail.used) = (next, FIRST);
        }
        entry.encode(content, &mut buffer);
        let stands = tail.page + tail.used;
        space.store_nt(stands, &buffer);
        tail.used += entry.bytes();
        Ok(stands)
    }

    fn take(&self, file: u32) -> Result<u64, Error> {
        let home = (self.options.placement == Placement::Home).then_some(file as usize);
        let full = Error::Full { wanted: self.options.page, len: self.env.space().len() };
        self.pools.take(&*self.env, home).ok_or(full)
    }
}
