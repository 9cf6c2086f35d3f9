//! Any text, taken for a sweep's grid, its words joined with a workload: it is refused, or has addresses that differ.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use sweep::Grid;

fuzz_target!(|text: &str| {
    for text in [text.to_owned(), format!("{{\"workload\": \"hash-scatter\", {text}}}")] {
        let Ok(grid) = Grid::parse(&text) else { continue };
        let Ok(runs) = grid.runs() else { continue };
        let addresses: HashSet<&String> = runs.iter().map(|(address, _)| address).collect();
        let distinct: HashSet<String> = runs.iter().map(|(_, run)| format!("{run:?}")).collect();
        assert_eq!(addresses.len(), distinct.len(), "two runs with one address");
    }
});
