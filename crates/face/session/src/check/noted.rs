//! Lints of a run, with the names of their code.

use crash::lint::Lints;
use event::SiteTable;
use report::{Block, CrashLints, Section};

use super::words::quoted;
use crate::sources::Sources;

/// Lints with the names of their code.
#[derive(Debug)]
pub struct Noted {
    /// What was found.
    pub lints: CrashLints,
    /// Names of the code sites.
    pub table: SiteTable,
}

impl From<Lints> for Noted {
    fn from(lints: Lints) -> Self {
        let found = CrashLints { lints: lints.findings(), files: lints.files().to_vec() };
        Noted { lints: found, table: lints.table().clone() }
    }
}

impl Noted {
    /// For people: each with its line of source and what to do.
    #[must_use]
    pub fn text(&self) -> String {
        let sources = Sources::default();
        let mut text = format!("{}\n", self.lints.headline());
        for lint in &self.lints.lints {
            text.push_str(&format!("\n- {}\n", lint.describe(&self.lints.files, &self.table)));
            // The innermost function, and who called it: a flush in a small function is wrong where that is
            // called.
            let site = self.table.site(lint.site).into_iter();
            for frame in site.flat_map(|site| site.frame().into_iter().chain(site.callers()).take(2)) {
                text.push_str(&quoted(frame, &sources));
            }
            text.push_str(&format!("  what to do: {}\n", lint.kind.remedy()));
        }
        text
    }

    /// A section of the page; none if there is nothing to say.
    pub(super) fn section(&self) -> Option<Section> {
        let sources = Sources::default();
        let articles = self.lints.articles(&self.table, &|file| sources.text(file));
        let mut blocks = vec![Block::Text(format!(
            "{}. These come from the order of stores, flushes and fences alone.",
            self.lints.headline()
        ))];
        blocks.extend(articles.into_iter().map(Block::Article));
        let some = !self.lints.lints.is_empty();
        some.then(|| Section { id: "lints".to_owned(), title: "Lints".to_owned(), blocks })
    }
}
