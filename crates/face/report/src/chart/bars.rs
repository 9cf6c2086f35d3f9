//! Horizontal bars, one per function.

use maud::{Markup, html};

use super::scale::Scale;
use super::{Room, keys, letters, line, rect, svg, text};
use crate::human::{elide, tick_bytes};

/// One bar of two parts.
pub struct Bar {
    /// Left of the bar, or above it.
    pub name: String,
    /// At its end.
    pub value: String,
    /// Bytes of its first part.
    pub whole: u64,
    /// Bytes of its second part, drawn behind the first.
    pub part: u64,
}

/// Bars of bytes with what their two parts are called, on the page's class names.
pub fn bars(title: &str, axis: &str, parts: [(&str, &str); 2], bars: &[Bar], room: Room) -> Markup {
    let wide = room == Room::Wide;
    let (pitch, thick) = if wide { (27.0, 17.0) } else { (43.0, 15.0) };
    let left = if wide { 330.0 } else { 4.0 };
    let right = room.width() - if wide { 150.0 } else { 14.0 };
    let longest = bars.iter().map(|bar| bar.whole as f64 + bar.part as f64).fold(0.0, f64::max);
    let scale = Scale::binary(longest, if wide { 5 } else { 3 });
    let (top, x) = (34.0, |bytes: f64| left + (right - left) * scale.at(bytes));
    let bottom = top + pitch * bars.len() as f64 + 4.0;
    let two = bars.iter().any(|bar| bar.part > 0) && bars.iter().any(|bar| bar.whole > 0);
    let inner = html! {
        @if two { (keys(4.0, 14.0, &parts)) }
        @for tick in scale.ticks() {
            (line((x(tick), top - 4.0), (x(tick), bottom), if tick == 0.0 { "base" } else { "grid" }))
            @let anchor = if tick == 0.0 && !wide { "start" } else if tick == scale.end() && !wide { "end" } else { "middle" };
            (text(x(tick), bottom + 17.0, anchor, "tick", &tick_bytes(tick)))
        }
        (text(f64::midpoint(left, right), bottom + 36.0, "middle", "axis", axis))
        @for (row, bar) in bars.iter().enumerate() {
            @let y = top + pitch * row as f64 + pitch - thick - 4.0;
            @let (first, both) = (x(bar.whole as f64), x(bar.whole as f64 + bar.part as f64));
            @if wide {
                (text(left - 10.0, y + thick - 4.0, "end", "label", &elide(&bar.name, letters(left - 14.0))))
                (text(both + 8.0, y + thick - 4.0, "start", "value", &bar.value))
            } @else {
                @let room_left = room.width() - 14.0 - super::name_width(&bar.value) - 12.0;
                (text(4.0, y - 6.0, "start", "label", &elide(&bar.name, letters(room_left))))
                (text(right, y - 6.0, "end", "value", &bar.value))
            }
            @if bar.whole > 0 { (rect(left, y, first - left, thick, parts[0].0)) }
            @if bar.part > 0 { (rect(first, y, both - first, thick, parts[1].0)) }
        }
    };
    let description =
        bars.iter().map(|bar| format!("{}: {}", bar.name, bar.value)).collect::<Vec<_>>().join("; ");
    svg(room.width(), bottom + 42.0, title, &description, &inner)
}
