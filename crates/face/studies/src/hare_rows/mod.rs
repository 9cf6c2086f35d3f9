//! HARE (Gogte 2020, appendix A): what is supported, what storage it takes, and the pace.

mod recipes;

use std::collections::BTreeSet;

use hare::scan::Scanner;
use hare::{Counting, Design, Expression, Kind, Limits, Lowering, Machine, Reading, Tables, bits};

use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};
use recipes::Recipe;

/// Results H1 to H8.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Hare,
        id: "H1",
        claim: "99 % of Becchi's expressions are supported",
        expected: "0.990 (dotstar), 0.996 (exact, range05), 0.993 (range1)",
        tolerance: "shape: not below the source's share, in 64 slots of width 32",
        method: "expressions generated from the source's description of each set",
        calibration: "",
        note: "The source's 85.6 % of Snort and 56.4 % of RegExLib are not judged: their rules are not used, and a generated set has the share of what is not regular that one puts in",
        means: Means::Model(supported),
        lacks: "",
    },
    Row {
        source: Source::Hare,
        id: "H2",
        claim: "Components: 2.1 of 23.4 characters (exact match) to 4.9 of 9.9 (dotstar0.9); RegExLib 12.3 of 1.7",
        expected: "components 3.8, 4.4, 4.9, 2.1, 2.9, 3.4, 4.6, 12.3",
        tolerance: "shape: exact match has the fewest, RegExLib the most and shortest; dotstar's grow; values: 35 %, since the sets are not the source's",
        method: "the same sets at width 32; a component with literals and classes counts twice, as in the source; gates do not count",
        calibration: "",
        note: "",
        means: Means::Model(components),
        lacks: "The generated expressions are assembled from a few dozen pieces; the real ones are more varied",
    },
    Row {
        source: Source::Hare,
        id: "H3",
        claim: "Throughput is constant in the number of expressions: 32 characters a cycle",
        expected: "32 for 1 to 16 expressions",
        tolerance: "shape: equal; value: 1 %, for the cycles that fill the pipeline",
        method: "cycle model, 100,000 bytes, 1, 2, 4, 8 and 16 expressions of dotstar0.3",
        calibration: "",
        note: "",
        means: Means::Model(pace),
        lacks: "",
    },
    Row {
        source: Source::Hare,
        id: "H4",
        claim: "Storage of the automata grows with the square of the width and dominates",
        expected: "area 1.8 % (W = 8), 6.8 % (16), 26.7 % (32) of a Xeon: 3.8 and 3.9 per doubling",
        tolerance: "shape: 3.5 to 4.1 per doubling; automata above 80 % of all bits",
        method: "bits of all tables of the cycle model, 16 expressions of dotstar0.3",
        calibration: "",
        note: "Bits stand for area",
        means: Means::Model(storage),
        lacks: "",
    },
    Row {
        source: Source::Hare,
        id: "H5",
        claim: "Min-max counters resolve adjacent classes that overlap (Algorithm 2)",
        expected: "no false match; by a re-implementation with line 15 corrected 235 in 30,000 positions for [a-d]{2,4}[abe]{2,3}",
        tolerance: "value: 180 to 290 by the published algorithm; shape: none by ours",
        method: "uniform text over six letters, against the software scanner",
        calibration: "",
        note: "As printed, line 15 has its alternatives exchanged, and matches are missed as well",
        means: Means::Model(false_matches),
        lacks: "",
    },
    Row {
        source: Source::Hare,
        id: "H6",
        claim: "45 nm, 1 GHz: 1.8 %, 6.8 % and 26.7 % of the area of a Xeon W5510, 6.3 % and 24.6 % of its power",
        expected: "area and power at W = 8, 16, 32",
        tolerance: "15 %",
        method: "synthesis for a standard-cell library",
        calibration: "",
        note: "docs/lab/2026-11-28-scan.md has the cells that yosys gives for an ECP5",
        means: Means::Hardware("a 45 nm standard-cell library, which is not free"),
        lacks: "",
    },
    Row {
        source: Source::Hare,
        id: "H7",
        claim: "FPGA, W = 4, 100 MHz: 400 MB/s with 12 % of the logic and 14 % of the memory of an Arria V",
        expected: "400 MB/s; 12 %; 14 %",
        tolerance: "5 %; 3 points",
        method: "synthesis for the device, and a run on it",
        calibration: "",
        note: "docs/lab/2026-11-28-scan.md has the cells that yosys gives for an ECP5",
        means: Means::Hardware("an Arria V board"),
        lacks: "",
    },
    Row {
        source: Source::Hare,
        id: "H8",
        claim: "grep takes at most 300 MB/s for one expression and 5 MB/s for 16; the FPGA is 1.9 times as fast",
        expected: "300 MB/s; 5 MB/s; 1.9",
        tolerance: "20 %",
        method: "grep 2.10 with 12 threads over 1 GB",
        calibration: "",
        note: "",
        means: Means::Hardware("a dual-socket Xeon E5645, beside which the claims are made"),
        lacks: "",
    },
];

/// The compiled expressions of a set that hardware of width 32 takes.
fn accepted(recipe: Recipe, count: usize) -> Vec<Design> {
    let expressions = recipe.expressions(count);
    let read = expressions.iter().filter_map(|text| Expression::read(text, Reading::default()).ok());
    read.filter_map(|expression| Design::of(&[expression], Limits::published(32)).ok()).collect()
}

fn supported(_: &Lab) -> Result<Evidence, StudyError> {
    let generated =
        Recipe::ALL.iter().filter(|(recipe, ..)| !matches!(recipe, Recipe::Snort | Recipe::RegExLib));
    let checks = generated.map(|&(recipe, name, count, share, ..)| {
        let ours = accepted(recipe, count).len() as f64 / count as f64;
        Check::at_least(name, share, ours)
    });
    Ok(Evidence::of(checks.collect()))
}

/// Components of a design and their length, counted as the source does.
fn counted(design: &Design) -> (f64, f64) {
    let (mut components, mut length) = (0.0, 0.0);
    for node in &design.nodes {
        if let Kind::Component { sets, .. } = &node.kind {
            let classes = sets.iter().filter(|set| set.single().is_none()).count();
            let mixed = classes > 0 && classes < sets.len();
            components += if mixed { 2.0 } else { 1.0 };
            length += sets.len() as f64;
        }
    }
    (components, length)
}

fn components(_: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    let mut ours = Vec::new();
    for (recipe, name, count, _, expected, _) in Recipe::ALL {
        let designs = accepted(recipe, count);
        let (components, length) = designs
            .iter()
            .map(counted)
            .fold((0.0, 0.0), |(components, length), (more, longer)| (components + more, length + longer));
        let average = components / designs.len().max(1) as f64;
        ours.push((average, length / components.max(1.0)));
        checks.push(Check::near(name, expected, 0.35, average));
    }
    let fewest = ours.iter().all(|(average, _)| *average >= ours[3].0);
    let most = ours.iter().all(|(average, length)| *average <= ours[7].0 && *length >= ours[7].1);
    checks.push(Check::at_least("exact match has the fewest", 1.0, f64::from(u8::from(fewest))));
    checks.push(Check::at_least("RegExLib's are the most and the shortest", 1.0, f64::from(u8::from(most))));
    let grows = ours[0].0 < ours[1].0 && ours[1].0 < ours[2].0;
    checks.push(Check::at_least("dotstar's grow", 1.0, f64::from(u8::from(grows))));
    Ok(Evidence::of(checks))
}

/// Some expressions of dotstar0.3 for hardware of a width, with room for all.
fn some(count: usize, width: usize) -> Option<Design> {
    let texts = Recipe::Dotstar(30).expressions(count);
    let read = texts.iter().filter_map(|text| Expression::read(text, Reading::default()).ok());
    Design::of(&read.collect::<Vec<_>>(), Limits::unlimited(width)).ok()
}

fn pace(_: &Lab) -> Result<Evidence, StudyError> {
    let text: Vec<u8> = (0..100_000u32).map(|at| b'a' + (at * 7 % 26) as u8).collect();
    let mut checks = Vec::new();
    for count in [1, 2, 4, 8, 16] {
        let Some(design) = some(count, 32) else { continue };
        let tables = Tables::of(&design);
        let mut machine = Machine::new(&design, &tables, Counting::Exact);
        for (number, window) in text.chunks(32).enumerate() {
            machine.window(window, text.get((number + 1) * 32).copied(), |_, _| {});
        }
        let filled = machine.cycles() - tables.stages();
        let name = format!("bytes per cycle, {count} expressions");
        checks.push(Check::near(&name, 32.0, 0.01, text.len() as f64 / filled as f64));
    }
    Ok(Evidence::of(checks))
}

fn storage(_: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    // Components that are no longer than 8 at every width, so that the slots are the same.
    let texts: Vec<String> =
        Recipe::Dotstar(30).expressions(16).into_iter().map(|text| text[..8].to_owned()).collect();
    let of = |width| {
        let read = texts.iter().filter_map(|text| Expression::read(text, Reading::default()).ok());
        Design::of(&read.collect::<Vec<_>>(), Limits::unlimited(width)).ok().map(|design| bits(&design))
    };
    if let (Some(eight), Some(sixteen), Some(most)) = (of(8), of(16), of(32)) {
        let ratio = |more: hare::Bits, less: hare::Bits| more.total() as f64 / less.total() as f64;
        checks.push(Check::within("W = 16 over 8", 3.5, 4.1, ratio(sixteen, eight)));
        checks.push(Check::within("W = 32 over 16", 3.5, 4.1, ratio(most, sixteen)));
        let share = most.automata as f64 / most.total() as f64;
        checks.push(Check::at_least("automata's share at W = 32", 0.8, share));
    }
    Ok(Evidence::of(checks))
}

fn false_matches(_: &Lab) -> Result<Evidence, StudyError> {
    let mut state = 12_345u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"abcdef"[(state >> 16) as usize % 6]
    };
    let text: Vec<u8> = (0..30_000).map(|_| letter()).collect();
    let mut checks = Vec::new();
    let Ok(expression) = Expression::read("[a-d]{2,4}[abe]{2,3}", Reading::default()) else {
        return Ok(Evidence::of(checks));
    };
    let expressions = [expression];
    let limits = Limits::published(4);
    let (Ok(design), Ok(scanner)) =
        (Design::lowered(&expressions, limits, &Lowering::PUBLISHED), Scanner::new(&expressions))
    else {
        return Ok(Evidence::of(checks));
    };
    let right: BTreeSet<u64> = scanner.scan(&text).into_iter().map(|found| found.end).collect();
    let tables = Tables::of(&design);
    let false_ones = |counting: Counting| {
        let mut machine = Machine::new(&design, &tables, counting);
        let mut count = 0;
        for (number, window) in text.chunks(4).enumerate() {
            machine.window(window, text.get((number + 1) * 4).copied(), |position, _| {
                count += u32::from(!right.contains(&((number * 4 + position + 1) as u64)));
            });
        }
        f64::from(count)
    };
    checks.push(Check::within("false matches, published", 180.0, 290.0, false_ones(Counting::Corrected)));
    checks.push(Check::at_most("false matches, ours", 0.0, false_ones(Counting::Exact)));
    Ok(Evidence::of(checks))
}
