//! From what was seen to what should be done.
//!
//! Only a place that writes sequentially, or shortly before fences, can gain at all. What it should do then
//! depends on what happens to its data next:
//!
//! | the data are | advice |
//! |---|---|
//! | written again | demote: visible before the fence, still cached; nothing if no fence comes first |
//! | only read again | clean after the write |
//! | neither | skip the cache with non-temporal stores; clean where these are hard to use |
//!
//! A place that serves objects of several sizes gets the advice of its most conservative size class: a skip
//! that is right for the large tensors would make every small one be fetched from memory again.

use std::collections::{BTreeMap, BTreeSet};

use event::{Site, SiteId};

use super::advice::{Advice, Choice, PhaseAdvice, PlaceAdvice, SizeRow, Target};
use super::functions::base;
use super::lines::LINE;
use super::places::{Class, Place, Reuse};
use super::watcher::{Phase, Source, Watcher};

/// Whether a place's pattern makes a pre-store worth a thought.
struct Pattern {
    sequential: bool,
    fenced: bool,
    /// Whether those who write most soon read some of the matrix that the place writes.
    by_writers: bool,
    /// Part of its lines that anybody soon reads.
    reread: f64,
    /// Whether one or the other is enough to count.
    kept: bool,
}

/// The functions of a phase that store most.
struct Writers {
    /// Their part of the phase's stores, by number.
    shares: BTreeMap<u32, f64>,
    /// By place: the first place that writes the same data.
    matrices: Vec<usize>,
    /// Of these, the ones that the writers soon read some of.
    reread: BTreeSet<usize>,
}

impl Watcher {
    /// What to do, for a machine or (`None`) for any that could gain.
    #[must_use]
    pub fn advice(&self, target: Option<Target>) -> Advice {
        // By its first place: where most of a loop body's bytes are stored, and what all of it does.
        let mut bodies: BTreeMap<usize, (usize, u64, Place)> = BTreeMap::new();
        let body = self.places.bodies();
        for (at, place) in self.places.all() {
            let (most, bytes, whole) = bodies.entry(body[at]).or_insert((at, 0, Place::default()));
            if place.bytes > *bytes {
                (*most, *bytes) = (at, place.bytes);
            }
            whole.merge(place);
        }
        let bodies: BTreeMap<usize, Place> =
            bodies.into_values().map(|(most, _, whole)| (most, whole)).collect();
        let ran = |(_, phase): &(u32, &Phase)| phase.load_work + phase.store_work > 0;
        let phases = (0u32..).zip(&self.phases).filter(ran);
        let advice = |(number, phase): (u32, &Phase)| self.phase(number, phase, &bodies, target);
        Advice { phases: phases.map(advice).collect() }
    }

    #[allow(clippy::cast_precision_loss)]
    fn phase(
        &self,
        number: u32,
        phase: &Phase,
        bodies: &BTreeMap<usize, Place>,
        target: Option<Target>,
    ) -> PhaseAdvice {
        let store_intensity = phase.store_work as f64 / (phase.load_work + phase.store_work).max(1) as f64;
        let marked = self.phases.iter().any(|phase| phase.name.is_some());
        let judged = self.options.judges(phase.name.as_deref(), marked)
            && store_intensity >= self.options.intensity_min;
        let aside = !judged && (phase.name.is_none() || self.is_aside(phase));
        let name = phase.name.clone();
        let mut advice = PhaseAdvice { phase: name, store_intensity, judged, aside, places: Vec::new() };
        if !judged {
            return advice;
        }
        let writers = self.writers(number, phase);
        let bytes: u64 = self.places_of(number).map(|(_, place)| place.bytes).sum();
        for (&at, place) in bodies.iter().filter(|(at, _)| self.sources[**at].0.phase == number) {
            let share = place.bytes as f64 / bytes.max(1) as f64;
            let Some(&of_function) = writers.shares.get(&self.functions.of_place(at as u32)) else {
                continue;
            };
            if share >= self.options.place_min * of_function {
                advice.places.push(self.judge(at, place, (of_function, share), &writers, target));
            }
        }
        let order = |a: &PlaceAdvice, b: &PlaceAdvice| {
            b.function_share.total_cmp(&a.function_share).then(b.share.total_cmp(&a.share))
        };
        advice.places.sort_by(order);
        advice
    }

    /// The places of a phase.
    fn places_of(&self, phase: u32) -> impl Iterator<Item = (usize, &Place)> {
        self.places.all().filter(move |(at, _)| self.sources.get(*at).is_some_and(|(s, _)| s.phase == phase))
    }

    /// The first step: who stores most, and what of it these functions read again.
    #[allow(clippy::cast_precision_loss)]
    fn writers(&self, phase: u32, work: &Phase) -> Writers {
        let mut functions: BTreeMap<u32, u64> = BTreeMap::new();
        for (at, place) in self.places_of(phase) {
            *functions.entry(self.functions.of_place(at as u32)).or_default() += place.bytes;
        }
        let all = functions.values().sum::<u64>().max(1) as f64;
        let accesses = (work.load_work + work.store_work).max(1) as f64;
        let busy = |function| self.functions.work(function) as f64 / accesses >= self.options.function_min;
        let shares: BTreeMap<u32, f64> = functions
            .into_iter()
            .map(|(function, bytes)| (function, bytes as f64 / all))
            .filter(|&(function, share)| share >= self.options.function_min && busy(function))
            .collect();
        let matrices = self.places.matrices();
        let mut lines: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for (at, place) in self.places_of(phase) {
            let of = lines.entry(matrices[at]).or_default();
            let readers = place.readers.iter().filter(|(function, _)| shares.contains_key(function));
            of.0 += place.classes.iter().map(|(_, class)| class.lines).sum::<u64>();
            of.1 += readers.map(|(_, lines)| lines).sum::<u64>();
        }
        let reread = |(matrix, (all, read)): (usize, (u64, u64))| {
            (read > 0 && read as f64 >= self.options.writers_reread_min * all as f64).then_some(matrix)
        };
        Writers { shares, reread: lines.into_iter().filter_map(reread).collect(), matrices }
    }

    /// The code sites of these places with what each should do: what [`Apply`](super::Apply) needs.
    #[must_use]
    pub fn plan<'a>(&self, places: impl IntoIterator<Item = &'a PlaceAdvice>) -> Vec<(SiteId, Choice)> {
        let mut plan = Vec::new();
        let bodies = self.places.bodies();
        let body_of = |at: usize| bodies.get(at).copied().unwrap_or(at);
        for chosen in places {
            let first = self.sources.iter().position(|(_, site)| *site == chosen.site);
            let Some(body) = first.map(body_of) else { continue };
            let of_body = |(at, _): &(usize, &(Source, SiteId))| body_of(*at) == body;
            for (_, (source, site)) in self.sources.iter().enumerate().filter(of_body) {
                let at_line = |definition: &Site| {
                    definition.frame().is_some_and(|frame| {
                        (&frame.file, frame.line) == (&source.file, source.line)
                            && base(&frame.function) == source.function
                    })
                };
                let others = self.definitions.sites().filter(|(_, definition)| at_line(definition));
                plan.extend(others.map(|(other, _)| (other, chosen.choice)));
                plan.push((*site, chosen.choice));
            }
        }
        plan.sort_unstable();
        plan.dedup();
        plan
    }

    #[allow(clippy::cast_precision_loss)]
    fn judge(
        &self,
        at: usize,
        place: &Place,
        (function_share, share): (f64, f64),
        writers: &Writers,
        target: Option<Target>,
    ) -> PlaceAdvice {
        let bytes = place.bytes.max(1) as f64;
        let by_writers = writers.reread.contains(&writers.matrices[at]);
        let reread = reread(place);
        let kept = by_writers || reread >= self.options.reused_min;
        let (source, site) = &self.sources[at];
        let mut report = PlaceAdvice {
            function: source.function.clone(),
            file: source.file.clone(),
            line: source.line,
            site: *site,
            function_share,
            share,
            sequential: place.sequential_bytes.min(place.bytes) as f64 / bytes,
            fenced: place.fenced_bytes.min(place.bytes) as f64 / bytes,
            fence_distance: place.fence_distance,
            reread_share: reread,
            may_skip: false,
            sizes: self.sizes(place, kept),
            choice: Choice::Nothing,
            reason: String::new(),
        };
        let pattern = Pattern {
            sequential: report.sequential >= self.options.sequential_min,
            fenced: report.fenced >= self.options.fenced_min,
            by_writers,
            reread,
            kept,
        };
        (report.choice, report.reason) = self.choose(place, &pattern, target);
        report.may_skip = match report.choice {
            Choice::Skip => true,
            Choice::Clean => !by_writers,
            Choice::Demote | Choice::Nothing => false,
        };
        report
    }

    #[allow(clippy::cast_precision_loss)]
    fn sizes(&self, place: &Place, reread: bool) -> Vec<SizeRow> {
        let mut rows: Vec<SizeRow> = place
            .classes
            .iter()
            .map(|(_, class)| SizeRow {
                bytes: class.size,
                share: class.bytes as f64 / place.bytes.max(1) as f64,
                reread: Some(class.reread).filter(|_| reread).and_then(|reuse| reuse.mean()),
                rewrite: self.counted(class.rewritten, class).and_then(|reuse| reuse.mean()),
                allocated: class.allocated,
            })
            .filter(|row| row.share >= 0.005)
            .collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(b.bytes.cmp(&a.bytes)));
        rows
    }

    /// Bytes of all different lines that the program touched, as far as they were watched; `None` if the
    /// source saw only some of them.
    #[must_use]
    pub fn touched_bytes(&self) -> Option<u64> {
        (!self.sampled).then(|| self.touched.different() * LINE)
    }

    /// Bytes of caches that the reuse of data is judged by.
    #[must_use]
    pub fn cache_bytes(&self) -> u64 {
        self.options.cache_bytes
    }

    /// Whether the program itself flushes or demotes most of what it writes here.
    #[allow(clippy::cast_precision_loss)]
    fn is_sent(&self, place: &Place) -> bool {
        let classes = || place.classes.iter().map(|(_, class)| class);
        let lines: u64 = classes().map(|class| class.lines).sum();
        let sent: u64 = classes().map(|class| class.sent).sum();
        sent > 0 && sent as f64 >= self.options.reused_min * lines as f64
    }

    /// The reuse of a class's lines, if it is of enough of them.
    fn counted(&self, reuse: Reuse, class: &Class) -> Option<Reuse> {
        self.are_enough(reuse.lines, class).then_some(reuse)
    }

    /// Whether these are enough of a class's lines.
    #[allow(clippy::cast_precision_loss)]
    fn are_enough(&self, lines: u64, class: &Class) -> bool {
        lines as f64 >= self.options.reused_min * class.lines.max(1) as f64
    }

    fn choose(&self, place: &Place, pattern: &Pattern, target: Option<Target>) -> (Choice, String) {
        let unit = target.map_or(u64::MAX, |target| target.unit_bytes);
        let weak = target.is_none_or(|target| target.weakly_ordered);
        let nothing = |reason: &str| (Choice::Nothing, reason.to_owned());
        if place.bytes < self.options.bytes_min {
            return nothing("stores too little to matter");
        }
        if place.around_bytes * 2 >= place.bytes {
            return nothing("its stores go around the caches already");
        }
        if !pattern.sequential && !pattern.fenced {
            let hurried = place.hurried_bytes as f64 >= self.options.fenced_min * place.bytes as f64;
            return nothing(if hurried {
                "its fences come so soon behind what it writes that a pre-store could not be ahead of them"
            } else {
                "writes neither sequentially nor shortly before fences"
            });
        }
        if !(pattern.sequential && unit > LINE || pattern.fenced && weak) {
            return nothing(if pattern.sequential {
                "writes sequentially, but this machine's memory takes single lines as well as longer pieces"
            } else {
                "writes before fences, but this machine makes stores visible in order anyway"
            });
        }
        let fenced = pattern.fenced && weak;
        let stays =
            |target: Target| self.touched_bytes().is_some_and(|touched| touched <= target.cache_bytes);
        let stays = target.is_some_and(stays);
        if stays && !fenced && !self.is_sent(place) {
            return nothing(
                "writes sequentially, but all that the program touches fits into this machine's last cache: nothing is evicted",
            );
        }
        let choices = self.voters(place).map(|class| self.choose_for(class, fenced, pattern.kept));
        let choice = choices.max().unwrap_or(Choice::Nothing);
        // A skip is better than the cleaning that is there.
        if matches!(choice, Choice::Clean | Choice::Demote) && self.is_sent(place) {
            return nothing("the program itself sends these lines on their way already");
        }
        (choice, why(choice, place, pattern))
    }

    /// The size classes that have a say.
    #[allow(clippy::cast_precision_loss)]
    fn voters<'a>(&self, place: &'a Place) -> impl Iterator<Item = &'a Class> {
        let long: u64 = place.classes.iter().filter(|(_, c)| c.size >= LINE).map(|(_, c)| c.bytes).sum();
        let enough = self.options.class_min * long as f64;
        // Where the regions are shorter than a line, they are all there is to ask.
        let least = if long * 2 >= place.bytes { LINE } else { 0 };
        let voters = place.classes.iter().map(|(_, class)| class);
        voters.filter(move |class| class.size >= least && class.bytes as f64 >= enough)
    }

    fn choose_for(&self, class: &Class, fenced: bool, kept: bool) -> Choice {
        if class.size < LINE {
            // A variable, a counter, a lock: nothing to gain but the cost of the instruction.
            return Choice::Nothing;
        }
        if self.counted(class.rewritten, class).is_some() {
            // Where it is written again before the fence, that waits for the last of the writes alone, and
            // each demotion would be paid for.
            let behind = self.are_enough(class.rewritten_behind, class);
            return if fenced && behind { Choice::Demote } else { Choice::Nothing };
        }
        if kept { Choice::Clean } else { Choice::Skip }
    }
}

/// Part of a place's lines that are soon read, 0 to 1.
#[allow(clippy::cast_precision_loss)]
fn reread(place: &Place) -> f64 {
    let classes = || place.classes.iter().map(|(_, class)| class);
    let lines: u64 = classes().map(|class| class.lines).sum();
    let read: u64 = classes().map(|class| class.reread.lines).sum();
    // A line that is filled in two goes may be read after each.
    (read as f64 / lines.max(1) as f64).min(1.0)
}

/// The reason of a choice that the pattern led to.
fn why(choice: Choice, place: &Place, pattern: &Pattern) -> String {
    let percent = format!("{:.0}%", 100.0 * pattern.reread);
    match choice {
        Choice::Skip if percent == "0%" => "not used again while it could still be in a cache".to_owned(),
        Choice::Skip => format!("only {percent} of it is read again while it could still be in a cache, and most not written again"),
        Choice::Clean if pattern.by_writers => {
            "not written again while it could still be in a cache, but read again, some or all of it, by code that stores much itself"
                .to_owned()
        }
        Choice::Clean => {
            format!("not written again while it could still be in a cache, but read again, {percent} of it")
        }
        Choice::Demote => "written again, and a fence waits for it to be visible".to_owned(),
        Choice::Nothing if place.classes.iter().all(|(_, class)| class.size < LINE) => {
            "writes less than a line at a place".to_owned()
        }
        Choice::Nothing => "written again while in the cache, and no fence waits for it by then".to_owned(),
    }
}
