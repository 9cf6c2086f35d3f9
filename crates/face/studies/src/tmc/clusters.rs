//! Clusters: mixes of four of the six programs, tier architectures.

use std::sync::Arc;

use plan::choose::Choice;
use plan::fleet::{Guest, Host, Packing, Policy, Shape, pack};

use super::truth::{SIX, Truth, mean, pooled, truth};
use crate::{Check, Evidence, Lab, StudyError};

/// Virtual machines of each program in a mix.
const COUNT: u32 = 30;
/// Machines of a rack that share a pool.
const RACK: u32 = 8;

/// Slow memory of a machine, or of a rack.
#[derive(Clone, Copy)]
struct Slow {
    gib: f64,
    pooled: bool,
}

/// The source's architectures.
const ARCHITECTURES: [Slow; 6] = [
    Slow { gib: 128.0, pooled: false },
    Slow { gib: 256.0, pooled: false },
    Slow { gib: 128.0, pooled: true },
    Slow { gib: 384.0, pooled: true },
    Slow { gib: 640.0, pooled: true },
    Slow { gib: 896.0, pooled: true },
];
const LOCAL_128: Slow = ARCHITECTURES[0];
const POOLED_640: Slow = ARCHITECTURES[4];

/// All choices of four of six.
fn mixes() -> Vec<[usize; 4]> {
    let mut found = Vec::new();
    for first in 0..6 {
        for second in first + 1..6 {
            for third in second + 1..6 {
                found.extend((third + 1..6).map(|fourth| [first, second, third, fourth]));
            }
        }
    }
    found
}

fn host(fast_gib: f64, slow: Slow) -> Host {
    let pool = if slow.pooled { RACK } else { 1 };
    Host { vcpus: 12.0, fast_gib, slow_gib: slow.gib, ways: 48.0, pool }
}

/// Guests of a mix. Exhaustive search knows the simulated costs, TMC the predicted ones.
fn guests(truths: &[Arc<Truth>], mix: &[usize], simulated: bool) -> Vec<Guest> {
    let guest = |&number: &usize| {
        let truth = &truths[number];
        let shape = |(choice, &cost): (&Choice, &f64)| Shape {
            fast_gib: choice.gib[0],
            slow_gib: choice.gib[1],
            ways: choice.candidate.ways.into(),
            cost: if simulated { cost / truth.least() } else { choice.cost },
        };
        let shapes = truth.choices.iter().zip(&truth.costs).map(shape).collect();
        Guest { name: SIX[number].to_owned(), count: COUNT, vcpus: 1.0, shapes }
    };
    mix.iter().map(guest).collect()
}

/// Machines by exhaustive search, and by TMC with a tolerance, over all mixes.
fn sizes(truths: &[Arc<Truth>], host: &Host, tolerance: f64) -> Vec<(Packing, Packing)> {
    let both = |mix: &[usize; 4]| {
        (
            pack(host, &guests(truths, mix, true), Policy::Naive, 1),
            pack(host, &guests(truths, mix, false), Policy::Tolerant(tolerance), 1),
        )
    };
    mixes().iter().map(both).collect()
}

fn smaller(sizes: &[(Packing, Packing)]) -> f64 {
    1.0 - mean(sizes.iter().map(|(search, tmc)| tmc.machines as f64 / search.machines.max(1) as f64))
}

fn efficiency(sizes: &[(Packing, Packing)]) -> f64 {
    mean(sizes.iter().map(|(search, tmc)| search.machines as f64 / tmc.machines.max(1) as f64)) - 1.0
}

fn local(lab: &Lab) -> Result<Vec<Arc<Truth>>, StudyError> {
    SIX.iter().map(|name| truth(lab, name)).collect()
}

fn of(lab: &Lab, slow: Slow) -> Result<Vec<Arc<Truth>>, StudyError> {
    if slow.pooled { SIX.iter().map(|name| pooled(lab, name)).collect() } else { local(lab) }
}

/// T2: memory in the machine's own proportion against each program's own optimum.
pub(super) fn upper_bound(lab: &Lab) -> Result<Evidence, StudyError> {
    let truths = local(lab)?;
    let host = host(24.0, LOCAL_128);
    let ratio = |mix: &[usize; 4]| {
        let guests = guests(&truths, mix, true);
        let [naive, resource] =
            [Policy::Naive, Policy::Resource].map(|policy| pack(&host, &guests, policy, 1).machines as f64);
        naive / resource.max(1.0)
    };
    let ratios: Vec<f64> = mixes().iter().map(ratio).collect();
    let (least, most) =
        ratios.iter().fold((f64::MAX, 0.0f64), |(low, high), one| (low.min(*one), high.max(*one)));
    Ok(Evidence::of(vec![
        Check::between("most, over 15 mixes", 1.7, 2.7, most),
        Check::at_least("least", 1.0, least),
    ]))
}

/// T6: clusters with a tolerance of 2.5 % against exhaustive search.
pub(super) fn compact(lab: &Lab) -> Result<Evidence, StudyError> {
    let truths = local(lab)?;
    let sizes = sizes(&truths, &host(24.0, LOCAL_128), 0.025);
    let chosen = mean(truths.iter().map(|one| one.costs[one.predicted_best()] / one.least()));
    let over = mean(sizes.iter().map(|(_, tmc)| (1.0 + tmc.cost_over_least) * chosen - 1.0));
    Ok(Evidence::of(vec![
        Check::within("fewer machines than exhaustive search", 0.07, 0.27, smaller(&sizes)),
        Check::within("cost over exhaustive search", 0.0, 0.035, over),
    ]))
}

/// T9: clusters over all architectures.
pub(super) fn architectures(lab: &Lab) -> Result<Evidence, StudyError> {
    let over = |fast_gib: f64| -> Result<f64, StudyError> {
        let each: Result<Vec<f64>, StudyError> = ARCHITECTURES
            .iter()
            .map(|&slow| Ok(smaller(&sizes(&of(lab, slow)?, &host(fast_gib, slow), 0.025))))
            .collect();
        Ok(mean(each?.into_iter()))
    };
    let (large, small) = (over(48.0)?, over(24.0)?);
    Ok(Evidence::of(vec![
        Check::within("fewer machines with 48 GiB of DRAM", 0.2, 0.4, large),
        Check::within("fewer machines with 24 GiB", 0.03, 0.23, small),
        Check::at_least("48 GiB less 24 GiB", 0.0, large - small),
    ]))
}

/// T10: gain of efficiency on two architectures.
pub(super) fn gains(lab: &Lab) -> Result<Evidence, StudyError> {
    let gain =
        |slow: Slow| Ok::<_, StudyError>(efficiency(&sizes(&of(lab, slow)?, &host(24.0, slow), 0.075)));
    let (pool, local) = (gain(POOLED_640)?, gain(LOCAL_128)?);
    Ok(Evidence::of(vec![
        Check::within("640 GiB of a pool", 0.0, 0.2, pool),
        Check::within("128 GiB of its own", 0.18, 0.38, local),
        Check::at_least("its own less the pool", 0.0, local - pool),
    ]))
}

/// T11: the pool against memory of its own.
pub(super) fn pool(lab: &Lab) -> Result<Evidence, StudyError> {
    let machines = |slow: Slow| {
        let sizes = sizes(&of(lab, slow)?, &host(24.0, slow), 0.075);
        Ok::<_, StudyError>(mean(sizes.iter().map(|(_, tmc)| tmc.machines as f64)))
    };
    let lower = 1.0 - machines(LOCAL_128)? / machines(POOLED_640)?;
    Ok(Evidence::of(vec![Check::within("lower efficiency", 0.04, 0.24, lower)]))
}
