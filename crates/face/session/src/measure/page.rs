//! Results as a page and as JSON.

use measure::{Kind, Measurement, Op};
use report::{Block, Page, Section, Table};
use serde_json::{Value, json};

use super::{Measurements, views};

/// What the JSON says it is.
const FORMAT: &str = "strandline measure 1";

/// Everything as JSON.
pub fn json(found: &Measurements, command: Vec<String>) -> Value {
    json!({
        "format": FORMAT,
        "version": env!("CARGO_PKG_VERSION"),
        "command": command,
        "subject": found.subject,
        "cautions": found.cautions,
        "skipped": views::skipped(&found.measured),
        "measurements": found.measured,
    })
}

/// Everything as a page.
pub fn page(found: &Measurements, command: Vec<String>) -> Page {
    let section = |(study, views): (&measure::Study, Vec<views::View>)| {
        let mut blocks = vec![Block::Text(sentence(study.summary))];
        for view in views {
            blocks.extend(view.chart.map(Block::Curves));
            blocks.push(Block::Table(Table { caption: view.caption, head: view.head, rows: view.rows }));
        }
        Section { id: study.name.to_owned(), title: study.name.to_owned(), blocks }
    };
    let skipped = views::skipped(&found.measured);
    Page {
        verb: "measure".to_owned(),
        title: found.subject.clone(),
        meta: vec![format!("strandline {}", env!("CARGO_PKG_VERSION"))],
        headline: headline(found),
        story: Vec::new(),
        cautions: found
            .cautions
            .iter()
            .cloned()
            .chain(skipped.iter().map(|reason| format!("Skipped: {reason}")))
            .collect(),
        sections: found.views().map(section).collect(),
        command,
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str() + ".")
}

/// The two figures that people ask for first.
fn headline(found: &Measurements) -> String {
    let random_load = found.measured.iter().find_map(|m| {
        let idle = m.task.kind == Kind::IdleLatency
            && m.task.op == Op::Load
            && m.task.pattern == measure::Pattern::Random;
        m.figures().filter(|_| idle)?.latency.as_ref().map(|latency| latency.mean)
    });
    let rate = |m: &Measurement| m.figures().and_then(|figures| figures.gb_per_s);
    let most = found.measured.iter().filter_map(|m| Some((m, rate(m)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    let parts = [
        random_load.map(|ns| format!("a random load takes {ns:.0} ns")),
        most.map(|(m, rate)| {
            let threads = report::human::plural(m.task.threads as usize, "thread");
            format!("up to {rate:.1} GB/s ({}, {threads}, {})", m.task.op, machine::Size(m.task.access_size))
        }),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    if text.is_empty() { "What was measured".to_owned() } else { sentence(&text) }
}
