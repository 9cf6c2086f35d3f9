//! A log in front of a volatile skip list.

use std::ops::Deref;

use space::Env;

use super::flex_log::{FlexLog, LogOptions};
use super::skip_list::{Links, ListOptions, SkipList};
use crate::{Error, Extents};

/// Bit of the first word of a record: the key is taken out.
const REMOVED: u32 = 1 << 31;

/// An ordered map of byte strings: what changes it is appended to a log, durably, and then done to a list in
/// ordinary memory. Opening reads the log.
pub struct Logged<H, V, X>
where
    H: Deref<Target: Env + Sized>,
    V: Deref<Target: Env + Sized>,
{
    env: H,
    log: FlexLog<H>,
    list: SkipList<V, X>,
    /// Held from the append to the end of the insertion: both have the same order.
    order: <H::Target as Env>::Mutex<()>,
}

impl<H, V, X> Logged<H, V, X>
where
    H: Deref<Target: Env + Sized> + Clone,
    V: Deref<Target: Env + Sized>,
    X: Extents<<V::Target as Env>::Space>,
{
    /// Makes an empty one: the log of the first of `extents`, the list in `list`'s, which need not survive.
    ///
    /// # Errors
    /// If there is no room.
    pub fn create<L>(env: H, extents: &L, list: (V, X), options: LogOptions) -> Result<Self, Error>
    where
        L: Extents<<H::Target as Env>::Space>,
    {
        let log = FlexLog::create(env.clone(), extents, options)?;
        Ok(Logged { order: env.mutex(()), env, log, list: volatile(list)? })
    }

    /// Opens one.
    ///
    /// # Errors
    /// If there is no log, one of its records is none of a map, or there is no room for the list.
    pub fn open<L>(env: H, extents: &L, list: (V, X), options: LogOptions) -> Result<Self, Error>
    where
        L: Extents<<H::Target as Env>::Space>,
    {
        let list = volatile(list)?;
        let mut outcome = Ok(());
        let log = FlexLog::open(env.clone(), extents, options, &mut |record| {
            if outcome.is_ok() {
                outcome = again(&list, record);
            }
        })?;
        outcome?;
        Ok(Logged { order: env.mutex(()), env, log, list })
    }

    /// Sets the value of `key`, durably.
    ///
    /// # Errors
    /// If there is no room in the log, or none in the list, which then lacks what the log has until it is
    /// opened with more.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let len = length(key)?;
        let _order = self.env.lock(&self.order);
        self.log.append(&[&len.to_le_bytes(), key, value])?;
        self.list.put(key, value)
    }

    /// Takes `key` out, durably.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn remove(&self, key: &[u8]) -> Result<(), Error> {
        let len = length(key)? | REMOVED;
        let _order = self.env.lock(&self.order);
        self.log.append(&[&len.to_le_bytes(), key])?;
        self.list.remove(key)
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.list.get(key)
    }

    /// Hands out the pairs from `from` on in the order of keys, until `visit` returns false.
    pub fn range(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.list.range(from, visit);
    }
}

/// A list that nobody flushes.
fn volatile<V, X>((env, extents): (V, X)) -> Result<SkipList<V, X>, Error>
where
    V: Deref<Target: Env + Sized>,
    X: Extents<<V::Target as Env>::Space>,
{
    SkipList::create(env, extents, ListOptions { links: Links::None, ..ListOptions::default() })
}

/// Does to the list what a record says.
fn again<V, X>(list: &SkipList<V, X>, record: &[u8]) -> Result<(), Error>
where
    V: Deref<Target: Env + Sized>,
    X: Extents<<V::Target as Env>::Space>,
{
    const WRONG: Error = Error::Options("the log has a record that is no pair");
    let (len, rest) = record.split_first_chunk().ok_or(WRONG)?;
    let len = u32::from_le_bytes(*len);
    let (key, value) = rest.split_at_checked((len & !REMOVED) as usize).ok_or(WRONG)?;
    if len & REMOVED == 0 { list.put(key, value) } else { list.remove(key) }
}

fn length(key: &[u8]) -> Result<u32, Error> {
    let len = u32::try_from(key.len()).ok().filter(|len| len & REMOVED == 0);
    len.ok_or(Error::Options("a key of 2 GiB or more"))
}

#[cfg(test)]
mod tests {
    use pmem::Os;
    use space::Image;

    use super::*;
    use crate::Whole;

    /// A list somewhere else.
    fn scratch(env: &Os<Image>) -> (&Os<Image>, Whole) {
        (env, Whole::create(env.space(), 1 << 10).expect("room"))
    }

    #[test]
    fn what_was_put_is_there_after_the_list_is_gone() {
        let env = Os::new(Image::new(8 << 10));
        let extents = Whole::create(env.space(), 6 << 10).expect("room");
        let fresh = || Os::new(Image::new(4 << 20));
        let volatile = fresh();
        let map = Logged::create(&env, &extents, scratch(&volatile), LogOptions::default()).expect("room");
        map.put(b"a", b"1").expect("room");
        map.put(b"b", b"2").expect("room");
        map.put(b"a", b"3").expect("room");
        map.remove(b"b").expect("room");
        map.put(b"", b"").expect("room");
        drop(map);
        let volatile = fresh();
        let map = Logged::open(&env, &extents, scratch(&volatile), LogOptions::default()).expect("a map");
        assert_eq!(map.get(b"a").as_deref(), Some(&b"3"[..]));
        let mut keys = Vec::new();
        map.range(b"", &mut |key, _| {
            keys.push(key.to_vec());
            true
        });
        assert_eq!(keys, [b"".to_vec(), b"a".to_vec()]);
        assert!(map.put(b"c", &[0; 8 << 10]).is_err() && map.get(b"c").is_none());
    }
}
