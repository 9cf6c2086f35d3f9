//! A page of curves, tables and words, for results that are not a profile: `measure`, `simulate`, `reproduce`, `check`.
//!
//! It has the look and the promises of the profile's page: one file, no network, whole without scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart::{self, Curves, Order};
use crate::html::{Excerpt, POLICY, SCRIPT, STYLE, table};
use crate::human::{plain, shell};

pub use crate::html::table::Cell;

/// A page. Texts are shown as they are, without control characters; nothing in them is taken as HTML.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The verb that made it: `measure`.
    pub verb: String,
    /// What it is about.
    pub title: String,
    /// Machine, seed, version, date: what a figure needs to be believed.
    pub meta: Vec<String>,
    /// The result in one sentence.
    pub headline: String,
    /// Under the headline, a paragraph each.
    pub story: Vec<String>,
    /// What the reader has to know before believing the figures, each set apart.
    pub cautions: Vec<String>,
    /// The sections, each with an entry in the page's navigation.
    pub sections: Vec<Section>,
    /// The command that makes this page again; empty for none.
    pub command: Vec<String>,
}

/// A section of a [`Page`].
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The target of links to it; letters, digits, `-`, `.` and `_` stay, others become `-`.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What is in it, from top to bottom.
    pub blocks: Vec<Block>,
}

/// A piece of a [`Section`].
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A heading within the section.
    Heading(String),
    /// A chart, under its title.
    Curves(Curves),
    /// A table that sorts by a click on a column's head.
    Table(Table),
    /// Sentences, one below the other.
    List(Vec<String>),
    /// Lines of a source file.
    Excerpt(Excerpt),
    /// The steps around a crash.
    Order(Order),
    /// A command to type, one string per argument.
    Command(Vec<String>),
    /// Something that stands for itself, set apart.
    Article(Article),
}

/// A numbered piece of a section with a heading of its own.
#[derive(Clone, Debug, Default)]
pub struct Article {
    /// The target of links to it, as in [`Section::id`].
    pub id: String,
    /// Its number.
    pub number: usize,
    /// Its heading.
    pub title: String,
    /// What is in it.
    pub blocks: Vec<Block>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The columns' names.
    pub head: Vec<String>,
    /// The rows, each as long as `head`.
    pub rows: Vec<Vec<Cell>>,
}

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

/// What is in a section or an article.
pub(crate) fn blocks(blocks: &[Block]) -> Markup {
    html! {
        @for block in blocks { (one(block)) }
    }
}

fn one(block: &Block) -> Markup {
    html! {
        @match block {
            Block::Text(text) => { p { (plain(text)) } }
            Block::Heading(text) => { h3 { (plain(text)) } }
            Block::Curves(curves) => {
                h3 { (plain(&curves.title)) }
                figure { (chart::responsive(|room| chart::curves(curves, room))) }
            }
            Block::Table(shown) => {
                @let head: Vec<&str> = shown.head.iter().map(String::as_str).collect();
                (table::table(&plain(&shown.caption), &head, &shown.rows))
            }
            Block::List(items) => { ul class="told" { @for item in items { li { (plain(item)) } } } }
            Block::Excerpt(excerpt) => { (excerpt.markup()) }
            Block::Order(order) => {
                h4 { (plain(&order.title)) }
                figure class="order" { (chart::responsive(|room| chart::order(order, room))) }
            }
            Block::Command(words) => { pre class="command" { code { (plain(&shell(words))) } } }
            Block::Article(article) => {
                article id=(anchor(&article.id)) {
                    h3 { span class="ordinal" { (article.number) "." } " " (plain(&article.title)) }
                    (blocks(&article.blocks))
                }
            }
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

/// What can be a link's target without quoting.
fn anchor(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' }).collect()
}
