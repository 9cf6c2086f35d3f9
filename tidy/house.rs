//! The table of crates in ARCHITECTURE.md: which storey each stands in and what it may use.

use std::collections::BTreeMap;

/// The storeys, the lowest first. A crate may use all of a lower storey.
pub const STOREYS: &[&str] = &["base", "library", "observe", "model", "advice", "systems", "face"];

/// One row of the table.
pub struct Room {
    pub storey: String,
    /// The crates of its own storey that it may use.
    pub may_use: Vec<String>,
}

/// The house as the document has it.
pub struct House(BTreeMap<String, Room>);

impl House {
    /// Reads the table that begins with `| storey | crate |`. A row without a storey stands in that of the
    /// row above.
    pub fn read(document: &str) -> House {
        let mut rooms = BTreeMap::new();
        let mut storey = String::new();
        let table = document.lines().skip_while(|line| !line.starts_with("| storey | crate |")).skip(2);
        for line in table.take_while(|line| line.starts_with('|')) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [named, crates, _, may_use] = cells[..] else { panic!("not a row of four cells: {line}") };
            if !named.is_empty() {
                storey = code_spans(named).remove(0);
                assert!(STOREYS.contains(&storey.as_str()), "no storey is named {storey}");
            }
            for name in code_spans(crates) {
                rooms.insert(name, Room { storey: storey.clone(), may_use: code_spans(may_use) });
            }
        }
        assert!(rooms.len() > 10, "ARCHITECTURE.md has no table of crates");
        House(rooms)
    }

    pub fn room(&self, name: &str) -> Option<&Room> {
        self.0.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Why the one crate may not use the other, if so.
    pub fn refusal(&self, user: &str, used: &str) -> Option<String> {
        let (from, to) = (self.room(user)?, self.room(used)?);
        let height = |storey: &str| STOREYS.iter().position(|known| *known == storey);
        if height(&from.storey) > height(&to.storey) || from.may_use.iter().any(|may| may == used) {
            return None;
        }
        Some(format!("`{user}` ({}) may not use `{used}` ({})", from.storey, to.storey))
    }
}

/// What stands between backquotes.
fn code_spans(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
