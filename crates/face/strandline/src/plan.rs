//! `strandline plan`: which tiers, how much of each, how much cache.

use anyhow::bail;
use session::{Chosen, Fleet, Input, PlanGroup, PlanSource, Planning, Program, Survey};

use crate::plan_args::{GroupName, PlanArgs, PlanCommand, SourceName};
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
    let input = args.input.input(&args.observe, args.seed, 1, args.json)?;
    let source = source(args.source);
    match &input {
        Input::Program(program) if source.without_events(program)? => return survey(args, program, source),
        Input::Program(_) => {}
        _ if args.source != SourceName::Auto => {
            bail!("--source says how to look at a program; give one, as in `-- PROG ARGS`")
        }
        _ => {}
    }
    if args.apply || args.kinds.is_some() {
        bail!(
            "--apply and --kinds are for programs that run as they are: give one with --source referenced (a plan from events is carried \
             out by sl_tier, or by the printed commands)"
        );
    }
    let planning = Planning {
        tiers: args.tiers.iter().map(Chosen::new).collect(),
        prices: args.prices.clone(),
        tolerance: args.tolerance,
        footprint: args.footprint.map(|size| size.0),
        verify: args.verify,
        seed: args.seed,
        group: group(args.group),
        ..Planning::new(input)
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

/// A plan from use of pages.
fn survey(args: &PlanArgs, program: &Program, source: PlanSource) -> anyhow::Result<()> {
    if args.verify > 0 {
        bail!("--verify simulates the program, which needs its events: build it with `strandline cc`");
    }
    let [tiers] = &args.tiers[..] else {
        bail!("one slow tier with --source {}: give --tiers once", source.name())
    };
    let survey = Survey {
        tiers: Chosen::new(tiers),
        prices: args.prices.clone(),
        footprint: args.footprint.map(|size| size.0),
        group: group(args.group),
        kinds: args.kinds.clone(),
        apply: args.apply,
        ..Survey::new(program.clone(), source)
    };
    let surveyed = survey.run(terminal())?;
    session::make_folder(&args.out)?;
    let file = |name: &str| args.out.join(name);
    let json = surveyed.json()?;
    session::write(&file("plan.html"), &surveyed.html())?;
    session::write(&file("plan.json"), &json)?;
    session::write(&file("plan.kinds"), &surveyed.kinds())?;
    if args.json {
        return say(&json);
    }
    let [page, numbers, kinds] = ["plan.html", "plan.json", "plan.kinds"].map(file);
    say(&format!(
        "{}\nThe page: {}   the numbers: {}   kinds by site: {}\n",
        surveyed.text(),
        page.display(),
        numbers.display(),
        kinds.display()
    ))
}

fn group(name: GroupName) -> PlanGroup {
    match name {
        GroupName::Stack => PlanGroup::Stack,
        GroupName::Type => PlanGroup::Type,
        GroupName::Tag => PlanGroup::Tag,
    }
}

fn source(name: SourceName) -> PlanSource {
    match name {
        SourceName::Auto => PlanSource::Auto,
        SourceName::Events => PlanSource::Events,
        SourceName::Referenced => PlanSource::Referenced,
        SourceName::Written => PlanSource::Written,
        SourceName::Protect => PlanSource::Protect,
        SourceName::Sampled => PlanSource::Sampled,
        SourceName::Damon => PlanSource::Damon,
        SourceName::Counters => PlanSource::Counters,
    }
}
