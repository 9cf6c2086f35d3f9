//! `strandline wear`: when a memory wears out, what wears it, and what levelling gives.

use ::wear::CopyCost;
use ::wear::estimate::Swap;
use ::wear::level::{Attack, Temporary};
use session::{Chosen, Wear, WearLevel, WearRun};

use crate::progress::terminal;
use crate::wear_args::{Attacks, Copies, LevelArgs, RunArgs, Swaps, Temporaries, WearArgs, WearCommand};
use crate::{profile, say};

/// Runs the verb.
pub fn run(args: &WearArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(WearCommand::Level(args)) => return level(args),
        Some(WearCommand::Run(args)) => return managed(args),
        None => {}
    }
    if args.machine == "list" {
        return profile::list_machines();
    }
    if args.input.lists_workloads() {
        return profile::list_workloads();
    }
    let estimate = Wear {
        machine: args.chosen(),
        seed: args.seed,
        endurance: args.endurance,
        goal: args.goal.as_secs_f64(),
        page: args.page.0,
        capacity: args.capacity.map(|size| size.0),
        duration: args.duration,
        copies: match args.copies {
            Copies::Lines => CopyCost::Lines,
            Copies::Location => CopyCost::Location,
        },
        accuracy: args.accuracy,
        swap: match args.swap {
            Swaps::Misses => Swap::Misses,
            Swaps::Insertions => Swap::Insertions,
        },
        sampled: args.sampled,
        ..Wear::new(args.input.input(&args.observe, args.seed, 1, args.json)?)
    };
    let worn = estimate.run(terminal())?;
    session::make_folder(&args.out)?;
    let (page, numbers) = (args.out.join("wear.html"), args.out.join("wear.json"));
    let json = worn.json()?;
    session::write(&page, &worn.html())?;
    session::write(&numbers, &json)?;
    if args.json {
        return say(&json);
    }
    say(&format!("{}\nThe page: {}   the numbers: {}\n", worn.text(), page.display(), numbers.display()))
}

fn managed(args: &RunArgs) -> anyhow::Result<()> {
    let run = WearRun {
        goal: args.goal.as_secs_f64(),
        endurance: args.endurance,
        capacity: args.capacity.0,
        page: args.page.0,
        from: args.from.0,
        interval: args.interval,
        ticks: args.ticks,
        limit: args.limit,
        shuffle: args.shuffle_every,
        pm: args.pm.clone(),
        nodes: args.nodes,
        stdout_to_stderr: args.json,
        ..WearRun::new(args.program.clone())
    };
    let ran = run.run()?;
    say(&if args.json { ran.json()? } else { ran.text() })
}

fn level(args: &LevelArgs) -> anyhow::Result<()> {
    let level = WearLevel {
        machine: Chosen::new(&args.machine),
        stores: args.stores,
        attack: args.attack.map(|attack| match attack {
            Attacks::Hammer => Attack::Hammer,
            Attacks::Birthday => Attack::Birthday,
            Attacks::Uniform => Attack::Uniform,
            Attacks::Sequential => Attack::Sequential,
        }),
        policies: args.policy.clone(),
        unit: args.unit.0,
        page: args.page.0,
        capacity: args.capacity.map(|size| size.0),
        writes: args.writes,
        endurance: args.endurance,
        shuffle_every: args.shuffle_every,
        interval: args.interval,
        temporary: match args.temporary {
            Temporaries::Dram => Temporary::Dram,
            Temporaries::Spare => Temporary::Spare,
            Temporaries::Fixed => Temporary::Fixed,
        },
        seed: args.seed,
        ..WearLevel::new(args.input.input(&args.observe, Some(args.seed), 1, args.json)?)
    };
    let results = level.run(terminal())?;
    say(&if args.json { results.json()? } else { results.text() })
}
