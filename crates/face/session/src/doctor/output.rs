//! As text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::{Doctor, State};

impl Doctor {
    /// For a terminal: what is there, then what is limited by what is not.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let width = self.facts.iter().map(|fact| fact.what.chars().count()).max().unwrap_or(0);
        for fact in &self.facts {
            let mark = match fact.state {
                State::Yes => "yes   ",
                State::Partly => "partly",
                State::No => "no    ",
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{mark}  {:width$}  {}", fact.what, fact.detail);
        }
        if self.limits.is_empty() {
            text.push_str("\nNo verb is limited.\n");
            return text;
        }
        text.push_str("\nLimited here (all other verbs, and all else of these, work):\n");
        let mut by_remedy: Vec<(&str, &str, Vec<String>)> = Vec::new();
        for limit in &self.limits {
            let line = format!("{}: {}", limit.verb, limit.loses);
            match by_remedy
                .iter_mut()
                .find(|(remedy, because, _)| (*remedy, *because) == (limit.remedy, limit.because))
            {
                Some((_, _, lines)) => lines.push(line),
                None => by_remedy.push((limit.remedy, limit.because, vec![line])),
            }
        }
        for (remedy, _, lines) in by_remedy {
            let _ = writeln!(text, "\n  {}\n    remedy: {remedy}", lines.join("\n  "));
        }
        text
    }

    /// The fields that `docs/doctor.md` documents.
    #[must_use]
    pub fn json(&self) -> Value {
        let facts: Vec<Value> = self
            .facts
            .iter()
            .map(|fact| {
                json!({ "id": fact.id, "what": fact.what, "state": fact.state.name(), "detail": fact.detail })
            })
            .collect();
        let limits: Vec<Value> = self
            .limits
            .iter()
            .map(|limit| {
                json!({
                    "verb": limit.verb,
                    "loses": limit.loses,
                    "because": limit.because,
                    "remedy": limit.remedy,
                })
            })
            .collect();
        let mut verbs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for limit in &self.limits {
            let because = verbs.entry(limit.verb).or_default();
            if !because.contains(&limit.because) {
                because.push(limit.because);
            }
        }
        json!({
            "format": 1,
            "version": env!("CARGO_PKG_VERSION"),
            "facts": facts,
            "limits": limits,
            "limited_verbs": verbs,
        })
    }
}
