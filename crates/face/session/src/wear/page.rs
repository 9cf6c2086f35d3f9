//! The estimate as a page.

use report::{Axis, Block, Curve, Curves, Page, Section, Unit};

use super::Worn;
use super::accuracy::AccuracyAt;

impl Worn {
    /// The estimate as a self-contained HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        let mut sections = vec![section("wear", "What wears it, what would help", self.tables())];
        sections.push(section("curves", "Page rates and lifetimes", self.curves()));
        if !self.accuracy.is_empty() {
            sections.push(section("accuracy", "Estimates from samples", self.accuracies()));
        }
        report::page(&Page {
            verb: "wear".to_owned(),
            title: self.subject.clone(),
            meta: vec![self.machine.clone(), format!("strandline {}", env!("CARGO_PKG_VERSION"))],
            headline: self.headline(),
            story: self.story(),
            cautions: self.notes.warnings.clone(),
            sections,
            command: self.command.clone(),
        })
    }

    fn curves(&self) -> Vec<Block> {
        let found = &self.assessment;
        let curve = |name: &str, points: Vec<(f64, f64)>| Curve {
            name: name.to_owned(),
            points,
            published: Vec::new(),
        };
        let percent = |points: &[(f64, f64)]| points.iter().map(|&(x, y)| (x * 100.0, y)).collect();
        let rates = Curves {
            title: "Writes per page by the mean, hottest pages first".to_owned(),
            x: Axis::linear("pages, %"),
            y: Axis::linear("rate by the mean"),
            curves: vec![
                curve("unlevelled", percent(&found.before)),
                curve("shuffled", percent(&found.after)),
            ],
        };
        let shuffled = found.shuffled.iter().filter(|point| point.shuffles > 0);
        let net = shuffled.clone().map(|point| (point.shuffles as f64, point.net)).collect();
        let gross = shuffled.map(|point| (point.shuffles as f64, point.normalised)).collect();
        let lifetimes = Curves {
            title: "Lifetime by shuffles, by the ideal one".to_owned(),
            x: Axis::log("shuffles of all pages in the lifetime", Unit::Number),
            y: Axis::linear("lifetime"),
            curves: vec![curve("without the copies", gross), curve("with the copies", net)],
        };
        let slices = self.timeline.iter().zip(1u32..);
        let over_time = Curves {
            title: "Lines written over the run".to_owned(),
            x: Axis::linear("slice of the run"),
            y: Axis::linear("lines"),
            curves: vec![curve(
                "lines",
                slices.map(|(slice, at)| (f64::from(at), slice.writes as f64)).collect(),
            )],
        };
        [rates, lifetimes, over_time].map(Block::Curves).into()
    }

    fn accuracies(&self) -> Vec<Block> {
        let points = |of: fn(&AccuracyAt) -> f64| {
            self.accuracy.iter().map(|at| (f64::from(at.interval), of(at))).collect::<Vec<_>>()
        };
        let curve = |name: &str, points| Curve { name: name.to_owned(), points, published: Vec::new() };
        let errors = Curves {
            title: "RMS error, write-backs per page".to_owned(),
            x: Axis::log("every n-th store", Unit::Number),
            y: Axis::log("RMS error", Unit::Number),
            curves: vec![
                curve("with filters", points(|at| at.filtered.rms)),
                curve("every sample a write-back", points(|at| at.unfiltered.rms)),
            ],
        };
        let hottest = Curves {
            title: "Hottest tenth of the pages found".to_owned(),
            x: Axis::log("every n-th store", Unit::Number),
            y: Axis::linear("share"),
            curves: vec![
                curve("with filters", points(|at| at.filtered.hottest)),
                curve("every sample a write-back", points(|at| at.unfiltered.hottest)),
            ],
        };
        [errors, hottest].map(Block::Curves).into()
    }
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.to_owned(), title: title.to_owned(), blocks }
}
