//! Global variables of ELF files, from their symbol tables.

use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

use super::names::readable;

/// A variable: its name, its address before relocation, and its bytes.
pub type Variable = (String, u64, u64);

/// The variables of a file, smallest address first; none if it can't be read.
#[must_use]
pub fn globals(path: &Path) -> Vec<Variable> {
    let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
    let Ok(file) = ElfFile64::<Endianness, _>::parse(&bytes[..]) else { return Vec::new() };
    let mut found: Vec<Variable> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0 && symbol.is_definition())
        .filter_map(|symbol| Some((readable(symbol.name().ok()?), symbol.address(), symbol.size())))
        .collect();
    found.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    // Aliases of one variable.
    found.dedup_by_key(|variable| variable.1);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[unsafe(no_mangle)]
    static STRANDLINE_TEST_GLOBAL: [u64; 5] = [1, 2, 3, 4, 5];

    #[test]
    fn our_own_variables_are_found() {
        assert_eq!(std::hint::black_box(STRANDLINE_TEST_GLOBAL)[4], 5);
        let own = std::env::current_exe().expect("a program");
        let all = globals(&own);
        let found = all.iter().find(|variable| variable.0 == "STRANDLINE_TEST_GLOBAL");
        assert_eq!(found.map(|variable| variable.2), Some(40));
        assert!(globals(Path::new("/nowhere")).is_empty());
    }
}
