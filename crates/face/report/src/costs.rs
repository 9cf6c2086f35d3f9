//! What accesses cost by code: misses, bytes and time on the model, as numbers and as flame graphs.

use std::collections::BTreeMap;

use event::{SiteId, SiteTable};
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

/// What a site weighs.
type Weights = Vec<(SiteId, f64)>;

/// The page's section: a flame graph by each measure.
pub(crate) fn section(report: &Report) -> Markup {
    let bytes = |at: usize| {
        let sites = &report.figures.sites;
        let of = sites.get(at)?;
        Some(
            (of.persistent.read_bytes + of.persistent.controller_write_bytes)
                + (of.volatile.read_bytes + of.volatile.controller_write_bytes),
        )
    };
    let by_bytes: Weights = (0u32..)
        .zip(0..report.figures.sites.len())
        .filter_map(|(site, at)| Some((SiteId(site), bytes(at)? as f64)))
        .collect();
    let costs = report.costs.as_ref();
    let of = |weight: fn(&SiteCost) -> f64| -> Weights {
        costs
            .into_iter()
            .flat_map(|costs| &costs.sites)
            .map(|site| (SiteId(site.site), weight(site)))
            .collect()
    };
    let graphs = [
        (
            "Misses of the first-level caches",
            of(|site| site.l1_misses as f64),
            human::count as fn(u64) -> String,
        ),
        ("Bytes read from and written to memory", by_bytes, human::bytes as fn(u64) -> String),
        (
            "Time on the model that cores stood still",
            of(|site| site.stalled_ns),
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
                p { "Functions above those that they were compiled into, as wide as their part; lines of code on top. Calls that were not inlined are not recorded. " code { "strandline export" } " has the same for other tools." }
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
        for (id, weight) in weights.iter().filter(|site| site.1 > 0.0) {
            let mut at = &mut root;
            at.weight += weight;
            let frames = sites.site(*id).map_or(&[][..], |site| site.frames.as_slice());
            let names = frames.iter().rev().map(|frame| frame.function.clone());
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
