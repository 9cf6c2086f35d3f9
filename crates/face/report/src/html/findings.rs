//! What the advisors said, each with the code that it is about.

use advise::Finding;
use maud::{Markup, html};

use crate::digest::Digest;
use crate::excerpt::Excerpt;
use crate::html::excerpt::excerpt;
use crate::html::page::share_bar;
use crate::human::{percent, plain};

/// Places of a finding that are listed, and how many of them are quoted.
const PLACES_MAX: usize = 8;
const EXCERPTS_MAX: usize = 2;

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
                @if let Some(gain) = digest.report.gain(finding) {
                    dt { "Tried" } dd { "on the modelled machine, with a part of the run's accesses: " (percent(gain)) " less time" }
                }
                dt { "Rule" } dd { code { (finding.rule.name()) } }
            }
            @if !finding.sites.is_empty() { (places(digest, finding)) }
            @for part in finding.sites.iter().take(EXCERPTS_MAX) {
                @let frame = digest.report.sites.site(part.site).and_then(|site| site.frame());
                @if let Some(lines) = frame.and_then(|frame| Excerpt::of(frame, source)) { (excerpt(&lines)) }
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
                        span class="inlined" { " in " code { (plain(&frame.to_string())) } }
                    }
                }
            }
            @if finding.sites.len() > PLACES_MAX {
                li class="note" { "and " (finding.sites.len() - PLACES_MAX) " more" }
            }
        }
    }
}
