//! What the advisors said, each with the code that it is about.

use advise::Finding;
use event::Frame;
use maud::{Markup, html};

use crate::digest::Digest;
use crate::html::page::share_bar;
use crate::human::{percent, plain};

/// Lines before and after the one that is meant.
const CONTEXT_LINES: usize = 3;
/// Places of a finding that are listed, and how many of them are quoted.
const PLACES_MAX: usize = 8;
const EXCERPTS_MAX: usize = 2;
/// Letters of a source line; generated code has lines of megabytes.
const LINE_LETTERS_MAX: usize = 240;

/// All findings, or nothing.
pub fn section(digest: &Digest<'_>, source: &dyn Fn(&str) -> Option<String>) -> Markup {
    let findings = &digest.report.findings;
    html! {
        @if !findings.is_empty() {
            section id="findings" {
                h2 { "Findings" }
                @for (number, finding) in (1..).zip(findings) {
                    (one(digest, number, finding, source))
                }
            }
        }
    }
}

fn one(
    digest: &Digest<'_>,
    number: usize,
    finding: &Finding,
    source: &dyn Fn(&str) -> Option<String>,
) -> Markup {
    html! {
        article id=(format!("finding-{number}")) {
            div class="top" {
                h3 { span class="ordinal" { (number) "." } " " (plain(&finding.title)) }
                (share_bar(finding.share, &finding.share_of))
            }
            dl {
                dt { "Evidence" } dd { (plain(&finding.evidence)) }
                dt { "Remedy" } dd class="remedy" { (plain(&finding.remedy)) }
                dt { "Rule" } dd { code { (finding.rule.name()) } }
            }
            @if !finding.sites.is_empty() { (places(digest, finding)) }
            @for part in finding.sites.iter().take(EXCERPTS_MAX) {
                @if let Some(frame) = digest.report.sites.site(part.site).and_then(|site| site.frame()) {
                    (excerpt(frame, source))
                }
            }
        }
    }
}

/// Where it comes from: share, place, and the functions that it was inlined into.
fn places(digest: &Digest<'_>, finding: &Finding) -> Markup {
    html! {
        ul class="places" {
            @for part in finding.sites.iter().take(PLACES_MAX) {
                li {
                    span class="part" { (percent(part.share)) }
                    code { (digest.label(part.site)) }
                    @let outer = digest.report.sites.site(part.site).map_or(&[][..], |site| site.frames.as_slice());
                    @for frame in outer.iter().skip(1) {
                        span class="inlined" { " in " code { (place(frame)) } }
                    }
                }
            }
            @if finding.sites.len() > PLACES_MAX {
                li class="note" { "and " (finding.sites.len() - PLACES_MAX) " more" }
            }
        }
    }
}

fn place(frame: &Frame) -> String {
    let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
    if file.is_empty() {
        return plain(&frame.function);
    }
    plain(&format!("{} ({file}:{})", frame.function, frame.line))
}

/// A few lines around a place, if the source is there and has that line.
fn excerpt(frame: &Frame, source: &dyn Fn(&str) -> Option<String>) -> Markup {
    let quoted = (!frame.file.is_empty() && frame.line > 0)
        .then(|| source(&frame.file))
        .flatten()
        .map(|text| around(&text, frame.line as usize))
        .unwrap_or_default();
    html! {
        @if !quoted.is_empty() {
            figure class="source" {
                figcaption { code { (plain(&frame.file)) ":" (frame.line) } }
                pre {
                    @for (number, line) in &quoted {
                        @let meant = *number == frame.line as usize;
                        span class=(if meant { "line meant" } else { "line" }) {
                            span class="lineno" { (number) }
                            code { (line) "\n" }
                        }
                    }
                }
            }
        }
    }
}

/// The numbered lines around `line`; none if the text is too short, which means that it is another version.
fn around(text: &str, line: usize) -> Vec<(usize, String)> {
    let first = line.saturating_sub(CONTEXT_LINES).max(1);
    let lines: Vec<(usize, String)> = text
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line))
        .skip(first - 1)
        .take(line + CONTEXT_LINES + 1 - first)
        .map(|(number, line)| (number, plain(&line.replace('\t', "    "))))
        .map(|(number, line)| (number, line.chars().take(LINE_LETTERS_MAX).collect()))
        .collect();
    if lines.iter().any(|(number, _)| *number == line) { lines } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_stop_at_the_ends_of_the_file() {
        let text = "a\nb\nc\nd\ne\n";
        let numbers = |line| around(text, line).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(numbers(1), [1, 2, 3, 4]);
        assert_eq!(numbers(5), [2, 3, 4, 5]);
        assert!(numbers(6).is_empty(), "a line that the file lacks is not quoted");
        assert!(around("", 1).is_empty());
    }

    #[test]
    fn long_lines_and_tabs_are_tamed() {
        let text = format!("\tx\u{1b}{}", "y".repeat(10_000));
        let lines = around(&text, 1);
        assert!(lines[0].1.starts_with("    x\u{fffd}y"));
        assert_eq!(lines[0].1.chars().count(), LINE_LETTERS_MAX);
    }
}
