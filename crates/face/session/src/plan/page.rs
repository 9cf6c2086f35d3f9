//! The plan as a page.

use report::{Axis, Block, Cell, Curve, Curves, Page, Section, Table, Unit, human};

use super::Planned;
use super::output::ROWS;

impl Planned {
    /// The plan as a self-contained HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        let sections = vec![
            section("mixes", "Cost against slowdown", vec![self.costs(), self.mixes()]),
            section("structures", "Structures", vec![self.structures()]),
            section("cache", "Misses by cache", self.misses()),
        ];
        report::page(&Page {
            verb: "plan".to_owned(),
            title: self.subject.clone(),
            meta: vec![self.machine.clone(), format!("strandline {}", env!("CARGO_PKG_VERSION"))],
            headline: self.headline(),
            story: self.story(),
            cautions: self.notes.warnings.clone(),
            sections,
            command: self.command.clone(),
        })
    }

    fn costs(&self) -> Block {
        let ways = &self.model.profile().ways;
        let curve = |&ways: &u32| {
            let points = self.plan.choices.iter().filter(|one| one.candidate.ways == ways);
            Curve {
                name: human::plural(ways as usize, "way"),
                points: points.map(|one| (one.slowdown * 100.0, one.cost)).collect(),
                published: Vec::new(),
            }
        };
        Block::Curves(Curves {
            title: format!("Cost of the run, millionths of {}", self.prices.currency),
            x: Axis::linear("slowdown by all fast, %"),
            y: Axis::linear("cost"),
            curves: ways.iter().map(curve).collect(),
        })
    }

    fn mixes(&self) -> Block {
        let rows = self.frontier().into_iter().map(|at| {
            let one = &self.plan.choices[at];
            let mark = if self.plan.best == Some(at) { "recommended" } else { "" };
            vec![
                Cell::Text(self.mix(one)),
                Cell::number(u64::from(one.candidate.ways), human::grouped),
                Cell::Number(format!("{:.1} %", one.slowdown * 100.0), one.slowdown),
                Cell::Number(format!("{:.4}", one.cost), one.cost),
                Cell::Text(one.prediction.refused.clone().unwrap_or_else(|| mark.to_owned())),
            ]
        });
        table(
            "Each mix with its cheapest ways",
            &["on slow memory", "ways", "slowdown", "cost", ""],
            rows.collect(),
        )
    }

    fn structures(&self) -> Block {
        let rows = self.plan.structures.iter().take(ROWS).map(|one| {
            let slow = 1.0 - one.shares.first().copied().unwrap_or(1.0);
            vec![
                Cell::Code(self.name(one)),
                Cell::number(one.bytes, human::bytes),
                Cell::share(one.misses),
                Cell::Number(format!("{:.1} %", one.alone * 100.0), one.alone),
                Cell::share(slow),
            ]
        });
        let head = ["allocated at", "size", "misses", "slower if alone on slow memory", "on slow memory"];
        table("Structures, most misses first", &head, rows.collect())
    }

    fn misses(&self) -> Vec<Block> {
        let profile = self.model.profile();
        let points = profile.curve.iter().map(|&(bytes, misses)| (bytes as f64, misses)).collect();
        vec![Block::Curves(Curves {
            title: "Misses behind the second level, of a fully associative cache (sampled)".to_owned(),
            x: Axis::log("cache", Unit::Bytes),
            y: Axis::linear("misses"),
            curves: vec![Curve { name: "misses".to_owned(), points, published: Vec::new() }],
        })]
    }
}

fn table(caption: &str, head: &[&str], rows: Vec<Vec<Cell>>) -> Block {
    let head = head.iter().map(|&name| name.to_owned()).collect();
    Block::Table(Table { caption: caption.to_owned(), head, rows })
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.to_owned(), title: title.to_owned(), blocks }
}
