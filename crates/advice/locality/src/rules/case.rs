//! What rules share: names, shares, bytes of a line in words.

use advise::{Finding, Rule, SiteShare};
use event::{Frame, SiteId, SiteTable};

use crate::contest::Contest;
use crate::fields::Uses;
use crate::sites::SiteState;
use crate::watcher::Watcher;

pub(super) struct Case<'a> {
    pub(super) watcher: &'a Watcher,
    pub(super) sites: &'a SiteTable,
    pub(super) uses: Uses,
}

pub(super) const ACCESSES: &str = "accesses to memory";
pub(super) const MISSES: &str = "misses of the first-level cache";
pub(super) const FETCHES: &str = "lines fetched";

/// A part of a whole.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

impl Case<'_> {
    /// A code site's name; of C++'s library, who called it, too.
    pub(super) fn label(&self, site: u32) -> String {
        let id = SiteId(site);
        let Some(known) = self.sites.site(id) else { return self.sites.label(id) };
        if !known.frame().is_some_and(Frame::is_library) {
            return self.sites.label(id);
        }
        let caller = if known.callers().next().is_some() { None } else { self.own_caller(site) };
        caller.map_or_else(
            || self.sites.chain(id),
            |caller| format!("{}, called from {caller}", self.sites.label(id)),
        )
    }

    /// The program's own code that a site of the library was called from most.
    fn own_caller(&self, site: u32) -> Option<&Frame> {
        let own = |frame: &&Frame| !frame.is_library() && !frame.file.is_empty();
        let first = |context| self.sites.site(SiteId(context))?.frames.iter().find(own);
        self.watcher.calls.of(site).into_iter().find_map(|of| first(of.context))
    }

    /// The name of a site that allocates; if several others have it do so, who of them did so most.
    pub(super) fn allocator(&self, site: u32) -> String {
        let label = self.label(site);
        let mut rows = self.watcher.calls.of(site);
        rows.retain(|of| of.blocks > 0);
        let all: u64 = rows.iter().map(|of| of.bytes).sum();
        let Some(most) = rows.iter().max_by_key(|of| of.bytes).filter(|_| rows.len() > 1) else {
            return label;
        };
        match self.sites.site(SiteId(most.context)).and_then(|calls| calls.frame()) {
            Some(caller) => {
                format!("{label} ({} of the bytes for {caller})", percent(ratio(most.bytes, all)))
            }
            None => label,
        }
    }

    /// The states of the sites that did anything.
    pub(super) fn states(&self) -> impl Iterator<Item = (u32, &SiteState)> {
        (0u32..).zip(&self.watcher.sites.0).filter(|(_, state)| state.accesses > 0)
    }

    /// Sums up parts by site, the largest first.
    pub(super) fn rank(&self, mut parts: Vec<(u32, u64)>) -> (u64, Vec<SiteShare>) {
        parts.sort_by_key(|&(site, _)| site);
        parts.dedup_by(|from, to| {
            from.0 == to.0 && {
                to.1 += from.1;
                true
            }
        });
        let total = parts.iter().map(|part| part.1).sum();
        parts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        parts.truncate(self.watcher.options.sites_max);
        let share = |(site, part)| SiteShare { site: SiteId(site), share: ratio(part, total) };
        (total, parts.into_iter().map(share).collect())
    }

    /// ` at byte 8 of a block of node that make (a.c:3) allocates`, if known.
    pub(super) fn of_block(&self, line: u64, contest: &Contest) -> String {
        let Some((site, offset, _)) = contest.block else {
            let by = contest.parties.first().map_or(0, |party| party.thread);
            return match (self.watcher.outside.of(line), self.watcher.outside.stack(line << 6, by)) {
                (Some((of, offset)), _) => format!(" {} of the {}", at(offset), of.name),
                (None, Some(stack)) => format!(" of the {stack}"),
                (None, None) => " of a global or a stack".to_owned(),
            };
        };
        let of = match self.watcher.types.get(&site) {
            Some(layout) => format!("a block of {}", layout.name),
            None => "a block".to_owned(),
        };
        format!(" {} of {of} that {} allocates", at(offset), self.allocator(site))
    }

    /// `thread 3 (serve)`.
    fn thread(&self, number: u32) -> String {
        match self.watcher.names.get(&number) {
            Some(name) => format!("thread {number} ({name})"),
            None => format!("thread {number}"),
        }
    }

    /// ` (hits, misses)`: the names of bytes of a contested line, if known.
    fn names(&self, line: u64, contest: &Contest, mask: u64) -> String {
        let (layout, offset, bytes) = match contest.block {
            Some((site, offset, bytes)) => (self.watcher.types.get(&site), offset, bytes),
            None => match self.watcher.outside.of(line) {
                Some((of, offset)) => (of.layout.as_ref(), offset, of.bytes),
                None => (None, 0, 0),
            },
        };
        let names = layout.map_or(Vec::new(), |layout| layout.paths(offset, mask, bytes, 4));
        if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
    }

    /// The lines that threads want at the same time, by kind, the most used first.
    pub(super) fn contests(&self, kind: Kind) -> Vec<(u64, &Contest)> {
        let options = &self.watcher.options;
        let mut lines: Vec<(u64, &Contest)> = self
            .watcher
            .contests
            .0
            .iter()
            .map(|(&line, contest)| (line, contest))
            .filter(|(_, contest)| contest.parties.len() > 1 && self::kind(contest) == kind)
            .filter(|(_, contest)| {
                let moves = contest.moves();
                // A line that many accesses use before it moves costs little.
                moves >= options.switches_min && moves * 32 >= contest.accesses
            })
            .collect();
        lines.sort_by(|a, b| b.1.accesses.cmp(&a.1.accesses).then(a.0.cmp(&b.0)));
        lines
    }

    /// A finding on contested lines.
    pub(super) fn on_lines(
        &self,
        lines: &[(u64, &Contest)],
        rule: Rule,
        title: &str,
        remedy: &str,
    ) -> Option<Finding> {
        let (line, worst) = lines.first()?;
        let parts = lines
            .iter()
            .flat_map(|(_, contest)| contest.parties.iter().map(|party| (party.site, party.accesses)));
        let (_, sites) = self.rank(parts.collect());
        let accesses = lines.iter().map(|(_, contest)| contest.accesses).sum();
        let who: Vec<String> = worst
            .parties
            .iter()
            .take(4)
            .map(|party| {
                let (what, mask) =
                    if party.written != 0 { ("writes", party.written) } else { ("reads", party.read) };
                let names = self.names(*line, worst, mask);
                let (thread, place) = (self.thread(party.thread), self.label(party.site));
                let also = party.read & !party.written;
                let reads = if party.written != 0 && also != 0 {
                    format!(" and reads bytes {}{}", bytes(also), self.names(*line, worst, also))
                } else {
                    String::new()
                };
                format!("{thread} {what} bytes {}{names}{reads} in {place}", bytes(mask))
            })
            .collect();
        let (number, s) = (lines.len(), if lines.len() == 1 { " is" } else { "s are" });
        Some(Finding {
            rule,
            title: title.to_owned(),
            evidence: format!(
                "{number} line{s} wanted by several threads at the same time. The one used most, the line{}, would move up to {} times with a core for each thread: {}.",
                self.of_block(*line, worst),
                worst.moves(),
                who.join("; ")
            ),
            remedy: remedy.to_owned(),
            share: ratio(accesses, self.watcher.accesses),
            share_of: ACCESSES.to_owned(),
            sites,
        })
    }
}

/// What is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing: threads use different bytes.
    False,
    /// Data.
    Data,
    /// A variable that synchronises.
    Sync,
    /// Such a variable and data beside it.
    LockAndData,
}

fn kind(contest: &Contest) -> Kind {
    let shared = contest.shared();
    let (same, other) = contest.at(shared);
    if contest.sync & shared != 0 {
        let (_, beside) = contest.at(contest.sync);
        return if beside * 5 >= contest.accesses { Kind::LockAndData } else { Kind::Sync };
    }
    if shared != 0 && same >= other { Kind::Data } else { Kind::False }
}

/// Where a line begins in something.
fn at(offset: i64) -> String {
    if offset < 0 { format!("{} B before the beginning", -offset) } else { format!("at byte {offset}") }
}

/// `0-7, 16-23`.
pub(super) fn bytes(mask: u64) -> String {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < 64 {
        if mask >> at & 1 == 0 {
            at += 1;
            continue;
        }
        let from = at;
        while at < 64 && mask >> at & 1 == 1 {
            at += 1;
        }
        parts.push(format!("{from}-{}", at - 1));
    }
    parts.join(", ")
}
