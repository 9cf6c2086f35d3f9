//! Columns of a histogram.

use maud::{Markup, html};

use super::scale::Scale;
use super::{Room, keys, line, rect, svg, text};
use crate::human::{count, tick_count};

/// One class of a histogram.
pub struct Column {
    /// Below the column.
    pub name: String,
    /// How many, one number per series, piled up.
    pub counts: Vec<u64>,
}

/// A histogram with as many series as each column has counts; `series` gives class and name of each.
#[allow(clippy::cast_precision_loss)]
pub fn columns(title: &str, axes: [&str; 2], series: &[(&str, &str)], columns: &[Column]) -> Markup {
    let room = Room::Narrow;
    let total = |column: &Column| column.counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    let tallest = columns.iter().map(total).max().unwrap_or(0);
    let scale = Scale::whole(tallest as f64, 4);
    let (left, right, top) = (58.0, room.width() - 8.0, if series.len() > 1 { 58.0 } else { 36.0 });
    let bottom = top + 170.0;
    let y = |count: f64| bottom - (bottom - top) * scale.at(count);
    let pitch = (right - left) / columns.len().max(1) as f64;
    let thick = (pitch * 0.72).min(56.0);
    // Names stand under every column, or every second one, as they fit.
    let widest = columns.iter().map(|column| super::name_width(&column.name)).fold(0.0, f64::max);
    let every = if widest + 6.0 > pitch { 2 } else { 1 };
    let inner = html! {
        (text(4.0, 14.0, "start", "axis", axes[0]))
        @if series.len() > 1 { (keys(4.0, 36.0, series)) }
        @for tick in scale.ticks() {
            (line((left, y(tick)), (right, y(tick)), if tick == 0.0 { "base" } else { "grid" }))
            (text(left - 8.0, y(tick) + 4.5, "end", "tick", &tick_count(tick)))
        }
        @for (number, column) in columns.iter().enumerate() {
            @let middle = left + pitch * (number as f64 + 0.5);
            (pile(middle - thick / 2.0, thick, column, series, &y))
            @let all = total(column);
            @if all > 0 && super::name_width(&count(all)) < pitch + 4.0 {
                (text(middle, y(all as f64) - 5.0, "middle", "value small", &count(all)))
            }
            @if number % every == 0 { (text(middle, bottom + 18.0, "middle", "tick", &column.name)) }
        }
        (text(f64::midpoint(left, right), bottom + 38.0, "middle", "axis", axes[1]))
    };
    let described = columns.iter().map(|column| format!("{}: {}", column.name, count(total(column))));
    svg(room.width(), bottom + 44.0, title, &described.collect::<Vec<_>>().join("; "), &inner)
}

/// One column, its first series at the bottom.
#[allow(clippy::cast_precision_loss)]
fn pile(x: f64, thick: f64, column: &Column, series: &[(&str, &str)], y: &dyn Fn(f64) -> f64) -> Markup {
    let tops = column.counts.iter().scan(0.0, |below, count| {
        let ends = (*below, *below + *count as f64);
        *below = ends.1;
        Some(ends)
    });
    html! {
        @for ((below, above), (class, _)) in tops.zip(series) {
            @if above > below { (rect(x, y(above), thick, y(below) - y(above), class)) }
        }
    }
}
