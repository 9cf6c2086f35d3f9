//! `strandline plan` as a user meets it.

use serde_json::Value;

use crate::common::{Scratch, compile, ok, stderr, stdout, strandline};

/// A table that is read all the time and one that is read now and then.
const HOT_AND_COLD: &str = r#"
#include <stdint.h>
#include <stdlib.h>
int main(void) {
    size_t n = 1 << 17;
    uint64_t state = 1, sum = 0;
    uint64_t *hot = malloc(n * 8);
    uint64_t *cold = malloc(n * 32);
    for (size_t i = 0; i < n; i += 8) hot[i] = i;
    for (size_t i = 0; i < n * 4; i += 8) cold[i] = i;
    for (int i = 0; i < 400000; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        sum += hot[(state >> 33) % n];
        if (i % 64 == 0) sum += cold[(state >> 20) % (n * 4)];
    }
    return sum == 1;
}
"#;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let small = [("\"48KiB\"", "\"12KiB\""), ("\"2MiB\"", "\"64KiB\""), ("\"90MiB\"", "\"480KiB\"")];
    let preset = machine::Config::preset_text("cxl-asic").expect("a preset");
    let text = small.iter().fold(preset.to_owned(), |text, (from, to)| text.replacen(from, to, 1));
    scratch.file("small.toml", &text);
    scratch
}

fn json(scratch: &Scratch, arguments: &str) -> Value {
    let mut command = strandline();
    command.current_dir(scratch.dir()).arg("plan").args(arguments.split_whitespace()).arg("--json");
    command.args(["--", "./app"]);
    serde_json::from_str(&stdout(&ok(&mut command))).expect("JSON")
}

#[test]
fn what_is_hot_stays_on_fast_memory_and_predictions_are_held_against_simulations() {
    let scratch = scratch();
    scratch.file("app.c", HOT_AND_COLD);
    compile(scratch.dir(), "cc", "-O1 -g -o app app.c");
    let plan = json(&scratch, "--tiers small.toml --footprint 64GiB --verify 4");
    let hottest = &plan["structures"][0];
    assert!(hottest["name"].as_str().expect("a name").contains("app.c:7"), "{hottest}");
    assert!(plan["decides"].as_str().expect("a name").contains("app.c:7"), "{}", plan["decides"]);
    let recommended = &plan["recommended"];
    assert!(
        recommended["parts"][1].as_f64().expect("a part") >= 0.5,
        "cold data is cheaper there: {recommended}"
    );
    assert_eq!(plan["configurations"].as_array().expect("all").len() % 11, 0);
    let verified = plan["verified"].as_array().expect("four");
    assert_eq!(verified.len(), 4);
    for one in verified {
        assert!(one["error"].as_f64().expect("a number").abs() < 0.3, "{one}");
    }
    // Prices upside down: slow memory costs more, so nothing goes there.
    scratch.file(
        "up.toml",
        "vcpu_hour = 0.03\nfast_gib_hour = 0.002\nslow_gib_hour = 0.005\nllc_way_hour = 0.002\n",
    );
    let plan = json(&scratch, "--tiers small.toml --footprint 64GiB --prices up.toml");
    assert_eq!(plan["recommended"]["parts"][1], 0.0);
    // Both tiers the same: it does not matter.
    let plan = json(&scratch, "--tiers dram --footprint 64GiB");
    assert_eq!(plan["indifferent"], true, "{}", plan["spread"]);
}

#[test]
fn missing_prices_and_machines_are_named() {
    let scratch = scratch();
    scratch.file("half.toml", "vcpu_hour = 1.0\n");
    for (arguments, message) in [
        ("--workload log-append --prices half.toml", "fast_gib_hour is missing"),
        ("--workload log-append --prices none.toml", "none.toml"),
        ("--workload log-append --tiers none.toml", "no machine `none.toml`"),
        ("--workload log-append --tolerance=-1", "tolerance"),
        ("fleet half.toml", "half.toml"),
    ] {
        let mut command = strandline();
        let output =
            command.current_dir(scratch.dir()).arg("plan").args(arguments.split_whitespace()).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(message), "{arguments}: {}", stderr(&output));
    }
}

#[test]
fn ten_thousand_virtual_machines_are_packed() {
    let scratch = scratch();
    let vm = |name: &str, gib: u32| {
        format!(
            "[[vm]]\nname = \"{name}\"\ncount = 5000\nvcpus = 1\nshapes = [\
             {{ fast_gib = {gib}, slow_gib = 0, ways = 2, cost = 100 }}, {{ fast_gib = 1, slow_gib = {gib}, ways = 2, cost = 102 }}]\n"
        )
    };
    let text = format!(
        "[machine]\nvcpus = 12\nfast_gib = 24\nslow_gib = 128\nways = 48\n{}{}",
        vm("a", 6),
        vm("b", 8)
    );
    scratch.file("fleet.toml", &text);
    let mut command = strandline();
    let output = ok(command.current_dir(scratch.dir()).args(["plan", "fleet", "fleet.toml", "--json"]));
    let answer: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let machines = |at: usize| answer["packings"][at]["machines"].as_u64().expect("a number");
    assert_eq!(answer["guests"], 10_000);
    assert!(machines(4) < machines(0), "2.5 % of cost saves machines: {answer}");
}
