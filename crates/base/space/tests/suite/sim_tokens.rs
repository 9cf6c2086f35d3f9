//! Tokens that were written down replay for ever: whoever has one in a bug report can still use it.
//!
//! If a test here fails, what the choices depend on has changed. Then tokens of old must be refused: raise
//! the version with which a token begins (`sim1`), and write new ones down.

use event::Collected;
use proptest::prelude::*;
use space::sim::{Run, Schedule, Sim, run};
use space::{Env, Image, Recorded, Recording, Space};

/// A program of which tokens exist. It must never change.
fn program<S: Space>(env: &Sim<S>) {
    let (turn, changed, table) = (env.mutex(0u32), env.condvar(), env.rw_lock(0u64));
    env.threads(3, |index| {
        for round in 0..4 {
            let at = 64 * u64::from(index);
            env.space().store_u64(at, env.random());
            env.space().persist(at, 8);
            let mut found = env.space().load_u64(256);
            while let Err(other) = env.space().cas_u64(256, found, found + 1) {
                found = other;
            }
            env.space().store_u64(264, *env.read(&table) + env.now_ns());
            *env.write(&table) += 1;
            let mut held = env.lock(&turn);
            while *held != 3 * round + index {
                held = env.wait(&changed, held);
            }
            *held += 1;
            env.notify_all(&changed);
            env.notify_one(&changed);
        }
    });
}

/// What happened, in order, without places in the source: they may move. FNV-1a.
fn digest(collected: &Collected) -> u64 {
    let mut text: Vec<u8> = collected.values.clone();
    for (thread, event) in &collected.events {
        text.extend(format!("{} {:?};", thread.0, event.op).into_bytes());
    }
    text.iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

fn replay(token: &str) -> (Run<(), ()>, u64) {
    let recording = Recording { values: true, ..Recording::persistent("test", "space") };
    let space = Recorded::new(Image::new(4096), Collected::default(), &recording);
    let schedule: Schedule = token.parse().expect("a token");
    let Run { result, token, explicit, space } = run(space.expect("it takes everything"), &schedule, program);
    let (_, collected) = space.finish().expect("the sink takes everything");
    (Run { result, token, explicit, space: () }, digest(&collected))
}

/// Tokens and the streams that they gave when they were written down.
const TOKENS: &[(&str, u64)] = &[
    ("sim1-walk-s1-a16-c131.02f4e46f2967bc54c4eb3dcb.a00c2a1f", 0x280b_8c1f_f4b7_eb24),
    (
        concat!(
            "sim1-stay-s1-a16-o0.1_1.0_1.1_1.0_1.3_1.0_1.3_5.2_1.1_1.2_3.0_2.3_1.2_2.3_5.2_1.3_1.3_2.2_1.1_1.2_1.3",
            "_3.2_1.1_1.3_2.2_1.3_2.1_2.3_1.1_1.2_1.1_1.3_2.1_1.2_1.1_1.3_1.2_1.1_1.3_1.2_1.1_1.3_5.2_1.1_2.3_1.2",
            "_1.1_2.3_3.2_1.1_2.2_1.3_1.2_2.1_3.3_1.2_3.1_1.3_1.2_1.3_2.2_2.1_1.3_4.1_1.3_4.2_2.1_2.2_2.3_1.1_2.0",
            "_1.3_1.2_1.3_1.2_1.3_1.0_1.3_1.2_1.3_1.3_1.2_1.0_1.3-c131.02f4e46f2967bc54c4eb3dcb.a00c2a1f"
        ),
        0x280b_8c1f_f4b7_eb24,
    ),
    ("sim1-walk-sc0ffee-a1-c192.02fa92ad106d6e647a4c713a.da3abfaf", 0x5ef4_6ed8_7e51_a762),
    ("sim1-pct3x400-s7-a4-c147.02f30eca66a336982ffed76c.1c309a14", 0x117e_4736_521e_0307),
    ("sim1-turns-s0-a1-c205.02f69fae18acf143f29026a2.1b6da214", 0xca59_20e0_b231_43b2),
    ("sim1-stay-s2-a0-c124.68bb6d8431a8c7cec639c.73eaa6b5", 0x7f0b_a7e2_29fe_6074),
];

#[test]
fn tokens_of_old_still_replay() {
    for &(token, expected) in TOKENS {
        let (ran, digest) = replay(token);
        assert_eq!(ran.result, Ok(()), "{token}");
        assert_eq!(ran.token.to_string(), token);
        assert_eq!(digest, expected, "{token} gives another stream than it did");
    }
}

#[test]
fn a_token_with_one_wrong_digit_is_noticed() {
    for &(token, _) in TOKENS {
        let last = token.chars().next_back().expect("a token is not empty");
        let wrong = format!("{}{}", &token[..token.len() - 1], if last == '0' { '1' } else { '0' });
        assert!(replay(&wrong).0.result.is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5000) })]

    /// What the fuzz target `schedule` does, on mutations of valid tokens: an error, or a schedule that reads
    /// back as it is written.
    #[test]
    fn mutated_tokens_are_read_or_refused(
        token in prop::sample::select(vec![
            "sim1-walk-s2a-a16",
            "sim1-pct3x1000-sffffffffffffffff-a1-m100000",
            "sim1-stay-s1-a16-o0.2_12.1_3.0",
            "sim1-turns-s0-a0-c3.a1bf03.1b2c3d4e",
        ]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), "[0-9a-z_.+-]{0,3}"), 0..4),
    ) {
        let mut text = token.to_owned();
        for (place, by) in edits {
            if !text.is_empty() {
                let at = place.index(text.len());
                text.replace_range(at..=at, &by);
            }
        }
        if let Ok(schedule) = text.parse::<Schedule>() {
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
    }
}
