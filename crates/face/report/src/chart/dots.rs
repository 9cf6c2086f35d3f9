//! A dot per site on the axis of its effective write ratio.

use maud::{Markup, html};

use super::scale::Scale;
use super::{Room, letters, line, px, svg, text};
use crate::human::{elide, ratio, tick_count};

/// One site.
pub struct Dot {
    /// Left of the axis, or above it.
    pub name: String,
    /// Where the dot stands.
    pub ewr: f64,
    /// How large its area is, 0 to 1.
    pub weight: f64,
    /// Beside the number.
    pub note: String,
}

/// Ratios above this share the axis's end; the number beside the dot stays true.
const EWR_SHOWN_MAX: f64 = 4.0;

/// From here on a site counts as one that writes whole units.
const EWR_GOOD: f64 = 0.9;

/// Dots against the line at 1, where a byte that was written costs one byte on media.
pub fn dots(title: &str, dots: &[Dot], room: Room) -> Markup {
    let wide = room == Room::Wide;
    let pitch = if wide { 27.0 } else { 43.0 };
    let left = if wide { 330.0 } else { 12.0 };
    let right = room.width() - if wide { 150.0 } else { 14.0 };
    let farthest = dots.iter().map(|dot| dot.ewr).fold(1.0, f64::max).min(EWR_SHOWN_MAX);
    let scale = Scale::decimal(farthest, 5);
    let (top, x) = (34.0, |ewr: f64| left + (right - left) * scale.at(ewr));
    let bottom = top + pitch * dots.len() as f64 + 4.0;
    let inner = html! {
        @for tick in scale.ticks() {
            (line((x(tick), top - 4.0), (x(tick), bottom), if tick == 0.0 { "base" } else { "grid" }))
            (text(x(tick), bottom + 17.0, "middle", "tick", &tick_count(tick)))
        }
        (line((x(1.0), top - 8.0), (x(1.0), bottom), "mark"))
        @let anchor = if x(1.0) > right - 120.0 { "end" } else { "middle" };
        (text(if anchor == "end" { right } else { x(1.0) }, top - 14.0, anchor, "key", "1: no write amplification"))
        (text(f64::midpoint(left, right), bottom + 36.0, "middle", "axis", "EWR: bytes from the controller / bytes on media"))
        @for (row, dot) in dots.iter().enumerate() {
            @let y = top + pitch * (row as f64 + 1.0) - 13.0;
            @let at = x(dot.ewr);
            @let value = format!("{}{}{}", ratio(Some(dot.ewr)), if dot.note.is_empty() { "" } else { "  " }, dot.note);
            @if wide {
                (text(left - 10.0, y + 4.5, "end", "label", &elide(&dot.name, letters(left - 14.0))))
                (text(right + 10.0, y + 4.5, "start", "value", &value))
            } @else {
                @let room_left = room.width() - 24.0 - super::name_width(&value);
                (text(4.0, y - 12.0, "start", "label", &elide(&dot.name, letters(room_left))))
                (text(right, y - 12.0, "end", "value", &value))
            }
            (line((at.min(x(1.0)), y), (at.max(x(1.0)), y), if dot.ewr < EWR_GOOD { "stem part" } else { "stem whole" }))
            circle cx=(px(at)) cy=(px(y)) r=(px(3.0 + 5.0 * dot.weight.clamp(0.0, 1.0).sqrt()))
                class=(if dot.ewr < EWR_GOOD { "part" } else { "whole" }) {}
        }
    };
    let described = dots.iter().map(|dot| format!("{}: {}", dot.name, ratio(Some(dot.ewr))));
    svg(room.width(), bottom + 42.0, title, &described.collect::<Vec<_>>().join("; "), &inner)
}
