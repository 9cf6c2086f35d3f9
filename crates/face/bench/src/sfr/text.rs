//! Results as text: the tables that the page has, too.

use report::human::{grouped, pad_left, pad_right, plural};

use super::results::{SfrResults, SfrRow};
use crate::text::Table;

impl SfrResults {
    /// The results as a terminal shows them.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.headline());
        for table in self.tables() {
            text.push_str(&format!("\n{}\n{}", table.caption, lines(&table)));
        }
        text.push('\n');
        for caution in &self.cautions {
            text.push_str(&format!("Note: {caution}.\n"));
        }
        text
    }

    pub(super) fn headline(&self) -> String {
        let find = |variant: &str, against: &str| {
            self.summaries.iter().find(|one| (one.variant, one.against) == (variant, against))
        };
        let Some(first) = self.rows.first() else { return "Nothing was measured.".to_owned() };
        let at = format!(
            "{}, {} per SFR",
            plural(first.threads as usize, "thread"),
            plural(first.stores_per_sfr as usize, "store")
        );
        match (find("decoupled", "atlas"), find("coupled", "atlas")) {
            (Some(decoupled), Some(coupled)) => format!(
                "{at}: decoupled SFRs are {:.2} times as fast as ATLAS, coupled ones {:.2} times.",
                decoupled.speedup, coupled.speedup
            ),
            _ => format!("{at}: {} measured.", plural(self.rows.len(), "row")),
        }
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        let mut tables = vec![
            self.by_variant("Wall time of an operation, ns", |row| Some(number(row.wall_ns))),
            self.by_variant("CPU time of an operation, all threads of the process, ns", |row| {
                Some(number(row.cpu_ns))
            }),
            self.per_operation("Log bytes of an operation", |counters| counters.log_bytes),
            self.per_operation("Lines flushed in an operation", |counters| counters.flushes),
            self.per_operation("Fences of an operation", |counters| counters.fences),
            self.by_variant("The most bytes of one log that waited for their commit", |row| {
                Some(grouped(row.counters?.live_log_bytes_max))
            }),
            self.comparisons(),
        ];
        if !self.steps.is_empty() {
            tables.push(self.breakdown());
        }
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn per_operation(&self, caption: &str, of: fn(&super::results::Counters) -> u64) -> Table {
        let operations = self.operations.max(1) as f64;
        self.by_variant(caption, |row| Some(number(of(&row.counters?) as f64 / operations)))
    }

    /// Benchmarks down, variants across.
    fn by_variant(&self, caption: &str, cell: impl Fn(&SfrRow) -> Option<String>) -> Table {
        let mut variants: Vec<&str> = Vec::new();
        let mut places: Vec<(&str, u32, u32)> = Vec::new();
        for row in self.rows.iter().filter(|row| cell(row).is_some()) {
            if !variants.contains(&&*row.variant) {
                variants.push(&row.variant);
            }
            let place = (&*row.benchmark, row.threads, row.stores_per_sfr);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let mut head: Vec<String> = ["benchmark", "threads", "stores"].map(str::to_owned).to_vec();
        head.extend(variants.iter().map(|variant| (*variant).to_owned()));
        let line = |(benchmark, threads, stores): (&str, u32, u32)| {
            let mut cells = vec![benchmark.to_owned(), threads.to_string(), stores.to_string()];
            for variant in &variants {
                let row = self.row(benchmark, variant, threads, stores);
                cells.push(row.and_then(&cell).unwrap_or_else(|| "–".to_owned()));
            }
            cells
        };
        Table { caption: caption.to_owned(), head, rows: places.into_iter().map(line).collect() }
    }

    fn comparisons(&self) -> Table {
        let head = ["variant", "against", "threads", "stores", "times as fast", "less time", "less CPU time"];
        let rows = self.summaries.iter().map(|one| {
            vec![
                one.variant.to_owned(),
                one.against.to_owned(),
                one.threads.to_string(),
                one.stores_per_sfr.to_string(),
                format!("{:.2}", one.speedup),
                format!("{:.1} %", 100.0 * one.improvement),
                format!("{:.1} %", 100.0 * one.cpu_improvement),
            ]
        });
        Table {
            caption: "Over all benchmarks: geometric mean of speedups, means of reductions".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }
    }

    /// Steps across: what each adds to the one before.
    fn breakdown(&self) -> Table {
        let head = ["benchmark", "variant", "none", "log", "flush", "data", "commit", "store/floor"];
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in &self.steps {
            let name = [row.benchmark.clone(), row.variant.clone()];
            if rows.last().is_none_or(|last| last[..2] != name) {
                let mut cells = name.to_vec();
                cells.resize(head.len(), "–".to_owned());
                if let Some(ratio) = self.logged_store(&row.benchmark, &row.variant) {
                    cells[head.len() - 1] = format!("{ratio:.2}");
                }
                rows.push(cells);
            }
            if let (Some(cells), Some(column)) =
                (rows.last_mut(), head.iter().position(|name| *name == row.step))
            {
                cells[column] = number(row.wall_ns);
            }
        }
        Table {
            caption: format!(
                "Wall time of an operation with the steps of logging up to each, ns; CPU time of a store's \
                 entry over the floor of {:.0} ns",
                self.floor_ns
            ),
            head: head.map(str::to_owned).to_vec(),
            rows,
        }
    }
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { grouped(value.round() as u64) }
}

/// Columns as wide as they need; words to the left, numbers to the right.
fn lines(table: &Table) -> String {
    let wide = |at: usize| {
        let cells = table.rows.iter().chain([&table.head]).filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(wide).collect();
    let mut text = String::new();
    for row in [&table.head].into_iter().chain(&table.rows) {
        let cell = |(at, cell): (usize, &String)| match &*table.head[at] {
            "benchmark" | "variant" | "against" => pad_right(cell, widths[at]),
            _ => pad_left(cell, widths[at]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        text.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
    }
    text
}
