//! What a page has: sections, blocks, tables, as data. The renderers are in `html`.

use crate::chart::{Curves, Order};
use crate::excerpt::Excerpt;

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

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A name of the program: function, file.
    Code(String),
    /// A number as people read it, and as sorting needs it.
    Number(String, f64),
}

impl Cell {
    /// A count or size with its way of being written.
    #[must_use]
    pub fn number(value: u64, write: fn(u64) -> String) -> Cell {
        Cell::Number(write(value), value as f64)
    }

    /// A ratio that may be missing; missing ones sort last.
    #[must_use]
    pub fn optional(value: Option<f64>, write: fn(Option<f64>) -> String) -> Cell {
        Cell::Number(write(value), value.unwrap_or(f64::MAX))
    }

    /// A share of a whole.
    #[must_use]
    pub fn share(value: f64) -> Cell {
        Cell::Number(crate::human::percent(value), value)
    }
}
