//! `strandline simulate`: the same events on one or several machines with time, side by side.

use session::Simulate;

use crate::cli::SimulateArgs;
use crate::progress::terminal;
use crate::{profile, say};

/// Runs the verb.
pub fn run(args: &SimulateArgs) -> anyhow::Result<()> {
    if args.machines.chosen.iter().any(|chosen| chosen.machine == "list") {
        return profile::list_machines();
    }
    if args.input.lists_workloads() {
        return profile::list_workloads();
    }
    let mut machines = args.machines.chosen.clone();
    if !args.persistency.is_empty() && !args.machines.named {
        // Designs are compared on one machine, if the user does not say otherwise.
        machines.retain(|chosen| chosen.machine == "xpoint");
    }
    let simulate = Simulate {
        input: args.input.input(&args.observe, args.seed, args.threads, args.json)?,
        machines,
        persistency: args.persistency.clone(),
        language: args.map_regions,
        seed: args.seed,
    };
    let comparison = simulate.run(terminal())?;
    session::make_folder(&args.out)?;
    let (page, numbers) = (args.out.join("simulate.html"), args.out.join("simulate.json"));
    let json = comparison.json()?;
    session::write(&page, &comparison.html())?;
    session::write(&numbers, &json)?;
    if args.json {
        return say(&json);
    }
    let (page, numbers) = (page.display(), numbers.display());
    say(&format!("{}\nThe page: {page}   the numbers: {numbers}\n", comparison.text()))
}
