//! `report.json`: every number, for other programs. `docs/report-json.md` describes each field.

use std::collections::BTreeSet;

use event::{Counts, Frame, Sampling, SiteId, SiteTable};
use machine::{CacheFigures, MemoryFigures, SiteFigures, Slice, Traffic};
use serde::Serialize;

use crate::costs::{Costs, PhaseMark};
use crate::crashes::CrashFinding;
use crate::digest::Digest;
use crate::lints::LintJson;
use crate::model::{CaptureStats, Exit, Report, Samples, Skipped, Subject, Withheld, WriteSizes};
use crate::prestores::PrestoresJson;
use crate::structures::{Structure, Trial};
use crate::wear::WearJson;

/// Version of the schema of [`json()`]. It grows when a field changes its meaning or goes away; new fields
/// may come without it.
pub const SCHEMA: u32 = 1;

/// The report as JSON, indented, with a line break at its end.
///
/// # Panics
/// Never: the structure has no map keys but strings.
#[must_use]
pub fn json(report: &Report) -> String {
    let document = Document::new(report);
    let mut text = serde_json::to_string_pretty(&document).expect("plain structures serialise");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    strandline: &'a str,
    summary: SummaryJson,
    run: RunJson<'a>,
    source: SourceJson<'a>,
    counts: Counts,
    machine: MachineJson<'a>,
    findings: Vec<FindingJson<'a>>,
    withheld: &'a [Withheld],
    sites: Vec<SiteJson<'a>>,
    contexts: Vec<ContextJson<'a>>,
    prestores: Option<PrestoresJson<'a>>,
    wear: Option<WearJson<'a>>,
    write_sizes: Option<&'a WriteSizes>,
    capture: Option<&'a CaptureStats>,
    samples: Option<&'a Samples>,
    structures: &'a [Structure],
    trials: &'a [Trial],
    modelled: Option<&'a Costs>,
    phases: &'a [PhaseMark],
    crash_lints: Option<Vec<LintJson>>,
    crash_findings: Option<&'a [CrashFinding]>,
}

#[derive(Serialize)]
struct SummaryJson {
    headline: String,
    story: String,
    scope: String,
    focus: &'static str,
    cautions: Vec<String>,
}

#[derive(Serialize)]
struct RunJson<'a> {
    subject: &'a Subject,
    reproduce: &'a [String],
    seed: Option<u64>,
    date: &'a str,
    host: &'a str,
    exit: &'a Exit,
    duration_seconds: f64,
    warnings: &'a [String],
    skipped: &'a [Skipped],
}

#[derive(Serialize)]
struct SourceJson<'a> {
    producer: &'a str,
    sees: Vec<String>,
    instructions: &'static str,
    sampling: Option<Sampling>,
}

#[derive(Serialize)]
struct MachineJson<'a> {
    name: &'a str,
    unit_bytes: u32,
    dimms: u32,
    threads: u32,
    mapped_persistent: bool,
    held_nt_bytes: u64,
    caches: &'a [CacheFigures],
    persistent: MemoryJson<'a>,
    volatile: MemoryJson<'a>,
    timeline: &'a [Slice],
}

#[derive(Serialize)]
struct MemoryJson<'a> {
    total: TrafficJson,
    per_dimm: Vec<TrafficJson>,
    writers_per_dimm: &'a [u32],
    page_collisions: u64,
    partial_line_writes: u64,
    held_dirty_bytes: u64,
    media_write_fill: &'a [u64],
}

#[derive(Serialize)]
struct TrafficJson {
    #[serde(flatten)]
    traffic: Traffic,
    ewr: Option<f64>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    rule: &'static str,
    title: &'a str,
    evidence: &'a str,
    remedy: &'a str,
    share: f64,
    share_of: &'a str,
    gain: Option<f64>,
    sites: Vec<PartJson>,
}

#[derive(Serialize)]
struct PartJson {
    site: u32,
    label: String,
    called_from: Option<String>,
    share: f64,
}

#[derive(Serialize)]
struct SiteJson<'a> {
    id: u32,
    label: String,
    frames: &'a [Frame],
    module: &'a str,
    address: u64,
    #[serde(flatten)]
    figures: &'a SiteFigures,
}

/// Calls under way, the last one first.
#[derive(Serialize)]
struct ContextJson<'a> {
    id: u32,
    frames: &'a [Frame],
}

impl<'a> Document<'a> {
    fn new(report: &'a Report) -> Document<'a> {
        Document {
            schema: SCHEMA,
            strandline: &report.run.version,
            summary: summary(report),
            run: run(report),
            source: source(report),
            counts: report.counts,
            machine: machine(report),
            findings: findings(report),
            withheld: &report.withheld,
            sites: sites(report),
            contexts: contexts(report),
            prestores: report.prestores.as_ref().map(PrestoresJson::new),
            wear: report.wear.as_ref().map(|wear| WearJson::new(wear, &report.sites)),
            write_sizes: report.write_sizes.as_ref(),
            capture: report.capture.as_ref(),
            samples: report.samples.as_ref(),
            structures: &report.structures,
            trials: &report.trials,
            modelled: report.costs.as_ref(),
            phases: &report.phases,
            crash_lints: report.crash_lints.as_ref().map(|lints| lints.json(&report.sites)),
            crash_findings: report.crash_findings.as_ref().map(|crashes| &*crashes.findings),
        }
    }
}

fn summary(report: &Report) -> SummaryJson {
    let digest = Digest::new(report);
    SummaryJson {
        headline: digest.headline(),
        story: digest.story(),
        scope: digest.scope(),
        focus: if report.figures.mapped_persistent { "persistent" } else { "volatile" },
        cautions: digest.cautions(),
    }
}

fn run(report: &Report) -> RunJson<'_> {
    let run = &report.run;
    RunJson {
        subject: &run.subject,
        reproduce: &run.reproduce,
        seed: run.seed,
        date: &run.date,
        host: &run.host,
        exit: &run.exit,
        duration_seconds: run.duration.as_secs_f64(),
        warnings: &run.warnings,
        skipped: &run.skipped,
    }
}

fn source(report: &Report) -> SourceJson<'_> {
    let source = &report.source;
    SourceJson {
        producer: &source.producer,
        sees: source.capabilities.iter_names().map(|(name, _)| name.to_lowercase()).collect(),
        instructions: match source.instructions {
            event::InstructionCounts::Unknown => "unknown",
            event::InstructionCounts::Estimated => "estimated",
            event::InstructionCounts::Exact => "exact",
        },
        sampling: source.sampling,
    }
}

fn machine(report: &Report) -> MachineJson<'_> {
    let figures = &report.figures;
    MachineJson {
        name: &figures.machine,
        unit_bytes: figures.unit_bytes,
        dimms: figures.dimms,
        threads: figures.threads,
        mapped_persistent: figures.mapped_persistent,
        held_nt_bytes: figures.held_nt_bytes,
        caches: &figures.caches,
        persistent: memory(&figures.persistent),
        volatile: memory(&figures.volatile),
        timeline: &figures.timeline,
    }
}

fn memory(memory: &MemoryFigures) -> MemoryJson<'_> {
    let with_ewr = |traffic: &Traffic| TrafficJson { traffic: *traffic, ewr: traffic.ewr() };
    // Named one by one, so that a new figure can't be forgotten here.
    let MemoryFigures {
        total,
        per_dimm,
        writers_per_dimm,
        page_collisions,
        partial_line_writes,
        held_dirty_bytes,
        media_write_fill,
    } = memory;
    MemoryJson {
        total: with_ewr(total),
        per_dimm: per_dimm.iter().map(with_ewr).collect(),
        writers_per_dimm,
        page_collisions: *page_collisions,
        partial_line_writes: *partial_line_writes,
        held_dirty_bytes: *held_dirty_bytes,
        media_write_fill,
    }
}

fn findings(report: &Report) -> Vec<FindingJson<'_>> {
    let part = |part: &advise::SiteShare| PartJson {
        site: part.site.0,
        label: report.sites.label(part.site),
        called_from: report
            .costs
            .as_ref()
            .and_then(|costs| costs.caller(part.site, &report.sites))
            .map(ToString::to_string),
        share: part.share,
    };

    report
        .findings
        .iter()
        .map(|f| FindingJson {
            rule: f.rule.name(),
            title: &f.title,
            evidence: &f.evidence,
            remedy: &f.remedy,
            share: f.share,
            share_of: &f.share_of,
            gain: report.gain(f),
            sites: f.sites.iter().map(part).collect(),
        })
        .collect()
}

/// Sites that did something; the others would only repeat the program's line table.
fn sites(report: &Report) -> Vec<SiteJson<'_>> {
    (0u32..)
        .zip(&report.figures.sites)
        .filter(|(_, figures)| **figures != SiteFigures::default())
        .map(|(number, figures)| site(&report.sites, SiteId(number), figures))
        .collect()
}

/// The call stacks that costs and structures name.
fn contexts(report: &Report) -> Vec<ContextJson<'_>> {
    let costs = report.costs.iter().flat_map(|costs| &costs.stacks).map(|of| of.context);
    let structures = report.structures.iter().flat_map(|one| &one.stacks).map(|of| of.context);
    let all: BTreeSet<u32> = costs.chain(structures).collect();
    let of = |id| Some(ContextJson { id, frames: &report.sites.site(SiteId(id))?.frames });
    all.into_iter().filter_map(of).collect()
}

fn site<'a>(table: &'a SiteTable, id: SiteId, figures: &'a SiteFigures) -> SiteJson<'a> {
    let site = table.site(id);
    SiteJson {
        id: id.0,
        label: table.label(id),
        frames: site.map_or(&[], |site| site.frames.as_slice()),
        module: site.map_or("", |site| site.module.as_str()),
        address: site.map_or(0, |site| site.address),
        figures,
    }
}
