//! Writes hand-made reports into a folder, to look at: `cargo run -p report --example sample_report --
//! FOLDER`.

#[path = "../tests/suite/common/mod.rs"]
mod common;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "sample-report".to_owned());
    std::fs::create_dir_all(&folder)?;
    for (name, report) in common::all() {
        std::fs::write(format!("{folder}/{name}.html"), report::html(&report, &common::sources))?;
        std::fs::write(format!("{folder}/{name}.json"), report::json(&report))?;
        std::fs::write(format!("{folder}/{name}.txt"), report::terminal(&report, 100, false))?;
    }
    std::fs::write(format!("{folder}/curves.html"), report::page(&curves()))?;
    std::fs::write(format!("{folder}/orders.html"), report::page(&common::orders::page()))?;
    print!("{}", report::terminal(&common::full(), 100, true));
    println!("\n{folder}/full.html and others written");
    Ok(())
}

/// A page of curves with points beside them.
fn curves() -> report::Page {
    let curve = |name: &str, peak: f64, threads: f64| report::Curve {
        name: name.to_owned(),
        points: (1..=24)
            .map(f64::from)
            .map(|t| (t, peak * (t / threads).min(1.0) / (1.0 + t / 40.0)))
            .collect(),
        published: [1.0, 4.0, 8.0, 24.0].map(|t| (t, peak * (t / threads).min(0.9))).to_vec(),
    };
    let chart = report::Curves {
        title: "Bandwidth by threads".to_owned(),
        x: report::Axis::linear("threads"),
        y: report::Axis::linear("bandwidth, GB/s"),
        curves: vec![curve("load", 39.0, 17.0), curve("ntstore", 13.0, 4.0), curve("store+clwb", 11.0, 9.0)],
    };
    let log = report::Curves {
        x: report::Axis::log("threads, as if they were bytes", report::Unit::Bytes),
        y: report::Axis::log("bandwidth, as if it were time", report::Unit::Nanoseconds),
        title: "The same over logarithmic axes".to_owned(),
        ..chart.clone()
    };
    report::Page {
        verb: "measure".to_owned(),
        title: "Made up".to_owned(),
        headline: "What a page of curves looks like".to_owned(),
        sections: vec![report::Section {
            id: "threads".to_owned(),
            title: "Threads".to_owned(),
            blocks: vec![report::Block::Curves(chart), report::Block::Curves(log)],
        }],
        ..report::Page::default()
    }
}
