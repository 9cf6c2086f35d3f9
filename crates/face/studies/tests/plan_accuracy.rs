//! Predictions held against simulations of the whole run, on small programs with structures of their own.

use machine::Config;
use plan::choose::{candidate_ways, candidates};
use plan::placed::{Placed, Where};
use plan::profile::Profiler;
use plan::tiers::{measure, with_two_memories, with_ways};
use plan::{Model, Placement, Reference};

#[path = "../src/tmc/programs.rs"]
mod programs;

fn small(preset: &str) -> Config {
    let config = Config::preset(preset).expect("it runs");
    let set = [
        ("l1.size", "16KiB"),
        ("l1.ways", "8"),
        ("l2.size", "64KiB"),
        ("l2.ways", "8"),
        ("llc.size", "1536KiB"),
        ("llc.ways", "48"),
        ("llc.replacement", "lru"),
    ];
    with_two_memories(&config.with_timed_overrides(&set).expect("it runs")).expect("it runs")
}

fn simulate(config: &Config, name: &str, accesses: u64, placement: Where) -> machine::TimedFigures {
    let mut placed = Placed::new(config, placement).expect("it runs");
    programs::run(name, accesses, 1, &mut placed).expect("it runs");
    placed.figures()
}

fn model(config: &Config, name: &str, accesses: u64) -> Model {
    let ways = candidate_ways(config.llc.ways);
    let mut profiler = Profiler::new(config, &ways).expect("it runs");
    programs::run(name, accesses, 1, &mut profiler).expect("it runs");
    let (fewest, most) = (ways[0], ways[ways.len() - 1]);
    let run = |ways: u32, tier: usize| {
        let place = if tier == 0 { Where::Fast } else { Where::Slow };
        Reference::of(&simulate(&with_ways(config, ways), name, accesses, place), ways, tier)
    };
    let references = vec![run(fewest, 0), run(most, 0), run(most, 1)];
    Model::fit(profiler.profile(), measure(config).expect("it runs").into(), references).expect("it runs")
}

/// Prints errors. `STRANDLINE_EVERY=9` and `STRANDLINE_ACCESSES=120000` are those of `docs/lab`; every 1st are all 77 configurations.
#[test]
fn most_configurations_are_within_ten_percent() {
    let every: usize =
        std::env::var("STRANDLINE_EVERY").ok().and_then(|every| every.parse().ok()).unwrap_or(37);
    let accesses: u64 =
        std::env::var("STRANDLINE_ACCESSES").ok().and_then(|all| all.parse().ok()).unwrap_or(60_000);
    let preset = std::env::var("STRANDLINE_PRESET").unwrap_or_else(|_| "cascade-lake".to_owned());
    let config = small(&preset);
    let (mut all, mut good, mut covered, mut source_good) = (0, 0, 0, 0);
    for name in programs::ALL {
        let model = model(&config, name, accesses);
        let mut worst = (0.0f64, String::new());
        let (mut sum, mut source_sum, mut count) = (0.0, 0.0, 0);
        for candidate in candidates(&model).into_iter().skip(3).step_by(every) {
            let placement = Placement::coldest_first(model.profile(), &candidate.parts);
            let predicted = model.predict(candidate.at, &placement);
            let figures = simulate(&with_ways(&config, candidate.ways), name, accesses, Where::By(placement));
            let truth = figures.elapsed.ns();
            let error = predicted.ns / truth - 1.0;
            let source = predicted.source_ns / truth - 1.0;
            all += 1;
            count += 1;
            good += i32::from(error.abs() <= 0.1);
            source_good += i32::from(source.abs() <= 0.1);
            covered += i32::from((predicted.low_ns..=predicted.high_ns).contains(&truth));
            sum += error.abs();
            source_sum += source.abs();
            if error.abs() > worst.0.abs() {
                worst = (error, format!("slow {:.1} ways {}", candidate.parts[1], candidate.ways));
            }
        }
        println!(
            "{name:<10} {good}/{all} mean {:.3} source {:.3} worst {:+.3} at {}  [{:?}]",
            sum / f64::from(count),
            source_sum / f64::from(count),
            worst.0,
            worst.1,
            model.references().iter().map(|one| (one.elapsed_ns / 1e3) as u64).collect::<Vec<_>>()
        );
    }
    println!(
        "{all} configurations: {good} within 10 % ({source_good} by the source's model), {covered} in their interval"
    );
    // Measured: 76 % of 90 longer runs. The aim is 95 %; docs/plan.md has the cause.
    assert!(good * 2 >= all, "{good} of {all}");
}
