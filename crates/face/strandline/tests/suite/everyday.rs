//! Performance bugs that public projects had, rebuilt small: the bug is named with its line, and its mended
//! twin is silent.

use serde_json::Value;

use crate::common::{Scratch, compile, ok, stdout, strandline};

/// Programs of `tests/programs/everyday`, the rule, a line's part of the source, and what else the evidence
/// says.
const BUGS: [(&str, &str, &str, &[&str]); 14] = [
    (
        "stack.c",
        "false-sharing",
        "(*own)++",
        &["variable sums on the stack of thread 1", "(left)", "(right)", "(count)"],
    ),
    ("counters.cc", "false-sharing", "slots[worker].", &["global slots", "[0].served", "[1].served"]),
    ("heap-counters.c", "false-sharing", "stats->", &["block of stats", "[0].hits"]),
    ("map-nodes.c", "straddled-lines", "at->key == key|sum += node->value|at = at->next", &[]),
    ("prices.cc", "pointer-chase", "prices.find(key)", &[]),
    ("histogram.cc", "against-the-rows", "sums[x] += image.at(x, y)|return pixels", &[]),
    ("columns.c", "against-the-rows", "table[row][column] = row * column", &[]),
    ("frames.c", "overwritten-unread", "memset(frame", &[]),
    ("messages.cc", "overwritten-unread", "message.resize|std::memset", &[]),
    (
        "mutex-beside.cc",
        "false-sharing",
        "table.mask|table.slots[(seed|hold(table.growing)",
        &["global table", "mask", "look_up (mutex-beside.cc:2"],
    ),
    ("spin-beside.c", "false-sharing", "*limit + *step|pthread_spin", &["global shared", "limit", "lock"]),
    ("transpose.c", "against-the-rows", "to[j * STRIDE + i]", &[]),
    ("particles.c", "unused-bytes", "sum += all[i].x|all[i].x = i", &[]),
    ("lock-beside.c", "false-sharing", "shared.lock|*base + *step", &["global shared", "lock", "limit"]),
];

fn source(name: &str) -> String {
    format!("{}/tests/programs/everyday/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn profile(scratch: &Scratch, name: &str, flags: &str) -> Value {
    let verb = if name.ends_with(".cc") { "c++" } else { "cc" };
    compile(scratch.dir(), verb, &format!("-O1 -g -pthread {flags} -o app {}", source(name)));
    let output = ok(strandline().current_dir(scratch.dir()).args(["profile", "--json", "--", "./app"]));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// Whether some text names a line that has one of the alternatives.
fn names(text: &str, name: &str, parts: &str) -> bool {
    let source = std::fs::read_to_string(source(name)).expect("the source");
    let at = format!("({name}:");
    let own = text.split(&at).skip(1);
    let lines = own.filter_map(|rest| rest.split(')').next()?.parse::<usize>().ok());
    let mut lines = lines.filter_map(|line| source.lines().nth(line.checked_sub(1)?));
    lines.any(|line| parts.split('|').any(|part| line.contains(part)))
}

fn both(name: &str) {
    let (_, rule, parts, says) = BUGS.iter().find(|bug| bug.0 == name).expect("a bug");
    let scratch = Scratch::new();
    let faulty = profile(&scratch, name, "");
    let findings = faulty["findings"].as_array().expect("findings");
    let found = findings.iter().find(|found| found["rule"] == *rule);
    let found = found.unwrap_or_else(|| panic!("{name}: no {rule} in {findings:#?}"));
    let labels = found["sites"].as_array().expect("sites").iter();
    let both =
        |site: &Value| [&site["label"], &site["called_from"]].map(|of| of.as_str().unwrap_or("").to_owned());
    let labels: Vec<String> = labels.flat_map(both).collect();
    let evidence = found["evidence"].as_str().expect("evidence");
    let text = format!("{} {evidence}", labels.join(" "));
    assert!(names(&text, name, parts), "{name}: {found:#}");
    says.iter().for_each(|part| assert!(evidence.contains(part), "{name}: no {part} in {evidence}"));
    let mended = profile(&scratch, name, "-DMENDED");
    let findings = mended["findings"].as_array().expect("findings");
    assert!(findings.iter().all(|found| found["rule"] != *rule), "{name}, mended: {findings:#?}");
}

#[test]
fn counters_in_one_line_are_named() {
    ["counters.cc", "heap-counters.c"].into_iter().for_each(both);
}

#[test]
fn what_lies_on_a_threads_stack_is_named() {
    both("stack.c");
}

#[test]
fn nodes_on_two_lines_are_named() {
    both("map-nodes.c");
}

#[test]
fn a_map_where_a_vector_serves_is_named() {
    both("prices.cc");
}

#[test]
fn column_walks_are_named() {
    ["histogram.cc", "columns.c", "transpose.c"].into_iter().for_each(both);
}

#[test]
fn buffers_zeroed_for_nothing_are_named() {
    ["frames.c", "messages.cc"].into_iter().for_each(both);
}

#[test]
fn locks_beside_their_data_are_named() {
    ["lock-beside.c", "mutex-beside.cc", "spin-beside.c"].into_iter().for_each(both);
}

#[test]
fn one_number_of_each_particle_is_named_though_all_stay_in_the_last_cache() {
    both("particles.c");
}
