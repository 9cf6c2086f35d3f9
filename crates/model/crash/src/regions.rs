//! The oracle that needs no knowledge of the structure: a region's stores are all there after recovery, or none.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use event::ThreadId;

use crate::history::Item;
use crate::words::{Words, merge};
use crate::{Contents, History, Image, MarkKind, Place};

/// What a region stored, by word: the bytes of its last stores to it.
type Stores = BTreeMap<Place, (u64, u8)>;

#[derive(Debug)]
struct Region {
    number: u64,
    thread: ThreadId,
    stores: Stores,
    /// Its end among the history's marks; `None` if the run ended before.
    end: Option<u32>,
}

/// Atomicity and durability of failure-atomic regions, held against the image that recovery left.
///
/// Only words that are stored to in regions, and nowhere else, and that the caller calls data are looked at: a log is written in regions,
/// too, and looks as it likes after recovery. Regions of several threads that are under way at the same time must not store to the same words, as
/// locks see to.
#[derive(Debug)]
pub struct Regions<'h> {
    regions: Vec<Region>,
    /// Regions by the mark of their beginning.
    by_begin: HashMap<u32, usize>,
    by_end: HashMap<u32, usize>,
    words: BTreeSet<Place>,
    initial: Words<'h>,
}

impl<'h> Regions<'h> {
    /// The regions of a run; `is_data` says which words recovery brings into order.
    #[must_use]
    pub fn of(history: &'h History, contents: &'h Contents, is_data: impl Fn(Place) -> bool) -> Self {
        let mut regions: Vec<Region> = Vec::new();
        let (mut by_begin, mut by_end) = (HashMap::new(), HashMap::new());
        let mut open: HashMap<ThreadId, usize> = HashMap::new();
        let mut words = BTreeSet::new();
        let mut outside = BTreeSet::new();
        for item in &history.items {
            match *item {
                Item::Atom(at) => {
                    let atom = &history.atoms[at as usize];
                    match open.get(&atom.thread) {
                        _ if !is_data(atom.place) => {}
                        None => _ = outside.insert(atom.place),
                        Some(&region) => {
                            words.insert(atom.place);
                            let (value, mask) = regions[region].stores.entry(atom.place).or_default();
                            *value = merge(*value, atom.value, atom.mask);
                            *mask |= atom.mask;
                        }
                    }
                }
                Item::Mark(at) => {
                    let mark = &history.marks[at as usize];
                    match mark.kind {
                        MarkKind::Begin(number) => {
                            by_begin.insert(at, regions.len());
                            open.insert(mark.thread, regions.len());
                            regions.push(Region {
                                number,
                                thread: mark.thread,
                                stores: Stores::new(),
                                end: None,
                            });
                        }
                        MarkKind::End(number) => {
                            let region = open.remove(&mark.thread);
                            if let Some(region) = region.filter(|&region| regions[region].number == number) {
                                regions[region].end = Some(at);
                                by_end.insert(at, region);
                            }
                        }
                        MarkKind::Phase(_) => {}
                    }
                }
                Item::Barrier(_) | Item::Flush(_) | Item::Bulk(_) => {}
            }
        }
        words.retain(|word| !outside.contains(word));
        Regions { regions, by_begin, by_end, words, initial: Words::new(history, contents) }
    }

    /// Whether what recovery left of an image is right; `word` gives its words.
    ///
    /// # Errors
    /// The first region that ended and is not there, or that is there in part.
    pub fn judge(&self, image: &Image<'_>, word: impl Fn(Place) -> u64) -> Result<(), String> {
        let mut expected: BTreeMap<Place, u64> =
            self.words.iter().map(|&place| (place, self.initial.get(place))).collect();
        let mut last: HashMap<Place, u64> = HashMap::new();
        let mut begun: Vec<usize> = Vec::new();
        for at in image.mark_numbers() {
            begun.extend(self.by_begin.get(&at));
            if let Some(&ended) = self.by_end.get(&at) {
                begun.retain(|&region| region != ended);
                for (place, &(value, mask)) in &self.regions[ended].stores {
                    if let Some(old) = expected.get_mut(place) {
                        *old = merge(*old, value, mask);
                        last.insert(*place, self.regions[ended].number);
                    }
                }
            }
        }
        for region in begun.into_iter().map(|at| &self.regions[at]) {
            self.judge_under_way(region, &mut expected, &word)?;
        }
        for (&place, &expected) in &expected {
            let found = word(place);
            if found != expected {
                let what = format!("{place:?} holds {found:#x} and not {expected:#x}");
                return Err(match last.get(&place) {
                    Some(region) => format!("region {region} had ended and is not wholly there: {what}"),
                    None => format!("no region that was begun stored what is there: {what}"),
                });
            }
        }
        Ok(())
    }

    /// A region that had begun may be there as a whole.
    fn judge_under_way(
        &self,
        region: &Region,
        expected: &mut BTreeMap<Place, u64>,
        word: &impl Fn(Place) -> u64,
    ) -> Result<(), String> {
        let mut after: Vec<(Place, u64)> = Vec::new();
        let (mut new, mut old) = (None, None);
        for (&place, &(value, mask)) in &region.stores {
            let Some(&before) = expected.get(&place) else { continue };
            let (found, wanted) = (word(place), merge(before, value, mask));
            after.push((place, wanted));
            if wanted != before {
                new = new.or((found == wanted).then_some(place));
                old = old.or((found != wanted).then_some(place));
            }
        }
        match (new, old) {
            (Some(new), Some(old)) => Err(format!(
                "region {} of thread {} is there in part: at {new:?} and not at {old:?}",
                region.number, region.thread.0
            )),
            (Some(_), None) => {
                expected.extend(after);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }
}
