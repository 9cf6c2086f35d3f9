//! What events alone say about crashes: suspicions with a place, each with its code and what to do.

use crash::lint::Lint;
use event::{Frame, Site, SiteId, SiteTable};
use serde::Serialize;

use crate::content::{Article, Block};
use crate::excerpt::Excerpt;
use crate::human::plural;

/// What the lints found in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashLints {
    /// The dangerous ones first.
    pub lints: Vec<Lint>,
    /// The persistent files, by the numbers in their places.
    pub files: Vec<String>,
}

/// A lint as JSON. `docs/check-json.md` describes the fields.
#[derive(Clone, Debug, Serialize)]
pub struct LintJson {
    lint: &'static str,
    danger: bool,
    text: String,
    remedy: &'static str,
    count: u64,
    bytes: u64,
    code: Option<CodeJson>,
    flush: Option<CodeJson>,
    missed: Vec<CodeJson>,
    place: Option<PlaceJson>,
}

#[derive(Clone, Debug, Serialize)]
struct CodeJson {
    #[serde(flatten)]
    frame: Frame,
    callers: Vec<Frame>,
}

#[derive(Clone, Debug, Serialize)]
struct PlaceJson {
    file: Option<String>,
    offset: u64,
}

impl CrashLints {
    /// Whether one of them can lose data in a crash.
    pub(crate) fn are_dangers(&self) -> bool {
        self.lints.iter().any(|lint| lint.kind.is_danger())
    }

    /// How many there are, and how many of them matter in a crash.
    #[must_use]
    pub fn headline(&self) -> String {
        let dangers = self.lints.iter().filter(|lint| lint.kind.is_danger()).count();
        match (self.lints.len(), dangers) {
            (0, _) => "No place in the code looks wrong: what is stored is flushed and fenced".to_owned(),
            (all, 0) => format!(
                "{} without danger: needless work, or stores that may be meant",
                plural(all, "suspicion")
            ),
            (1, _) => "1 suspicion: it can lose data in a crash".to_owned(),
            (all, dangers) if all == dangers => format!("{all} suspicions: all can lose data in a crash"),
            (all, dangers) => format!("{all} suspicions: {dangers} of them can lose data in a crash"),
        }
    }

    /// For other programs.
    #[must_use]
    pub fn json(&self, table: &SiteTable) -> Vec<LintJson> {
        let code = |site: SiteId| {
            let (frame, callers) = table.site(site)?.frames.split_first()?;
            Some(CodeJson { frame: frame.clone(), callers: callers.to_vec() })
        };
        let one = |lint: &Lint| LintJson {
            lint: lint.kind.name(),
            danger: lint.kind.is_danger(),
            text: lint.describe(&self.files, table),
            remedy: lint.kind.remedy(),
            count: lint.count,
            bytes: lint.bytes,
            code: code(lint.site),
            flush: lint.flush.and_then(code),
            missed: lint.missed_code().filter_map(code).collect(),
            place: lint.example.map(|place| PlaceJson {
                file: self.files.get(usize::from(place.file())).cloned(),
                offset: place.offset(),
            }),
        };
        self.lints.iter().map(one).collect()
    }

    /// For a page: each with its lines of source.
    #[must_use]
    pub fn articles(&self, table: &SiteTable, source: &dyn Fn(&str) -> Option<String>) -> Vec<Article> {
        let one = |(number, lint): (usize, &Lint)| {
            let frame = |site: SiteId| table.site(site).and_then(Site::frame);
            let word = lint.kind.name().replace('-', " ");
            // A flush in a small function is wrong where that is called.
            let caller = table.site(lint.site).and_then(|site| site.callers().next());
            let places: Vec<_> = [
                frame(lint.site).map(|frame| (frame, word.as_str())),
                caller.map(|frame| (frame, "called")),
                lint.flush.and_then(frame).map(|frame| (frame, "flushed")),
            ]
            .into_iter()
            .flatten()
            .collect();
            let mut blocks = vec![Block::Text(format!("What to do: {}.", lint.kind.remedy()))];
            blocks.extend(Excerpt::of_places(&places, source).into_iter().map(Block::Excerpt));
            Article { id: format!("lint-{number}"), number, title: lint.describe(&self.files, table), blocks }
        };
        (1..).zip(&self.lints).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crash::lint::Kind;

    #[test]
    fn the_headline_counts_what_matters() {
        let headline = |kinds: &[Kind]| {
            let lint = |&kind: &Kind| Lint {
                kind,
                site: SiteId(1),
                count: 1,
                bytes: 8,
                example: None,
                flush: None,
                missed: Vec::new(),
            };
            CrashLints { lints: kinds.iter().map(lint).collect(), files: Vec::new() }.headline()
        };
        let (danger, slow) = (Kind::NeverFlushed, Kind::RedundantFlush);
        assert!(headline(&[]).starts_with("No place"));
        assert_eq!(headline(&[danger]), "1 suspicion: it can lose data in a crash");
        assert_eq!(headline(&[danger, danger]), "2 suspicions: all can lose data in a crash");
        assert_eq!(headline(&[danger, slow]), "2 suspicions: 1 of them can lose data in a crash");
        assert!(headline(&[slow]).starts_with("1 suspicion without danger"));
    }
}
