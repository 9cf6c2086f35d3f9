//! Studies: tasks that differ along an axis, as curves.

use std::collections::BTreeMap;

use machine::LINE_BYTES;

use crate::figures::{Figures, Measurement, Outcome};
use crate::setting::{Parameter, Setting};
use crate::task::Task;

/// A named set of tasks: for each curve the settings that make it, for each of its points one setting more.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub summary: &'static str,
    /// What all of its tasks have in common.
    pub base: Task,
    /// The curves.
    pub series: Vec<Vec<Setting>>,
    /// The points of each, all of one parameter; a single one makes a study without an axis.
    pub axis: Vec<Setting>,
    /// What a table and a chart of it show.
    pub shows: Show,
}

/// What a table and a chart of a study show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Latencies, mean and distribution; no axis.
    Latency,
    /// Distribution of latencies over the axis.
    Tail,
    /// Bandwidth over the axis, and EWR where it is known.
    Bandwidth,
    /// Mean latency over bandwidth.
    LatencyByBandwidth,
    /// Mean latency over the axis.
    MeanLatency,
    /// Write amplification over the axis where it is known, else mean time.
    Amplification,
    /// Latency as the run goes on, and stalls.
    Progress,
}

/// One task of a study with its position in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The study's name.
    pub study: &'static str,
    /// What sets its curve apart from the others.
    pub series: String,
    /// Where it stands on the axis.
    pub x: Setting,
    /// What to do.
    pub task: Task,
}

impl Point {
    /// The point with what came out.
    #[must_use]
    pub fn with(&self, outcome: Outcome) -> Measurement {
        Measurement {
            study: self.study.to_owned(),
            series: self.series.clone(),
            x: self.x.x(),
            at: self.x.to_string(),
            task: self.task.clone(),
            outcome,
        }
    }

    /// The point with figures.
    #[must_use]
    pub fn done(&self, figures: Figures) -> Measurement {
        self.with(Outcome::Done(Box::new(figures)))
    }
}

impl Study {
    /// The parameter along the axis.
    #[must_use]
    pub fn parameter(&self) -> Parameter {
        self.axis.first().map_or(Parameter::Threads, |setting| setting.parameter())
    }

    /// This study with other values: the axis takes those of its own parameter; each curve is taken once per
    /// value of any other. An operation picks the curves that have it, with all that goes with it there.
    #[must_use]
    pub fn with(&self, chosen: &BTreeMap<Parameter, Vec<Setting>>) -> Study {
        let mut study = self.clone();
        for (parameter, values) in chosen {
            if *parameter == study.parameter() {
                study.axis.clone_from(values);
            } else {
                study.series = values.iter().flat_map(|value| study.curves_with(*value)).collect();
            }
        }
        study
    }

    /// All curves with `value`, each once; of an operation, those that have it if any has.
    fn curves_with(&self, value: Setting) -> Vec<Vec<Setting>> {
        let has = |curve: &&Vec<Setting>| value.parameter() == Parameter::Op && curve.contains(&value);
        let has: Vec<Vec<Setting>> = self.series.iter().filter(has).cloned().collect();
        if !has.is_empty() {
            return has;
        }
        let mut curves: Vec<Vec<Setting>> = Vec::new();
        for curve in &self.series {
            let mut changed = curve.clone();
            match changed.iter_mut().find(|old| old.parameter() == value.parameter()) {
                Some(old) => *old = value,
                None => changed.push(value),
            }
            if !curves.contains(&changed) {
                curves.push(changed);
            }
        }
        curves
    }

    /// All of its tasks, curve by curve.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let names = self.names();
        self.series
            .iter()
            .zip(names)
            .flat_map(|(curve, name)| {
                self.axis.iter().map(move |x| {
                    let mut task = self.base.clone();
                    curve.iter().chain([x]).for_each(|setting| setting.apply(&mut task));
                    fit(&mut task, x.parameter());
                    Point { study: self.name, series: name.clone(), x: *x, task }
                })
            })
            .collect()
    }

    /// The curves' names: those settings that not all of them have.
    fn names(&self) -> Vec<String> {
        let common = |setting: &Setting| self.series.iter().all(|curve| curve.contains(setting));
        self.series
            .iter()
            .map(|curve| {
                let own: Vec<String> =
                    curve.iter().filter(|setting| !common(setting)).map(|setting| setting.label()).collect();
                let named = if own.is_empty() {
                    // One curve alone is named by all that it has.
                    curve.iter().map(|setting| setting.label()).collect()
                } else {
                    own
                };
                named.join(", ")
            })
            .collect()
    }

    /// A parameter's values as a table's rows have them.
    #[must_use]
    pub fn axis_title(&self) -> &'static str {
        match self.parameter() {
            Parameter::AccessSize => "access size",
            Parameter::Stride => "stride",
            Parameter::Region => "region",
            Parameter::Delay => "delay between accesses",
            Parameter::FenceEvery => "accesses per fence",
            Parameter::FlushEvery => "bytes stored before flushing",
            Parameter::Mix => "reads:writes",
            Parameter::Dimms => "DIMMs per thread",
            other => other.name(),
        }
    }
}

/// Makes parameters that hang together fit: regions hold whole accesses, and a region in the role of the axis
/// is never smaller than an access.
fn fit(task: &mut Task, axis: Parameter) {
    if axis == Parameter::Region && task.region < task.access_size {
        task.access_size = task.region.max(LINE_BYTES);
    }
    if task.access_size > 0 && task.region > task.access_size {
        task.region -= task.region % task.access_size;
    }
}

/// Powers of two from `first` to `last`, as the settings that `of` makes of them.
pub(crate) fn doubling(first: u64, last: u64, of: fn(u64) -> Setting) -> Vec<Setting> {
    std::iter::successors(Some(first), |value| Some(value * 2))
        .take_while(|value| *value <= last)
        .map(of)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Op, Pattern};

    fn study() -> Study {
        Study {
            name: "sizes",
            summary: "",
            base: Task::default(),
            series: vec![
                vec![Setting::Op(Op::Load), Setting::Threads(16), Setting::Pattern(Pattern::Random)],
                vec![Setting::Op(Op::Ntstore), Setting::Threads(4), Setting::Pattern(Pattern::Random)],
            ],
            axis: doubling(64, 256, Setting::AccessSize),
            shows: Show::Bandwidth,
        }
    }

    fn chosen(settings: &[Setting]) -> BTreeMap<Parameter, Vec<Setting>> {
        let mut chosen = BTreeMap::<_, Vec<_>>::new();
        settings.iter().for_each(|setting| chosen.entry(setting.parameter()).or_default().push(*setting));
        chosen
    }

    fn listed(study: &Study) -> Vec<(String, u64, u32)> {
        study
            .points()
            .into_iter()
            .map(|point| (point.series, point.task.access_size, point.task.threads))
            .collect()
    }

    #[test]
    fn points_are_curves_times_axis_and_named_by_what_differs() {
        let points = listed(&study());
        assert_eq!(points.len(), 6);
        assert_eq!(points[0], ("load, 16 threads".to_owned(), 64, 16));
        assert_eq!(points[5], ("ntstore, 4 threads".to_owned(), 256, 4));
    }

    #[test]
    fn a_chosen_operation_picks_curves_and_other_values_change_all() {
        let picked = study().with(&chosen(&[Setting::Op(Op::Load), Setting::AccessSize(4096)]));
        assert_eq!(listed(&picked), [("load, 16 threads, random".to_owned(), 4096, 16)]);
        let more =
            study().with(&chosen(&[Setting::Threads(1), Setting::Threads(2), Setting::AccessSize(64)]));
        let names: Vec<String> = listed(&more).into_iter().map(|point| point.0).collect();
        assert_eq!(names, ["load, 1 thread", "ntstore, 1 thread", "load, 2 threads", "ntstore, 2 threads"]);
        let one_has_it = study().with(&chosen(&[Setting::Threads(4), Setting::AccessSize(64)]));
        assert_eq!(listed(&one_has_it), [("load".to_owned(), 64, 4), ("ntstore".to_owned(), 64, 4)]);
        let new_op = study().with(&chosen(&[Setting::Op(Op::Store), Setting::AccessSize(64)]));
        let names: Vec<String> = listed(&new_op).into_iter().map(|point| point.0).collect();
        assert_eq!(names, ["16 threads", "4 threads"]);
    }
}
