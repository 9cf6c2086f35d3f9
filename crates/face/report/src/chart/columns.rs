//! Columns of a histogram.

use maud::{Markup, html};

use super::scale::Scale;
use super::{keys, line, rect, svg, text};
use crate::human::{count, tick_count};

/// One class of a histogram.
pub struct Column {
    /// Below the column.
    pub name: String,
    /// How many, one number per series, piled up.
    pub counts: Vec<u64>,
}

/// Height at which a column of one among millions can still be seen.
const VISIBLE_PX: f64 = 1.5;

/// A histogram with as many series as each column has counts; `series` gives class and name of each.
pub fn columns(
    title: &str,
    axes: [&str; 2],
    series: &[(&str, &str)],
    columns: &[Column],
    width: f64,
) -> Markup {
    let tallest = columns.iter().map(total).max().unwrap_or(0);
    let scale = Scale::whole(tallest as f64, 4);
    let (left, right, top) = (58.0, width - 8.0, if series.len() > 1 { 58.0 } else { 36.0 });
    let bottom = top + 170.0;
    let y = |count: f64| bottom - (bottom - top) * scale.at(count);
    let pitch = (right - left) / columns.len().max(1) as f64;
    let thick = (pitch * 0.72).min(56.0);
    // Names stand under every column, or every second, third..., as they fit; numbers over all or none.
    let widest = |text: fn(&Column) -> String| {
        columns.iter().map(|column| super::name_width(&text(column))).fold(0.0, f64::max)
    };
    let every = (1..).find(|every| widest(|c| c.name.clone()) + 6.0 < pitch * f64::from(*every)).unwrap_or(1);
    let numbered = widest(|column| tick_count(total(column) as f64)) < pitch + 4.0;
    let inner = html! {
        (text(4.0, 14.0, "start", "axis", axes[0]))
        @if series.len() > 1 { (keys(4.0, 36.0, series)) }
        @for tick in scale.ticks() {
            (line((left, y(tick)), (right, y(tick)), if tick == 0.0 { "base" } else { "grid" }))
            (text(left - 8.0, y(tick) + 4.5, "end", "tick", &tick_count(tick)))
        }
        @for (number, column) in (0u32..).zip(columns) {
            @let middle = left + pitch * (f64::from(number) + 0.5);
            (pile(middle - thick / 2.0, thick, column, series, &y))
            @let all = total(column);
            @if numbered && all > 0 {
                (text(middle, y(all as f64) - 5.0, "middle", "value small", &tick_count(all as f64)))
            }
            @if number % every == 0 { (text(middle, bottom + 18.0, "middle", "tick", &column.name)) }
        }
        (text(f64::midpoint(left, right), bottom + 38.0, "middle", "axis", axes[1]))
    };
    let described = columns.iter().map(|column| format!("{}: {}", column.name, count(total(column))));
    svg(width, bottom + 44.0, title, &described.collect::<Vec<_>>().join("; "), &inner)
}

fn total(column: &Column) -> u64 {
    crate::digest::sum(column.counts.iter().copied())
}

/// One column, its first series at the bottom.
fn pile(x: f64, thick: f64, column: &Column, series: &[(&str, &str)], y: &dyn Fn(f64) -> f64) -> Markup {
    let tops = column.counts.iter().scan(0.0, |below, count| {
        let ends = (*below, *below + *count as f64);
        *below = ends.1;
        Some(ends)
    });
    html! {
        @for ((below, above), (class, _)) in tops.zip(series) {
            @if above > below {
                @let height = (y(below) - y(above)).max(VISIBLE_PX);
                (rect(x, y(below) - height, thick, height, class))
            }
        }
    }
}
