//! Points carried out one after the other, or side by side where they do not disturb each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use measure::{Bench, MeasureError, Measurement, Model, Outcome, Point};

use super::Target;
use crate::error::Error;
use crate::observer::{Observer, Progress};

/// Measures every point and gives `take` the results in the order of `points`. Modelled points run on all
/// cores; on real memory each point has the machine for itself.
pub fn each(
    target: &mut Target,
    points: &[Point],
    observer: &dyn Observer,
    mut take: impl FnMut(Measurement) -> Result<(), Error>,
) -> Result<(), Error> {
    let report = |done, name: &str| {
        observer.progress(&Progress::Steps { doing: "measure", done, all: points.len(), name });
    };
    report(0, "");
    let mut done = 0;
    let mut take = |point: &Point, outcome| {
        done += 1;
        report(done, &format!("{}, {}, {}", point.study, point.series, point.x));
        take(point.with(outcome))
    };
    let measured = match target {
        Target::Real(real) => points.iter().try_for_each(|point| take(point, outcome(&mut **real, point)?)),
        Target::Model(model) => side_by_side(model, points, take),
    };
    observer.finished();
    measured
}

/// What came out of a point. Chosen parameters may not fit each other at some places of an axis; these are
/// skipped.
fn outcome(bench: &mut dyn Bench, point: &Point) -> Result<Outcome, MeasureError> {
    match point.task.fault() {
        Some(fault) => Ok(Outcome::Skipped(fault)),
        None => bench.measure(&point.task),
    }
}

fn side_by_side(
    model: &Model,
    points: &[Point],
    mut take: impl FnMut(&Point, Outcome) -> Result<(), Error>,
) -> Result<(), Error> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(points.len());
    let next = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let (out, outcomes) = mpsc::channel::<(usize, Result<Outcome, MeasureError>)>();
        for _ in 0..workers {
            let (out, mut model) = (out.clone(), model.clone());
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(at) else { return };
                    // Nobody listens after a failure.
                    if out.send((at, outcome(&mut model, point))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(out);
        let (mut early, mut expected) = (BTreeMap::new(), 0);
        for (at, outcome) in outcomes {
            early.insert(at, outcome?);
            while let Some(outcome) = early.remove(&expected) {
                take(&points[expected], outcome)?;
                expected += 1;
            }
        }
        Ok(())
    })
}
