//! Data structures by allocation site, and what trials of remedies gave.

use maud::{Markup, html};
use serde::Serialize;

use crate::content::Cell;
use crate::human::{bytes, count, plain};

/// The blocks of one allocation site.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Structure {
    /// Number of the allocating site.
    pub site: u32,
    /// Its name.
    pub label: String,
    /// Blocks allocated.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Blocks freed.
    pub freed: u64,
    /// Of these, those that lived for less than 256 accesses.
    pub short_lived: u64,
    /// Accesses of the whole run that a freed one lived for, on average; `None` if none was freed.
    pub mean_life: Option<u64>,
    /// Most bytes live at once.
    pub peak_bytes: u64,
    /// Bytes live at the end.
    pub live_bytes: u64,
    /// Lines that first-level caches fetched from them.
    pub fetches: u64,
    /// Threads that did so, at most 64.
    pub threads: u32,
    /// Of these, where in a block loads fetched: parts of equal size.
    pub heat_loads: Vec<u32>,
    /// The same of stores.
    pub heat_stores: Vec<u32>,
    /// Where each of the first eight threads fetched.
    pub heat_by_thread: Vec<ThreadHeat>,
    /// Most bytes live at once, in equal spans of accesses.
    pub footprint: Vec<u64>,
    /// Lines of it that were fetched in each of these spans, estimated.
    pub working_set: Vec<u64>,
    /// Part of its fetches that a cache of 2^i lines, least recently used out first, does not answer; empty if too few.
    pub miss_curve: Vec<f64>,
    /// Bytes live when most memory was, and of these those that had been used for the last time.
    pub at_peak_bytes: u64,
    /// The latter.
    pub idle_at_peak_bytes: u64,
    /// The type of its elements, if debug information says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// Its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_bytes: Option<u64>,
    /// Use of its fields, or of the elements of a small array of numbers, in the accesses that were kept for
    /// trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldHeat>,
    /// Its blocks by call stack, the most fetched first; empty where calls were not recorded.
    pub stacks: Vec<AllocationStack>,
}

/// The blocks that were allocated where the allocating function was called from one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AllocationStack {
    /// Number of the site whose frames are the calls under way, the last one first; 0: not known.
    pub context: u32,
    /// These calls, the last one first.
    pub called_from: Vec<String>,
    /// Blocks allocated.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Blocks freed.
    pub freed: u64,
    /// Most bytes live at once.
    pub peak_bytes: u64,
    /// Bytes live at the end.
    pub live_bytes: u64,
    /// Lines that first-level caches fetched from them.
    pub fetches: u64,
}

/// Stacks of one structure that are listed.
const STACKS_MAX: usize = 8;
/// Calls of each.
const CALLS_MAX: usize = 6;

/// Who had the blocks of each structure allocated that has several such.
fn stacks(structures: &[Structure]) -> Markup {
    let several = structures.iter().filter(|one| one.stacks.len() > 1).take(8);
    let head = ["called from", "blocks", "bytes", "freed", "peak", "at end", "lines fetched"];
    html! {
        @for one in several {
            @let rows: Vec<Vec<Cell>> = one.stacks.iter().take(STACKS_MAX).map(|stack| vec![
                Cell::Code(plain(&stack.calls())),
                Cell::number(stack.blocks, count),
                Cell::number(stack.bytes, bytes),
                Cell::number(stack.freed, count),
                Cell::number(stack.peak_bytes, bytes),
                Cell::number(stack.live_bytes, bytes),
                Cell::number(stack.fetches, count),
            ]).collect();
            h3 { "Who had " (plain(&one.label)) " allocate" }
            (crate::html::table("Blocks by call stack", &head, &rows))
        }
    }
}

impl AllocationStack {
    /// The calls in a line, the last one first.
    pub(crate) fn calls(&self) -> String {
        let mut text =
            self.called_from.iter().take(CALLS_MAX).cloned().collect::<Vec<_>>().join(" \u{2190} ");
        if self.called_from.len() > CALLS_MAX {
            text.push_str(" \u{2190} \u{2026}");
        }
        if text.is_empty() { "unknown".to_owned() } else { text }
    }
}

/// Use of one field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldHeat {
    /// Its name.
    pub name: String,
    /// Bytes before it.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Loads of it.
    pub loads: u64,
    /// Stores to it.
    pub stores: u64,
    /// Threads that used it, at most 64.
    pub threads: Vec<u32>,
}

/// One thread's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadHeat {
    /// Its number.
    pub thread: u32,
    /// Fetches by parts of the block, all of equal size.
    pub fetches: Vec<u32>,
}

/// A remedy, tried on the modelled machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// The finding's rule.
    pub rule: String,
    /// Part of the time of the accesses tried on that it saves.
    pub gain: f64,
    /// Accesses tried on.
    pub accesses: u64,
    /// Whether the finding was withdrawn, since its remedy gains nothing.
    pub withdrawn: bool,
}

/// Numbers as a strip of blocks, the largest one highest; of at most `columns` columns.
pub(crate) fn strip(numbers: impl Iterator<Item = u64>, columns: usize) -> String {
    let numbers: Vec<u64> = numbers.collect();
    let width = numbers.len().div_ceil(columns.max(1)).max(1);
    let sums: Vec<u64> = numbers.chunks(width).map(|chunk| chunk.iter().sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let levels =
        ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
    sums.iter()
        .map(
            |&sum| {
                if sum == 0 { '\u{b7}' } else { levels[(u128::from(sum) * 7 / u128::from(most)) as usize] }
            },
        )
        .collect()
}

impl Structure {
    /// Where its lines were fetched, as a strip.
    pub(crate) fn heat(&self, columns: usize) -> String {
        let both = self.heat_loads.iter().zip(&self.heat_stores);
        strip(both.map(|(&load, &store)| u64::from(load) + u64::from(store)), columns)
    }

    /// The same of each thread, if there are several.
    fn by_thread(&self, columns: usize) -> String {
        if self.heat_by_thread.len() < 2 {
            return String::new();
        }
        let one = |of: &ThreadHeat| {
            format!("{} {}", of.thread, strip(of.fetches.iter().map(|&part| part.into()), columns))
        };
        self.heat_by_thread.iter().map(one).collect::<Vec<_>>().join("  ")
    }
}

/// Fields of one structure that are listed.
const FIELDS_MAX: usize = 32;

impl Structure {
    /// The fields that are worth listing: those that were used, if there are too many.
    pub(crate) fn listed(&self, most: usize) -> Vec<&FieldHeat> {
        let used = |field: &&FieldHeat| self.fields.len() <= most || field.loads + field.stores > 0;
        self.fields.iter().filter(used).take(most).collect()
    }
}

impl FieldHeat {
    /// How much of the most used field's accesses it has, as a bar.
    pub(crate) fn bar(&self, most: u64, columns: u64) -> String {
        let own = self.loads + self.stores;
        let full = (u128::from(own) * u128::from(columns)).div_ceil(u128::from(most.max(1))) as usize;
        "\u{2588}".repeat(full)
    }

    /// `0-3, 7`: its threads.
    pub(crate) fn by(&self) -> String {
        let mut parts: Vec<(u32, u32)> = Vec::new();
        for &thread in &self.threads {
            match parts.last_mut() {
                Some((_, last)) if *last + 1 == thread => *last = thread,
                _ => parts.push((thread, thread)),
            }
        }
        let part =
            |&(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
        parts.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

/// The heat map of an element of each structure whose fields are known.
fn objects(structures: &[Structure]) -> Markup {
    let known = structures.iter().filter(|one| one.fetches > 0 && !one.fields.is_empty()).take(8);
    let head = ["field", "at byte", "bytes", "loads", "stores", "threads", "use"];
    html! {
        @for one in known {
            @let most = one.fields.iter().map(|field| field.loads + field.stores).max().unwrap_or(0);
            @let rows: Vec<Vec<Cell>> = one.listed(FIELDS_MAX).into_iter().map(|field| vec![
                Cell::Code(plain(&field.name)),
                Cell::number(field.offset, count),
                Cell::number(field.bytes, bytes),
                Cell::number(field.loads, count),
                Cell::number(field.stores, count),
                Cell::Text(field.by()),
                Cell::Text(field.bar(most, 24)),
            ]).collect();
            @let size = one.type_bytes.unwrap_or(0);
            h3 { "One " (plain(one.type_name.as_deref().unwrap_or("element"))) " of " (bytes(size)) ", of " (plain(&one.label)) }
            (crate::html::table("Use of fields, in the accesses that were kept for trials", &head, &rows))
        }
    }
}

/// The page's section: a table of structures with what of a block is used, and how much was live when.
pub(crate) fn section(structures: &[Structure]) -> Markup {
    let rows: Vec<Vec<Cell>> = structures
        .iter()
        .filter(|one| one.fetches > 0)
        .take(16)
        .map(|one| {
            vec![
                Cell::Code(plain(&one.label)),
                Cell::number(one.blocks, count),
                Cell::number(one.peak_bytes, bytes),
                Cell::number(one.live_bytes, bytes),
                Cell::number(one.mean_life.unwrap_or(0), count),
                Cell::number(one.fetches, count),
                Cell::number(u64::from(one.threads), count),
                Cell::Text(one.heat(32)),
                Cell::Text(one.by_thread(16)),
                Cell::Text(strip(one.footprint.iter().copied(), 16)),
                Cell::Text(strip(one.working_set.iter().copied(), 16)),
                Cell::Text(strip(one.miss_curve.iter().map(|part| (part * 1000.0) as u64), 24)),
            ]
        })
        .collect();
    let head = [
        "allocated by",
        "blocks",
        "peak",
        "at end",
        "mean life",
        "lines fetched",
        "threads",
        "where in a block",
        "by thread",
        "live over time",
        "lines in use over time",
        "misses by cache, 64 B to 1 GiB",
    ];
    html! {
        @if !rows.is_empty() {
            section id="structures" {
                h2 { "Data structures" }
                p { "Blocks by the code that allocates them. A life is counted in accesses of the whole run; lines are those that first-level caches fetched." }
                (crate::html::table("Data structures by lines fetched", &head, &rows))
                (stacks(structures))
                (objects(structures))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn a_strip_shows_nothing_and_the_most() {
        assert_eq!(strip([0, 1, 8, 8].into_iter(), 4), "\u{b7}\u{2581}\u{2588}\u{2588}");
        assert_eq!(strip([1, 1, 2, 0].into_iter(), 2), "\u{2588}\u{2588}");
        assert_eq!(strip(std::iter::empty(), 4), "");
    }
}
