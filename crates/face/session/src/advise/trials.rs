//! Advice tried on a modelled machine: the same events with and without.

use advise::prestores::{Advice, Apply, Choice, Cost, PlaceAdvice, Trial, Watcher, alternatives};
use event::{Discard, Sink};
use machine::{Config, Simulation};

use crate::error::Error;
use crate::input::Input;
use crate::observer::Observer;

/// Runs of the model at a time: each keeps the caches of a whole machine.
const AT_ONCE: usize = 4;

/// What the trials gave.
#[derive(Debug)]
pub struct Trials {
    /// The machine's name.
    pub machine: String,
    /// The program as it is.
    pub without: Cost,
    /// For each place of the advice, in its order: what was tried there, alone.
    pub places: Vec<Vec<Trial>>,
    /// With the best choice at every place that gains by it; `None` if none does.
    pub together: Option<Cost>,
}

impl Trials {
    /// The best that was tried at a place, if it gains anything: what its pattern calls for, unless another
    /// is faster by more than a model can be wrong.
    #[must_use]
    pub fn best(&self, place: usize) -> Option<&Trial> {
        let gains = self.places[place].iter().filter(|trial| trial.cost.gains_over(&self.without));
        gains.reduce(|best, other| if other.cost.is_faster_than(&best.cost) { other } else { best })
    }
}

/// Tries each piece of advice alone, and then all together that gain.
pub(super) fn run(
    trace: &Input,
    machine: &Config,
    watcher: &Watcher,
    advice: &Advice,
    observer: &dyn Observer,
) -> Result<Trials, Error> {
    let mut machine = machine.clone();
    if !watcher.mapped_persistent() {
        // The question is what the program would do on this device, not beside it.
        machine.other_memory = None;
    }
    let machine = &machine;
    let places: Vec<&PlaceAdvice> = advice.places().collect();
    let candidates: Vec<(usize, Choice)> = (0..places.len())
        .flat_map(|at| alternatives(places[at]).iter().map(move |&choice| (at, choice)))
        .collect();
    let with = |place: &PlaceAdvice, choice| PlaceAdvice { choice, ..place.clone() };
    let mut plans = vec![Vec::new()];
    plans.extend(candidates.iter().map(|&(at, choice)| watcher.plan([&with(places[at], choice)])));
    let mut costs = simulate(trace, machine, &plans, advice, observer)?.into_iter();
    let mut trials = Trials {
        machine: machine.name.clone(),
        without: costs.next().unwrap_or_default(),
        places: vec![Vec::new(); places.len()],
        together: None,
    };
    for (&(at, choice), cost) in candidates.iter().zip(costs) {
        trials.places[at].push(Trial { choice, cost });
    }
    let kept: Vec<PlaceAdvice> = (0..places.len())
        .filter_map(|at| trials.best(at).map(|trial| with(places[at], trial.choice)))
        .collect();
    trials.together = match kept.len() {
        0 => None,
        1 => (0..places.len()).find_map(|at| trials.best(at)).map(|trial| trial.cost),
        _ => simulate(trace, machine, &[watcher.plan(&kept)], advice, observer)?.pop(),
    };
    Ok(trials)
}

/// What the program takes under each plan.
fn simulate(
    trace: &Input,
    machine: &Config,
    plans: &[Vec<(event::SiteId, Choice)>],
    advice: &Advice,
    observer: &dyn Observer,
) -> Result<Vec<Cost>, Error> {
    let mut costs = Vec::new();
    for plans in plans.chunks(AT_ONCE) {
        let mut sinks = Vec::new();
        for plan in plans {
            sinks.push(Apply::new(Simulation::new(machine)?, plan.iter().copied()));
        }
        let mut refs: Vec<&mut (dyn Sink + Send)> =
            sinks.iter_mut().map(|sink| sink as &mut (dyn Sink + Send)).collect();
        trace.play("trying", observer, &mut Discard, &mut refs)?;
        costs.extend(sinks.into_iter().map(|sink| Cost::of(&sink.into_inner().figures(), &advice.phases)));
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_choice_stands_unless_another_is_clearly_faster() {
        let cost = |time_ns| Cost { time_ns, ..Cost::default() };
        let best = |tried: &[(Choice, f64)]| {
            let trial = |&(choice, time_ns)| Trial { choice, cost: cost(time_ns) };
            let places = vec![tried.iter().map(trial).collect()];
            let trials = Trials { machine: String::new(), without: cost(1000.0), places, together: None };
            trials.best(0).map(|trial| trial.choice)
        };
        use Choice::{Clean, Skip};
        assert_eq!(best(&[(Clean, 900.0), (Skip, 895.0)]), Some(Clean));
        assert_eq!(best(&[(Clean, 900.0), (Skip, 890.0)]), Some(Skip));
        assert_eq!(best(&[(Clean, 999.0), (Skip, 980.0)]), Some(Skip), "the first gains nothing");
        assert_eq!(best(&[(Clean, 999.0), (Skip, 1001.0)]), None);
    }
}
