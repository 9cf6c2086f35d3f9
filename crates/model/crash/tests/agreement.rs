//! The checker and the machines of `litmus::operational` have the same outcomes on random programs.
//!
//! A program on which they differ is shrunk and printed as a litmus file, with the outcomes that only one of them has.
//! `PROPTEST_CASES` asks for more than the usual thousand per platform, `PROPTEST_RNG_SEED` for certain ones.

use std::collections::BTreeSet;

use crash::Platform;
use crash::litmus::{Instruction, Litmus, Values, operational, outcomes};
use event::{FenceKind, FlushKind, StrandMark};
use proptest::prelude::*;
use proptest::sample::select;

/// Interleavings grow with the factorial; these shapes keep a case within some milliseconds.
const SHAPES: [&[usize]; 9] =
    [&[8], &[12], &[3, 3, 2], &[3, 3], &[4, 4], &[5, 3], &[5, 4], &[2, 2, 2], &[3, 2, 2]];

/// How words are stored to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    /// Each either through the cache or past it.
    Apart,
    /// Each in both ways.
    Mixed,
}

fn instruction(platform: Platform, locations: usize, nt: usize, words: Words) -> BoxedStrategy<Instruction> {
    let at = 0..locations;
    let value = 1..3u64;
    let store = (at.clone(), value.clone(), any::<bool>()).prop_map(move |(at, value, either)| {
        let past_cache = if words == Words::Mixed { either } else { at < nt };
        if past_cache { Instruction::StoreNt(at, value) } else { Instruction::Store(at, value) }
    });
    let exchange = (nt..locations, value.clone()).prop_map(|(at, value)| Instruction::Exchange(at, value));
    let load = at.clone().prop_map(Instruction::Load);
    let wait = (nt..locations, value).prop_map(|(at, value)| Instruction::Await(at, value));
    let kinds = select(vec![FlushKind::Clwb, FlushKind::Clflushopt, FlushKind::Clwb, FlushKind::Clflush]);
    let flush = (at, kinds).prop_map(|(at, kind)| Instruction::Flush(at, kind));
    let fence = select(vec![FenceKind::Store, FenceKind::Full]).prop_map(Instruction::Fence);
    let sync = (select(vec![0, 1, 2, 3]), 0..1usize).prop_map(|(what, variable)| match what {
        0 => Instruction::Release(variable),
        1 => Instruction::Acquire(variable),
        2 => Instruction::Lock(variable + 1),
        _ => Instruction::Unlock(variable + 1),
    });
    let mark = select(vec![StrandMark::Barrier, StrandMark::Barrier, StrandMark::New, StrandMark::Join])
        .prop_map(Instruction::Strand);
    match platform {
        Platform::ADR => prop_oneof![
            8 => store, 1 => exchange, 1 => load, 1 => wait, 6 => flush, 4 => fence, 3 => sync
        ]
        .boxed(),
        Platform::EADR => {
            prop_oneof![8 => store, 1 => exchange, 1 => load, 1 => wait, 1 => flush, 3 => fence, 3 => sync]
                .boxed()
        }
        Platform::EPOCH => {
            prop_oneof![8 => store, 1 => exchange, 1 => load, 1 => wait, 5 => fence, 3 => sync].boxed()
        }
        _ => prop_oneof![8 => store, 1 => exchange, 1 => load, 1 => wait, 6 => mark, 3 => sync].boxed(),
    }
}

fn program(platform: Platform, words: Words) -> impl Strategy<Value = Litmus> {
    (2..5usize, select(SHAPES.to_vec()), 0..4usize).prop_flat_map(move |(locations, shape, nt)| {
        // At least the last location is stored to through the cache.
        let nt = nt.saturating_sub(1).min(locations - 1);
        let thread =
            |len: usize| prop::collection::vec(instruction(platform, locations, nt, words), len.min(2)..=len);
        let threads: Vec<_> = shape.iter().map(|&len| thread(len)).collect();
        let lines = prop::collection::vec(0..locations, locations);
        (threads, lines).prop_map(move |(threads, lines)| Litmus {
            name: "random".to_owned(),
            platform,
            from: String::new(),
            locations: (0..locations).map(|at| char::from(b'A' + at as u8).to_string()).collect(),
            lines: lines
                .iter()
                .map(|line| lines.iter().position(|other| other == line).unwrap_or(0))
                .collect(),
            variables: vec!["x".to_owned(), "l".to_owned()],
            threads,
            ..Litmus::default()
        })
    })
}

/// The outcomes that only the checker has, and those that only the machine has.
fn differences(litmus: &Litmus) -> (Vec<Values>, Vec<Values>) {
    let checker = outcomes(litmus);
    let machine = operational::outcomes(litmus);
    let only = |some: &BTreeSet<Values>, others| some.difference(others).cloned().collect();
    (only(&checker, &machine), only(&machine, &checker))
}

fn agree(litmus: &Litmus) -> Result<(), TestCaseError> {
    let (checker, machine) = differences(litmus);
    let agree = checker.is_empty() && machine.is_empty();
    prop_assert!(agree, "{litmus}only the checker: {checker:?}\nonly the machine: {machine:?}");
    Ok(())
}

/// The checker leaves out images of words that are stored to both through the cache and past it, but invents none.
fn invents_nothing(litmus: &Litmus) -> Result<(), TestCaseError> {
    let (checker, _) = differences(litmus);
    prop_assert!(checker.is_empty(), "{litmus}only the checker: {checker:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn adr(litmus in program(Platform::ADR, Words::Apart)) {
        agree(&litmus)?;
    }

    #[test]
    fn eadr(litmus in program(Platform::EADR, Words::Mixed)) {
        agree(&litmus)?;
    }

    #[test]
    fn epoch(litmus in program(Platform::EPOCH, Words::Mixed)) {
        agree(&litmus)?;
    }

    #[test]
    fn strand(litmus in program(Platform::STRAND, Words::Mixed)) {
        agree(&litmus)?;
    }

    #[test]
    fn adr_mixed_words(litmus in program(Platform::ADR, Words::Mixed)) {
        invents_nothing(&litmus)?;
    }
}
