//! What a run leaves: numbers by name, in the order of their columns.

use machine::{MemoryTiming, TimedFigures};
use serde_json::{Map, Value, json};
use studies::Outcome;

/// What the memories are called, in the order of the figures.
const MEMORIES: [&str; 2] = ["other", "persistent"];

/// The columns of a simulated run; times in nanoseconds, amounts in bytes.
pub(crate) fn of_figures(figures: &TimedFigures) -> Value {
    let mut columns = Map::new();
    let mut put = |name: String, value: Value| {
        columns.insert(name, value);
    };
    let threads = &figures.threads;
    let count = |of: fn(&machine::ThreadTiming) -> u64| threads.iter().map(of).sum::<u64>();
    let time =
        |of: fn(&machine::ThreadTiming) -> machine::Time| threads.iter().map(of).sum::<machine::Time>();
    put("elapsed_ns".to_owned(), json!(figures.elapsed.ns()));
    put("events".to_owned(), json!(count(|thread| thread.events)));
    put("instructions".to_owned(), json!(count(|thread| thread.instructions)));
    put("busy_ns".to_owned(), json!(time(|thread| thread.busy).ns()));
    put("idle_ns".to_owned(), json!(time(|thread| thread.idle).ns()));
    put("stalled_ns".to_owned(), json!(time(|thread| thread.stalls.total()).ns()));
    let mut stalls = machine::Stalls::default();
    threads.iter().for_each(|thread| stalls.add(&thread.stalls));
    for (cause, time) in stalls.each() {
        let cause: String =
            cause.chars().filter(|c| *c != ':').map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        put(format!("stall_{cause}_ns"), json!(time.ns()));
    }
    for cache in &figures.caches {
        let level = cache.level.to_lowercase();
        for (what, number) in
            [("hits", cache.hits), ("misses", cache.misses), ("writebacks", cache.writebacks)]
        {
            put(format!("{level}_{what}"), json!(number));
        }
    }
    for (name, memory) in MEMORIES.iter().zip(&figures.memories) {
        of_memory(name, memory, figures.elapsed.ns(), &mut put);
    }
    put("prefetches".to_owned(), json!(figures.prefetches));
    if let Ok(Value::Object(own)) = serde_json::to_value(figures.persistency) {
        own.into_iter().for_each(|(name, value)| put(format!("persistency_{name}"), value));
    }
    Value::Object(columns)
}

fn of_memory(name: &str, memory: &MemoryTiming, elapsed_ns: f64, put: &mut impl FnMut(String, Value)) {
    let total = &memory.total;
    let mut number = |what: &str, value: Value| put(format!("{name}_{what}"), value);
    number("read_bytes", json!(total.controller_read_bytes));
    number("written_bytes", json!(total.controller_write_bytes));
    number("media_read_bytes", json!(total.media_read_bytes));
    number("media_written_bytes", json!(total.media_write_bytes));
    number("ewr", json!(total.ewr()));
    let per_ns = |bytes: u64| (elapsed_ns > 0.0).then(|| bytes as f64 / elapsed_ns);
    number("read_gb_per_s", json!(per_ns(total.controller_read_bytes)));
    number("written_gb_per_s", json!(per_ns(total.controller_write_bytes)));
    for (kind, latency) in [("read", &memory.read_latency), ("write", &memory.write_latency)] {
        number(&format!("{kind}_latency_mean_ns"), json!(latency.mean().map(machine::Time::ns)));
        number(&format!("{kind}_latency_p99_ns"), json!(latency.quantile(0.99).map(machine::Time::ns)));
        number(&format!("{kind}_latency_max_ns"), json!(latency.max().ns()));
    }
}

/// The columns of a published result.
pub(crate) fn of_outcome(outcome: &Outcome) -> Value {
    let row = outcome.row;
    json!({
        "claim": row.claim,
        "verdict": serde_json::to_value(outcome.verdict).unwrap_or(Value::Null),
        "reason": outcome.reason,
        "checks": serde_json::to_string(&outcome.evidence.checks).unwrap_or_default(),
    })
}

/// The only column of a run that can't be.
pub(crate) fn of_error(error: &dyn std::fmt::Display) -> Value {
    json!({ "error": error.to_string() })
}
