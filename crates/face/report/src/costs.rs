//! What accesses cost by code: misses, bytes and time on the model, as numbers and as flame graphs.

use std::collections::BTreeMap;

use event::{Frame, SiteId, SiteTable};
use maud::{Markup, html};
use serde::Serialize;

use crate::chart::{self, Room};
use crate::human;
use crate::model::Report;

/// Accesses that ran on the modelled machine with time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// How many.
    pub accesses: u64,
    /// Nanoseconds that they took.
    pub elapsed_ns: f64,
    /// What cores stood still for.
    pub waits: Vec<Wait>,
    /// By code.
    pub sites: Vec<SiteCost>,
    /// By code and by who called it; empty where calls were not recorded.
    pub stacks: Vec<StackCost>,
}

/// One code site where it was called from one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StackCost {
    /// The site's number.
    pub site: u32,
    /// Number of the site whose frames are the calls under way, the last one first; 0: not known.
    pub context: u32,
    /// Loads, of the events that were looked at.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Misses of first-level caches.
    pub l1_misses: u64,
    /// Nanoseconds that cores stood still because of it.
    pub stalled_ns: f64,
    /// The site's part of the bytes read from memory, shared out by misses.
    pub read_bytes: u64,
    /// The same of bytes written.
    pub written_bytes: u64,
}

impl Costs {
    /// Whose code of the program's own stands behind a line of C++'s library: what it was compiled into, or
    /// who called it most.
    pub(crate) fn caller<'a>(&self, site: SiteId, sites: &'a SiteTable) -> Option<&'a Frame> {
        let own = |frame: &&Frame| !frame.is_library() && !frame.file.is_empty();
        let known = sites.site(site).filter(|site| site.frame().is_some_and(Frame::is_library))?;
        known.frames.iter().find(own).or_else(|| {
            let of = self.stacks.iter().filter(|of| of.site == site.0 && of.context > 0);
            let most = of.max_by_key(|of| (of.l1_misses, of.loads + of.stores))?;
            sites.site(SiteId(most.context))?.frames.iter().find(own)
        })
    }
}

/// A cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// Its name.
    pub cause: String,
    /// Nanoseconds, of all cores.
    pub ns: f64,
}

/// One code site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteCost {
    /// Its number.
    pub site: u32,
    /// Misses of first-level caches, of the events that were looked at.
    pub l1_misses: u64,
    /// Nanoseconds that cores stood still because of it.
    pub stalled_ns: f64,
}

/// A phase of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseMark {
    /// Its name.
    pub name: String,
    /// Events of the run before it.
    pub events: u64,
    /// Nanoseconds of the observed run before it; 0 without a clock.
    pub time_ns: u64,
}

/// What a site weighs where it is called from another one.
type Weights = Vec<(SiteId, SiteId, f64)>;

/// The page's section: a flame graph by each measure.
pub(crate) fn section(report: &Report) -> Markup {
    let costs = report.costs.as_ref();
    let stacks = costs.map_or(&[][..], |costs| &costs.stacks);
    let bytes = |at: usize| {
        let sites = &report.figures.sites;
        let of = sites.get(at)?;
        Some(
            (of.persistent.read_bytes + of.persistent.controller_write_bytes)
                + (of.volatile.read_bytes + of.volatile.controller_write_bytes),
        )
    };
    let by_stack = |weight: fn(&StackCost) -> f64| -> Weights {
        stacks.iter().map(|of| (SiteId(of.site), SiteId(of.context), weight(of))).collect()
    };
    let by_bytes: Weights = if stacks.is_empty() {
        (0u32..)
            .zip(0..report.figures.sites.len())
            .filter_map(|(site, at)| Some((SiteId(site), SiteId::UNKNOWN, bytes(at)? as f64)))
            .collect()
    } else {
        by_stack(|of| (of.read_bytes + of.written_bytes) as f64)
    };
    let of = |site: fn(&SiteCost) -> f64, stack: fn(&StackCost) -> f64| -> Weights {
        if !stacks.is_empty() {
            return by_stack(stack);
        }
        let all = costs.into_iter().flat_map(|costs| &costs.sites);
        all.map(|of| (SiteId(of.site), SiteId::UNKNOWN, site(of))).collect()
    };
    let graphs = [
        (
            "Misses of the first-level caches",
            of(|site| site.l1_misses as f64, |stack| stack.l1_misses as f64),
            human::count as fn(u64) -> String,
        ),
        ("Bytes read from and written to memory", by_bytes, human::bytes as fn(u64) -> String),
        (
            "Time on the model that cores stood still",
            of(|site| site.stalled_ns, |stack| stack.stalled_ns),
            nanoseconds as fn(u64) -> String,
        ),
    ];
    let drawn: Vec<Markup> = graphs
        .into_iter()
        .filter_map(|(title, weights, unit)| {
            let tree = Tree::of(&weights, &report.sites);
            (tree.weight > 0.0).then(|| {
                html! {
                    h3 { (title) }
                    (chart::responsive(|room: Room| draw(&tree, title, room, unit)))
                }
            })
        })
        .collect();
    html! {
        @if !drawn.is_empty() {
            section id="flames" {
                h2 { "Where it goes" }
                p { "Functions above those that called them, as wide as their part; lines of code on top." @if stacks.is_empty() { " Calls that were not inlined are not recorded." } " " code { "strandline export" } " has the same for other tools." }
                @for graph in drawn { (graph) }
            }
        }
    }
}

fn nanoseconds(ns: u64) -> String {
    human::duration(std::time::Duration::from_nanos(ns))
}

/// A frame with those that were inlined into it.
#[derive(Default)]
struct Tree {
    weight: f64,
    inner: BTreeMap<String, Tree>,
}

impl Tree {
    fn of(weights: &Weights, sites: &SiteTable) -> Tree {
        let mut root = Tree::default();
        for (id, context, weight) in weights.iter().filter(|site| site.2 > 0.0) {
            let mut at = &mut root;
            at.weight += weight;
            let frames = |id: SiteId| sites.site(id).map_or(&[][..], |site| site.frames.as_slice());
            let calls = frames(*context).iter().rev().chain(frames(*id).iter().rev());
            let names = calls.map(|frame| frame.function.clone());
            for name in names.chain([sites.label(*id)]) {
                at = at.inner.entry(name).or_default();
                at.weight += weight;
            }
        }
        root
    }

    fn depth(&self) -> usize {
        self.inner.values().map(|inner| 1 + inner.depth()).max().unwrap_or(0)
    }
}

/// Rows from the bottom up; what is thinner than a pixel is left out.
fn draw(tree: &Tree, title: &str, room: Room, unit: fn(u64) -> String) -> Markup {
    const ROW: f64 = 20.0;
    let depth = tree.depth();
    let height = ROW * depth as f64 + 2.0;
    let mut boxes: Vec<Markup> = Vec::new();
    let mut todo: Vec<(&Tree, f64, usize)> = vec![(tree, 0.0, 0)];
    let scale = room.width() / tree.weight;
    while let Some((of, left, level)) = todo.pop() {
        let mut x = left;
        for (at, (name, inner)) in of.inner.iter().enumerate() {
            let wide = inner.weight * scale;
            if wide >= 1.0 {
                let y = height - ROW * (level + 1) as f64;
                let part = inner.weight / tree.weight;
                let tip = format!(
                    "{}: {}, {}",
                    human::plain(name),
                    unit(inner.weight as u64),
                    human::percent(part)
                );
                let class = ["read", "sent", "whole", "nt"][(level + at) % 4];
                boxes.push(chart::labelled((x, y), (wide, ROW - 1.0), class, (&human::plain(name), &tip)));
                todo.push((inner, x, level + 1));
            }
            x += wide;
        }
    }
    chart::framed(
        (room.width(), height),
        title,
        "A flame graph: functions as wide as their part.",
        &html! { @for one in &boxes { (one) } },
    )
}
