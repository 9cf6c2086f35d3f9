//! Which file a path is, as names change.

use std::collections::BTreeMap;

use event::{NameId, SiteTable};

/// Paths and the numbers of what is there.
#[derive(Clone, Debug, Default)]
pub struct Files {
    numbers: BTreeMap<String, usize>,
    paths: Vec<String>,
}

impl Files {
    /// The number of what is at a path; a new one if it was not there before.
    pub fn at(&mut self, path: &str) -> usize {
        match self.numbers.get(path) {
            Some(&number) => number,
            None => self.create(path),
        }
    }

    /// Something new at a path.
    pub fn create(&mut self, path: &str) -> usize {
        let number = self.paths.len();
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// One more path of a file.
    pub fn link(&mut self, from: &str, to: &str) -> usize {
        let number = self.at(from);
        self.numbers.insert(to.to_owned(), number);
        number
    }

    /// A path is gone.
    pub fn unlink(&mut self, path: &str) -> Option<usize> {
        self.numbers.remove(path)
    }

    /// A path became another one, with all below it; what was moved, and what had the new path.
    pub fn rename(&mut self, from: &str, to: &str) -> (usize, Option<usize>) {
        let replaced = self.numbers.get(to).copied();
        let number = self.at(from);
        self.numbers.remove(from);
        self.numbers.insert(to.to_owned(), number);
        self.paths[number] = to.to_owned();
        let below = format!("{from}/");
        let moved: Vec<String> = self
            .numbers
            .range(below.clone()..)
            .take_while(|(path, _)| path.starts_with(&below))
            .map(|(path, _)| path.clone())
            .collect();
        for path in moved {
            if let Some(number) = self.numbers.remove(&path) {
                let path = format!("{to}/{}", &path[below.len()..]);
                self.paths[number].clone_from(&path);
                self.numbers.insert(path, number);
            }
        }
        (number, replaced)
    }

    /// Two paths became each other's.
    pub fn exchange(&mut self, one: &str, other: &str) {
        const BETWEEN: &str = "\0";
        self.rename(one, BETWEEN);
        self.rename(other, one);
        self.rename(BETWEEN, other);
    }

    /// Whether something is known below a path.
    pub fn is_folder(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.numbers.range(below.clone()..).next().is_some_and(|(next, _)| next.starts_with(&below))
    }

    /// The path of a number.
    pub fn path(&self, number: usize) -> &str {
        self.paths.get(number).map_or("", String::as_str)
    }
}

/// The folder of a path.
pub fn folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((folder, _)) => folder,
    }
}

/// A name as text.
pub fn text(table: &SiteTable, name: NameId) -> String {
    table.name(name).unwrap_or_default().to_owned()
}
