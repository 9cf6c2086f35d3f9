//! Opening a store whose index is in the file: what the index leads to is in use.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use space::{Env, Space};

use crate::Error;
use crate::handle::Handle;
use crate::layout::{CHUNK_HEAD, Head, Use};
use crate::record::Record;
use crate::store::Store;

/// What the index leads to in one chunk.
#[derive(Debug, Default)]
struct Reached {
    places: HashSet<u64>,
    bytes: u64,
    end: u64,
}

impl<E: Env, H: Handle<E>> Store<E, H> {
    pub(crate) fn recover_indexed(&mut self, used: &[(u32, Head)]) -> Result<(), Error> {
        self.tree = Some(self.open_tree()?);
        let reached = self.reached()?;
        self.take_over(used, &reached)?;
        // What a journal has may have been made in part: it is made again.
        self.finish_batches()?;
        self.fence();
        for (chunk, _) in self.chunks.logs(&self.env) {
            self.weigh(chunk);
        }
        Ok(())
    }

    /// The records that the index leads to, by their chunks.
    fn reached(&self) -> Result<HashMap<u32, Reached>, Error> {
        let space = self.env.space();
        let mut reached: HashMap<u32, Reached> = HashMap::new();
        let mut wrong = None;
        let (chunks, _) = self.chunks.usage(&self.env);
        let high = self.layout().chunk_at(chunks);
        self.each_record(|location, key| {
            let inside = location < high && self.can_hold_records(location);
            let record = inside.then(|| Record::at(space, location, space.len())).flatten();
            let Some(record) = record else {
                wrong.get_or_insert(location);
                return;
            };
            let place = reached.entry(self.layout().chunk_of(location)).or_default();
            place.places.insert(location);
            place.bytes += record.bytes();
            place.end = place.end.max(location + record.bytes());
            self.shard(self.hash(&key)).changed_elsewhere(1, 0);
            self.recovered.fetch_add(1, Relaxed);
        })?;
        match wrong {
            Some(location) => Err(Error::damaged(location, "a record that the index leads to", 0)),
            None => Ok(reached),
        }
    }

    /// Whether the chunk at `location` is one of those that have records.
    fn can_hold_records(&self, location: u64) -> bool {
        matches!(self.chunks.of(location).1.head().used, Use::Log | Use::Slab | Use::Large)
    }

    /// Takes over what is free and what is outdated.
    fn take_over(&self, used: &[(u32, Head)], reached: &HashMap<u32, Reached>) -> Result<(), Error> {
        let nothing = Reached::default();
        for &(chunk, head) in used {
            let here = reached.get(&chunk).unwrap_or(&nothing);
            let begin = self.layout().chunk_at(chunk) + CHUNK_HEAD;
            match head.used {
                Use::Slab => {
                    self.check_slots(chunk, head)?;
                    let free = self.slots_of(chunk, head.detail).filter(|slot| !here.places.contains(slot));
                    free.for_each(|slot| self.free_slot(slot));
                }
                Use::Large if here.places.is_empty() => self.chunks.release(&self.env, chunk),
                Use::Log => {
                    // What lies behind the last record in use was never acknowledged, or nobody needs it.
                    let end = head.log_end().unwrap_or(here.end.max(begin));
                    let info = self.chunks.info(chunk);
                    info.detail.store(end, Relaxed);
                    info.outdated.store(end.saturating_sub(begin + here.bytes), Relaxed);
                    self.log_bytes.fetch_add(self.layout().chunk, Relaxed);
                    if head.log_end().is_none() {
                        self.layout().set_detail(self.env.space(), chunk, head.generation, end);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
