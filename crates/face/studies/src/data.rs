//! Outcomes as JSON.

use report::Curves;
use serde_json::{Value, json};

use crate::Outcome;

/// Name and version of the document's layout.
pub const SCHEMA: &str = "strandline-reproduce-1";

/// The outcomes with all numbers, charts included. The same outcomes give the same bytes.
#[must_use]
pub fn json(outcomes: &[Outcome]) -> String {
    let rows: Vec<Value> = outcomes.iter().map(row).collect();
    format!("{:#}\n", json!({ "schema": SCHEMA, "rows": rows }))
}

fn row(outcome: &Outcome) -> Value {
    let row = outcome.row;
    json!({
        "source": row.source,
        "id": row.id,
        "claim": row.claim,
        "expected": row.expected,
        "tolerance": row.tolerance,
        "method": row.method,
        "calibration_input": row.is_input().then_some(row.calibration),
        "note": row.note,
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "checks": outcome.evidence.checks,
        "charts": outcome.evidence.charts.iter().map(chart).collect::<Vec<_>>(),
    })
}

fn chart(chart: &Curves) -> Value {
    let curves: Vec<Value> = chart
        .curves
        .iter()
        .map(|curve| json!({ "name": curve.name, "points": curve.points, "published": curve.published }))
        .collect();
    json!({ "title": chart.title, "x": chart.x.title, "y": chart.y.title, "curves": curves })
}
