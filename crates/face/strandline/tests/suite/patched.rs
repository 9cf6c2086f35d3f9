//! The programs in `examples/c` with the pre-stores that they are advised to make, recorded and run on a model whose caches are
//! as much smaller as the data are.

use std::path::Path;
use std::process::Command;

use crate::common::{Scratch, cc, has, ok, strandline};
use serde_json::Value;

/// Caches of a small machine.
const SMALL: [&str; 5] = ["llc.ways=16", "llc.size=256KiB", "l2.size=32KiB", "l1.size=8KiB", "cores.count=4"];

struct Bench {
    scratch: Scratch,
}

/// What a program's phase `run` took: nanoseconds, and bytes that the media wrote.
#[derive(Clone, Copy, Debug)]
struct Cost {
    time: f64,
    media: f64,
}

impl Bench {
    /// With these binaries, `PROGRAM-VARIANT`.
    fn new(binaries: &[&str]) -> Bench {
        let scratch = Scratch::new();
        let targets = binaries.iter().map(|name| scratch.path(name));
        ok(Command::new("make")
            .arg("-C")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/c"))
            .args(["CFLAGS=-O2 -g", "CXXFLAGS=-O2 -g"])
            .arg(format!("CC={}", cc("cc")))
            .arg(format!("CXX={}", cc("c++")))
            .arg(format!("B={}", scratch.dir().display()))
            .args(targets.collect::<Vec<_>>()));
        Bench { scratch }
    }

    fn cost(&self, binary: &str, options: &[&str]) -> Cost {
        let (trace, out) = (self.scratch.path("t.slt"), self.scratch.path("out"));
        ok(strandline()
            .args(["record", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(self.scratch.path(binary))
            .args(options));
        let sets = SMALL.iter().flat_map(|set| ["--set", set]);
        ok(strandline()
            .args(["simulate", "--machine", "xpoint"])
            .args(sets)
            .arg("--trace")
            .arg(&trace)
            .arg("--out")
            .arg(&out));
        let text = std::fs::read_to_string(out.join("simulate.json")).expect("the figures are written");
        let json: Value = serde_json::from_str(&text).expect("it is JSON");
        let phases = json["machines"][0]["figures"]["phases"].as_array().cloned().unwrap_or_default();
        let run = phases.iter().find(|phase| phase["name"] == "run").expect("programs mark the phase");
        let traffic = run["span"]["traffic"].as_array().cloned().unwrap_or_default();
        Cost {
            time: nanoseconds(&run["end"]) - nanoseconds(&run["begin"]),
            media: traffic.iter().filter_map(|memory| memory["media_write_bytes"].as_f64()).sum(),
        }
    }
}

/// `1.25us`.
fn nanoseconds(time: &Value) -> f64 {
    let text = time.as_str().expect("a time is text");
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic()).expect("with a unit");
    let scale = match &text[unit..] {
        "ps" => 1e-3,
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => panic!("the unit {other}"),
    };
    scale * text[..unit].parse::<f64>().expect("a number")
}

/// Program and size; variant, and the most that time and media writes may be of the plain one's.  SP gains media writes only: where its
/// arrays lie moves its time by a few thousandths.
const BETTER: [(&str, &[&str], &str, f64, f64); 5] = [
    ("eigen", &["-s", "524288"], "clean", 0.97, 0.8),
    ("mg", &["-s", "32"], "clean", 0.99, 0.9),
    ("sp", &["-s", "24"], "clean", 1.02, 0.98),
    ("clht", &["-k", "2000", "-n", "4000"], "skip", 0.8, 0.5),
    ("masstree", &["-k", "2000", "-n", "4000"], "skip", 0.8, 0.5),
];

#[test]
fn programs_gain_by_what_they_are_advised_to_do() {
    if !has("g++") || !has("make") {
        println!("skipped: no g++ or make");
        return;
    }
    let names: Vec<String> = BETTER
        .iter()
        .flat_map(|(program, _, variant, ..)| [format!("{program}-plain"), format!("{program}-{variant}")])
        .chain(["eigen-skip", "ft-plain", "ft-misuse"].map(str::to_owned))
        .collect();
    let bench = Bench::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for (program, options, variant, time, media) in BETTER {
        let plain = bench.cost(&format!("{program}-plain"), options);
        let patched = bench.cost(&format!("{program}-{variant}"), options);
        let context = format!("{program} {variant}: {patched:?}, plain {plain:?}");
        assert!(patched.time <= time * plain.time, "{context}");
        assert!(patched.media <= media * plain.media, "{context}");
    }
    // And lose by what they are not: skipping what is read at once, cleaning what is written over and over.
    for (program, options, variant) in [("eigen", &["-s", "524288"], "skip"), ("ft", &["-s", "16"], "misuse")]
    {
        let plain = bench.cost(&format!("{program}-plain"), options);
        let worse = bench.cost(&format!("{program}-{variant}"), options);
        assert!(worse.time >= 1.1 * plain.time, "{program} {variant}: {worse:?}, plain {plain:?}");
    }
}
