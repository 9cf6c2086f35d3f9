//! Results for a terminal.

use report::human::{duration, grouped, pad_left, pad_right, plural};

use crate::results::{Latency, PhaseFigures, Results, Row};
use crate::terms::Role;

/// Columns of workloads in one table.
const ABREAST: usize = 2;

/// Lines of cells; the first column and those named in `left` stand to the left.
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The columns' names.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Results {
    /// The results for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title());
        for table in self.tables() {
            text.push_str(&format!("\n{}\n{}", table.caption, lines(&table)));
        }
        text.push_str(&format!("\n{}\n", self.headline()));
        for one in &self.skipped {
            text.push_str(&format!("skipped: {}: {}\n", one.name, one.why));
        }
        for caution in &self.cautions {
            text.push_str(&format!("note: {caution}\n"));
        }
        text
    }

    /// What was compared.
    pub(crate) fn title(&self) -> String {
        let key = self.key.bytes();
        let load = self.rate.map_or(String::new(), |rate| format!(", {rate:.0} arrivals per second"));
        format!(
            "{}: {} operations each, {key}-byte keys, {}-byte values, in {}{load}; a unit is {:.0} ns",
            self.subject,
            grouped(self.operations),
            self.value,
            self.path,
            self.unit_ns
        )
    }

    /// Ours beside the best peer whose writes are durable as well, in the first workload: by CPU time with
    /// one thread, by wall time with several.
    pub(crate) fn headline(&self) -> String {
        let (Some(first), Some(threads)) = (self.workloads().first().copied(), self.rows.first()) else {
            return "Nothing was measured.".to_owned();
        };
        let threads = threads.threads;
        let cost = |phase: &PhaseFigures| if threads == 1 { phase.cpu_ratio } else { phase.wall_ratio };
        let best = |role: Role| {
            let rows = self
                .rows
                .iter()
                .filter(|row| row.threads == threads && row.role == role && row.durability.is_durable());
            let costs = rows.filter_map(|row| Some((&*row.variant, cost(Results::phase(row, first)?))));
            costs.min_by(|a, b| a.1.total_cmp(&b.1))
        };
        let of = format!("{first}, {}", plural(threads as usize, "thread"));
        match (best(Role::Ours), best(Role::Peer)) {
            (Some(ours), Some(peer)) => format!(
                "Durable, {of}: {} takes {} units, the best peer, {}, {}: {} of that.",
                ours.0,
                ratio(ours.1),
                peer.0,
                ratio(peer.1),
                ratio(ours.1 / peer.1)
            ),
            (Some(one), None) | (None, Some(one)) => {
                format!("Durable, {of}: {} takes {} units.", one.0, ratio(one.1))
            }
            (None, None) => "Nothing that was measured is durable.".to_owned(),
        }
    }

    /// Rates and ratios, then latencies.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let names = self.workloads();
        let mut tables: Vec<Table> = names.chunks(ABREAST).map(|names| self.rates(names)).collect();
        tables.extend(names.iter().map(|name| self.latencies(name)).filter(|table| !table.rows.is_empty()));
        tables
    }

    fn rates(&self, names: &[&str]) -> Table {
        let mut head = vec!["variant".to_owned(), "threads".to_owned()];
        for name in names {
            head.extend([format!("{name}/s"), "CPU units".to_owned(), "wall units".to_owned()]);
        }
        head.push("durability".to_owned());
        let row = |row: &Row| {
            let mut cells = vec![named(row), row.threads.to_string()];
            for name in names {
                match Results::phase(row, name) {
                    Some(phase) => cells.extend([
                        grouped(phase.per_second as u64),
                        ratio(phase.cpu_ratio),
                        ratio(phase.wall_ratio),
                    ]),
                    None => cells.extend(["–"; 3].map(str::to_owned)),
                }
            }
            cells.push(row.durability_text.to_owned());
            cells
        };
        let caption = "Operations per second; CPU and wall time of one in units".to_owned();
        Table { caption, head, rows: self.rows.iter().map(row).collect() }
    }

    fn latencies(&self, name: &str) -> Table {
        let head =
            ["variant", "threads", "p50", "p90", "p99", "p99.9", "longest", "timed"].map(str::to_owned);
        let row = |row: &Row| {
            let Latency { timed, p50, p90, p99, p999, max, .. } = Results::phase(row, name)?.latency?;
            let mut cells = vec![named(row), row.threads.to_string()];
            cells.extend([p50, p90, p99, p999, max].map(nanoseconds));
            cells.push(grouped(timed));
            Some(cells)
        };
        let from =
            if self.rate.is_some() { "counted from when they should have started" } else { "a sample" };
        let caption = format!("{name}: latencies, {from}");
        Table { caption, head: head.into(), rows: self.rows.iter().filter_map(row).collect() }
    }
}

fn named(row: &Row) -> String {
    match row.role {
        Role::Ours => row.variant.clone(),
        Role::Baseline => format!("{} (baseline)", row.variant),
        Role::Peer => format!("{} (peer)", row.variant),
    }
}

fn ratio(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

fn nanoseconds(nanoseconds: u64) -> String {
    duration(std::time::Duration::from_nanos(nanoseconds))
}

/// Columns as wide as they need; words to the left, numbers to the right.
fn lines(table: &Table) -> String {
    let columns = table.head.len();
    let wide = |at: usize| {
        let cells = table.rows.iter().chain([&table.head]).filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let mut text = String::new();
    for row in [&table.head].into_iter().chain(&table.rows) {
        let cell = |(at, cell): (usize, &String)| match table.head[at].as_str() {
            "variant" | "durability" => pad_right(cell, widths[at]),
            _ => pad_left(cell, widths[at]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        text.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
    }
    text
}
