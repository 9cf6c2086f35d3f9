//! Hardware pre-stores: what a core that knows its memories gains, beside what a program does itself and what nobody does.

use crate::timed::{MFENCE, clwb, run, with};
use event::{NameId, Op};
use machine::{Config, Design, Eager, HardwarePrestores, Size, TimedFigures};

const BASE: u64 = 1 << 40;

/// Cascade Lake with caches that a short run fills.
fn xpoint(eager: Eager) -> Config {
    let mut config = Config::preset("cascade-lake").expect("a preset");
    (config.l2.size, config.llc.size, config.llc.ways) = (Size(64 << 10), Size(1 << 20), 16);
    config.prestores = Some(HardwarePrestores { persistent: eager, other: Eager::None });
    config.validate().expect("still valid");
    config
}

fn line_store(addr: u64) -> Op {
    Op::Store { addr, len: 64 }
}

/// Writes elements at random offsets of a range, and reads one word of each; `cleans` does what a program would.
fn elements(config: &Config, base: u64, bytes: u64, cleans: bool) -> (f64, TimedFigures) {
    let mut ops = vec![Op::Map { addr: BASE, len: 1 << 30, name: NameId(0) }];
    let mut random = 1u64;
    for _ in 0..(8 << 20) / bytes {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let element = base + (random >> 40) % ((1 << 30) / bytes) * bytes;
        let lines = (0..bytes / 64).map(|line| element + line * 64);
        ops.extend(lines.clone().map(line_store));
        ops.extend(lines.filter(|_| cleans).map(clwb));
        ops.push(Op::Load { addr: element, len: 8 });
    }
    let (took, simulation) = run(config, vec![ops, vec![MFENCE], vec![]]);
    simulation.audit().unwrap_or_else(|fault| panic!("{fault}"));
    (took[0], simulation.figures())
}

fn amplification(figures: &TimedFigures) -> f64 {
    let total = &figures.memories[1].total;
    total.media_write_bytes as f64 / total.controller_write_bytes as f64
}

#[test]
fn whole_units_leave_whole_as_if_the_program_had_cleaned_them() {
    for bytes in [256, 1024] {
        let (_, none) = elements(&xpoint(Eager::None), BASE, bytes, false);
        let (software, clean) = elements(&xpoint(Eager::None), BASE, bytes, true);
        let (hardware, eager) = elements(&xpoint(Eager::Clean), BASE, bytes, false);
        let [none, clean, eager] = [none, clean, eager].map(|figures| amplification(&figures));
        assert!(none > 2.0 && clean < 1.2 && eager < 1.2, "{bytes}: {none} {clean} {eager}");
        // With one core the media keep up with either, so that time is no gain.
        assert!(hardware < 1.05 * software, "{bytes}: {hardware} {software}");
    }
}

#[test]
fn single_lines_and_other_memory_are_left_alone() {
    for (base, bytes) in [(BASE, 64), (1 << 30, 1024)] {
        let (slow, none) = elements(&xpoint(Eager::None), base, bytes, false);
        let (hardware, eager) = elements(&xpoint(Eager::Clean), base, bytes, false);
        assert_eq!(slow, hardware);
        assert_eq!(none.memories, eager.memories);
    }
}

#[test]
fn a_buffer_that_is_written_over_and_over_is_written_back_once() {
    let rewrite = |eager| {
        let mut ops = vec![Op::Map { addr: BASE, len: 1 << 30, name: NameId(0) }];
        for _ in 0..200 {
            ops.extend((0..64).map(|line| line_store(BASE + line * 64)));
        }
        let (took, simulation) = run(&xpoint(eager), vec![ops, vec![MFENCE], vec![]]);
        (took[0], simulation.figures().memories[1].total.controller_write_bytes)
    };
    let (plain, nothing) = rewrite(Eager::None);
    let (eager, once) = rewrite(Eager::Clean);
    assert_eq!(nothing, 0);
    // The last of them may still be on their way.
    assert!((60 * 64..=64 * 64).contains(&once), "{once}");
    assert!(eager < 1.3 * plain, "{eager} {plain}");
}

#[test]
fn early_visibility_shortens_fences_of_a_weakly_ordered_core() {
    let messages = |eager| {
        let config = with(|config| {
            config.cores.pipeline.ordering = Design::Weak;
            config.prestores = Some(HardwarePrestores { persistent: Eager::None, other: eager });
        });
        let mut ops = Vec::new();
        for message in 0..200u64 {
            ops.extend((0..3).map(|line| line_store((message * 3 + line) << 12)));
            // Work in between, which the way to memory can hide behind.
            ops.extend((0..100).map(|_| Op::Load { addr: 1 << 30, len: 8 }));
            ops.push(MFENCE);
        }
        run(&config, vec![ops, vec![]]).0[0]
    };
    let (none, demote) = (messages(Eager::None), messages(Eager::Demote));
    assert!(demote < 0.75 * none, "{demote} {none}");
}

#[test]
fn a_description_says_it_in_a_table() {
    let text =
        Config::preset("dram").expect("a preset").with_overrides(&[("prestores", "{ other = \"demote\" }")]);
    let config = text.expect("a table that descriptions have");
    let expected = HardwarePrestores { persistent: Eager::None, other: Eager::Demote };
    assert_eq!(config.prestores, Some(expected));
    let wrong =
        Config::preset("dram").expect("a preset").with_overrides(&[("prestores", "{ other = \"fast\" }")]);
    assert!(wrong.is_err());
}
