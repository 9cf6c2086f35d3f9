//! Rust programs, linked by `examples/rust/strandline-linker`: the fault is named with the program's own
//! line.

use std::process::Command;

use serde_json::Value;

use crate::common::{Scratch, ok, stdout, strandline};

const PROGRAM: &str = "
const ROWS: usize = 2048;
struct Table { cells: Vec<u32>, width: usize }
impl Table {
    #[inline(never)]
    fn fill(&mut self) {
        for column in 0..ROWS / 4 {
            for row in 0..ROWS {
                let at = MENDED_AT;
                self.cells[at] = std::hint::black_box(column as u32);
            }
        }
    }
}
fn main() {
    let mut table = Table { cells: vec![0; 1040 * ROWS], width: 1040 };
    table.fill();
    println!(\"{}\", table.cells[7]);
}
";

fn profile(at: &str) -> Value {
    let scratch = Scratch::new();
    std::fs::write(scratch.dir().join("table.rs"), PROGRAM.replace("MENDED_AT", at)).expect("written");
    let linker = format!("{}/../../../examples/rust/strandline-linker", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("rustc");
    compiler.current_dir(scratch.dir()).env("STRANDLINE", strandline().get_program());
    compiler.args(["--edition", "2024", "-g", "-O", "-C", "codegen-units=1", "--emit=asm,link"]);
    compiler.args(["-C", "linker-flavor=gcc", "-C", &format!("linker={linker}"), "table.rs"]);
    ok(&mut compiler);
    let output = ok(strandline().current_dir(scratch.dir()).args(["profile", "--json", "--", "./table"]));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

#[test]
fn a_table_of_a_rust_program_that_is_filled_by_columns_is_named() {
    let faulty = profile("row * self.width + column");
    let found = faulty["findings"].as_array().expect("findings").iter();
    let found: Vec<&Value> = found.filter(|found| found["rule"] == "against-the-rows").collect();
    let text = found.first().unwrap_or_else(|| panic!("none in {}", faulty["findings"])).to_string();
    assert!(text.contains("(table.rs:10)"), "{text}");
    let calls = faulty["contexts"].to_string();
    assert!(calls.contains("table::main") || calls.contains("main"), "{calls}");
    let mended = profile("column * ROWS + row");
    let rules = mended["findings"].to_string();
    assert!(!rules.contains("against-the-rows"), "{rules}");
}
