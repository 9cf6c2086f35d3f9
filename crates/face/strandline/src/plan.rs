//! `strandline plan`: which tiers, how much of each, how much cache.

use session::{Chosen, Fleet, Planning};

use crate::plan_args::{PlanArgs, PlanCommand};
use crate::progress::terminal;
use crate::{profile, say};

/// Runs the verb.
pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    if let Some(PlanCommand::Fleet(args)) = &args.command {
        let fleets = Fleet { file: args.file.clone(), seed: args.seed }.run()?;
        return say(&if args.json { fleets.json()? } else { fleets.text() });
    }
    if args.tiers.iter().any(|tier| tier == "list") {
        return profile::list_machines();
    }
    if args.input.lists_workloads() {
        return profile::list_workloads();
    }
    let planning = Planning {
        tiers: args.tiers.iter().map(Chosen::new).collect(),
        prices: args.prices.clone(),
        tolerance: args.tolerance,
        footprint: args.footprint.map(|size| size.0),
        verify: args.verify,
        seed: args.seed,
        ..Planning::new(args.input.input(&args.observe, args.seed, 1, args.json)?)
    };
    let planned = planning.run(terminal())?;
    session::make_folder(&args.out)?;
    let (page, numbers) = (args.out.join("plan.html"), args.out.join("plan.json"));
    let json = planned.json()?;
    session::write(&page, &planned.html())?;
    session::write(&numbers, &json)?;
    if args.json {
        return say(&json);
    }
    say(&format!("{}\nThe page: {}   the numbers: {}\n", planned.text(), page.display(), numbers.display()))
}
