//! The blocks of sections and articles.

use maud::{Markup, html};

use super::excerpt::excerpt;
use super::table::table;
use crate::chart;
use crate::content::Block;
use crate::human::{plain, shell};

/// What is in a section or an article.
pub fn blocks(blocks: &[Block]) -> Markup {
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
                (table(&plain(&shown.caption), &head, &shown.rows))
            }
            Block::List(items) => { ul class="steps" { @for item in items { li { (plain(item)) } } } }
            Block::Excerpt(lines) => { (excerpt(lines)) }
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

/// What can be a link's target without quoting.
pub fn anchor(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' }).collect()
}
