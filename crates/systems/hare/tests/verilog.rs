//! The Verilog, simulated, reports what the cycle model reports, in the cycle in which it does.

mod common;
#[path = "common/expressions.rs"]
mod expressions;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{read, text};
use hare::{Counting, Expression, Hardware, Image, MODULES, Machine, Tables};

/// A folder with the modules, and nothing that an older version of them was compiled to.
struct Workshop(PathBuf);

impl Workshop {
    fn new(name: &str) -> Workshop {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                panic!("{}: {error}", folder.display())
            }
            _ => {}
        }
        std::fs::create_dir_all(&folder).expect("a folder");
        for (file, text) in MODULES {
            std::fs::write(folder.join(file), text).expect("a file");
        }
        Workshop(folder)
    }

    fn run(&self, program: &str, arguments: &[String]) -> String {
        let output = Command::new(program).args(arguments).current_dir(&self.0).output().expect(program);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn is_missing(program: &str, package: &str) -> bool {
    let missing = Command::new(program).arg("-V").output().is_err();
    if missing {
        println!("skipped: no {program} (apt-get install {package})");
    }
    missing
}

/// Lines of the bench's text file, and per window of text the expected matches.
fn stimuli(image: &Image, texts: &[Vec<u8>]) -> (String, Vec<Option<Vec<bool>>>) {
    let Hardware { width, .. } = image.hardware;
    let tables = Tables::of(&image.design);
    let (mut lines, mut expected) = (String::new(), Vec::new());
    for text in texts {
        // The start cycle reports nothing.
        writeln!(lines, "1 1 {} 1 0", u8::from(text.is_empty())).expect("a string takes it");
        expected.push(None);
        let mut machine = Machine::new(&image.design, &tables, Counting::Exact);
        for (number, window) in text.chunks(width).enumerate() {
            let next = text.get((number + 1) * width).copied();
            let hexadecimal: String = (0..width)
                .rev()
                .map(|lane| format!("{:02x}", window.get(lane).copied().unwrap_or(0x5a)))
                .collect();
            let last = u8::from(next.is_none());
            writeln!(lines, "1 0 {last} {:x} {hexadecimal}", window.len()).expect("a string takes it");
            let mut found = vec![false; image.accepts.len() * width];
            machine.window(window, next, |position, expression| found[expression * width + position] = true);
            expected.push(Some(found));
        }
    }
    (lines, expected)
}

fn bits(hexadecimal: &str) -> Vec<bool> {
    let nibbles = hexadecimal.chars().rev();
    let value = |digit: char| digit.to_digit(16).unwrap_or_else(|| panic!("unknown bits: {hexadecimal}"));
    nibbles.flat_map(|digit| (0..4).map(move |bit| value(digit) >> bit & 1 == 1)).collect()
}

/// Loads `image` into hardware and compares every cycle.
fn compare(workshop: &Workshop, image: &Image, texts: &[Vec<u8>]) {
    let hardware = image.hardware;
    let (lines, expected) = stimuli(image, texts);
    std::fs::write(workshop.0.join("tables.hex"), image.to_text()).expect("a file");
    std::fs::write(workshop.0.join("text.hex"), lines).expect("a file");
    let program = format!("bench{}_{}", hardware.width, hardware.slots);
    if !workshop.0.join(&program).exists() {
        let mut arguments: Vec<String> =
            ["-g2005", "-s", "hare_bench", "-o", &program].map(str::to_owned).into();
        for (name, value) in hardware.parameters() {
            arguments.push(format!("-Phare_bench.{name}={value}"));
        }
        arguments.extend(MODULES.map(|(file, _)| file.to_owned()));
        workshop.run("iverilog", &arguments);
    }
    let arguments = [&*program, "+tables=tables.hex", "+text=text.hex"].map(str::to_owned);
    let printed = workshop.run("vvp", &arguments);
    let cycles: Vec<Vec<&str>> =
        printed.lines().filter(|line| line.len() > 6).map(|line| line.split(' ').collect()).collect();
    let latency = hardware.latency() as usize;
    for (number, expected) in expected.iter().enumerate() {
        let [valid, start, _, matches] = cycles[number + latency - 1][..] else { panic!("{printed}") };
        assert_eq!((valid, start == "1"), ("1", expected.is_none()), "cycle {number}");
        let Some(expected) = expected else { continue };
        let matches = bits(matches);
        for (expression, &slot) in image.accepts.iter().enumerate() {
            let at = slot * hardware.width;
            let mine = &expected[expression * hardware.width..][..hardware.width];
            assert!(
                matches[at..at + hardware.width] == *mine,
                "window {number}, expression {expression}: {:?}, not {mine:?}",
                &matches[at..at + hardware.width]
            );
        }
    }
    assert!(!cycles.iter().skip(expected.len() + latency - 1).any(|cycle| cycle[0] == "1"));
}

/// Sets of expressions that fit in the hardware, each with its text: the list, and random ones.
fn sets(hardware: Hardware, random: &mut fastrand::Rng) -> Vec<(Vec<Expression>, Vec<u8>)> {
    let list = expressions::LIST.iter().map(|&(pattern, alphabet)| (pattern.to_owned(), alphabet));
    let mut rest: Vec<(String, &[u8])> = list.collect();
    rest.extend((0..20).map(|_| (expressions::random(random, 1), &b"abcd "[..])));
    let mut sets: Vec<(Vec<Expression>, Vec<u8>)> = vec![(Vec::new(), Vec::new())];
    for (pattern, alphabet) in rest {
        if Image::of(&[read(&pattern)], hardware).is_err() {
            continue;
        }
        let last = sets.len() - 1;
        sets[last].0.push(read(&pattern));
        if Image::of(&sets[last].0, hardware).is_err() {
            let moved = sets[last].0.pop();
            sets.push((moved.into_iter().collect(), Vec::new()));
        }
        let last = sets.len() - 1;
        sets[last].1.extend(text(random, alphabet, 50));
    }
    sets
}

#[test]
fn simulation_equals_the_model() {
    if is_missing("iverilog", "iverilog") {
        return;
    }
    let mut random = fastrand::Rng::with_seed(common::seed());
    for width in [1, 2, 4, 8] {
        let hardware = Hardware { width, slots: 16, classes: 6, vector_every: 8 };
        let workshop = Workshop::new(&format!("verilog{width}"));
        let sets = sets(hardware, &mut random);
        let expressions: usize = sets.iter().map(|(set, _)| set.len()).sum();
        assert!(expressions > 20, "{expressions} at width {width}");
        let few = if width == 4 { 4 } else { 1 };
        let skip = if common::is_long() { 0 } else { sets.len().saturating_sub(few) };
        for (set, text) in sets.into_iter().skip(skip) {
            let image = Image::of(&set, hardware).expect("it fits");
            let texts = [Vec::new(), text[..1].to_vec(), text[..width].to_vec(), text];
            compare(&workshop, &image, &texts);
        }
    }
}

#[test]
fn a_broken_image_is_noticed() {
    if is_missing("iverilog", "iverilog") {
        return;
    }
    let hardware = Hardware { width: 2, slots: 8, classes: 2, vector_every: 8 };
    let mut image = Image::of(&[read("ab+c")], hardware).expect("it fits");
    for word in &mut image.words {
        // The bounds of slot 1.
        if word.0 == 0x3001_0010 {
            *word = (word.0, 3 << 16 | 3);
        }
    }
    let workshop = Workshop::new("broken");
    let texts = [b"abcabbc".to_vec()];
    let caught = std::panic::catch_unwind(|| compare(&workshop, &image, &texts));
    assert!(caught.is_err());
}

#[test]
fn verilator_finds_nothing() {
    if is_missing("verilator", "verilator") {
        return;
    }
    let workshop = Workshop::new("lint");
    let top = Hardware::published(4).top();
    std::fs::write(workshop.0.join("scan.v"), top).expect("a file");
    let mut arguments: Vec<String> =
        ["--lint-only", "-Wall", "-Wno-DECLFILENAME", "-Wno-WIDTH", "-Wno-UNUSED", "--top-module", "scan"]
            .map(str::to_owned)
            .into();
    arguments.push("scan.v".to_owned());
    arguments
        .extend(MODULES.iter().filter(|(file, _)| *file != "hare_bench.v").map(|(f, _)| (*f).to_owned()));
    workshop.run("verilator", &arguments);
}

/// A tool of the synthesis, by Debian's name or by that of the Python package.
fn tool(name: &str) -> Option<String> {
    let names = [name.to_owned(), format!("yowasp-{name}")];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        println!("skipped: no {name} (apt-get install {name}, or pip install yowasp-{name})");
    }
    found
}

/// Prints cells by width, and the clock of W = 4, as docs/lab has them.
#[test]
#[ignore = "takes minutes, an hour with the tools of the Python packages"]
fn it_is_synthesised_placed_and_routed() {
    let (Some(yosys), Some(nextpnr)) = (tool("yosys"), tool("nextpnr-ecp5")) else { return };
    let workshop = Workshop::new("routed");
    let modules = MODULES.map(|(file, _)| file).into_iter().filter(|file| *file != "hare_bench.v");
    let sources = format!("scan.v {}", modules.collect::<Vec<_>>().join(" "));
    let mut cells = Vec::new();
    for width in [1, 2, 4, 8] {
        let hardware = Hardware { width, slots: 16, classes: 8, vector_every: 16 };
        std::fs::write(workshop.0.join("scan.v"), hardware.top()).expect("a file");
        let script = format!(
            "read_verilog {sources}; synth_ecp5 -abc9 -top scan -json scan{width}.json; tee -o stat stat"
        );
        workshop.run(&yosys, &["-q".to_owned(), "-p".to_owned(), script]);
        let stat = std::fs::read_to_string(workshop.0.join("stat")).expect("a file");
        println!("W = {width}\n{stat}");
        cells.push(luts(&stat));
    }
    assert!(
        cells.windows(2).all(|pair| 0 < pair[0] && pair[0] < pair[1]),
        "wider hardware is larger: {cells:?}"
    );
    let arguments =
        "--85k --package CABGA756 --speed 6 --json scan4.json --lpf-allow-unconstrained --freq 100 --seed 1";
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    let output = Command::new(&nextpnr).args(arguments).current_dir(&workshop.0).output().expect("a tool");
    let said = String::from_utf8_lossy(&output.stderr);
    // Status 1 is a clock that is missed, which the document says.
    let clock: Vec<&str> = said.lines().filter(|line| line.contains("Max frequency")).collect();
    assert!(!clock.is_empty(), "{said}");
    println!("W = 4: {}", clock[clock.len() - 1]);
}

/// LUT4 of yosys's statistics.
fn luts(stat: &str) -> u64 {
    let line = stat.lines().rfind(|line| line.split_whitespace().any(|word| word == "LUT4"));
    line.and_then(|line| line.split_whitespace().find_map(|word| word.parse().ok())).unwrap_or(0)
}
