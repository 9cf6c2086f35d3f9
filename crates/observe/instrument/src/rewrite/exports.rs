//! The functions of the runtime's library.

use std::collections::HashSet;

use object::read::{Object as _, ObjectSymbol as _};

/// The functions that the runtime has.
#[derive(Clone, Debug, Default)]
pub struct Exports(HashSet<Vec<u8>>);

impl Exports {
    /// Those of a shared library; none if it can't be read.
    #[must_use]
    pub fn of(library: &[u8]) -> Self {
        let Ok(file) = object::File::parse(library) else { return Exports::default() };
        let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        defined.filter_map(|symbol| symbol.name_bytes().ok().map(<[u8]>::to_vec)).collect()
    }

    /// Whether a call of `name` comes to the runtime.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.0.contains(name)
    }
}

impl FromIterator<Vec<u8>> for Exports {
    fn from_iter<I: IntoIterator<Item = Vec<u8>>>(names: I) -> Self {
        Exports(names.into_iter().collect())
    }
}
