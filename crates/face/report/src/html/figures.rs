//! The sections with plots and tables.

use machine::{MemoryFigures, Slice, Traffic};
use maud::{Markup, html};

use crate::chart::{self, Bar, Column, Dot};
use crate::content::Cell;
use crate::digest::{Digest, Row, share, sum};
use crate::html::table::table;
use crate::human::{self, bytes, count, percent, plain, ratio};
use crate::model::WriteSizes;

/// Bars, dots and rows; what is beyond is in `report.json`.
const BARS_MAX: usize = 12;
const ROWS_MAX: usize = 40;
/// Width of the plot of how full media writes were; it has few columns.
const FILL_PX: f64 = 340.0;

/// Everything between summary and findings.
pub fn sections(digest: &Digest<'_>) -> Markup {
    html! {
        @if digest.has_traffic() {
            (traffic(digest))
            (functions(digest))
            (writes(digest))
        } @else if let Some(sizes) = &digest.report.write_sizes {
            section id="writes" { h2 { "Writes" } (sizes_plot(sizes)) }
        }
        (samples(digest))
        (machine(digest))
    }
}

fn traffic(digest: &Digest<'_>) -> Markup {
    let figures = &digest.report.figures;
    let persistent: fn(&Slice) -> &Traffic = |slice| &slice.persistent;
    let volatile: fn(&Slice) -> &Traffic = |slice| &slice.volatile;
    let of = if figures.mapped_persistent { persistent } else { volatile };
    html! {
        @if !figures.timeline.is_empty() {
            section id="traffic" {
                h2 { "Traffic over the run" }
                p { "What the controller moved, and what the device wrote to its media for it. Where the filled line is above
                    the solid one, writes are amplified." }
                figure { (chart::responsive(|room| chart::traffic(&figures.timeline, of, room))) }
            }
        }
    }
}

fn functions(digest: &Digest<'_>) -> Markup {
    let writes = digest.total().media_write_bytes > 0;
    let rows = &digest.functions;
    html! {
        @if !rows.is_empty() {
            section id="functions" {
                h2 { @if writes { "Hottest functions" } @else { "Functions that read most" } }
                p {
                    @if writes { "By bytes written to media. A unit that is written with less than all of its "
                        (digest.report.figures.unit_bytes) " bytes new costs a whole one." }
                    @else { "Nothing was written to media; these are the bytes read because a function missed the caches." }
                }
                figure { (chart::responsive(|room| function_bars(rows, writes, room))) }
                (function_table(rows, writes))
            }
        }
    }
}

fn function_bars(rows: &[Row], writes: bool, room: chart::Room) -> Markup {
    let of = |row: &Row| if writes { row.memory.media_write_bytes } else { row.memory.read_bytes };
    let whole = sum(rows.iter().map(of));
    let shown: Vec<Bar> = rows
        .iter()
        .take(BARS_MAX)
        .filter(|row| of(row) > 0)
        .map(|row| {
            let part = if writes { row.memory.partial_media_bytes.min(of(row)) } else { 0 };
            let value = format!("{}  {}", bytes(of(row)), percent(share(of(row), whole)));
            Bar { name: row.label.clone(), value, whole: of(row) - part, part }
        })
        .collect();
    let (title, axis) = if writes {
        ("Bytes written to media by function", "bytes written to media")
    } else {
        ("Bytes read by function", "bytes read from the device")
    };
    chart::bars(title, axis, [("whole", "in whole units"), ("part", "in partly new units")], &shown, room)
}

fn function_table(rows: &[Row], writes: bool) -> Markup {
    let of = |row: &Row| if writes { row.memory.media_write_bytes } else { row.memory.read_bytes };
    let whole = sum(rows.iter().map(of));
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .take(ROWS_MAX)
        .map(|row| {
            let (memory, all) = (&row.memory, &row.all);
            let evicted = share(memory.evicted_bytes, memory.controller_write_bytes);
            vec![
                Cell::Code(row.label.clone()),
                Cell::number(memory.media_write_bytes, bytes),
                Cell::share(share(of(row), whole)),
                Cell::number(memory.controller_write_bytes, bytes),
                Cell::optional(row.ewr(), ratio),
                Cell::share(evicted),
                Cell::number(memory.read_bytes, bytes),
                Cell::number(all.stores, count),
                Cell::number(all.flushes, count),
                Cell::number(all.clean_flushes, count),
            ]
        })
        .collect();
    let head = [
        "function (hottest line)",
        "media written",
        "share",
        "controller written",
        "EWR",
        "evicted",
        "read",
        "stores",
        "flushes",
        "clean flushes",
    ];
    let caption = cut("Functions", cells.len(), rows.len());
    table(&caption, &head, &cells)
}

/// A table's caption, which says when rows are left out.
fn cut(what: &str, shown: usize, all: usize) -> String {
    if shown < all {
        format!("{what}: the first {shown} of {all}; the rest is in report.json")
    } else {
        what.to_owned()
    }
}

fn writes(digest: &Digest<'_>) -> Markup {
    let sizes = digest.report.write_sizes.as_ref();
    let rows: Vec<&Row> = digest.sites.iter().filter(|row| row.ewr().is_some()).collect();
    html! {
        @if !rows.is_empty() || sizes.is_some() {
            section id="writes" {
                h2 { "Writes" }
                div class="pair" {
                    @if let Some(sizes) = sizes { (sizes_plot(sizes)) }
                    (fill_plot(digest))
                }
                @if !rows.is_empty() {
                    h3 { "Effective write ratio by site" }
                    p { "Sites with the most bytes on media first; the larger the dot, the more of them." }
                    figure { (chart::responsive(|room| site_dots(&rows, room))) }
                    (site_table(&rows))
                }
            }
        }
    }
}

fn site_dots(rows: &[&Row], room: chart::Room) -> Markup {
    let most = rows.iter().map(|row| row.memory.media_write_bytes).max().unwrap_or(0);
    let shown: Vec<Dot> = rows
        .iter()
        .take(BARS_MAX)
        .filter_map(|row| {
            let weight = share(row.memory.media_write_bytes, most);
            Some(Dot {
                name: row.label.clone(),
                ewr: row.ewr()?,
                weight,
                note: bytes(row.memory.media_write_bytes),
            })
        })
        .collect();
    chart::dots("Effective write ratio by site", &shown, room)
}

fn site_table(rows: &[&Row]) -> Markup {
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .take(ROWS_MAX)
        .map(|row| {
            let memory = &row.memory;
            vec![
                Cell::Code(row.label.clone()),
                Cell::optional(row.ewr(), ratio),
                Cell::number(memory.controller_write_bytes, bytes),
                Cell::number(memory.media_write_bytes, bytes),
                Cell::share(share(memory.partial_media_bytes, memory.media_write_bytes)),
                Cell::share(share(memory.evicted_bytes, memory.controller_write_bytes)),
                Cell::share(share(row.all.nt_bytes, row.all.store_bytes)),
            ]
        })
        .collect();
    let head = [
        "site",
        "EWR",
        "controller written",
        "media written",
        "in partly new units",
        "evicted",
        "non-temporal",
    ];
    table(&cut("Sites that wrote", cells.len(), rows.len()), &head, &cells)
}

/// How large the program's writes were.
fn sizes_plot(sizes: &WriteSizes) -> Markup {
    let at = |counts: &[u64], bucket: usize| counts.get(bucket).copied().unwrap_or(0);
    let buckets = sizes.temporal.len().max(sizes.nt.len());
    let used: Vec<usize> =
        (0..buckets).filter(|b| at(&sizes.temporal, *b) > 0 || at(&sizes.nt, *b) > 0).collect();
    let (Some(first), Some(last)) = (used.first(), used.last()) else { return html! {} };
    let columns: Vec<Column> = (*first..=*last)
        .map(|bucket| Column {
            name: bucket_name(bucket),
            counts: vec![at(&sizes.temporal, bucket), at(&sizes.nt, bucket)],
        })
        .collect();
    let series = [("sent", "ordinary stores"), ("nt", "non-temporal")];
    html! {
        figure {
            h3 { "Sizes of writes" }
            p class="note" {
                "A write is a run of stores next to each other, up to the flush or fence that makes it durable."
                @if sizes.watched < 1.0 {
                    " The numbers are estimates: the stores of " (percent(sizes.watched)) " of the events were looked at, in bursts."
                }
            }
            (chart::responsive(|room| {
                let width = if room == chart::Room::Wide { 640.0 } else { room.width() };
                chart::columns("Writes by size", ["writes", "size in bytes, from this many up"], &series, &columns, width)
            }))
        }
    }
}

/// The smallest size of a bucket: `64`, `4 KiB`.
fn bucket_name(bucket: usize) -> String {
    let size = 2f64.powi(i32::try_from(bucket).unwrap_or(i32::MAX));
    human::tick_bytes(size).trim_end_matches(" B").replace("iB", "").replace(' ', "")
}

/// How full the units were that the device wrote.
fn fill_plot(digest: &Digest<'_>) -> Markup {
    let fills = &digest.memory.media_write_fill;
    if fills.iter().all(|count| *count == 0) {
        return html! {};
    }
    let columns: Vec<Column> = fills
        .iter()
        .enumerate()
        .map(|(bucket, writes)| {
            let is_whole = bucket + 1 == fills.len();
            let counts = if is_whole { vec![*writes, 0] } else { vec![0, *writes] };
            Column { name: format!("{}", 64 * (bucket + 1)), counts }
        })
        .collect();
    let series = [("whole", "whole unit new"), ("part", "partly new")];
    html! {
        figure {
            h3 { "How full media writes were" }
            p class="note" { "A unit with only part of it new costs the media a whole one." }
            (chart::columns("Media writes by new bytes", ["media writes", "new bytes in the unit"], &series, &columns, FILL_PX))
        }
    }
}

fn samples(digest: &Digest<'_>) -> Markup {
    let Some(samples) = &digest.report.samples else { return html! {} };
    let rows: Vec<Vec<Cell>> = samples
        .functions
        .iter()
        .take(ROWS_MAX)
        .map(|function| {
            vec![
                Cell::Code(plain(&function.function)),
                Cell::Code(plain(&function.module)),
                Cell::number(function.samples, human::grouped),
                Cell::share(share(function.samples, samples.total)),
            ]
        })
        .collect();
    let caption = format!("{}; {} samples", plain(&samples.method), human::grouped(samples.total));
    html! {
        section id="samples" {
            h2 { "Where time went" }
            (table(&caption, &["function", "module", "samples", "share"], &rows))
        }
    }
}

fn machine(digest: &Digest<'_>) -> Markup {
    let figures = &digest.report.figures;
    html! {
        @if !figures.caches.is_empty() || digest.has_traffic() {
            section id="machine" {
                h2 { "The modelled machine" }
                @if !figures.caches.is_empty() { (caches(digest)) }
                @if digest.has_traffic() {
                    (dimms(digest))
                    (memories(digest))
                    @for note in notes(digest.memory) { p class="note" { (note) } }
                }
            }
        }
    }
}

/// What the tables have no column for.
fn notes(memory: &MemoryFigures) -> Vec<String> {
    let notes = [
        (
            memory.page_collisions,
            human::grouped(memory.page_collisions),
            "writes went to another 4 KiB page of a DIMM than the write before, which was another thread's: streams that \
             compete for its buffer.",
        ),
        (
            memory.partial_line_writes,
            human::grouped(memory.partial_line_writes),
            "controller writes held less than a whole 64 B line: non-temporal stores that did not fill theirs.",
        ),
        (
            memory.held_dirty_bytes,
            bytes(memory.held_dirty_bytes),
            "still waited in the devices' buffers at the end.",
        ),
    ];
    notes
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(_, number, what)| format!("{number} {what}"))
        .collect()
}

fn caches(digest: &Digest<'_>) -> Markup {
    let rows: Vec<Vec<Cell>> = digest
        .report
        .figures
        .caches
        .iter()
        .map(|cache| {
            let all = cache.hits.saturating_add(cache.misses);
            vec![
                Cell::Text(plain(&cache.level)),
                Cell::number(all, count),
                if all == 0 { Cell::optional(None, ratio) } else { Cell::share(share(cache.hits, all)) },
                Cell::number(cache.misses, count),
                Cell::number(cache.evictions, count),
                Cell::number(cache.writebacks, count),
                Cell::number(cache.invalidations, count),
                Cell::number(cache.forwards, count),
            ]
        })
        .collect();
    let head = [
        "level",
        "accesses",
        "hits",
        "misses",
        "evictions",
        "write-backs",
        "invalidations",
        "answered by another core",
    ];
    table("Caches, all cores together", &head, &rows)
}

fn dimms(digest: &Digest<'_>) -> Markup {
    let memory = digest.memory;
    let rows: Vec<Vec<Cell>> = memory
        .per_dimm
        .iter()
        .enumerate()
        .map(|(number, traffic)| {
            let writers = memory.writers_per_dimm.get(number).copied().unwrap_or(0);
            let mut cells = vec![Cell::Text(format!("DIMM {number}"))];
            cells.extend(traffic_cells(traffic));
            cells.push(Cell::number(u64::from(writers), human::grouped));
            cells
        })
        .collect();
    let mut head = vec!["DIMM"];
    head.extend(TRAFFIC_HEAD);
    head.push("writers");
    if rows.is_empty() {
        html! {}
    } else {
        table("DIMMs", &head, &rows)
    }
}

/// The memory that the report is about beside the other one.
fn memories(digest: &Digest<'_>) -> Markup {
    let figures = &digest.report.figures;
    let names = [("persistent ranges", &figures.persistent), ("all other memory", &figures.volatile)];
    let rows: Vec<Vec<Cell>> = names
        .into_iter()
        .filter(|(_, memory)| memory.total != Traffic::default())
        .map(|(name, memory)| {
            let mut cells = vec![Cell::Text(name.to_owned())];
            cells.extend(traffic_cells(&memory.total));
            cells
        })
        .collect();
    let mut head = vec!["memory"];
    head.extend(TRAFFIC_HEAD);
    table("All DIMMs together, by memory", &head, &rows)
}

const TRAFFIC_HEAD: [&str; 7] = [
    "controller read",
    "controller written",
    "media read",
    "media written",
    "EWR",
    "read-modify-writes",
    "buffer hits",
];

fn traffic_cells(traffic: &Traffic) -> [Cell; 7] {
    [
        Cell::number(traffic.controller_read_bytes, bytes),
        Cell::number(traffic.controller_write_bytes, bytes),
        Cell::number(traffic.media_read_bytes, bytes),
        Cell::number(traffic.media_write_bytes, bytes),
        Cell::optional(traffic.ewr(), ratio),
        Cell::number(traffic.read_modify_writes, count),
        Cell::number(traffic.buffer_hits, count),
    ]
}
