//! A page of curves, tables and words, for results that are not a profile: `measure`, `simulate`,
//! `reproduce`, `check`.
//!
//! It has the look and the promises of the profile's page: one file, no network, whole without scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::blocks::{anchor, blocks};
use super::frame::{POLICY, SCRIPT, STYLE};
use crate::content::{Page, Section};
use crate::human::{plain, shell};

/// `page` as one self-contained HTML file. The same page gives the same bytes.
#[must_use]
pub fn page(page: &Page) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (plain(&page.title)) " - Strandline " (plain(&page.verb)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (header(page))
                main {
                    (summary(page))
                    @for section in &page.sections { (shown(section)) }
                    (again(page))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

fn header(page: &Page) -> Markup {
    html! {
        header {
            p class="brand" { "Strandline " span { (plain(&page.verb)) } }
            h1 { (plain(&page.title)) }
            @if !page.meta.is_empty() {
                p class="meta" {
                    @for (at, fact) in page.meta.iter().enumerate() {
                        @if at == 0 { b { (plain(fact)) } } @else { span { (plain(fact)) } }
                    }
                }
            }
            nav aria-label="Sections" {
                @for section in &page.sections { a href=(format!("#{}", anchor(&section.id))) { (plain(&section.title)) } }
            }
        }
    }
}

fn summary(page: &Page) -> Markup {
    html! {
        section id="summary" {
            h2 class="headline" { (plain(&page.headline)) }
            @for text in &page.story { p class="story" { (plain(text)) } }
            @for text in &page.cautions { p class="caution" { (plain(text)) } }
        }
    }
}

fn shown(section: &Section) -> Markup {
    html! {
        section id=(anchor(&section.id)) {
            h2 { (plain(&section.title)) }
            (blocks(&section.blocks))
        }
    }
}

fn again(page: &Page) -> Markup {
    html! {
        @if !page.command.is_empty() {
            section id="again" {
                h2 { "To make this page again" }
                pre class="command" { code { (plain(&shell(&page.command))) } }
            }
        }
    }
}
