//! Phases of the modelled run in which memory gives as much as it can, and what cores wait for in them.

use advise::{Finding, Rule, SiteShare};
use event::{Batch, Event, Op, Sink, SiteId, SiteTable, Source, ThreadId};
use machine::{Config, Simulation, Span, Stalls, Time, TimedFigures};

/// Part of what all cores together can move that is nearly all.
const NEAR: f64 = 0.75;
/// Part of the time that such phases must take.
const LONG: f64 = 0.1;
/// Lines that each core reads to find out what memory can give.
const LINES: u64 = 16_384;

/// What a run says.
pub(crate) fn check(
    run: &TimedFigures,
    config: &Config,
    sites: &SiteTable,
    sites_max: usize,
) -> Option<Finding> {
    let most = stream(config)?;
    let (mut from, mut before) = (Time::ZERO, false);
    let (mut time, mut phases, mut bytes) = (Time::ZERO, 0, 0);
    let mut stalls = Stalls::default();
    for slice in &run.timeline {
        let long = slice.end.since(from);
        let moved = moved(&slice.span);
        let busy = long > Time::ZERO && moved as f64 / long.0 as f64 >= most * NEAR;
        if busy {
            (time, bytes) = (time + long, bytes + moved);
            phases += u32::from(!before);
            stalls.add(&slice.span.stalls);
        }
        (from, before) = (slice.end, busy);
    }
    let share = time.0 as f64 / run.elapsed.0.max(1) as f64;
    if share < LONG {
        return None;
    }
    // What cores wait for, the longest first.
    let mut causes = stalls.each().to_vec();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.1));
    let all = stalls.total().0.max(1) as f64;
    let waits: Vec<String> = causes
        .iter()
        .filter(|cause| cause.1.0 as f64 >= all * 0.1)
        .map(|(name, time)| format!("{name} {:.0} %", time.0 as f64 / all * 100.0))
        .collect();
    let mut by_site: Vec<(u32, u64)> =
        (0u32..).zip(run.site_stalls.iter().map(|time| time.0)).filter(|site| site.1 > 0).collect();
    by_site.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let total: u64 = by_site.iter().map(|site| site.1).sum();
    let part =
        |&(site, time): &(u32, u64)| SiteShare { site: SiteId(site), share: time as f64 / total as f64 };
    let parts: Vec<SiteShare> = by_site.iter().take(sites_max).map(part).collect();
    let first = sites.label(parts.first()?.site);
    Some(Finding {
        rule: Rule::BandwidthBound,
        title: "Memory gives as much as it can".to_owned(),
        evidence: format!(
            "In {phases} phase{} of the modelled run, {:.0} % of its time, {:.1} GB/s move, of {:.1} that all {} cores can read \
             together. Cores wait for: {}. Most of it is behind {first}.",
            if phases == 1 { "" } else { "s" },
            share * 100.0,
            bytes as f64 / time.0.max(1) as f64 * 1000.0,
            most * 1000.0,
            config.cores.count,
            if waits.is_empty() { "nothing much".to_owned() } else { waits.join(", ") },
        ),
        remedy: "Move fewer bytes: smaller types, only the fields in use, loops over the same data fused or blocked to the caches, \
                 non-temporal stores for what is not read again. More threads gain nothing here."
            .to_owned(),
        share,
        share_of: "modelled time".to_owned(),
        sites: parts,
    })
}

fn moved(span: &Span) -> u64 {
    span.traffic.iter().map(|of| of.controller_read_bytes + of.controller_write_bytes).sum()
}

/// Bytes per picosecond that all cores read together, each its own lines in order.
fn stream(config: &Config) -> Option<f64> {
    let mut machine = Simulation::new(config).ok()?;
    machine.begin(&Source::synthetic("trial")).ok()?;
    let cores = config.cores.count.min(64);
    for core in 0..cores {
        let load = |line: u64| Event {
            op: Op::Load { addr: ((u64::from(core) + 1) << 32) + line * 64, len: 8 },
            site: SiteId(0),
            instructions: 4,
        };
        let events: Vec<Event> = (0..LINES).map(load).collect();
        machine.push(Batch { thread: ThreadId(core), time_ns: 0, events: &events, values: &[] }).ok()?;
    }
    machine.finish().ok()?;
    let figures = machine.figures();
    let bytes: u64 = figures.memories.iter().map(|memory| memory.total.controller_read_bytes).sum();
    (figures.elapsed > Time::ZERO).then(|| bytes as f64 / figures.elapsed.0 as f64)
}
