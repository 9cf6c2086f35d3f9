//! What the rules judge: the events' evidence and the machine's figures side by side.

use event::{Frame, Site, SiteId, SiteTable};
use machine::{Figures, SiteMemory};

use super::evidence::Evidence;
use super::options::Options;
use super::sizes::WritesByKind;
use super::words::{percent, ratio};
use crate::{Finding, SiteShare};

/// Of what the shares of traffic rules are.
pub(super) const MEDIA_BYTES: &str = "media bytes written";

/// A run under judgement. The memory that it is about is the persistent ranges, or all memory if there are
/// none.
pub(super) struct Case<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) figures: &'a Figures,
    pub(super) sites: &'a SiteTable,
    pub(super) options: &'a Options,
    /// Sizes of all writes to the memory.
    pub(super) totals: WritesByKind,
    /// Part of the events whose stores were looked at.
    pub(super) watched: f64,
}

impl Case<'_> {
    /// Whether the program mapped persistent memory.
    pub(super) fn mapped(&self) -> bool {
        self.figures.mapped_persistent
    }

    /// The memory's name in a sentence.
    pub(super) fn memory(&self) -> &'static str {
        if self.mapped() { "persistent memory" } else { "memory" }
    }

    /// A sentence (with a space behind) that says under which condition advice holds; empty if it holds as it
    /// is.
    pub(super) fn condition(&self) -> String {
        if self.mapped() {
            return String::new();
        }
        let sample = if self.watched < 1.0 {
            format!("Numbers of writes are estimates from {} of the events. ", percent(self.watched))
        } else {
            String::new()
        };
        format!(
            "The program mapped no persistent memory; this is how its memory would fare on `{}`. {sample}",
            self.figures.machine
        )
    }

    /// Bytes of the device's unit.
    pub(super) fn unit(&self) -> u64 {
        u64::from(self.figures.unit_bytes)
    }

    /// Whether the device has a unit larger than a line, so that partial writes cost something.
    pub(super) fn unit_exceeds_line(&self) -> bool {
        self.unit() > super::lines::LINE
    }

    /// Bytes written to the media of the memory.
    pub(super) fn media_bytes(&self) -> u64 {
        self.figures.focus().total.media_write_bytes
    }

    /// Whether the memory was written enough for a rule about traffic to say anything.
    pub(super) fn enough_traffic(&self) -> bool {
        self.media_bytes() >= self.options.media_bytes_min.max(1)
    }

    /// Every site's part in the memory's traffic.
    pub(super) fn site_memories(&self) -> impl Iterator<Item = (SiteId, &SiteMemory)> {
        (0u32..).map(SiteId).zip(&self.figures.sites).map(|(id, site)| (id, self.figures.site_focus(site)))
    }

    /// Sizes of a site's writes to the memory. A site that never stored the larger part of a run has none of
    /// its own and is taken for an average one.
    pub(super) fn sizes(&self, site: SiteId) -> WritesByKind {
        let own = self.evidence.sizes(site, self.mapped());
        if own == WritesByKind::default() { self.totals } else { own }
    }

    /// Sums up what sites caused, and names those that caused most.
    pub(super) fn rank(&self, mut parts: Vec<(SiteId, u64)>) -> Ranked {
        let total = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.1));
        parts.retain(|&(site, part)| part > 0 && site != SiteId::UNKNOWN);
        parts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        parts.truncate(self.options.sites_max);
        let sites: Vec<SiteShare> =
            parts.into_iter().map(|(site, part)| SiteShare { site, share: ratio(part, total) }).collect();
        Ranked { total, sites }
    }

    /// How a sentence names the place that matters most: `put (store.c:12)`, or `unknown site`.
    pub(super) fn place(&self, sites: &[SiteShare]) -> String {
        sites.first().map_or_else(|| "unknown site".to_owned(), |first| self.sites.label(first.site))
    }

    /// The finding; with another remedy if its first site is in `libstrandline`, which the program's author
    /// can't change.
    pub(super) fn of_own_library(&self, finding: Finding) -> Finding {
        let site = finding.sites.first().and_then(|first| self.sites.site(first.site));
        if !site.and_then(Site::frame).is_some_and(Frame::is_own_library) {
            return finding;
        }
        let remedy = format!(
            "Nothing to change in the program: {} does this once, when a pool is made, opened, settled or closed.",
            self.place(&finding.sites)
        );
        Finding { remedy, ..finding }
    }
}

/// What the sites of a finding caused together.
pub(super) struct Ranked {
    /// Of all sites, named or not.
    pub(super) total: u64,
    /// The first ones.
    pub(super) sites: Vec<SiteShare>,
}
