//! Points carried out one after the other, or side by side where they do not disturb each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use measure::{Bench, MeasureError, Measurement, Model, Outcome, Point};

use super::Target;
use crate::progress::Steps;

/// Measures every point and gives `take` the results in the order of `points`. Modelled points run on all cores; on real
/// memory each point has the machine for itself.
pub fn each(
    target: &mut Target,
    points: &[Point],
    mut take: impl FnMut(Measurement) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut steps = Steps::new("measure", points.len());
    let mut take = |point: &Point, outcome| {
        steps.done(&format!("{}, {}, {}", point.study, point.series, point.x));
        take(point.with(outcome))
    };
    match target {
        Target::Real(real) => points.iter().try_for_each(|point| take(point, outcome(&mut **real, point)?)),
        Target::Model(model) => side_by_side(model, points, take),
    }
}

/// What came out of a point. Chosen parameters may not fit each other at some places of an axis; these are skipped.
fn outcome(bench: &mut dyn Bench, point: &Point) -> Result<Outcome, MeasureError> {
    match point.task.fault() {
        Some(fault) => Ok(Outcome::Skipped(fault)),
        None => bench.measure(&point.task),
    }
}

fn side_by_side(
    model: &Model,
    points: &[Point],
    mut take: impl FnMut(&Point, Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(points.len());
    let next = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel::<(usize, Result<Outcome, MeasureError>)>();
        for _ in 0..workers {
            let (tell, mut model) = (tell.clone(), model.clone());
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(at) else { return };
                    // Nobody listens after a failure.
                    if tell.send((at, outcome(&mut model, point))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        let (mut early, mut expected) = (BTreeMap::new(), 0);
        for (at, outcome) in told {
            early.insert(at, outcome?);
            while let Some(outcome) = early.remove(&expected) {
                take(&points[expected], outcome)?;
                expected += 1;
            }
        }
        Ok(())
    })
}
