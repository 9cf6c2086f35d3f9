//! Traffic over the run.

use machine::{Slice, Traffic};
use maud::{Markup, html};

use super::scale::Scale;
use super::{Room, keys, line, px, svg, text};
use crate::human::{duration, tick_bytes, tick_count};

/// What a plot can show of a slice.
struct Series {
    class: &'static str,
    name: &'static str,
    bytes: fn(&Traffic) -> u64,
}

/// Painted in this order.
const SERIES: [Series; 3] = [
    Series { class: "read", name: "controller read", bytes: |t| t.controller_read_bytes },
    Series { class: "media", name: "media write", bytes: |t| t.media_write_bytes },
    Series { class: "sent", name: "controller write", bytes: |t| t.controller_write_bytes },
];

/// Finest steps that the eye distinguishes.
const STEP_PX: f64 = 5.0;

/// A piece of the time axis.
struct Step {
    /// Events at its end.
    end: f64,
    /// Bytes per thousand events, in the order of [`SERIES`].
    rates: [f64; 3],
}

/// Where things are.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    events: f64,
    y: Scale,
}

impl Frame {
    fn x(&self, events: f64) -> f64 {
        self.left + (self.right - self.left) * (events / self.events).clamp(0.0, 1.0)
    }

    fn y(&self, rate: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.at(rate)
    }
}

/// Bytes per thousand events over the run; `of` picks a slice's memory.
///
/// The axis counts events, of which every slice has its number, and not time, because a recorded
/// program's time is mostly its recorder's. Where the source has a clock, ticks say the time too.
pub fn traffic(slices: &[Slice], of: fn(&Slice) -> &Traffic, room: Room) -> Markup {
    let wide = room == Room::Wide;
    let (left, right) = (64.0, room.width() - if wide { 132.0 } else { 14.0 });
    let steps = steps(slices, of, right - left);
    let max = steps.iter().flat_map(|step| step.rates).fold(0.0, f64::max);
    let timed = slices.last().is_some_and(|slice| slice.time_ns > 0);
    let top = if wide { 30.0 } else { 50.0 };
    let frame = Frame {
        left,
        right,
        top,
        bottom: top + if wide { 230.0 } else { 190.0 },
        events: slices.last().map_or(1.0, |slice| slice.events.max(1) as f64),
        y: Scale::binary(max, 4),
    };
    let height = frame.bottom + if timed { 58.0 } else { 42.0 };
    let inner = html! {
        (text(4.0, 14.0, "start", "axis", "bytes per 1,000 events"))
        (grid(&frame))
        (time_axis(&frame, slices, timed, wide))
        (lines(&frame, &steps))
        @if wide { (names(&frame, &steps)) }
        @else { (keys(4.0, 36.0, &SERIES.map(|series| (series.class, series.name)))) }
    };
    svg(room.width(), height, "Traffic over the run", &description(slices, of), &inner)
}

/// Slices put together until a step is wide enough to be seen, as rates.
fn steps(slices: &[Slice], of: fn(&Slice) -> &Traffic, width: f64) -> Vec<Step> {
    let together = slices.len().div_ceil((width / STEP_PX) as usize).max(1);
    let mut from = 0u64;
    slices
        .chunks(together)
        .filter_map(|chunk| {
            let end = chunk.last()?.events;
            let events = end.saturating_sub(from);
            from = end;
            let sum =
                |bytes: fn(&Traffic) -> u64| chunk.iter().map(|slice| bytes(of(slice)) as f64).sum::<f64>();
            let rates = SERIES.each_ref().map(|series| sum(series.bytes) * 1000.0 / events.max(1) as f64);
            Some(Step { end: end as f64, rates })
        })
        .collect()
}

fn grid(frame: &Frame) -> Markup {
    html! {
        @for tick in frame.y.ticks() {
            (line((frame.left, frame.y(tick)), (frame.right, frame.y(tick)), if tick == 0.0 { "base" } else { "grid" }))
            (text(frame.left - 8.0, frame.y(tick) + 4.5, "end", "tick", &tick_bytes(tick)))
        }
    }
}

fn time_axis(frame: &Frame, slices: &[Slice], timed: bool, wide: bool) -> Markup {
    let scale = Scale::decimal(frame.events, if wide { 8 } else { 4 });
    let ticks = scale.ticks().filter(|tick| *tick <= frame.events * 1.000_001);
    let below = frame.bottom + if timed { 52.0 } else { 36.0 };
    let title = if timed { "events, and time in the observed run" } else { "events" };
    html! {
        @for tick in ticks {
            (line((frame.x(tick), frame.bottom), (frame.x(tick), frame.bottom + 5.0), "base"))
            (text(frame.x(tick), frame.bottom + 19.0, "middle", "tick", &tick_count(tick)))
            @if timed {
                (text(frame.x(tick), frame.bottom + 35.0, "middle", "tick faint", &time_at(slices, tick)))
            }
        }
        (text(f64::midpoint(frame.left, frame.right), below, "middle", "axis", title))
    }
}

/// The clock when so many events had happened.
fn time_at(slices: &[Slice], events: f64) -> String {
    let after = slices.partition_point(|slice| (slice.events as f64) < events);
    let Some(end) = slices.get(after) else { return String::new() };
    let (start, start_ns) = match after.checked_sub(1).map(|before| &slices[before]) {
        Some(before) => (before.events as f64, before.time_ns as f64),
        None => (0.0, 0.0),
    };
    let part = (events - start) / (end.events as f64 - start).max(1.0);
    let ns = start_ns + part * (end.time_ns as f64 - start_ns).max(0.0);
    if ns < 1.0 { "0 s".to_owned() } else { duration(std::time::Duration::from_nanos(ns as u64)) }
}

fn lines(frame: &Frame, steps: &[Step]) -> Markup {
    html! {
        @for (number, series) in SERIES.iter().enumerate() {
            @let path = outline(frame, steps, number);
            @if series.class == "media" && !steps.is_empty() {
                @let ground = px(frame.bottom);
                path class="area media" d=(format!("{path}V{ground}H{}Z", px(frame.left))) {}
            }
            path class=(format!("line {}", series.class)) d=(path) {}
        }
    }
}

/// A line of steps: a slice's figure holds over the whole slice.
fn outline(frame: &Frame, steps: &[Step], series: usize) -> String {
    let mut path = String::new();
    for step in steps {
        let y = px(frame.y(step.rates[series]));
        if path.is_empty() {
            path = format!("M{} {y}", px(frame.left));
        } else {
            path.push_str(&format!("V{y}"));
        }
        path.push_str(&format!("H{}", px(frame.x(step.end))));
    }
    path
}

/// Each line's name at its end, moved apart where ends are close.
fn names(frame: &Frame, steps: &[Step]) -> Markup {
    const APART: f64 = 17.0;
    let Some(last) = steps.last() else { return html! {} };
    let mut ends: Vec<(f64, &Series)> =
        last.rates.iter().zip(&SERIES).map(|(rate, series)| (frame.y(*rate), series)).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    for at in 1..ends.len() {
        ends[at].0 = ends[at].0.max(ends[at - 1].0 + APART);
    }
    let mut floor = frame.bottom;
    for end in ends.iter_mut().rev() {
        end.0 = end.0.min(floor);
        floor = end.0 - APART;
    }
    html! {
        @for (y, series) in ends {
            (text(frame.right + 8.0, y + 4.5, "start", &format!("name {}", series.class), series.name))
        }
    }
}

fn description(slices: &[Slice], of: fn(&Slice) -> &Traffic) -> String {
    let totals = SERIES.each_ref().map(|series| {
        let bytes: u64 = slices.iter().map(|slice| (series.bytes)(of(slice))).fold(0, u64::saturating_add);
        format!("{}: {} in all", series.name, crate::human::bytes(bytes))
    });
    format!("Steps over {} slices of the run. {}.", slices.len(), totals.join("; "))
}
