//! A picture of a few persists per design: when each was ready, when it left, when it was durable; and which waited for which, and why.

use machine::{Awaited, Persist};
use report::{Axis, Block, Cell, Curve, Curves, Section, Table};

use super::compare::Comparison;

/// Lines of each picture.
const SHOWN: usize = 48;

/// The pictures, if designs were compared.
pub(super) fn section(comparison: &Comparison) -> Option<Section> {
    let mut blocks = vec![Block::Text(
        "A stretch of the lines that cores sent to persistent memory, in the order in which they left. Between ready and left a line \
         waited for others: for an epoch, a barrier or a strand buffer before it, or for a free slot. Between left and durable it was on \
         its way. A fence shows as a step: nothing behind it is ready before all in front of it is durable. Strands and epochs that \
         overlap show as lines whose bars lie beside each other. The table below a picture says for which line each waited last, and why."
            .to_owned(),
    )];
    for machine in &comparison.machines {
        let persists = &machine.figures.persists;
        let mut shown: Vec<(u32, &Persist)> = (0..).zip(persists).take(SHOWN).collect();
        shown.sort_by_key(|(_, persist)| persist.left);
        let waits = waits(&machine.label, &shown);
        let shown: Vec<&Persist> = shown.into_iter().map(|(_, persist)| persist).collect();
        let Some(start) = shown.iter().map(|persist| persist.ready).min() else { continue };
        let curve = |name: &str, time: fn(&Persist) -> machine::Time| Curve {
            name: name.to_owned(),
            points: (0u32..)
                .zip(&shown)
                .map(|(number, persist)| (f64::from(number), time(persist).ns() - start.ns()))
                .collect(),
            published: Vec::new(),
        };
        blocks.push(Block::Curves(Curves {
            title: format!("Persists on {}", machine.label),
            x: Axis::linear("persist"),
            y: Axis::linear("time, ns"),
            curves: vec![
                curve("ready", |persist| persist.ready),
                curve("left", |persist| persist.left),
                curve("durable", |persist| persist.durable),
            ],
        }));
        blocks.push(Block::Table(waits));
    }
    let title = "Persists".to_owned();
    (blocks.len() > 1).then(|| Section { id: "persists".to_owned(), title, blocks })
}

/// Which persist waited for which, and why; `shown` are places in the list and persists, in the order of the picture.
fn waits(label: &str, shown: &[(u32, &Persist)]) -> Table {
    let start = shown.iter().map(|(_, persist)| persist.ready).min().unwrap_or_default();
    let ns = |time: machine::Time| Cell::Number(format!("{:.1}", time.ns()), time.ns());
    let number = |place: u32| shown.iter().position(|(other, _)| *other == place);
    let row = |(at, (_, persist)): (usize, &(u32, &Persist))| {
        let behind = persist.behind.and_then(number).map_or(String::new(), |number| number.to_string());
        vec![
            Cell::number(at as u64, |number| number.to_string()),
            Cell::number(u64::from(persist.core), |core| core.to_string()),
            Cell::Code(format!("{:#x}", persist.line * machine::LINE_BYTES)),
            ns(persist.ready.since(start)),
            ns(persist.left.since(persist.ready)),
            ns(persist.durable.since(persist.left)),
            Cell::Text(behind),
            Cell::Text(reason(persist.why).to_owned()),
        ]
    };
    let head =
        ["persist", "core", "address", "ready, ns", "waited, ns", "under way, ns", "for persist", "why"];
    Table {
        caption: format!("Who waited for whom on {label}"),
        head: head.map(str::to_owned).to_vec(),
        rows: shown.iter().enumerate().map(row).collect(),
    }
}

fn reason(why: Awaited) -> &'static str {
    match why {
        Awaited::Nothing => "nothing",
        Awaited::Fence => "the core stood at a fence, join or region's end",
        Awaited::Step => "it comes into being when that is durable",
        Awaited::Order => "epoch or barrier",
        Awaited::Others => "another strand buffer or core",
        Awaited::Entry => "an entry of the strand buffer",
        Awaited::Slot => "a slot for lines under way",
        Awaited::Path => "the line before it went elsewhere",
        Awaited::WriteBack => "evicted from a write-back buffer",
    }
}
