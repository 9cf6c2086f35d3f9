//! Plots as SVG, drawn so that one can read them without the text around.
//!
//! Letters, lines and colours come from the page's style sheet; a plot only says what a thing is (class
//! `media`, `sent`, `read`, `whole`, `part`; curves are numbered). Lengths are CSS pixels at natural size.
//! Each plot is named for screen readers by `<title>` and `<desc>`.

mod axis;
mod bars;
mod columns;
mod curves;
mod dots;
mod order;
mod scale;
mod traffic;

pub use axis::{Axis, Unit};
pub use bars::{Bar, bars};
pub use columns::{Column, columns};
pub use curves::{Curve, Curves, curves};
pub use dots::{Dot, dots};
pub use order::{Order, OrderStep, StepKind, order};
pub use traffic::traffic;

use maud::{Markup, html};

/// How much room a plot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A page on a desk.
    Wide,
    /// A phone, or half a page.
    Narrow,
}

impl Room {
    /// Pixels across.
    pub fn width(self) -> f64 {
        match self {
            Room::Wide => 1000.0,
            Room::Narrow => 440.0,
        }
    }
}

/// Pixels of an average letter at the size that the style sheet gives plots.
const LETTER: f64 = 7.3;

/// A plot in both widths, of which the style sheet shows the one that fits.
pub fn responsive(plot: impl Fn(Room) -> Markup) -> Markup {
    html! {
        div class="wide" { (plot(Room::Wide)) }
        div class="narrow" { (plot(Room::Narrow)) }
    }
}

/// The `<svg>` around a plot.
fn svg(width: f64, height: f64, title: &str, description: &str, inner: &Markup) -> Markup {
    html! {
        svg class="plot" role="img" viewBox=(format!("0 0 {} {}", px(width), px(height)))
            style=(format!("max-width:{}px", px(width))) aria-label=(title) {
            title { (title) }
            desc { (description) }
            (inner)
        }
    }
}

/// A plot made of boxes by somebody else.
pub fn framed((width, height): (f64, f64), title: &str, description: &str, inner: &Markup) -> Markup {
    svg(width, height, title, description, inner)
}

/// A box with as much of its name as fits, and a text that is shown above it.
pub fn labelled(at: (f64, f64), size: (f64, f64), class: &str, (name, tip): (&str, &str)) -> Markup {
    let fits = letters(size.0 - 6.0);
    let short: String = if fits < 3 { String::new() } else { name.chars().take(fits).collect() };
    html! {
        g {
            title { (tip) }
            g opacity="0.45" { (rect(at.0, at.1, size.0 - 1.0, size.1, class)) }
            @if !short.is_empty() { (text(at.0 + 3.0, at.1 + size.1 - 5.0, "start", "key", &short)) }
        }
    }
}

/// A length with one digit after the point at most: more can't be seen and makes the page large.
fn px(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A text that starts, ends or is centred (`anchor`) at a point.
fn text(x: f64, y: f64, anchor: &str, class: &str, what: &str) -> Markup {
    html! { text x=(px(x)) y=(px(y)) text-anchor=(anchor) class=(class) { (what) } }
}

fn line(from: (f64, f64), to: (f64, f64), class: &str) -> Markup {
    html! { line x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) class=(class) {} }
}

/// A rectangle, never too thin to be seen.
fn rect(x: f64, y: f64, width: f64, height: f64, class: &str) -> Markup {
    html! { rect x=(px(x)) y=(px(y)) width=(px(width.max(0.5))) height=(px(height.max(0.5))) class=(class) {} }
}

/// Keys of a plot's colours in one row from `x`: class and name.
fn keys(x: f64, y: f64, names: &[(&str, &str)]) -> Markup {
    let starts = names.iter().scan(x, |next, (_, name)| {
        let at = *next;
        *next += 16.0 + name_width(name) + 20.0;
        Some(at)
    });
    html! {
        @for (at, (class, name)) in starts.zip(names) {
            (rect(at, y - 10.0, 11.0, 11.0, class))
            (text(at + 16.0, y, "start", "key", name))
        }
    }
}

/// Room for `name` at the size of a plot's letters, roughly.
fn name_width(name: &str) -> f64 {
    columns_wide(name) * LETTER
}

fn columns_wide(name: &str) -> f64 {
    unicode_width::UnicodeWidthStr::width(name) as f64
}

/// How many letters fit.
fn letters(width: f64) -> usize {
    (width / LETTER).max(0.0) as usize
}
