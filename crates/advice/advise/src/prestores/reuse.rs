//! What becomes of a line after it was written: read or written again, or sent on its way by the program
//! itself.

use event::SiteId;

use super::lines::{ContextId, LINE, Moment, split};
use super::places::{Part, Reuse};
use super::watcher::{THREADS_MAX, Watcher};

/// Instructions between two stores of one loop body, at most.
const LOOP_BODY: u64 = 256;
/// Instructions between two stores of one place that fill the same line, at most.
const SLOW_FILL: u64 = 10_000;

impl Watcher {
    /// A line that `place` wrote in `context` is used again; whether soon enough that the caches still have
    /// it.
    pub(super) fn used(
        &mut self,
        context: ContextId,
        place: u32,
        written: Moment,
        now: Moment,
        of: impl FnOnce(&mut Part) -> &mut Reuse,
    ) -> bool {
        let soon = now.lines_since(written) <= self.options.cache_bytes / LINE;
        if soon && let Some(part) = self.contexts.part(context, place) {
            of(part).add(now.since(written, self.running));
        }
        soon
    }

    /// A line that `place` wrote in `context` is written again.
    fn rewritten(&mut self, context: ContextId, place: u32, written: Moment, now: Moment) {
        let writer = &self.threads[written.thread as usize % THREADS_MAX];
        let is_behind = writer.unfenced.fenced_since(written.own);
        if self.used(context, place, written, now, |part| &mut part.rewritten)
            && is_behind
            && let Some(part) = self.contexts.part(context, place)
        {
            part.rewritten_behind += 1;
        }
    }

    /// A write of which only matters what it overwrites.
    pub(super) fn overwrite(&mut self, addr: u64, len: u32, now: Moment) {
        for (line, bytes) in split(addr, len) {
            let Some(written) = self.lines.find(line) else { continue };
            if written.bytes & bytes == 0 || written.at.global < self.since {
                continue;
            }
            let (context, place, at) = (written.context, written.place, written.at);
            (written.bytes, written.read, written.freed) = (0, true, false);
            self.rewritten(context, place, at, now);
        }
    }

    pub(super) fn write_line(&mut self, line: u64, bytes: u64, context: ContextId, place: u32, now: Moment) {
        let mut overwritten = None;
        match self.lines.find(line) {
            Some(written) if written.at.global < self.since => {
                (written.bytes, written.at, written.read, written.freed) = (bytes, now, false, false);
                (written.context, written.place) = (context, place);
            }
            Some(written) if written.bytes & bytes == 0 => {
                let before = written.place;
                let patience = if before == place { SLOW_FILL } else { LOOP_BODY };
                let filling = written.context == context && now.since(written.at, self.running) <= patience;
                // Other bytes of a line that somebody else fills from there on are no use of what was
                // written; of one that was filled, they are.
                let first = line * LINE + u64::from(bytes.trailing_zeros());
                if !filling && self.contexts.covers(written.context, first) {
                    overwritten = Some((written.context, before, written.at, false));
                }
                // What is left of an older pass over the line must not be taken for a part of this one.
                written.bytes = if filling { written.bytes | bytes } else { bytes };
                written.read &= filling;
                (written.at, written.context, written.place) = (now, context, place);
                if filling {
                    if before != place {
                        self.places.shares_line(place, before);
                    }
                    return;
                }
            }
            Some(written) => {
                overwritten = Some((written.context, written.place, written.at, written.freed));
                (written.bytes, written.at, written.read, written.freed) = (bytes, now, false, false);
                (written.context, written.place) = (context, place);
            }
            None => self.lines.insert(line, bytes, now, context, place),
        }
        if let Some((context, before, at, freed)) = overwritten {
            self.rewritten(context, before, at, now);
            if !freed && before != place && self.functions.of_place(before) == self.functions.of_place(place)
            {
                self.places.goes_on(place, before);
            }
        }
        if let Some(part) = self.contexts.part(context, place) {
            part.lines += 1;
        }
        if let Some(written) = self.lines.find(line) {
            written.sent = false;
        }
    }

    /// The program flushes or demotes the line at `addr`: whoever wrote there needs no advice to do so. A
    /// line counts once, however often it is sent until it is written anew.
    pub(super) fn sent(&mut self, addr: u64) {
        let since = self.since;
        let Some(written) = self.lines.find(addr / LINE) else { return };
        if written.sent || written.at.global < since {
            return;
        }
        written.sent = true;
        let (context, place) = (written.context, written.place);
        if let Some(part) = self.contexts.part(context, place) {
            part.sent += 1;
        }
    }

    /// `len` of the bytes just stored at `site` went around the caches.
    pub(super) fn stored_around(&mut self, site: SiteId, len: u32) {
        if !self.following {
            let place = self.place(site);
            self.places.get(place).around_bytes += u64::from(len);
        }
    }
}
