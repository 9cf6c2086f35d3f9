//! Writes hand-made reports into a folder, to look at: `cargo run -p report --example sample_report -- FOLDER`.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "sample-report".to_owned());
    std::fs::create_dir_all(&folder)?;
    for (name, report) in common::all() {
        std::fs::write(format!("{folder}/{name}.html"), report::html(&report, &common::sources))?;
        std::fs::write(format!("{folder}/{name}.json"), report::json(&report))?;
        std::fs::write(format!("{folder}/{name}.txt"), report::terminal(&report, 100, false))?;
    }
    print!("{}", report::terminal(&common::full(), 100, true));
    println!("\n{folder}/full.html and others written");
    Ok(())
}
