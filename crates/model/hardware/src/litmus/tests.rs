use super::machines::{Flaw, outcomes_with};
use super::*;

/// Programs per design in an ordinary run, and in a long one: a million in all.
const SOME: u64 = 200;
const MANY: u64 = 1_000_000 / 13 + 1;

fn designs() -> impl Iterator<Item = Design> {
    // With sizes that no program exhausts, axioms and machine are equal.
    Design::ALL.into_iter().map(|design| match design {
        Design::Strands { .. } => Design::Strands { buffers: 10, entries: 16 },
        other => other,
    })
}

fn find_no_disagreement(count: u64) {
    let found: Vec<String> = std::thread::scope(|scope| {
        let hunts: Vec<_> =
            designs().map(|design| scope.spawn(move || hunt::hunt(design, 1, count))).collect();
        let reports = hunts.into_iter().filter_map(|hunt| hunt.join().expect("no panic"));
        reports.map(|report| format!("{report}{:?}", report.litmus.threads)).collect()
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn axioms_and_machines_agree_on_random_programs() {
    find_no_disagreement(SOME);
}

#[test]
#[ignore = "some minutes: ./test --long"]
fn axioms_and_machines_agree_on_a_million_random_programs() {
    find_no_disagreement(MANY);
}

#[test]
fn the_files_hold() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("litmus");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        let litmus = parse(&path.display().to_string(), &text).unwrap_or_else(|error| panic!("{error}"));
        let report = check(&litmus);
        assert!(report.holds(), "{}: {report}", path.display());
        count += 1;
    }
    assert!(count >= 20, "{count}");
}

fn of(design: &str, threads: &str) -> Litmus {
    let text = format!("name: n\ndesign: {design}\n{}\nforbidden: A=9\n", threads.replace("; ", "\n"));
    parse("n", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// A machine's outcomes that the axioms do not have.
fn invented(litmus: &Litmus, flaw: Flaw) -> usize {
    outcomes_with(litmus, flaw).difference(&axioms::outcomes(litmus)).count()
}

#[test]
fn each_flaw_is_caught() {
    for (design, program, flaw) in [
        ("strandweaver", "thread; X=1; PB; A=1; PB; B=1; PB; A=2", Flaw::LateData),
        ("strandweaver", "thread; X=1; PB; A=1; NS; A=2; PB; B=1", Flaw::NoSameLine),
        ("undo", "thread; begin; A=1; B=1; end", Flaw::LateLog),
        ("redo", "thread; begin; A=1; B=1; end", Flaw::EarlyCommit),
        ("ssp", "thread; begin; A=1; B=1; end", Flaw::NoEndMark),
        ("speculative", "thread; A=1; sfence; A=2; mfence; B=1", Flaw::OverwrittenEarly),
    ] {
        let litmus = of(design, program);
        assert_eq!(invented(&litmus, Flaw::None), 0, "{design}");
        let differs = outcomes_with(&litmus, flaw) != axioms::outcomes(&litmus);
        assert!(differs, "{design} {flaw:?}");
    }
}

/// With one strand buffer, new strands begin nothing: the order is that of epochs.
#[test]
fn one_strand_buffer_is_epoch_order() {
    for seed in 1..300 {
        let mut strands = hunt::program(Design::Strands { buffers: 1, entries: 16 }, seed);
        strands.threads.truncate(1);
        let mut epochs = strands.clone();
        epochs.design = Design::Epoch;
        for instruction in &mut epochs.threads[0] {
            *instruction = match *instruction {
                Instruction::Barrier => Instruction::Sfence,
                // A join is complete once something follows; an epoch's full fence is complete itself.
                Instruction::Join => Instruction::Sfence,
                Instruction::New => Instruction::Load(0),
                other => other,
            };
        }
        if strands.threads[0].contains(&Instruction::Join) {
            continue;
        }
        assert_eq!(machines::outcomes(&strands), machines::outcomes(&epochs), "{seed} {:?}", strands.threads);
    }
}

#[test]
fn fewer_buffers_allow_no_more() {
    for seed in 1..300 {
        let few = hunt::program(Design::Strands { buffers: 2, entries: 1 }, seed);
        let extra = machines::outcomes(&few).difference(&axioms::outcomes(&few)).count();
        assert_eq!(extra, 0, "{seed} {:?}", few.threads);
    }
}

#[test]
fn errors_name_file_and_line() {
    for (text, fault) in [
        ("design: hops", "2: `hops` is no design"),
        ("design: strandweaver 0x4", "2: `0x4` is no size"),
        ("design: ssp\nbegin", "3: `begin` stands before the first `thread`"),
        ("design: ssp\nthread\njump", "4: `jump` is no instruction"),
        ("design: ssp\nthread\nA=1", "4: the test expects nothing"),
        ("design: ssp\nthread\nA=1\nallowed: B=1", "5: `B=1` is no value"),
    ] {
        let error = parse("f", &format!("name: n\n{text}")).expect_err(text).to_string();
        assert!(error.starts_with(&format!("f:{fault}")), "{error}");
    }
}

proptest::proptest! {
    /// Files with lines taken out, doubled and cut: a test or an error with a line, and no panic.
    #[test]
    fn damaged_files_are_read_or_refused(
        file in 0..28usize,
        changes in proptest::collection::vec((proptest::prelude::any::<u16>(), 0..4u8), 1..8),
    ) {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("litmus");
        let files = std::fs::read_dir(folder).expect("the folder");
        let mut paths: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        let text = std::fs::read_to_string(&paths[file % paths.len()]).expect("a file");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (at, change) in changes {
            let at = usize::from(at) % lines.len();
            let line = lines[at].clone();
            match change {
                0 if lines.len() > 1 => _ = lines.remove(at),
                1 => lines.insert(at, line),
                2 => lines[at] = line.chars().take(line.chars().count() / 2).collect(),
                _ => lines[at] = line.chars().rev().collect(),
            }
        }
        if let Err(error) = parse::parse("damaged", &lines.join("\n")) {
            proptest::prop_assert!(error.line <= lines.len() && !error.fault.is_empty());
        }
    }
}
