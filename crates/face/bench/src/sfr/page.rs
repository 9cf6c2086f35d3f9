//! Results as a page.

use report::{Axis, Block, Cell, Curve, Curves, Page, Section, Unit};

use super::results::{SfrResults, SfrRow};

impl SfrResults {
    /// The results as a self-contained HTML page; `command` is the command line that makes them again.
    #[must_use]
    pub fn html(&self, command: Vec<String>) -> String {
        let table = |table: crate::text::Table| {
            let cells = |row: Vec<String>| row.into_iter().map(Cell::Text).collect();
            let rows = table.rows.into_iter().map(cells).collect();
            Block::Table(report::Table { caption: table.caption, head: table.head, rows })
        };
        let mut blocks: Vec<Block> = self.charts().into_iter().map(Block::Curves).collect();
        blocks.extend(self.tables().into_iter().map(table));
        report::page(&Page {
            verb: "bench".to_owned(),
            title: "Failure-atomic synchronisation-free regions".to_owned(),
            meta: vec![format!("strandline {}", env!("CARGO_PKG_VERSION"))],
            headline: self.headline(),
            story: Vec::new(),
            cautions: self.cautions.clone(),
            sections: vec![Section { id: "results".to_owned(), title: "Results".to_owned(), blocks }],
            command,
        })
    }

    /// Time by stores per SFR and by threads, where there are several; and the steps of the overhead.
    fn charts(&self) -> Vec<Curves> {
        let mut charts = Vec::new();
        let Some(first) = self.rows.first() else { return charts };
        let mut benchmarks: Vec<&str> = self.rows.iter().map(|row| &*row.benchmark).collect();
        benchmarks.dedup();
        for benchmark in benchmarks {
            if self.rows.iter().any(|row| row.stores_per_sfr != first.stores_per_sfr) {
                let pick = |row: &SfrRow| {
                    (row.threads == first.threads).then(|| (f64::from(row.stores_per_sfr), row.wall_ns))
                };
                charts.push(self.chart(benchmark, "stores per SFR", pick));
            }
            if self.rows.iter().any(|row| row.threads != first.threads) {
                let pick = |row: &SfrRow| {
                    (row.stores_per_sfr == first.stores_per_sfr)
                        .then(|| (f64::from(row.threads), row.wall_ns))
                };
                charts.push(self.chart(benchmark, "threads", pick));
            }
        }
        charts.extend(self.step_charts());
        charts
    }

    fn chart(&self, benchmark: &str, of: &str, pick: impl Fn(&SfrRow) -> Option<(f64, f64)>) -> Curves {
        let mut curves: Vec<Curve> = Vec::new();
        for row in self.rows.iter().filter(|row| row.benchmark == benchmark) {
            if let Some(point) = pick(row) {
                push(&mut curves, &row.variant, point);
            }
        }
        Curves {
            title: format!("{benchmark}: time of an operation by {of}"),
            x: Axis { log: true, ..Axis::linear(of) },
            y: Axis { title: "wall time of an operation".to_owned(), unit: Unit::Nanoseconds, log: false },
            curves,
        }
    }

    /// A chart per design; steps are numbered from none (0) to all (4).
    fn step_charts(&self) -> Vec<Curves> {
        let mut charts: Vec<Curves> = Vec::new();
        for row in &self.steps {
            let title = format!("{}: time of an operation with more and more of the logging", row.variant);
            if charts.iter().all(|chart| chart.title != title) {
                charts.push(Curves {
                    title: title.clone(),
                    x: Axis::linear("none (0), log, its flush and fence, data flush, commit (4)"),
                    y: Axis {
                        title: "wall time of an operation".to_owned(),
                        unit: Unit::Nanoseconds,
                        log: false,
                    },
                    curves: Vec::new(),
                });
            }
            let step = ["none", "log", "flush", "data", "commit"].iter().position(|name| *name == row.step);
            if let (Some(step), Some(chart)) = (step, charts.iter_mut().find(|chart| chart.title == title)) {
                push(&mut chart.curves, &row.benchmark, (step as f64, row.wall_ns));
            }
        }
        charts
    }
}

fn push(curves: &mut Vec<Curve>, name: &str, point: (f64, f64)) {
    match curves.iter_mut().find(|curve| curve.name == name) {
        Some(curve) => curve.points.push(point),
        None => curves.push(Curve { name: name.to_owned(), points: vec![point], published: Vec::new() }),
    }
}
