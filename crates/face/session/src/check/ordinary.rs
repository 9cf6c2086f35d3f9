//! What the order of calls on ordinary files says about crashes, without images.

use event::{Site, SiteId, SiteTable};
use report::human::plural;
use report::{Article, Block, Excerpt, Section};
use serde_json::{Value, json};
use writes::{Finding, Lints};

use super::words::quoted;
use crate::sources::Sources;

/// Lints of files with the names of their code.
#[derive(Clone, Debug)]
pub struct Ordinary {
    /// What was found.
    pub findings: Vec<Finding>,
    /// Names of the code sites.
    pub table: SiteTable,
}

impl From<Lints> for Ordinary {
    fn from(lints: Lints) -> Self {
        Ordinary { findings: lints.findings(), table: lints.table().clone() }
    }
}

impl Ordinary {
    /// How many there are.
    #[must_use]
    pub fn headline(&self) -> String {
        match self.findings.iter().filter(|finding| finding.kind.is_danger()).count() {
            _ if self.findings.is_empty() => {
                "nothing found: what the program relies on is synced before".to_owned()
            }
            0 => format!("{} without danger of loss", plural(self.findings.len(), "suspicion")),
            _ => format!("{}: a crash can lose data there", plural(self.findings.len(), "suspicion")),
        }
    }

    /// For people: each with its line of source and what to do.
    #[must_use]
    pub fn text(&self) -> String {
        let sources = Sources::default();
        let mut text = format!("{}\n", self.headline());
        for finding in &self.findings {
            text.push_str(&format!("\n- {}: {}\n", finding.kind.name(), finding.describe(&self.table)));
            for frame in self.table.site(finding.site).into_iter().flat_map(Site::callers).take(2) {
                text.push_str(&quoted(frame, &sources));
            }
            text.push_str(&format!("  what to do: {}\n", finding.kind.remedy()));
        }
        text
    }

    /// A section of the page; none if there is nothing to say.
    pub(crate) fn section(&self) -> Option<Section> {
        let sources = Sources::default();
        let frame = |site: SiteId| self.table.site(site).and_then(|site| site.callers().next());
        let article = |(number, finding): (usize, &Finding)| {
            let places: Vec<_> = [
                frame(finding.site).map(|frame| (frame, finding.kind.name())),
                finding.other.and_then(frame).map(|frame| (frame, "the other call")),
            ]
            .into_iter()
            .flatten()
            .collect();
            let mut blocks = vec![Block::Text(format!("What to do: {}.", finding.kind.remedy()))];
            blocks.extend(
                Excerpt::of_places(&places, &|file| sources.text(file)).into_iter().map(Block::Excerpt),
            );
            Block::Article(Article {
                id: format!("lint-{number}"),
                number,
                title: finding.describe(&self.table),
                blocks,
            })
        };
        let blocks = (1..).zip(&self.findings).map(article).collect();
        let some = !self.findings.is_empty();
        some.then(|| Section { id: "lints".to_owned(), title: "Lints".to_owned(), blocks })
    }

    /// With the fields of other lints.
    #[must_use]
    pub fn json(&self) -> Vec<Value> {
        let code = |site: SiteId| {
            let (frame, callers) = self.table.site(site)?.frames.split_first()?;
            let mut code = json!(frame);
            code["callers"] = json!(callers);
            Some(code)
        };
        let one = |finding: &Finding| {
            json!({
                "lint": finding.kind.name(),
                "danger": finding.kind.is_danger(),
                "text": finding.describe(&self.table),
                "remedy": finding.kind.remedy(),
                "count": finding.count,
                "bytes": finding.bytes,
                "code": code(finding.site),
                "flush": finding.other.and_then(code),
                "missed": [],
                "place": { "file": finding.path, "offset": finding.offset },
            })
        };
        self.findings.iter().map(one).collect()
    }
}
