//! Why a lost store need not have survived, as far as the run shows.

use persistency::Model;

use crate::finding::Reason;
use crate::history::Item;
use crate::{Barrier, History};

/// Why `atom` need not have survived a crash before which no more than `made` happened: items with their positions, in order.
pub(super) fn reason(history: &History, made: &[(usize, Item)], atom: u32) -> Reason {
    let lost = &history.atoms[atom as usize];
    let was_made = |position: usize| made.binary_search_by_key(&position, |&(at, _)| at).is_ok();
    let Some(stored) = history.items.iter().position(|&item| item == Item::Atom(atom)) else {
        return Reason::NotMade;
    };
    if !was_made(stored) {
        return Reason::NotMade;
    }
    let number = || history.barriers.iter().position(|barrier| demands(history, barrier, atom));
    let fence = || number().map(|at| &history.barriers[at]);
    match history.platform.model() {
        Model::Epoch | Model::Strand => return Reason::Unordered,
        Model::File(_) => {
            let Some(at) = number() else { return Reason::NeverFlushed };
            let sync = history.barriers[at].site;
            let synced = history.synced.get(at).copied().flatten();
            return synced.map_or(Reason::FlushedLater(sync), |file| Reason::SyncedLater(sync, file));
        }
        Model::X86 | Model::Arm if lost.non_temporal => {
            return fence().map_or(Reason::NotFenced(None), |fence| Reason::FencedLater {
                flush: None,
                fence: fence.site,
            });
        }
        // Visible is durable: a store is lost only if it becomes visible behind the crash.
        Model::X86 | Model::Arm if history.platform.caches_persist() => return Reason::NotMade,
        Model::X86 | Model::Arm => {}
    }
    let line = lost.place.line();
    let flushes = history.items.iter().enumerate().skip(stored).filter_map(|(at, item)| match item {
        Item::Flush(flush) => Some((at, &history.flushes[*flush as usize])).filter(|(_, it)| it.line == line),
        _ => None,
    });
    let (mut later, mut apart) = (None, None);
    for (at, flush) in flushes {
        if flush.seen.is_none_or(|seen| seen < atom) {
            apart.get_or_insert(flush.site);
        } else if was_made(at) {
            let of_thread =
                |barrier: &&Barrier| barrier.thread == flush.thread && demands(history, barrier, atom);
            return match history.barriers.iter().find(of_thread) {
                Some(fence) => Reason::FencedLater { flush: Some(flush.site), fence: fence.site },
                None => Reason::NotFenced(Some(flush.site)),
            };
        } else {
            later.get_or_insert(flush.site);
        }
    }
    match (later, apart) {
        (Some(site), _) => Reason::FlushedLater(site),
        (None, Some(site)) => Reason::FlushedApart(site),
        (None, None) => Reason::NeverFlushed,
    }
}

/// Whether the barrier can't be passed unless the atom survives.
fn demands(history: &History, barrier: &Barrier, atom: u32) -> bool {
    let cell = history.atoms[atom as usize].cell;
    barrier.demands.iter().any(|&demand| demand >= atom && history.atoms[demand as usize].cell == cell)
}
