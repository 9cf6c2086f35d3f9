//! How programs pack: a queue of virtual machines onto machines with fast memory, slow memory (of their own, or of a pool that several
//! share), processors and ways of cache.
//!
//! The scheduler is the source's (section 3.5): first in, first out; machines in random order; the first one with room. The
//! *compact cluster size* is the smallest number of machines that takes all of them.

use device::Rng;
use serde::{Deserialize, Serialize};

use crate::choose::penalty;
use crate::prices::Provider;

/// Kinds of resources: processors, fast memory, slow memory, ways.
pub const RESOURCES: usize = 4;
/// Room for rounding.
const SLACK: f64 = 1e-9;

/// A configuration of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// GiB of fast memory.
    pub fast_gib: f64,
    /// GiB of slow memory.
    pub slow_gib: f64,
    /// Ways of the last-level cache.
    #[serde(default)]
    pub ways: f64,
    /// Cost of its work in this configuration, in any unit.
    pub cost: f64,
}

/// A virtual machine's program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// How many are to be placed.
    pub count: u32,
    /// Processors of each.
    pub vcpus: f64,
    /// What it can run in.
    pub shapes: Vec<Shape>,
}

/// A machine of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Processors.
    pub vcpus: f64,
    /// GiB of fast memory.
    pub fast_gib: f64,
    /// GiB of slow memory of its own, or of the pool of `pool` machines.
    pub slow_gib: f64,
    /// Ways of its last-level cache.
    pub ways: f64,
    /// Machines that share the slow memory; 1 if each has its own.
    #[serde(default = "alone")]
    pub pool: u32,
}

fn alone() -> u32 {
    1
}

/// How a guest's configuration is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Each guest's own cheapest.
    Naive,
    /// Memory in the machine's own proportion of fast and slow.
    Resource,
    /// Any.
    Random,
    /// Algorithm 1 with this tolerance.
    Tolerant(f64),
}

/// What a policy comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Packing {
    /// How configurations were chosen.
    pub policy: Policy,
    /// Machines that take all guests: the compact cluster size.
    pub machines: usize,
    /// Guests that fit on no machine, however many there are.
    pub unplaced: usize,
    /// Cost of all by the cheapest configurations', less 1.
    pub cost_over_least: f64,
    /// Shares of processors, fast memory, slow memory and ways that are in use.
    pub used: [f64; RESOURCES],
    /// Machines over the most of the resources' own lower bounds.
    pub over_bound: f64,
}

impl Host {
    fn capacity(&self) -> [f64; RESOURCES] {
        [self.vcpus, self.fast_gib, self.slow_gib, self.ways]
    }

    /// Capacity per machine, with its part of a pool.
    fn per_machine(&self) -> [f64; RESOURCES] {
        let mut capacity = self.capacity();
        capacity[2] /= f64::from(self.pool.max(1));
        capacity
    }
}

fn demand(guest: &Guest, shape: &Shape) -> [f64; RESOURCES] {
    [guest.vcpus, shape.fast_gib, shape.slow_gib, shape.ways]
}

/// Finds the compact cluster size of a policy.
#[must_use]
pub fn pack(host: &Host, guests: &[Guest], policy: Policy, seed: u64) -> Packing {
    let mut queue: Vec<usize> = guests
        .iter()
        .enumerate()
        .flat_map(|(at, guest)| std::iter::repeat_n(at, guest.count as usize))
        .collect();
    let mut draw = Rng::new(seed);
    for at in (1..queue.len()).rev() {
        queue.swap(at, draw.below(at + 1));
    }
    let fits = |at: &usize| guests[*at].shapes.iter().any(|shape| fits_alone(host, &guests[*at], shape));
    let (queue, out): (Vec<usize>, Vec<usize>) = queue.into_iter().partition(fits);
    let least: f64 = queue.iter().map(|&at| cheapest(host, &guests[at])).sum();
    let lower = (bound(host, guests, &queue).ceil() as usize).max(1);
    let (mut low, mut high) = (lower, lower);
    let mut done = place(host, guests, &queue, policy, high, seed);
    while done.is_none() {
        low = high + 1;
        high *= 2;
        done = place(host, guests, &queue, policy, high, seed);
    }
    while low < high {
        let middle = (low + high) / 2;
        match place(host, guests, &queue, policy, middle, seed) {
            Some(placed) => {
                high = middle;
                done = Some(placed);
            }
            None => low = middle + 1,
        }
    }
    let placed = done.unwrap_or_default();
    Packing {
        policy,
        machines: if queue.is_empty() { 0 } else { high },
        unplaced: out.len(),
        cost_over_least: if least > 0.0 { placed.cost / least - 1.0 } else { 0.0 },
        used: placed.used,
        over_bound: high as f64 / lower as f64,
    }
}

#[derive(Clone, Debug, Default)]
struct Placed {
    cost: f64,
    used: [f64; RESOURCES],
}

fn fits_alone(host: &Host, guest: &Guest, shape: &Shape) -> bool {
    demand(guest, shape).iter().zip(host.capacity()).all(|(want, has)| *want <= has + SLACK)
}

fn cheapest(host: &Host, guest: &Guest) -> f64 {
    let fitting = guest.shapes.iter().filter(|shape| fits_alone(host, guest, shape));
    fitting.map(|shape| shape.cost).fold(f64::INFINITY, f64::min)
}

/// Machines that the scarcest resource needs, if every guest took as little of it as it can.
fn bound(host: &Host, guests: &[Guest], queue: &[usize]) -> f64 {
    let capacity = host.per_machine();
    let need = |resource: usize| -> f64 {
        let least = |at: usize| {
            let each = guests[at].shapes.iter().map(|shape| demand(&guests[at], shape)[resource]);
            each.fold(f64::INFINITY, f64::min)
        };
        queue.iter().map(|&at| least(at)).sum::<f64>()
    };
    (0..RESOURCES)
        .map(|at| if need(at) > 0.0 { need(at) / capacity[at].max(1e-9) } else { 0.0 })
        .fold(0.0, f64::max)
}

/// The order of a guest's configurations: the first that fits anywhere is taken.
fn order(host: &Host, guest: &Guest, policy: Policy, used: &[f64; RESOURCES], draw: &mut Rng) -> Vec<usize> {
    let shapes = &guest.shapes;
    let mut fitting: Vec<usize> =
        (0..shapes.len()).filter(|&at| fits_alone(host, guest, &shapes[at])).collect();
    let by_cost = |one: &usize, two: &usize| shapes[*one].cost.total_cmp(&shapes[*two].cost);
    match policy {
        Policy::Naive => fitting.sort_by(by_cost),
        Policy::Random => {
            let at = draw.below(fitting.len().max(1));
            fitting = fitting.into_iter().skip(at).take(1).collect();
        }
        Policy::Resource => {
            let own = host.per_machine();
            let want = own[2] / (own[1] + own[2]).max(1e-9);
            let off = |at: &usize| {
                let all = shapes[*at].fast_gib + shapes[*at].slow_gib;
                (shapes[*at].slow_gib / all.max(1e-9) - want).abs()
            };
            fitting.sort_by(|one, two| off(one).total_cmp(&off(two)).then(by_cost(one, two)));
        }
        Policy::Tolerant(tolerance) => {
            let least = fitting.iter().map(|&at| shapes[at].cost).fold(f64::INFINITY, f64::min);
            fitting.retain(|&at| shapes[at].cost <= least * (1.0 + tolerance) * (1.0 + 1e-12));
            let provider = Provider { capacity: host.per_machine(), used: *used };
            let of = |at: &usize| {
                let shape = &shapes[*at];
                penalty(&provider, guest.vcpus, &[shape.fast_gib, shape.slow_gib], shape.ways)
            };
            fitting.sort_by(|one, two| of(one).total_cmp(&of(two)).then(by_cost(one, two)));
        }
    }
    // A guest has one configuration; the cluster is what grows.
    fitting.truncate(1);
    fitting
}

/// Places all guests on so many machines, or none if one finds no room.
fn place(
    host: &Host,
    guests: &[Guest],
    queue: &[usize],
    policy: Policy,
    machines: usize,
    seed: u64,
) -> Option<Placed> {
    let own = host.capacity();
    let pool = host.pool.max(1) as usize;
    let mut free: Vec<[f64; RESOURCES]> = vec![own; machines];
    // The last pool may have fewer machines and has as much less memory.
    let part = |number: usize| (machines - number * pool).min(pool) as f64 / pool as f64;
    let mut pools: Vec<f64> = (0..machines.div_ceil(pool)).map(|number| own[2] * part(number)).collect();
    let mut scan: Vec<u32> = (0..machines as u32).collect();
    let mut draw = Rng::new(seed ^ 0x5eed);
    let per_machine = host.per_machine();
    let (mut total, mut cost) = ([0.0; RESOURCES], 0.0);
    for &at in queue {
        let guest = &guests[at];
        let share = |total: &[f64; RESOURCES]| {
            let mut used = [0.0; RESOURCES];
            for resource in 0..RESOURCES {
                used[resource] = total[resource] / (per_machine[resource] * machines as f64).max(1e-9);
            }
            used
        };
        let &shape = order(host, guest, policy, &share(&total), &mut draw).first()?;
        let want = demand(guest, &guest.shapes[shape]);
        // The random order is drawn as far as it is looked at.
        let mut found = None;
        for looked in 0..machines {
            let other = looked + draw.below(machines - looked);
            scan.swap(looked, other);
            let machine = scan[looked] as usize;
            let room = &free[machine];
            let slow = pools[machine / pool];
            if want[0] <= room[0] + SLACK
                && want[1] <= room[1] + SLACK
                && want[2] <= slow + SLACK
                && want[3] <= room[3] + SLACK
            {
                found = Some(machine);
                break;
            }
        }
        let machine = found?;
        for resource in [0, 1, 3] {
            free[machine][resource] -= want[resource];
        }
        pools[machine / pool] -= want[2];
        total.iter_mut().zip(want).for_each(|(total, want)| *total += want);
        cost += guest.shapes[shape].cost;
    }
    let mut used = [0.0; RESOURCES];
    for resource in 0..RESOURCES {
        used[resource] = total[resource] / (per_machine[resource] * machines as f64).max(1e-9);
    }
    Some(Placed { cost, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host { vcpus: 12.0, fast_gib: 24.0, slow_gib: 72.0, ways: 48.0, pool: 1 }
    }

    /// Wants fast memory by its own optimum; one per cent more lets it live in slow memory.
    fn guest(count: u32) -> Guest {
        let shape = |fast_gib, slow_gib, cost| Shape { fast_gib, slow_gib, ways: 2.0, cost };
        Guest {
            name: "g".to_owned(),
            count,
            vcpus: 1.0,
            shapes: vec![shape(8.0, 0.0, 100.0), shape(2.0, 6.0, 101.0), shape(0.0, 8.0, 120.0)],
        }
    }

    #[test]
    fn a_tolerance_trades_a_little_cost_for_many_machines() {
        let guests = [guest(600)];
        let naive = pack(&host(), &guests, Policy::Naive, 1);
        let tolerant = pack(&host(), &guests, Policy::Tolerant(0.025), 1);
        assert_eq!(naive.machines, 200, "three of 8 GiB per machine");
        assert!(tolerant.machines < 120, "{tolerant:?}");
        assert!((0.0..=0.025).contains(&tolerant.cost_over_least), "{tolerant:?}");
        let resource = pack(&host(), &guests, Policy::Resource, 1);
        assert_eq!(resource.machines, 50, "a quarter fast is the machine's own proportion: twelve fit");
    }

    #[test]
    fn a_pool_is_shared_and_what_fits_nowhere_is_counted() {
        let pooled = Host { slow_gib: 72.0 * 8.0, pool: 8, ..host() };
        let mut large = guest(5);
        large.shapes.iter_mut().for_each(|shape| shape.fast_gib = 100.0);
        let packing = pack(&pooled, &[guest(64), large], Policy::Resource, 3);
        assert_eq!(packing.unplaced, 5);
        assert!((6..=7).contains(&packing.machines), "{packing:?}");
    }

    #[test]
    fn ten_thousand_are_packed() {
        let packing = pack(&host(), &[guest(5_000), guest(5_000)], Policy::Tolerant(0.075), 9);
        assert!(packing.machines > 800, "{packing:?}");
    }
}
