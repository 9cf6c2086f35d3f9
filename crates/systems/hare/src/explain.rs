//! What becomes of an expression: components, precedence vectors, bounds, and the way that software takes.

use std::fmt::Write as _;

use crate::design::{Design, Exact, Kind, Limits, Node, Pred, Repeat};
use crate::expression::Expression;
use crate::scan::{Scanner, Way};

/// What becomes of `expression` in hardware of `limits` and in software.
pub fn explain(expression: &Expression, limits: Limits) -> String {
    let mut text = String::new();
    let matched = if expression.is_unicode() { "Unicode characters as UTF-8" } else { "bytes" };
    line(&mut text, format_args!("{}", expression.pattern()));
    line(&mut text, format_args!("  matches {matched}"));
    match Design::of(std::slice::from_ref(expression), limits) {
        Ok(design) => {
            let classes = design.classes();
            line(
                &mut text,
                format_args!(
                    "  hardware of width {}: {} slots, {} classes, {} bit vectors{}",
                    limits.width,
                    design.nodes.len(),
                    classes.len(),
                    design.vectors(),
                    if design.feeds_back() { ", feeds back (no Verilog)" } else { "" }
                ),
            );
            let node_line = |(number, node): (usize, &Node)| describe(number, node, design.accepts[0]);
            design.nodes.iter().enumerate().map(node_line).for_each(|described| text += &described);
        }
        Err(refusal) => line(&mut text, format_args!("  hardware: refused: {refusal}")),
    }
    match Scanner::new(std::slice::from_ref(expression)) {
        Ok(scanner) => {
            scanner.ways().for_each(|way| line(&mut text, format_args!("  software: {}", of_way(way))))
        }
        Err(refusal) => line(&mut text, format_args!("  software: refused: {refusal}")),
    }
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    writeln!(text, "{arguments}").ok();
}

fn describe(number: usize, node: &Node, accept: usize) -> String {
    let what = match &node.kind {
        Kind::Component { sets, repeat } => {
            let sets: String = sets.iter().map(ToString::to_string).collect();
            let repeat = match repeat {
                Repeat::Once => "[1,1]".to_owned(),
                Repeat::Counter { min, max: Some(max), exact } => {
                    format!("[{min},{max}], min-max counter: {}", of_exact(*exact))
                }
                Repeat::Counter { min, max: None, exact } => {
                    format!("[{min},inf], min-max counter: {}", of_exact(*exact))
                }
                Repeat::Vector { min, max } => format!("[{min},{max}], bit vector: runs overlap"),
            };
            format!("component {sets} {repeat}")
        }
        Kind::Gate(looks) if looks.is_none() => "gate".to_owned(),
        Kind::Gate(looks) => format!("gate at {looks}"),
    };
    let preds: Vec<String> = node
        .preds
        .iter()
        .map(|pred| match pred {
            Pred::Start => "start".to_owned(),
            Pred::Node(node) => node.to_string(),
        })
        .collect();
    let ends = if number == accept { "; a match ends" } else { "" };
    format!("    {number}: {what}; after {{{}}}{ends}\n", preds.join(", "))
}

fn of_exact(exact: Exact) -> &'static str {
    match exact {
        Exact::Unbounded => "the oldest run decides",
        Exact::FromOne => "the youngest run decides",
        Exact::Everywhere => "a run begins at every byte",
        Exact::Alone => "one run at a time",
    }
}

fn of_way(way: &Way) -> String {
    match way {
        Way::Literals(factor) => {
            let shown: Vec<String> =
                factor.literals.iter().take(4).map(|literal| literal.escape_ascii().to_string()).collect();
            let more = factor.literals.len().saturating_sub(4);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "where `{}`{more} occurs, up to {} bytes behind the start",
                shown.join("`, `"),
                factor.before
            )
        }
        Way::Automaton => "over all of the text, in one automaton with others".to_owned(),
        Way::Counters => "over all of the text, with counters".to_owned(),
    }
}
