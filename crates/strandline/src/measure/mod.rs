//! `strandline measure`: what a memory is really like, measured here or on a modelled machine.

pub mod args;
mod page;
mod points;
mod views;

use std::collections::BTreeMap;
use std::path::Path;

use ::measure::{
    Bench, Header, Measurement, Model, Parameter, Point, Real, RealMemory, Results, Setting, Study, sweep,
};
use anyhow::{Context, bail};
use machine::Config;
use machine::device::curve::{Derive, derive};
use pmem::probe::Placement;
use serde_json::json;

use self::args::MeasureArgs;
use crate::{files, say};

/// What is measured.
pub enum Target {
    /// This machine's memory.
    Real(Box<Real>),
    /// A modelled machine's.
    Model(Box<Model>),
}

impl Target {
    fn bench(&self) -> &dyn Bench {
        match self {
            Target::Real(real) => &**real,
            Target::Model(model) => &**model,
        }
    }
}

/// A run's results with what belongs to them.
pub struct Told {
    /// What was measured.
    pub subject: String,
    /// What to know before believing the figures.
    pub cautions: Vec<String>,
    /// The studies, as they were run.
    pub studies: Vec<Study>,
    /// Their points.
    pub measured: Vec<Measurement>,
}

/// Runs the verb.
pub fn run(args: &MeasureArgs) -> anyhow::Result<()> {
    if args.studies == ["list"] {
        let line = |study: Study| format!("{:<18}{}\n", study.name, study.summary);
        return say(&Study::all().into_iter().map(line).collect::<String>());
    }
    refuse_without_effect(args)?;
    if let Some(file) = &args.derive_curve {
        return derive_curve(args, file);
    }
    let studies = chosen_studies(args)?;
    let points: Vec<Point> = studies.iter().flat_map(Study::points).collect();
    refuse_impossible(&studies)?;
    let (mut target, parameters) = target(args)?;
    let subject = target.bench().subject();
    let measured = match &args.sweep {
        Some(file) => swept(args, file, &subject, parameters, &mut target, &points)?,
        None => {
            let mut measured = Vec::new();
            points::each(&mut target, &points, |measurement| {
                measured.push(measurement);
                Ok(())
            })?;
            measured
        }
    };
    let mut cautions = target.bench().cautions();
    cautions.extend(views::smaller(&measured));
    if args.csv && !args.json {
        // The table has no place for them.
        views::smaller(&measured).iter().for_each(|caution| crate::warn(caution));
    }
    let told = Told { subject, cautions, studies, measured };
    publish(args, &told)
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

/// A study of which no point can be done is a mistake; single points that can't are skipped.
fn refuse_impossible(studies: &[Study]) -> anyhow::Result<()> {
    for study in studies {
        let faults: Vec<Option<String>> = study.points().iter().map(|point| point.task.fault()).collect();
        if let Some(Some(fault)) = faults.first().filter(|_| faults.iter().all(Option::is_some)) {
            bail!("{}: {fault}", study.name);
        }
    }
    Ok(())
}

/// The studies with the parameters of the command line.
fn chosen_studies(args: &MeasureArgs) -> anyhow::Result<Vec<Study>> {
    let all = if args.sweep.is_some() { sweep() } else { Study::all() };
    let named: Vec<&str> = args.studies.iter().map(String::as_str).collect();
    let named = match named.as_slice() {
        [] if args.sweep.is_none() => Study::OVERVIEW.to_vec(),
        [] | ["all"] => all.iter().map(|study| study.name).collect(),
        names => names.to_vec(),
    };
    if let Some(word) = args.studies.iter().find(|name| *name == "all" || *name == "list")
        && args.studies.len() > 1
    {
        bail!("`{word}` stands for itself: name no study beside it");
    }
    let chosen = args.parameters.chosen()?;
    let mut used: Vec<Parameter> = Vec::new();
    let mut studies: Vec<Study> = Vec::new();
    for name in named {
        let Some(study) = all.iter().find(|study| study.name == name).cloned().or_else(|| Study::find(name))
        else {
            let names: Vec<&str> = all.iter().map(|study| study.name).collect();
            bail!("no study `{name}`; there are {}", names.join(", "));
        };
        if studies.iter().any(|other| other.name == name) {
            bail!("the study {name} is named twice");
        }
        let matters =
            |parameter: &Parameter| study.points().iter().any(|point| parameter.matters_to(&point.task));
        let own: BTreeMap<Parameter, Vec<Setting>> = chosen
            .iter()
            .filter(|(parameter, _)| matters(parameter))
            .map(|(p, values)| (*p, values.clone()))
            .collect();
        used.extend(own.keys());
        studies.push(study.with(&own));
    }
    if let Some(idle) = chosen.keys().find(|parameter| !used.contains(parameter)) {
        let names: Vec<&str> = studies.iter().map(|study| study.name).collect();
        bail!("--{} changes nothing in {}", idle.name(), names.join(", "));
    }
    Ok(studies)
}

/// The memory to measure, and everything that its figures depend on.
fn target(args: &MeasureArgs) -> anyhow::Result<(Target, BTreeMap<String, serde_json::Value>)> {
    if args.on == "real" { real(args) } else { model(args) }
}

fn real(args: &MeasureArgs) -> anyhow::Result<(Target, BTreeMap<String, serde_json::Value>)> {
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
    let twice = |(at, cpu): &(usize, &usize)| given.cpus[..*at].contains(cpu);
    if let Some((_, cpu)) = given.cpus.iter().enumerate().find(twice) {
        bail!("--cpus names CPU {cpu} twice: each thread has one of its own");
    }
    if let Some(node) = given.node
        && pmem::probe::cpus_of_node(node).is_none()
    {
        bail!("--node {node}: there is no such NUMA node");
    }
    let parameters = json!({
        "node": given.node, "cpus": given.cpus, "interleave": given.interleave.map(|i| (i.dimms, i.bytes)),
        "memory_limit": given.memory_limit, "runtime_ms": given.runtime.map(|time| time.as_secs_f64() * 1e3),
        "repeat": given.repeat, "host": crate::profile::host(),
    });
    let mut real = Real::new(memory);
    if given.runtime.is_some() || given.repeat.is_some() {
        real =
            real.with_runtime(given.runtime.unwrap_or(Real::RUNTIME), given.repeat.unwrap_or(Real::REPEATS));
    }
    Ok((Target::Real(Box::new(real)), pairs(parameters)))
}

/// The machine of the command line.
fn config(args: &MeasureArgs) -> anyhow::Result<Config> {
    let given = &args.model;
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => bail!("--set {text}: write KEY=VALUE, as in device.buffer.lines=128"),
    };
    let changes = given.set.iter().map(pair).collect::<anyhow::Result<Vec<_>>>()?;
    let mut config = Config::load(&args.on)?.with_timed_overrides(&changes)?;
    config.seed = given.seed.unwrap_or(config.seed);
    Ok(config)
}

fn model(args: &MeasureArgs) -> anyhow::Result<(Target, BTreeMap<String, serde_json::Value>)> {
    let given = &args.model;
    let config = config(args)?;
    let mut model = Model::new(&config);
    if let Some(events) = given.events {
        model = model.with_events(events);
    }
    if given.other_memory {
        model = model.of_other_memory();
    }
    let parameters = json!({"machine": config, "events": given.events, "other_memory": given.other_memory});
    Ok((Target::Model(Box::new(model)), pairs(parameters)))
}

fn pairs(object: serde_json::Value) -> BTreeMap<String, serde_json::Value> {
    match object {
        serde_json::Value::Object(map) => map.into_iter().collect(),
        _ => BTreeMap::new(),
    }
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
    let how = Derive { seed: config.seed, ..Derive::default() };
    // Before the long part; what an old file holds stays until there is something new.
    let cannot = || format!("can't write {}", file.display());
    let new = !file.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(file).with_context(cannot)?;
    let curves = derive(&config, &how).map_err(anyhow::Error::from);
    let written = curves.and_then(|curves| files::write(file, &curves.text()).map(|()| curves));
    written.inspect_err(|_| {
        if new {
            // It is empty; what went wrong is told either way.
            let _ = std::fs::remove_file(file);
        }
    })?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    say(&format!(
        "Curves of one DIMM of {} are in {}. A machine file beside it uses them with:\n\n\
         [device.timing]\nkind = \"curve\"\nfile = \"{name}\"\nwindow = \"1us\"\n",
        config.name,
        file.display()
    ))
}

/// Measures what the file does not have yet.
fn swept(
    args: &MeasureArgs,
    file: &Path,
    subject: &str,
    mut parameters: BTreeMap<String, serde_json::Value>,
    target: &mut Target,
    points: &[Point],
) -> anyhow::Result<Vec<Measurement>> {
    let names: Vec<&str> = args.studies.iter().map(String::as_str).collect();
    parameters.insert("studies".to_owned(), json!(names));
    parameters.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    for (parameter, values) in args.parameters.chosen()? {
        let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
        parameters.insert(format!("--{}", parameter.name()), json!(texts));
    }
    let mut results = Results::open(file, &Header::new(subject, parameters))?;
    let left: Vec<Point> = points.iter().filter(|point| !results.has(point)).cloned().collect();
    if left.len() < points.len() {
        crate::warn(&format!(
            "{}: going on; {} of {} points are there",
            file.display(),
            points.len() - left.len(),
            points.len()
        ));
    }
    points::each(target, &left, |measurement| Ok(results.append(&measurement)?))?;
    // In the order of the plan, however often the sweep was interrupted.
    let mut measured = results.measurements().to_vec();
    let place = |m: &Measurement| {
        points.iter().position(|p| p.study == m.study && p.series == m.series && p.x.to_string() == m.at)
    };
    measured.sort_by_cached_key(place);
    Ok(measured)
}

/// Writes files and prints.
fn publish(args: &MeasureArgs, told: &Told) -> anyhow::Result<()> {
    let json = || -> anyhow::Result<String> { Ok(serde_json::to_string_pretty(&page::json(told))? + "\n") };
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
        let page = report::page(&page::page(told));
        for (name, text) in
            [("measure.html", page), ("measure.csv", views::csv(&told.measured)), ("measure.json", json()?)]
        {
            let path = folder.join(name);
            files::write(&path, &text)?;
        }
    }
    if args.json {
        return say(&json()?);
    }
    if args.csv {
        return say(&views::csv(&told.measured));
    }
    let mut text = format!("{}\n", told.subject);
    if args.sweep.is_none() {
        for view in told.views().flat_map(|(_, views)| views) {
            text.push('\n');
            text.push_str(&views::text(&view));
        }
    }
    for reason in views::skipped(&told.measured) {
        text.push_str(&format!("\nskipped: {reason}"));
    }
    for caution in &told.cautions {
        text.push_str(&format!("\nnote: {caution}"));
    }
    if let Some(file) = &args.sweep {
        text.push_str(&format!("\n{} points in {}", told.measured.len(), file.display()));
    }
    if let Some(folder) = &args.out {
        text.push_str(&format!("\nThe page: {}", folder.join("measure.html").display()));
    }
    say(&(text.trim_end().to_owned() + "\n"))
}

impl Told {
    /// Each study with its views.
    pub fn views(&self) -> impl Iterator<Item = (&Study, Vec<views::View>)> {
        self.studies.iter().map(|study| {
            let own: Vec<&Measurement> = self.measured.iter().filter(|m| m.study == study.name).collect();
            (study, views::views(study, &own))
        })
    }
}
