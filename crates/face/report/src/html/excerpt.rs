//! Lines of a source file.

use maud::{Markup, html};

use crate::excerpt::Excerpt;
use crate::human::plain;

/// The lines with their numbers, those that are meant set apart.
pub fn excerpt(lines: &Excerpt) -> Markup {
    let word = |line| lines.meant.iter().find(|(meant, _)| *meant == line).map(|(_, word)| word);
    html! {
        figure class="source" {
            figcaption { code { (plain(&lines.file)) ":" (lines.meant[0].0) } }
            pre {
                @for (number, line) in &lines.lines {
                    @let word = word(*number);
                    span class=(if word.is_some() { "line meant" } else { "line" }) {
                        span class="lineno" { (number) }
                        code { (line) }
                        @if let Some(word) = word.filter(|word| !word.is_empty()) { span class="says" { (plain(word)) } }
                        "\n"
                    }
                }
            }
        }
    }
}
