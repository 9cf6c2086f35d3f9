//! Curves: what was measured as lines, what was published as points beside them.

use maud::{Markup, html};

use super::axis::{Axis, Ruler};
use super::{Room, letters, line, name_width, px, svg, text};
use crate::human::{elide, plain};

/// A chart of several curves over common axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// What the chart shows; its heading.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The curves, in the order of their keys.
    pub curves: Vec<Curve>,
}

/// One curve, and the points that others published for the same thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Its key.
    pub name: String,
    /// What was measured, in the order in which a line joins it: (x, y). May be empty.
    pub points: Vec<(f64, f64)>,
    /// Published points, drawn as hollow marks of the same colour without a line. May be empty.
    pub published: Vec<(f64, f64)>,
}

/// Colours of the style sheet (`c0`, `c1`...); further curves repeat them with a dashed line.
const COLOURS: usize = 8;
/// More points than this are joined by a line without marks.
const MARKS_MAX: usize = 48;

/// Where things are.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Ruler,
    y: Ruler,
}

impl Frame {
    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        (self.x.shows(x) && self.y.shows(y)).then(|| {
            (
                self.left + (self.right - self.left) * self.x.at(x),
                self.bottom - (self.bottom - self.top) * self.y.at(y),
            )
        })
    }

    fn places(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().filter_map(|point| self.place(*point)).collect()
    }
}

/// The chart in one width.
pub fn curves(chart: &Curves, room: Room) -> Markup {
    let wide = room == Room::Wide;
    let points = || chart.curves.iter().flat_map(|curve| curve.points.iter().chain(&curve.published));
    let (keys, keys_height) = keys(chart, room.width());
    let top = 26.0 + keys_height;
    let frame = Frame {
        left: 70.0,
        right: room.width() - 22.0,
        top,
        bottom: top + if wide { 330.0 } else { 230.0 },
        x: Ruler::new(&chart.x, points().map(|point| point.0), if wide { 12 } else { 5 }, false),
        y: Ruler::new(&chart.y, points().map(|point| point.1), 6, true),
    };
    let inner = html! {
        (text(4.0, 14.0, "start", "axis", &plain(&chart.y.title)))
        (keys)
        (grid(&frame, &plain(&chart.x.title)))
        @for (number, curve) in chart.curves.iter().enumerate() { (drawn(&frame, number, curve)) }
    };
    svg(room.width(), frame.bottom + 42.0, &plain(&chart.title), &description(chart), &inner)
}

fn grid(frame: &Frame, x_title: &str) -> Markup {
    html! {
        @for tick in frame.y.ticks() {
            @let y = frame.bottom - (frame.bottom - frame.top) * frame.y.at(tick);
            (line((frame.left, y), (frame.right, y), "grid"))
            (text(frame.left - 8.0, y + 4.5, "end", "tick", &frame.y.label(tick)))
        }
        @for tick in frame.x.ticks() {
            @let x = frame.left + (frame.right - frame.left) * frame.x.at(tick);
            (line((x, frame.top), (x, frame.bottom), "grid"))
            (text(x, frame.bottom + 18.0, "middle", "tick", &frame.x.label(tick)))
        }
        (line((frame.left, frame.bottom), (frame.right, frame.bottom), "base"))
        (text(f64::midpoint(frame.left, frame.right), frame.bottom + 36.0, "middle", "axis", x_title))
    }
}

fn drawn(frame: &Frame, number: usize, curve: &Curve) -> Markup {
    let measured = frame.places(&curve.points);
    let path: String = measured
        .iter()
        .enumerate()
        .map(|(at, (x, y))| format!("{}{} {}", if at == 0 { 'M' } else { 'L' }, px(*x), px(*y)))
        .collect();
    html! {
        g class=(colour(number)) {
            @if measured.len() > 1 { path class=(stroke(number)) d=(path) {} }
            @if measured.len() <= MARKS_MAX {
                @for point in measured { (mark(number, point, "dot")) }
            }
            @for point in frame.places(&curve.published) { (mark(number, point, "ring")) }
        }
    }
}

fn colour(number: usize) -> String {
    format!("c{}", number % COLOURS)
}

fn stroke(number: usize) -> &'static str {
    if number < COLOURS { "curve" } else { "curve again" }
}

/// A mark whose shape tells curves apart where colours can't: `dot` filled, `ring` hollow.
fn mark(number: usize, (x, y): (f64, f64), class: &str) -> Markup {
    let size = if class == "ring" { 4.6 } else { 3.4 };
    let corners: &[(f64, f64)] = match number % 4 {
        0 => return html! { circle class=(class) cx=(px(x)) cy=(px(y)) r=(px(size)) {} },
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        _ => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
    };
    let points: Vec<String> =
        corners.iter().map(|(dx, dy)| format!("{},{}", px(x + dx * size), px(y + dy * size))).collect();
    html! { polygon class=(class) points=(points.join(" ")) {} }
}

/// The keys in as many rows as they need, and the height of these.
fn keys(chart: &Curves, width: f64) -> (Markup, f64) {
    const ROW: f64 = 20.0;
    const SAMPLE: f64 = 30.0;
    let name_room = letters(width - SAMPLE - 8.0);
    let mut entries: Vec<(Option<usize>, String)> = chart
        .curves
        .iter()
        .enumerate()
        .map(|(number, curve)| (Some(number), elide(&plain(&curve.name), name_room)))
        .collect();
    if chart.curves.iter().any(|curve| !curve.published.is_empty()) {
        entries.push((None, "hollow: published".to_owned()));
    }
    let (mut x, mut y) = (4.0, 36.0);
    let mut places = Vec::new();
    for (number, name) in entries {
        let needed = if number.is_some() { SAMPLE } else { 14.0 } + name_width(&name);
        if x > 4.0 && x + needed > width - 4.0 {
            (x, y) = (4.0, y + ROW);
        }
        places.push((x, y, number, name));
        x += needed + 20.0;
    }
    let markup = html! {
        @for (x, y, number, name) in places {
            @let middle = y - 4.5;
            @if let Some(number) = number {
                g class=(colour(number)) {
                    path class=(stroke(number)) d=(format!("M{} {}H{}", px(x), px(middle), px(x + 22.0))) {}
                    (mark(number, (x + 11.0, middle), "dot"))
                }
                (text(x + SAMPLE - 2.0, y, "start", "key", &name))
            } @else {
                circle class="ring" cx=(px(x + 5.0)) cy=(px(middle)) r="4.6" {}
                (text(x + 14.0, y, "start", "key", &name))
            }
        }
    };
    (markup, y)
}

fn description(chart: &Curves) -> String {
    let one = |curve: &Curve| {
        let top = curve.points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let top = top.map_or("nothing measured".to_owned(), |(x, y)| format!("highest {y:.3} at {x:.0}"));
        format!("{}: {} points, {top}", plain(&curve.name), curve.points.len())
    };
    let curves: Vec<String> = chart.curves.iter().map(one).collect();
    format!("{} over {}. {}.", plain(&chart.y.title), plain(&chart.x.title), curves.join("; "))
}
