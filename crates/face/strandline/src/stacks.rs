//! What a report says of code and of who called it, as other tools have it: samples with values.

use std::collections::HashMap;

use serde_json::Value;

/// What samples count, in the order of `reports::By`: name, unit.
pub const TYPES: [(&str, &str); 6] = [
    ("loads", "count"),
    ("stores", "count"),
    ("read", "bytes"),
    ("written", "bytes"),
    ("l1_misses", "count"),
    ("stalled", "nanoseconds"),
];

/// A line of code with who called it.
pub struct Sample<'a> {
    /// The report's entry of the code.
    pub site: &'a Value,
    /// Calls under way, the last one first.
    pub calls: &'a [Value],
    /// By type.
    pub values: [u64; TYPES.len()],
}

impl<'a> Sample<'a> {
    /// The frames of the code and then of its callers, the innermost first.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = &'a Value> {
        let own = self.site["frames"].as_array().map_or(&[][..], Vec::as_slice);
        own.iter().chain(self.calls)
    }
}

/// All of them: one for each line of code, or one for each call stack where these were recorded.
pub fn samples(report: &Value) -> Vec<Sample<'_>> {
    let sites = report["sites"].as_array().map_or(&[][..], Vec::as_slice);
    let stacks = report["modelled"]["stacks"].as_array().map_or(&[][..], Vec::as_slice);
    if stacks.is_empty() {
        let costs = costs(report);
        return sites.iter().map(|site| Sample { site, calls: &[], values: values(site, &costs) }).collect();
    }
    let by_id = |all: &'_ [Value]| -> HashMap<u64, usize> {
        all.iter().enumerate().filter_map(|(at, of)| Some((of["id"].as_u64()?, at))).collect()
    };
    let contexts = report["contexts"].as_array().map_or(&[][..], Vec::as_slice);
    let (site_at, context_at) = (by_id(sites), by_id(contexts));
    let count = |of: &Value, field: &str| of[field].as_u64().unwrap_or(0);
    stacks
        .iter()
        .filter_map(|of| {
            let site = &sites[*site_at.get(&of["site"].as_u64()?)?];
            let context = of["context"].as_u64().and_then(|id| context_at.get(&id));
            let calls =
                context.and_then(|&at| contexts[at]["frames"].as_array()).map_or(&[][..], Vec::as_slice);
            let values = [
                count(of, "loads"),
                count(of, "stores"),
                count(of, "read_bytes"),
                count(of, "written_bytes"),
                count(of, "l1_misses"),
                of["stalled_ns"].as_f64().unwrap_or(0.0) as u64,
            ];
            Some(Sample { site, calls, values })
        })
        .collect()
}

/// Misses and stalls by site, if accesses ran on the model.
fn costs(report: &Value) -> HashMap<u64, (u64, u64)> {
    let of = |site: &Value| {
        let stalled = site["stalled_ns"].as_f64().unwrap_or(0.0) as u64;
        Some((site["site"].as_u64()?, (site["l1_misses"].as_u64().unwrap_or(0), stalled)))
    };
    report["modelled"]["sites"].as_array().into_iter().flatten().filter_map(of).collect()
}

fn values(site: &Value, costs: &HashMap<u64, (u64, u64)>) -> [u64; TYPES.len()] {
    let both = |field: &str| {
        ["persistent", "volatile"].iter().map(|memory| site[*memory][field].as_u64().unwrap_or(0)).sum()
    };
    let count = |field: &str| site[field].as_u64().unwrap_or(0);
    let (misses, stalled) = site["id"].as_u64().and_then(|id| costs.get(&id)).copied().unwrap_or_default();
    [count("loads"), count("stores"), both("read_bytes"), both("controller_write_bytes"), misses, stalled]
}
