//! Results as a page.

use report::{Axis, Block, Cell, Curve, Curves, Page, Section};

use crate::results::{PhaseFigures, Results, Row};
use crate::text::Table;

/// What is drawn of a phase.
type Pick = fn(&PhaseFigures) -> f64;

impl Results {
    /// The results as a self-contained HTML page; `command` is the command line that makes them again.
    #[must_use]
    pub fn html(&self, command: Vec<String>) -> String {
        let mut tables = Vec::new();
        tables.extend(self.tables().into_iter().map(table));
        let mut blocks: Vec<Block> = self.charts().into_iter().map(Block::Curves).collect();
        blocks.extend(tables);
        let section =
            |id: &str, title: &str, blocks| Section { id: id.to_owned(), title: title.to_owned(), blocks };
        report::page(&Page {
            verb: "bench".to_owned(),
            title: self.title(),
            meta: vec![format!("strandline {}", env!("CARGO_PKG_VERSION"))],
            headline: self.headline(),
            story: Vec::new(),
            cautions: self
                .cautions
                .iter()
                .cloned()
                .chain(self.skipped.iter().map(|one| format!("Skipped: {}: {}", one.name, one.why)))
                .collect(),
            sections: vec![section("results", "Results", blocks)],
            command,
        })
    }

    /// Rates by threads, or what an operation costs where there is one number of them; and latencies by
    /// percentile.
    fn charts(&self) -> Vec<Curves> {
        let mut charts = Vec::new();
        for name in self.workloads() {
            let several = self.rows.iter().any(|row| row.threads != self.rows[0].threads);
            if several {
                charts.push(self.by_threads(name, "operations per second", |phase| phase.per_second));
            }
            charts.push(self.by_percentile(name));
        }
        charts.retain(|chart| chart.curves.iter().any(|curve| !curve.points.is_empty()));
        charts
    }

    fn by_threads(&self, name: &str, title: &str, pick: Pick) -> Curves {
        let mut curves: Vec<Curve> = Vec::new();
        for row in &self.rows {
            let Some(phase) = Results::phase(row, name) else { continue };
            let point = (f64::from(row.threads), pick(phase));
            match curves.iter_mut().find(|curve| curve.name == row.variant) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    name: row.variant.clone(),
                    points: vec![point],
                    published: Vec::new(),
                }),
            }
        }
        Curves {
            title: format!("{name}: {title} by threads"),
            x: Axis::linear("threads"),
            y: Axis::linear(title),
            curves,
        }
    }

    /// The tail: nanoseconds at 1 − 1/x of all operations.
    fn by_percentile(&self, name: &str) -> Curves {
        let curve = |row: &Row| {
            let latency = Results::phase(row, name)?.latency?;
            let points =
                [(2.0, latency.p50), (10.0, latency.p90), (100.0, latency.p99), (1000.0, latency.p999)];
            let points = points.map(|(x, nanoseconds)| (x, nanoseconds as f64)).to_vec();
            Some(Curve { name: format!("{}, {}", row.variant, row.threads), points, published: Vec::new() })
        };
        Curves {
            title: format!("{name}: latency that one of so many operations exceeds"),
            x: Axis { log: true, ..Axis::linear("one of so many operations") },
            y: Axis { title: "latency".to_owned(), unit: report::Unit::Nanoseconds, log: true },
            curves: self.rows.iter().filter_map(curve).collect(),
        }
    }
}

fn table(table: Table) -> Block {
    let rows = table.rows.into_iter().map(|row| row.into_iter().map(Cell::Text).collect()).collect();
    Block::Table(report::Table { caption: table.caption, head: table.head, rows })
}
