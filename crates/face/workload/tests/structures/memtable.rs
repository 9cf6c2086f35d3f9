//! The two memtables.

use index::Whole;
use index::memtable::{Links, ListFlaw, ListOptions, LogFlaw, LogOptions, Logged, SkipList};
use pmem::Os;
use space::{Env, Image, Scratch};

use crate::support::{Pairs, Scenario, Step, Subject};

fn put(key: &'static str, value: &str) -> Step {
    (key, Some(value.as_bytes().to_vec()))
}

/// Nodes of several levels, versions of a key, removals, an extent that has to be added.
fn list_scenario(threads: usize) -> Scenario {
    let alone: Vec<Step> = vec![
        put("mm", "1"),
        put("c", "22222222222222222222"),
        put("t", "3"),
        put("mm", "4"),
        ("c", None),
        put("cc", "a value that is longer than a line: ................................................"),
        ("x", None),
        put("c", "7"),
    ];
    let all = [
        alone.clone(),
        vec![put("d", "1"), put("b", "2"), ("d", None), put("b", "3")],
        vec![put("ca", "1"), put("z", "2"), put("ca", "3")],
    ];
    let threads = if threads == 1 { vec![alone] } else { all.into_iter().rev().take(threads).collect() };
    Scenario { bytes: 4 << 10, threads, images: 256 }
}

struct List(ListOptions);

impl List {
    fn with(links: Links, flaw: ListFlaw) -> List {
        List(ListOptions { links, extent_bytes: 512, flaw })
    }
}

impl Subject for List {
    type Open<'e, E: Env + 'e> = SkipList<&'e E, Whole>;

    fn make<'e, E: Env>(&self, env: &'e E) -> Self::Open<'e, E> {
        let extents = Whole::create(env.space(), 512).expect("room");
        SkipList::create(env, extents, self.0).expect("room")
    }

    fn change<E: Env>(&self, open: &Self::Open<'_, E>, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => open.put(key, value),
            None => open.remove(key),
        }
        .expect("room");
    }

    fn pairs(&self, image: &Scratch) -> Result<Pairs, String> {
        let env = Os::new(image);
        let extents = Whole::open(env.space()).map_err(|error| error.to_string())?;
        let list = SkipList::open(&env, extents, self.0).map_err(|error| error.to_string())?;
        let pairs = all(|visit| list.range(b"", visit));
        // It is a list to work with, too.
        list.put(b"e", b"after").map_err(|error| error.to_string())?;
        let after = all(|visit| list.range(b"", visit));
        let lost = pairs.iter().any(|(key, value)| after.get(key) != Some(value));
        if lost || list.get(b"e").is_none() { Err("lost after recovery".to_owned()) } else { Ok(pairs) }
    }
}

fn all(range: impl Fn(&mut dyn FnMut(&[u8], &[u8]) -> bool)) -> Pairs {
    let mut pairs = Pairs::new();
    range(&mut |key, value| pairs.insert(key.to_vec(), value.to_vec()).is_none());
    pairs
}

#[test]
fn a_list_keeps_what_it_acknowledged() {
    for links in [Links::Bottom, Links::All] {
        let list = List::with(links, ListFlaw::Sound);
        list_scenario(1).holds(&list, 1);
        list_scenario(2).holds(&list, 3);
        list_scenario(3).holds(&list, 2);
    }
}

#[test]
fn a_list_that_links_early_or_does_not_wait_is_found() {
    for flaw in [ListFlaw::LinkedEarly, ListFlaw::LinkNotFenced] {
        list_scenario(1).breaks(&List::with(Links::Bottom, flaw), 1);
        list_scenario(2).breaks(&List::with(Links::All, flaw), 3);
    }
}

/// A log in front of a list that is elsewhere.
struct InFront(LogOptions);

type Volatile = (Box<Os<Image>>, Whole);

impl InFront {
    fn with(align: u64, flaw: LogFlaw) -> InFront {
        InFront(LogOptions { align, flaw })
    }

    fn elsewhere() -> Volatile {
        let env = Box::new(Os::new(Image::new(16 << 10)));
        let extents = Whole::create(env.space(), 14 << 10).expect("room");
        (env, extents)
    }
}

impl Subject for InFront {
    type Open<'e, E: Env + 'e> = Logged<&'e E, Box<Os<Image>>, Whole>;

    fn make<'e, E: Env>(&self, env: &'e E) -> Self::Open<'e, E> {
        let extents = Whole::create(env.space(), 3 << 10).expect("room");
        Logged::create(env, &extents, Self::elsewhere(), self.0).expect("room")
    }

    fn change<E: Env>(&self, open: &Self::Open<'_, E>, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => open.put(key, value),
            None => open.remove(key),
        }
        .expect("room");
    }

    fn pairs(&self, image: &Scratch) -> Result<Pairs, String> {
        let env = Os::new(image);
        let open = || {
            let extents = Whole::open(env.space()).map_err(|error| error.to_string())?;
            let map = Logged::open(&env, &extents, Self::elsewhere(), self.0);
            map.map_err(|error| error.to_string())
        };
        let map = open()?;
        let pairs = all(|visit| map.range(b"", visit));
        map.put(b"e", b"after").map_err(|error| error.to_string())?;
        let reopened = open()?;
        let mut after = all(|visit| reopened.range(b"", visit));
        let again = after.remove(&b"e"[..]);
        if after != pairs || again.is_none() { Err("lost after recovery".to_owned()) } else { Ok(pairs) }
    }
}

#[test]
fn a_log_keeps_what_it_acknowledged() {
    for align in [8, 64] {
        let log = InFront::with(align, LogFlaw::Sound);
        list_scenario(1).holds(&log, 1);
        list_scenario(3).holds(&log, 2);
    }
}

#[test]
fn a_log_that_does_not_wait_or_does_not_check_is_found() {
    for flaw in [LogFlaw::NotFenced, LogFlaw::Unchecked, LogFlaw::HeadFirst] {
        list_scenario(1).breaks(&InFront::with(8, flaw), 1);
        list_scenario(3).breaks(&InFront::with(64, flaw), 3);
    }
}
