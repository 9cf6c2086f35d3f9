//! `Scratch` against a plain model: whatever recovery does, a rollback leaves the image that was applied, and
//! what was read before it was written is known.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use event::{Collected, Op};
use proptest::prelude::*;
use space::{Image, Prestore, Recorded, Recording, Scratch, Space, Touched, conformance};

/// Not a whole number of lines.
const LEN: u64 = 4 * 64 + 24;

/// One step of a run.
#[derive(Clone, Debug)]
enum Step {
    Load { offset: u64, width: u64 },
    Store { offset: u64, width: u64, value: u64 },
    LoadBytes { offset: u64, len: u64 },
    StoreBytes { offset: u64, bytes: Vec<u8> },
    Cas { offset: u64, matches: bool, new: u64 },
    Copy { src: u64, dst: u64, len: u64 },
    Next { words: Vec<(u64, u64)> },
}

fn step() -> impl Strategy<Value = Step> {
    let aligned = |width: u64| (0..LEN / width).prop_map(move |index| index * width);
    let place =
        (0u32..4).prop_map(|shift| 1u64 << shift).prop_flat_map(move |width| (aligned(width), Just(width)));
    let range = (0..LEN).prop_flat_map(|offset| (Just(offset), 0..=(LEN - offset).min(80)));
    prop_oneof![
        4 => place.clone().prop_map(|(offset, width)| Step::Load { offset, width }),
        4 => (place, any::<u64>()).prop_map(|((offset, width), value)| Step::Store { offset, width, value }),
        1 => range.prop_map(|(offset, len)| Step::LoadBytes { offset, len }),
        1 => (0..LEN - 40, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(offset, bytes)| Step::StoreBytes { offset, bytes }),
        1 => (aligned(8), any::<bool>(), any::<u64>())
            .prop_map(|(offset, matches, new)| Step::Cas { offset, matches, new }),
        1 => (0..LEN - 40, 0..LEN - 40, 0u64..40).prop_map(|(src, dst, len)| Step::Copy { src, dst, len }),
        2 => prop::collection::vec((aligned(8), any::<u64>()), 0..4).prop_map(|words| Step::Next { words }),
    ]
}

/// The same in the plainest way: two arrays of bytes and two of flags.
struct Model {
    base: Vec<u8>,
    now: Vec<u8>,
    written: Vec<bool>,
    read: BTreeMap<u64, u8>,
    changed: Vec<u64>,
}

impl Model {
    fn new(bytes: &[u8]) -> Self {
        Model {
            base: bytes.to_vec(),
            now: bytes.to_vec(),
            written: vec![false; bytes.len() / 8],
            read: BTreeMap::new(),
            changed: Vec::new(),
        }
    }

    fn load(&mut self, offset: u64, len: u64) -> Vec<u8> {
        for word in (offset..offset + len).map(|at| at / 8) {
            if !self.written[word as usize] {
                *self.read.entry(word / 8 * 64).or_default() |= 1 << (word % 8);
            }
        }
        self.now[offset as usize..(offset + len) as usize].to_vec()
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        self.now[offset as usize..end as usize].copy_from_slice(bytes);
        for at in offset..end {
            if !self.changed.contains(&(at / 64 * 64)) {
                self.changed.push(at / 64 * 64);
            }
            // A word counts as written when one access wrote all of it.
            if at % 8 == 0 && at + 8 <= end {
                self.written[(at / 8) as usize] = true;
            }
        }
    }

    fn rollback(&mut self) {
        *self = Model::new(&self.base);
    }
}

/// Does a step on both; what it read must be the same.
fn both(scratch: &Scratch, model: &mut Model, step: &Step) {
    match *step {
        Step::Load { offset, width } => {
            let value = match width {
                1 => u64::from(scratch.load_word::<u8>(offset)),
                2 => u64::from(scratch.load_word::<u16>(offset)),
                4 => u64::from(scratch.load_word::<u32>(offset)),
                _ => scratch.load_u64(offset),
            };
            assert_eq!(value.to_le_bytes()[..width as usize], model.load(offset, width));
        }
        Step::Store { offset, width, value } => {
            match width {
                1 => scratch.store_word(offset, value as u8),
                2 => scratch.store_word(offset, value as u16),
                4 => scratch.store_word(offset, value as u32),
                _ => scratch.store_u64(offset, value),
            }
            model.store(offset, &value.to_le_bytes()[..width as usize]);
        }
        Step::LoadBytes { offset, len } => {
            let mut bytes = vec![0; len as usize];
            scratch.load(offset, &mut bytes);
            assert_eq!(bytes, model.load(offset, len));
        }
        Step::StoreBytes { offset, ref bytes } => {
            scratch.store(offset, bytes);
            model.store(offset, bytes);
        }
        Step::Cas { offset, matches, new } => {
            let held = model.load(offset, 8);
            let held = u64::from_le_bytes(held.try_into().expect("eight bytes"));
            let old = if matches { held } else { !held };
            assert_eq!(scratch.cas_u64(offset, old, new), if matches { Ok(held) } else { Err(held) });
            if matches {
                model.store(offset, &new.to_le_bytes());
            }
        }
        Step::Copy { src, dst, len } => {
            scratch.copy(src, dst, len);
            let bytes = model.load(src, len);
            model.store(dst, &bytes);
        }
        Step::Next { ref words } => {
            scratch.rollback();
            scratch.apply(words);
            model.rollback();
            for &(offset, word) in words {
                model.base[offset as usize..][..8].copy_from_slice(&word.to_le_bytes());
            }
            model.rollback();
        }
    }
}

proptest! {
    #[test]
    fn it_is_what_the_model_is(steps in prop::collection::vec(step(), 0..60)) {
        let start: Vec<u8> = (0..LEN).map(|at| (at * 37 % 251) as u8).collect();
        let (scratch, mut model) = (Scratch::from_bytes(&start), Model::new(&start));
        for step in &steps {
            both(&scratch, &mut model, step);
            prop_assert_eq!(scratch.to_bytes(), model.now.clone(), "after {:?}", step);
            let mut touched: Vec<_> = scratch.touched().collect();
            touched.sort();
            let expected: Vec<_> = model.read.iter().map(|(&line, &words)| Touched { line, words }).collect();
            prop_assert_eq!(touched, expected, "after {:?}", step);
            let mut changed: Vec<_> = scratch.changed().collect();
            changed.sort_unstable();
            model.changed.sort_unstable();
            prop_assert_eq!(changed, model.changed.clone(), "after {:?}", step);
        }
        scratch.rollback();
        prop_assert_eq!(scratch.to_bytes(), model.base);
        prop_assert_eq!((scratch.touched().count(), scratch.changed().count()), (0, 0));
    }
}

#[test]
fn it_keeps_the_contract_of_a_space() {
    conformance::all(Scratch::new);
}

#[test]
fn lines_come_in_the_order_of_the_first_read() {
    let scratch = Scratch::new(256);
    scratch.store_u64(192, 1);
    for offset in [128, 0, 136, 192, 200, 128] {
        scratch.load_u64(offset);
    }
    let touched: Vec<_> = scratch.touched().map(|touched| (touched.line, touched.words)).collect();
    assert_eq!(touched, [(128, 0b11), (0, 1), (192, 0b10)]);
}

#[test]
fn a_word_written_in_part_still_shows_the_image() {
    let scratch = Scratch::new(64);
    scratch.store_word(0, 7u8);
    assert_eq!(scratch.touched().count(), 0, "a write is no read");
    scratch.load_word::<u8>(1);
    assert_eq!(scratch.touched().count(), 1, "that byte was the image's");
}

#[test]
fn flushes_and_fences_are_counted_and_hints_are_not() {
    let scratch = Scratch::new(256);
    scratch.flush(60, 8);
    scratch.flush(0, 0);
    scratch.persist(0, 1);
    scratch.prestore(0, 64, Prestore::Clean);
    assert_eq!((scratch.flushes(), scratch.fences()), (3, 1));
    scratch.rollback();
    assert_eq!((scratch.flushes(), scratch.fences()), (0, 0));
}

#[test]
fn a_run_in_circles_ends() {
    let scratch = Scratch::new(64);
    scratch.limit(1000);
    let circle = AssertUnwindSafe(|| while scratch.load_u64(0) == 0 {});
    assert!(catch_unwind(circle).is_err());
    scratch.rollback();
    scratch.load_u64(0);
}

#[test]
#[should_panic(expected = "not rolled back")]
fn an_image_is_not_changed_under_a_run_that_wrote() {
    let scratch = Scratch::new(64);
    scratch.store_u64(8, 1);
    scratch.apply(&[(0, 1)]);
}

#[test]
fn recovery_itself_can_be_recorded() {
    let recording = Recording { values: true, ..Recording::persistent("test", "recovery") };
    let space = Recorded::new(Scratch::new(256), Collected::default(), &recording);
    let space = space.expect("the sink takes everything");
    for word in [5, 6] {
        space.inner().apply(&[(64, word)]);
        let found = space.load_u64(64);
        space.store_u64(128, found + 1);
        space.persist(128, 8);
        assert_eq!((space.inner().flushes(), space.inner().fences()), (1, 1));
        space.inner().rollback();
    }
    let (scratch, collected) = space.finish().expect("the sink takes everything");
    assert_eq!(Image::from_bytes(&scratch.to_bytes()).load_u64(128), 0);
    let stores: Vec<_> = collected.events.iter().filter_map(|(_, event)| event.op.stored()).collect();
    assert_eq!(stores.len(), 2);
    assert_eq!(collected.values, [6u64.to_le_bytes(), 7u64.to_le_bytes()].concat());
    let loads = collected.events.iter().filter(|(_, event)| matches!(event.op, Op::Load { .. })).count();
    assert_eq!(loads, 2, "what is applied is not recorded");
}
