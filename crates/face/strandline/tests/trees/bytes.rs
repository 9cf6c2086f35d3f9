//! `BytesMap`.

use index::bytes::{Flaw, Options};
use index::{BytesMap, Error, Map, Whole};
use pmem::Os;
use space::sim::Schedule;
use space::{Env, Image, Observer, Space};
use strandline::check::{self, Check};
use strandline::crash::Platform;

use crate::desk::{Opened, Scenario, Step, Subject, caught, emptied, holds, holds_again, mixed};
use crate::killed::{holds_killed, killed};

/// A map of numbers whose keys and values have lengths of all kinds.
struct Numbers<M>(M);

/// In the order of numbers.
fn key_of(number: u64) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.extend((0..number % 5 * 11).map(|at| at as u8));
    key
}

fn value_of(number: u64) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.extend((0..number % 7 * 30).map(|at| (at + number) as u8));
    value
}

fn number_in(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// The number of a value of which every byte is right.
fn checked(value: &[u8]) -> u64 {
    let number = number_in(value);
    assert_eq!(value, value_of(number), "half of a value");
    number
}

impl<E: Env> Map<u64, u64> for Numbers<BytesMap<&E, Whole>> {
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key_of(key)).expect("whole").map(|value| checked(&value))
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.0.insert(&key_of(key), &value_of(value))?.map(|value| checked(&value)))
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.0.update(&key_of(key), &value_of(value))?.map(|value| checked(&value)))
    }

    fn replace(&self, _: u64, _: u64, _: u64) -> Result<bool, Error> {
        Err(Error::Options("no scenario replaces"))
    }

    fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        Ok(self.0.remove(&key_of(key))?.map(|value| checked(&value)))
    }

    fn each(&self, visit: &mut dyn FnMut(u64, u64) -> bool) {
        let all = self.0.range(&[], &mut |key, value| {
            let number = key.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
            visit(number, checked(value))
        });
        all.expect("whole");
    }
}

#[derive(Clone, Copy)]
struct Small(Flaw);

impl Small {
    fn options(self) -> Options {
        Options { latches: 2, flaw: self.0, ..Options::default() }
    }
}

impl Subject for Small {
    const BYTES: u64 = 64 << 10;

    /// Behind the first extent, what an earlier owner left.
    fn space(self) -> Image {
        let image = Image::new(Self::BYTES);
        for at in ((2 << 10) + 256..Self::BYTES).step_by(8) {
            image.store_u64(at, 0x0000_0008_0000_0008);
        }
        image
    }

    fn create<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        let whole = Whole::create(env.space(), 2 << 10)?;
        Ok(Box::new(Numbers(BytesMap::create(env, whole, &self.options())?)))
    }

    fn open<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        Ok(Box::new(Numbers(BytesMap::open(env, Whole::open(env.space())?, &self.options())?)))
    }
}

/// Each key is updated and removed at once, and comes back, so that its slots are used again and again.
fn rewritten(keys: u64) -> Scenario {
    let key = |number: u64| number * 0x101;
    let mut steps: Vec<Step> = (0..keys).map(|number| Step::Insert(key(number), number + 1)).collect();
    for number in 0..keys {
        let insert = |value: u64| Step::Insert(key(number), number + 7 * value);
        steps.extend([insert(1), Step::Remove(key(number)), insert(2), insert(3), insert(4), insert(5)]);
    }
    vec![steps]
}

fn scenarios() -> Vec<Scenario> {
    vec![rewritten(5), emptied(12), mixed(1, 60, 8, 3), mixed(2, 24, 5, 4), mixed(3, 16, 4, 5)]
}

#[test]
fn every_crash_leaves_a_map_of_byte_strings() {
    for (seed, scenario) in (1..).zip(&scenarios()) {
        holds(Small(Flaw::None), scenario, seed);
    }
}

#[test]
fn mistakes_of_a_map_of_byte_strings_are_found() {
    for flaw in [Flaw::NotFenced, Flaw::ErasedEarly, Flaw::OlderKept, Flaw::ReusedEarly] {
        caught(&format!("{flaw:?}"), Small(flaw), &scenarios());
    }
}

#[test]
fn a_second_crash_takes_nothing_back() {
    holds_again(Small(Flaw::None), &mixed(1, 40, 8, 5), 5);
    holds_again(Small(Flaw::None), &rewritten(4), 2);
}

#[test]
fn a_killed_process_leaves_nothing_that_is_lost_later() {
    holds_killed(Small(Flaw::None), &rewritten(5));
    holds_killed(Small(Flaw::None), &mixed(1, 60, 8, 3));
}

#[test]
fn mistakes_of_opening_are_found() {
    for flaw in [Flaw::RecoveredEarly, Flaw::FoundFree] {
        let found =
            [rewritten(5), mixed(1, 60, 8, 3)].iter().any(|scenario| killed(Small(flaw), scenario).is_some());
        assert!(found, "{flaw:?} was not found");
    }
}

/// A crash in a load leaves some of the pairs, whole ones, and a map to work with; so does one in a load that
/// fails, and none of them afterwards.
#[test]
fn crashes_in_a_load_leave_whole_pairs() {
    const PAIRS: u64 = 9;
    for twice in [false, true] {
        let image = Small(Flaw::None).space();
        drop(Small(Flaw::None).create(&Os::new(&image)).expect("room"));
        let run = check::record_on(image, Platform::ADR, &Schedule::walk(1), |env| {
            let whole = Whole::open(env.space()).expect("extents");
            let map = BytesMap::open(env, whole, &Small(Flaw::None).options()).expect("a map");
            let mut pairs: Vec<_> = (0..PAIRS).map(|number| (key_of(number), value_of(number))).collect();
            if twice {
                pairs.push((key_of(3), value_of(100)));
            }
            env.space().observer().region_begin(1);
            let loaded = map.load(pairs.iter().map(|(key, value)| (&key[..], &value[..])));
            env.space().observer().region_end(1);
            assert_eq!((loaded.is_err(), map.is_empty()), (twice, twice));
            env.space().observer().region_begin(2);
            map.insert(&key_of(3), &value_of(200)).expect("room");
            env.space().observer().region_end(2);
        });
        let run = run.unwrap_or_else(|error| panic!("{error}"));
        let mut check = Check::new(&run);
        check.checker.bounds.per_cut = 200;
        let outcome = check.run(|image, crash| {
            let env = Os::new(image);
            let map = Small(Flaw::None).open(&env).map_err(|error| error.to_string())?;
            let found = crate::desk::pairs(&map);
            let new = |(key, value): (&u64, &u64)| match value {
                200 => *key == 3 && crash.begun() == 2,
                100 => *key == 3 && twice && crash.ended() == 0,
                value => key == value && *key < PAIRS && (!twice || crash.ended() == 0),
            };
            let whole = match crash.ended() {
                0 => true,
                1 => twice || found.len() as u64 == PAIRS,
                _ => found.get(&3) == Some(&200) && found.len() as u64 == if twice { 1 } else { PAIRS },
            };
            (whole && found.iter().all(new))
                .then_some(())
                .ok_or_else(|| format!("{:?} {found:?}", crash.ended()))
        });
        assert!(outcome.findings.is_empty(), "{}", check.story(&outcome));
        assert!(outcome.images > 100, "{outcome:?}");
    }
}
