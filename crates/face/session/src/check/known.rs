//! What recovery said of images before: those that agree in what it read are equivalent, and are not run
//! again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crash::{Ending, Image};
use reboot::Reads;

use super::laid::{Folders, Laid};

/// What was said of an image, and how recovery ended.
pub type Verdict = (Result<(), String>, Ending);

/// Sets of reads that are distinguished. A recovery that reads elsewhere each time has no equivalent images.
const SETS: usize = 256;
/// Watched recoveries after which equivalent images must have been met, or none is watched any more.
const TRIED: u64 = 64;

/// By what the recoveries of a kind read: the hash of that, and of what else they know, with what they said.
type Set = (Reads, HashMap<(u128, u64), Verdict>);

/// Shared by all jobs of a search.
#[derive(Debug, Default)]
pub struct Known {
    sets: Mutex<Vec<Set>>,
    run: AtomicU64,
    watched: AtomicU64,
    equivalent: AtomicU64,
}

impl Known {
    /// What recovery said of an equivalent image.
    pub fn verdict(&self, folders: &Folders, laid: &Laid, image: &Image<'_>) -> Option<Verdict> {
        let beside = beside(image);
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let found = sets.iter().find_map(|(reads, verdicts)| {
            let key = folders.key(reads, laid)?;
            verdicts.get(&(key, beside)).cloned()
        });
        if found.is_some() {
            self.equivalent.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Takes over what recovery said of an image, and what it read.
    pub fn learn(&self, folders: &Folders, laid: &Laid, image: &Image<'_>, reads: Reads, verdict: Verdict) {
        self.watched.fetch_add(1, Ordering::Relaxed);
        let Some(key) = folders.key(&reads, laid) else { return };
        let key = (key, beside(image));
        let reads = Reads { written: Default::default(), changed: Default::default(), ..reads };
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        match sets.iter().position(|(known, _)| *known == reads) {
            Some(at) => drop(sets[at].1.insert(key, verdict)),
            None if sets.len() < SETS => sets.push((reads, HashMap::from([(key, verdict)]))),
            None => {}
        }
    }

    /// Counts a recovery that ran.
    pub fn ran(&self) {
        self.run.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it pays to watch what recovery reads.
    pub fn pays(&self) -> bool {
        let (watched, equivalent) =
            (self.watched.load(Ordering::Relaxed), self.equivalent.load(Ordering::Relaxed));
        watched < TRIED || equivalent * 16 >= watched
    }

    /// Recoveries that ran, and images that were equivalent to one of theirs.
    pub fn counts(&self) -> (u64, u64) {
        (self.run.load(Ordering::Relaxed), self.equivalent.load(Ordering::Relaxed))
    }
}

/// What recovery knows of an image besides its files: what had been printed and acknowledged, and how many regions had begun
/// and ended.
fn beside(image: &Image<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (image.begun, image.ended, image.printed(), image.acked()).hash(&mut hasher);
    image.ended_regions().for_each(|region| region.hash(&mut hasher));
    hasher.finish()
}
