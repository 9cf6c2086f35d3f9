//! `strandline measure`: what a memory is really like, measured here or on a modelled machine.

use std::path::Path;

use ::measure::{RealMemory, Study};
use anyhow::bail;
use machine::Config;
use pmem::probe::Placement;
use session::{Measure, Measurements, Memory};

use crate::measure_args::MeasureArgs;
use crate::progress::terminal;
use crate::{command_line, say, warn};

/// Runs the verb.
pub fn run(args: &MeasureArgs) -> anyhow::Result<()> {
    if args.studies == ["list"] {
        let line = |study: Study| format!("{:<18}{}\n", study.name, study.summary);
        let device =
            ::unified::micro::STUDIES.map(|(name, summary)| format!("{name:<18}{summary} (--on gpu)\n"));
        return say(&(Study::all().into_iter().map(line).collect::<String>() + &device.concat()));
    }
    if let Some(device) = crate::unified::named(&args.on) {
        return crate::unified::measure(args, device);
    }
    if args.calibrate {
        return calibrate();
    }
    refuse_without_effect(args)?;
    if let Some(file) = &args.derive_curve {
        return derive_curve(args, file);
    }
    let measure = Measure {
        memory: memory(args)?,
        studies: args.studies.clone(),
        parameters: args.parameters.chosen()?,
        sweep: args.sweep.clone(),
    };
    let found = measure.run(terminal())?;
    if args.csv && !args.json {
        // The table has no column for them.
        found.smaller().iter().for_each(|caution| warn(caution));
    }
    publish(args, &found)
}

/// Measures this machine's latencies for the machine `host` and keeps them.
fn calibrate() -> anyhow::Result<()> {
    let (file, kept) = session::calibrate::calibrate().map_err(anyhow::Error::msg)?;
    let [l1, l2, llc, memory] = kept.loads_ns;
    say(&format!(
        "A load takes {l1:.1} ns from the first-level cache (timing included), {l2:.1} from the second, {llc:.1} from the last, \
         {memory:.1} from memory, {:.1} from another core's cache. A walk of the page tables adds {:.1} ns; a block from the allocator \
         and back takes {:.1} ns. All cores together read {:.1} GB/s.\nKept in {}; the machine `host` has them from now on.\n",
        kept.forward_ns,
        kept.walk_ns,
        kept.alloc_ns,
        kept.read_gbps,
        file.display()
    ))
}

/// Options that the chosen memory has no use for are refused, not ignored.
fn refuse_without_effect(args: &MeasureArgs) -> anyhow::Result<()> {
    let (wrong, right) = if args.on == "real" {
        (args.model.given(), "a modelled machine: give one with --on")
    } else {
        (args.real.given(), "this machine's memory: leave out --on, or say --on real")
    };
    match wrong {
        Some(option) => bail!("{option} is for {right}"),
        None => Ok(()),
    }
}

fn memory(args: &MeasureArgs) -> anyhow::Result<Memory> {
    if args.on != "real" {
        let (events, other_memory) = (args.model.events, args.model.other_memory);
        return Ok(Memory::Model { config: Box::new(config(args)?), events, other_memory });
    }
    let given = &args.real;
    let placement = match (&given.file, &given.dax) {
        (Some(file), _) => Placement::File(file.clone()),
        (None, Some(device)) => Placement::Device(device.clone()),
        (None, None) => Placement::Anonymous,
    };
    let memory = RealMemory {
        placement,
        node: given.node,
        cpus: given.cpus.clone(),
        interleave: given.interleave,
        limit: given.memory_limit.map(|limit| limit.0),
    };
    Ok(Memory::Real { memory, runtime: given.runtime, repeats: given.repeat })
}

/// The machine of the command line.
fn config(args: &MeasureArgs) -> anyhow::Result<Config> {
    let given = &args.model;
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => bail!("--set {text}: write KEY=VALUE, as in device.buffer.lines=128"),
    };
    let changes = given.set.iter().map(pair).collect::<anyhow::Result<Vec<_>>>()?;
    let mut config = session::host::load(&args.on)?.with_timed_overrides(&changes)?;
    config.seed = given.seed.unwrap_or(config.seed);
    Ok(config)
}

/// Writes the curves of the machine's device.
fn derive_curve(args: &MeasureArgs, file: &Path) -> anyhow::Result<()> {
    if args.on == "real" {
        bail!("--derive-curve is for a modelled machine: give one with --on");
    }
    if let Some(parameter) = args.parameters.chosen()?.keys().next() {
        bail!("--{} changes nothing in --derive-curve", parameter.name());
    }
    let config = config(args)?;
    session::derive_curve(&config, file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    say(&format!(
        "Curves of one DIMM of {} are in {}. A machine file beside it uses them with:\n\n\
         [device.timing]\nkind = \"curve\"\nfile = \"{name}\"\nwindow = \"1us\"\n",
        config.name,
        file.display()
    ))
}

/// Writes files and prints.
fn publish(args: &MeasureArgs, found: &Measurements) -> anyhow::Result<()> {
    if let Some(folder) = &args.out {
        session::make_folder(folder)?;
        let (page, json) = (found.html(command_line()), found.json(command_line())?);
        for (name, text) in [("measure.html", page), ("measure.csv", found.csv()), ("measure.json", json)] {
            session::write(&folder.join(name), &text)?;
        }
    }
    if args.json {
        return say(&found.json(command_line())?);
    }
    if args.csv {
        return say(&found.csv());
    }
    let mut text = found.text();
    if let Some(folder) = &args.out {
        text.push_str(&format!("\nThe page: {}", folder.join("measure.html").display()));
    }
    say(&(text.trim_end().to_owned() + "\n"))
}
