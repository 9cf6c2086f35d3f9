//! The summary on the terminal.

use advise::Finding;

use crate::digest::{Digest, Row, share, sum};
use crate::human::{self, bytes, count, elide, pad_left, pad_right, percent, plain, ratio};
use crate::model::Report;
use crate::prestores::listed;

/// Narrowest and widest text; outside of these a line is cut short or gets hard to read.
const COLUMNS_MIN: usize = 60;
const COLUMNS_MAX: usize = 100;
/// Rows in the tables of functions.
const FUNCTIONS_MAX: usize = 10;
/// Width of a finding's share bar.
const BAR_COLUMNS: usize = 20;

/// The report for a terminal of `width` columns, with ANSI colours if `color`.
///
/// Summary first: what is wrong, what to do, what it explains. Then the key figures, then the hottest
/// functions. Ends with a line break.
#[must_use]
pub fn terminal(report: &Report, width: usize, color: bool) -> String {
    let digest = Digest::new(report);
    let mut page = Page { text: String::new(), columns: width.clamp(COLUMNS_MIN, COLUMNS_MAX), color };
    head(&mut page, &digest);
    for (number, finding) in (1..).zip(&report.findings) {
        self::finding(&mut page, &digest, number, finding);
    }
    crash_lints(&mut page, report);
    key_figures(&mut page, &digest);
    hottest(&mut page, &digest);
    structures(&mut page, report);
    prestores(&mut page, report);
    worn(&mut page, report);
    samples(&mut page, report);
    omissions(&mut page, &digest);
    page.text
}

/// Text that grows line by line.
struct Page {
    text: String,
    columns: usize,
    color: bool,
}

/// How a piece of text looks.
#[derive(Clone, Copy)]
enum Style {
    Bold,
    Dim,
    Wrong,
    Remedy,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, text: &str) {
        self.line("");
        self.paragraph(Some(Style::Bold), "", "", text);
    }

    /// `text` broken into lines, each with `indent` before it but the first with `first`.
    fn paragraph(&mut self, style: Option<Style>, first: &str, indent: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let options = textwrap::Options::new(self.columns).initial_indent(first).subsequent_indent(indent);
        for line in textwrap::wrap(text, options) {
            let line = style.map_or_else(|| line.to_string(), |style| self.styled(style, &line));
            self.line(&line);
        }
    }

    fn styled(&self, style: Style, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Wrong => "33",
            Style::Remedy => "32",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

fn head(page: &mut Page, digest: &Digest<'_>) {
    let run = &digest.report.run;
    let title = page.styled(Style::Bold, &elide(&digest.subject(), page.columns));
    page.line(&title);
    let seed = run.seed.map(|seed| format!("seed {seed}"));
    let parts = [
        Some(format!("strandline {}", plain(&run.version))),
        Some(format!("machine {}", plain(&digest.report.figures.machine))),
        seed,
        Some(plain(&run.date)),
        Some(plain(&run.host)),
    ];
    let line = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    page.paragraph(Some(Style::Dim), "", "", &line);
    page.line("");
    page.paragraph(Some(Style::Bold), "", "", &digest.headline());
    page.paragraph(None, "", "", &digest.story());
    page.paragraph(None, "", "", &digest.scope());
    for caution in digest.cautions() {
        page.paragraph(Some(Style::Wrong), "! ", "  ", &caution);
    }
}

fn finding(page: &mut Page, digest: &Digest<'_>, number: usize, finding: &Finding) {
    page.line("");
    let lead = format!("{number}. ");
    let indent = " ".repeat(lead.len());
    page.paragraph(Some(Style::Bold), &lead, &indent, &plain(&finding.title));
    let bar = page.styled(Style::Wrong, &bar(finding.share));
    let of = elide(&plain(&finding.share_of), page.columns - BAR_COLUMNS - 20);
    let explains = format!("{indent}{bar} {} of the {of}", percent(finding.share));
    page.line(&explains);
    for site in finding.sites.iter().take(3) {
        let label = digest.label(site.site);
        let part = pad_left(&percent(site.share), 8);
        let place = elide(&label, page.columns - indent.len() - part.len() - 2);
        page.line(&format!("{indent}{part}  {place}"));
    }
    if let Some(gain) = digest.report.gain(finding) {
        page.line(&format!("{indent}remedy tried on the model: {} less time", percent(gain)));
    }
    if finding.sites.len() > 3 {
        page.line(&format!("{indent}          and {}", human::plural(finding.sites.len() - 3, "more place")));
    }
    page.paragraph(None, &indent, &indent, &plain(&finding.evidence));
    page.paragraph(
        Some(Style::Remedy),
        &format!("{indent}-> "),
        &format!("{indent}   "),
        &plain(&finding.remedy),
    );
}

fn key_figures(page: &mut Page, digest: &Digest<'_>) {
    let counts = &digest.report.counts;
    if counts.events == 0 {
        return;
    }
    page.heading("Key figures");
    let total = digest.total();
    if digest.has_traffic() {
        let rows = [
            (
                "EWR",
                format!(
                    "{}  (bytes written by the controller / by the device to its media)",
                    ratio(total.ewr())
                ),
            ),
            (
                "Writes",
                format!(
                    "controller {}, media {}",
                    bytes(total.controller_write_bytes),
                    bytes(total.media_write_bytes)
                ),
            ),
            (
                "Reads",
                format!(
                    "controller {}, media {}",
                    bytes(total.controller_read_bytes),
                    bytes(total.media_read_bytes)
                ),
            ),
            (
                "Device",
                format!(
                    "{} read-modify-writes, {} buffer hits",
                    count(total.read_modify_writes),
                    count(total.buffer_hits)
                ),
            ),
        ];
        // Where a unit is a line, nothing is amplified.
        let plain = digest.report.figures.unit_bytes <= 64;
        for (name, text) in rows.into_iter().filter(|(name, _)| !plain || !matches!(*name, "EWR" | "Device"))
        {
            figure(page, name, &text);
        }
    }
    let caches = digest.report.figures.caches.iter().filter(|cache| cache.hits > 0 || cache.misses > 0);
    let caches: Vec<String> = caches
        .map(|cache| {
            format!(
                "{} {}",
                plain(&cache.level),
                percent(share(cache.hits, cache.hits.saturating_add(cache.misses)))
            )
        })
        .collect();
    if !caches.is_empty() {
        figure(page, "Cache hits", &caches.join(", "));
    }
    figure(page, "Program", &program(counts));
    let run = format!(
        "{} events of {} in {}",
        count(counts.events),
        human::plural(digest.report.figures.threads as usize, "thread"),
        human::duration(digest.report.run.duration)
    );
    figure(page, "Run", &run);
}

/// What the program did, without what it did not.
fn program(counts: &event::Counts) -> String {
    let sized = [
        ("loads", counts.loads, counts.load_bytes),
        ("stores", counts.stores, counts.store_bytes),
        ("non-temporal stores", counts.nt_stores, counts.nt_bytes),
    ];
    let sized =
        sized.map(|(name, times, size)| (times, format!("{} {name} ({})", count(times), bytes(size))));
    let plain = [("flushes", counts.flushes), ("demotions", counts.demotes), ("fences", counts.fences)];
    let plain = plain.map(|(name, times)| (times, format!("{} {name}", count(times))));
    let parts: Vec<String> =
        sized.into_iter().chain(plain).filter(|(times, _)| *times > 0).map(|(_, text)| text).collect();
    if parts.is_empty() { "no access to memory".to_owned() } else { parts.join(", ") }
}

fn figure(page: &mut Page, name: &str, text: &str) {
    let indent = " ".repeat(14);
    page.paragraph(None, &pad_right(&format!("  {name}"), indent.len()), &indent, text);
}

fn hottest(page: &mut Page, digest: &Digest<'_>) {
    if digest.functions.is_empty() {
        return;
    }
    let reads = digest.total().media_write_bytes == 0;
    let of = |row: &Row| if reads { row.memory.read_bytes } else { row.memory.media_write_bytes };
    let whole = sum(digest.functions.iter().map(of));
    page.heading(if reads {
        "Hottest functions by bytes read (nothing was written to media)"
    } else {
        "Hottest functions by bytes written to media"
    });
    let page_columns = page.columns;
    let row = |first: &str, part: &str, ewr: &str, evicted: &str, name: &str| {
        let numbers = [(first, 12), (part, 9), (ewr, 8), (evicted, 11)];
        let numbers: String = numbers.iter().map(|(text, columns)| pad_left(text, *columns)).collect();
        format!("{numbers}  {}", elide(name, page_columns - 42))
    };
    let title =
        row(if reads { "read" } else { "media" }, "share", "EWR", "evicted", "function (hottest line)");
    let title = page.styled(Style::Dim, &title);
    page.line(&title);
    let rows: Vec<&Row> = digest.functions.iter().filter(|row| of(row) > 0).collect();
    for function in rows.iter().take(FUNCTIONS_MAX) {
        let memory = &function.memory;
        let line = row(
            &bytes(of(function)),
            &percent(share(of(function), whole)),
            &ratio(function.ewr()),
            &if memory.controller_write_bytes == 0 {
                "-".to_owned()
            } else {
                percent(share(memory.evicted_bytes, memory.controller_write_bytes))
            },
            &function.label,
        );
        page.line(&line);
    }
    if rows.len() > FUNCTIONS_MAX {
        let rest = rows.len() - FUNCTIONS_MAX;
        let left = sum(rows.iter().skip(FUNCTIONS_MAX).map(|row| of(row)));
        let name = format!("({})", human::plural(rest, "other function"));
        let line = row(&bytes(left), &percent(share(left, whole)), "", "", &name);
        page.line(&line);
    }
}

/// Fields of a structure that are listed.
const FIELDS_MAX: usize = 8;
/// Call stacks of one.
const STACKS_MAX: usize = 4;

fn structures(page: &mut Page, report: &Report) {
    let shown: Vec<_> = report.structures.iter().filter(|one| one.fetches > 0).take(5).collect();
    if shown.is_empty() {
        return;
    }
    page.heading("Data structures by lines fetched (blocks by allocation site; where in a block)");
    for one in shown {
        let numbers = format!(
            "{} blocks, {} at most, {} lines, {}",
            count(one.blocks),
            bytes(one.peak_bytes),
            count(one.fetches),
            human::plural(one.threads as usize, "thread")
        );
        let label = elide(&plain(&one.label), page.columns - 4);
        page.line(&format!("  {label}"));
        page.line(&format!("    {}  {}", pad_right(&one.heat(32), 32), elide(&numbers, page.columns - 38)));
        let most = one.fields.iter().map(|field| field.loads + field.stores).max().unwrap_or(0);
        if one.stacks.len() > 1 {
            for stack in one.stacks.iter().take(STACKS_MAX) {
                let numbers = format!("{} blocks, {} at most", count(stack.blocks), bytes(stack.peak_bytes));
                let calls = elide(&plain(&stack.calls()), page.columns.saturating_sub(12 + numbers.len()));
                page.line(&format!("      {numbers}: {calls}"));
            }
        }
        for field in one.listed(FIELDS_MAX) {
            let uses = format!("{} loads, {} stores", count(field.loads), count(field.stores));
            let threads = if one.threads > 1 && !field.threads.is_empty() {
                format!(", threads {}", field.by())
            } else {
                String::new()
            };
            let name = format!("{:>4} {}", field.offset, elide(&plain(&field.name), 22));
            let line =
                format!("{} {} {uses}{threads}", pad_right(&name, 28), pad_right(&field.bar(most, 8), 8));
            page.line(&format!("    {}", elide(&line, page.columns - 6)));
        }
    }
}

fn prestores(page: &mut Page, report: &Report) {
    let Some(prestores) = &report.prestores else { return };
    let (places, more) = listed(prestores);
    if places.is_empty() {
        return;
    }
    page.heading("Pre-stores: data to send towards memory early");
    for one in places {
        let name = format!("{}  {}", pad_right(one.choice().name(), 6), one.label());
        page.line(&format!("  {}", elide(&name, page.columns - 2)));
        page.paragraph(None, "          ", "          ", &one.reason());
    }
    if more > 0 {
        page.line(&format!("          and {}", human::plural(more, "more place")));
    }
    page.paragraph(Some(Style::Dim), "  ", "  ", &prestores.caution());
}

fn worn(page: &mut Page, report: &Report) {
    let Some(wear) = report.wear.as_ref().filter(|wear| wear.assessment.writes > 0) else { return };
    page.heading("Wear: when the memory is worn out, and what would help");
    page.paragraph(None, "  ", "  ", &wear.headline());
    for line in crate::wear::terminal(wear, &report.sites) {
        page.paragraph(None, "  ", &" ".repeat(30), &line);
    }
    page.paragraph(Some(Style::Dim), "  ", "  ", &wear.more());
}

fn crash_lints(page: &mut Page, report: &Report) {
    let Some(lints) = &report.crash_lints else { return };
    page.heading("Crashes");
    if let Some(crashes) = &report.crash_findings {
        page.paragraph(None, "  ", "  ", &format!("{} ({}).", crashes.headline(), plain(&crashes.examined)));
        for finding in &crashes.findings {
            page.paragraph(Some(Style::Wrong), "  - ", "    ", &plain(&finding.message));
            for line in &finding.story {
                page.paragraph(None, "    ", "    ", &plain(line));
            }
            let again = format!(
                "again: strandline check --out {} --recover … --replay {}",
                crashes.folder, finding.token
            );
            // Not broken into lines: it is there to be copied.
            let again = page.styled(Style::Remedy, &plain(&again));
            page.line(&format!("    {again}"));
        }
    }
    if report.lints_are_news(lints) {
        page.paragraph(None, "  ", "  ", &lints.headline());
    }
    for lint in &lints.lints {
        let style = lint.kind.is_danger().then_some(Style::Wrong);
        page.paragraph(style, "  - ", "    ", &plain(&lint.describe(&lints.files, &report.sites)));
        page.paragraph(Some(Style::Remedy), "    ", "    ", lint.kind.remedy());
    }
}

fn samples(page: &mut Page, report: &Report) {
    let Some(samples) = &report.samples else { return };
    page.heading(&format!("Where time went ({}; {} samples)", plain(&samples.method), count(samples.total)));
    for function in samples.functions.iter().take(FUNCTIONS_MAX) {
        let part = pad_left(&percent(share(function.samples, samples.total)), 10);
        let name = format!("{} ({})", plain(&function.function), plain(&function.module));
        page.line(&format!("{part}  {}", elide(&name, page.columns - 12)));
    }
}

fn omissions(page: &mut Page, digest: &Digest<'_>) {
    let omissions = digest.omissions();
    if omissions.is_empty() {
        return;
    }
    page.heading("Not done");
    for (what, why) in omissions {
        page.paragraph(None, "  ", "    ", &format!("{what}: {why}"));
    }
}

/// A bar of fixed width; anything above nothing shows at least one block.
fn bar(share: f64) -> String {
    let share = share.clamp(0.0, 1.0);
    let blocks = (share * BAR_COLUMNS as f64).round() as usize;
    let blocks = if share > 0.0 { blocks.max(1) } else { 0 };
    format!("{}{}", "\u{2588}".repeat(blocks), "\u{2591}".repeat(BAR_COLUMNS - blocks))
}
