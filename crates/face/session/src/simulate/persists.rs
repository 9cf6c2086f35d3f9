//! A picture of a few persists per design: when each was ready, when it left, when it was durable.

use machine::Persist;
use report::{Axis, Block, Curve, Curves, Section};

use super::compare::Comparison;

/// Lines of each picture.
const SHOWN: usize = 48;

/// The pictures, if designs were compared.
pub(super) fn section(comparison: &Comparison) -> Option<Section> {
    let mut blocks = vec![Block::Text(
        "A stretch of the lines that cores sent to persistent memory, in the order in which they left. Between ready and left a line \
         waited for others: for an epoch, a barrier or a strand buffer before it, or for a free slot. Between left and durable it was on \
         its way. A fence shows as a step: nothing behind it is ready before all in front of it is durable. Strands and epochs that \
         overlap show as lines whose bars lie beside each other."
            .to_owned(),
    )];
    for machine in &comparison.machines {
        let persists = &machine.figures.persists;
        let mut shown: Vec<&Persist> = persists.iter().take(SHOWN).collect();
        shown.sort_by_key(|persist| persist.left);
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
    }
    let title = "Persists".to_owned();
    (blocks.len() > 1).then(|| Section { id: "persists".to_owned(), title, blocks })
}
