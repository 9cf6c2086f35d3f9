//! From text to the parser's tree, and from a refusal back to the place in the text.

use std::ops::Range;

use regex_syntax::ast::{self, AssertionKind, Ast, RepetitionKind, RepetitionRange};
use regex_syntax::hir::Hir;
use regex_syntax::hir::translate::TranslatorBuilder;

use crate::error::{Refusal, Why};

/// How expressions are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Match Unicode characters as UTF-8, where `.` and negated classes take a whole character. Otherwise an
    /// expression matches bytes, unless it has a character or class beyond ASCII.
    pub unicode: bool,
    /// Ignore case.
    pub ignore_case: bool,
    /// Match within lines, as grep does: `^` and `$` are the ends of a line, and nothing takes a line feed.
    pub lines: bool,
}

/// An expression as the parser reads it.
#[derive(Debug)]
pub struct Parsed {
    pub ast: Ast,
    pub hir: Hir,
    pub unicode: bool,
}

/// Parses `pattern`.
pub fn parse(pattern: &str, reading: Reading) -> Result<Parsed, Refusal> {
    let refuse = |why, span: &ast::Span| Refusal {
        pattern: pattern.to_owned(),
        at: span.start.offset..span.end.offset,
        why,
    };
    let ast = ast::parse::ParserBuilder::new()
        .octal(false)
        .build()
        .parse(pattern)
        .map_err(|error| refuse(named(error.kind()), error.span()))?;
    let translate = |unicode: bool| {
        TranslatorBuilder::new()
            .utf8(false)
            .unicode(unicode)
            .case_insensitive(reading.ignore_case)
            .multi_line(reading.lines)
            .build()
            .translate(pattern, &ast)
    };
    if !reading.unicode && pattern.is_ascii() {
        match translate(false) {
            Ok(hir) => return Ok(Parsed { ast, hir, unicode: false }),
            Err(error) if matches!(error.kind(), regex_syntax::hir::ErrorKind::UnicodeNotAllowed) => {}
            Err(error) => return Err(refuse(Why::Syntax(error.kind().to_string()), error.span())),
        }
    }
    match translate(true) {
        Ok(hir) => Ok(Parsed { ast, hir, unicode: true }),
        Err(error) => Err(refuse(Why::Syntax(error.kind().to_string()), error.span())),
    }
}

fn named(kind: &ast::ErrorKind) -> Why {
    match kind {
        ast::ErrorKind::UnsupportedBackreference => Why::BackReference,
        ast::ErrorKind::UnsupportedLookAround => Why::LookAround,
        other => Why::Syntax(other.to_string()),
    }
}

/// Where the text has the construct that `why` names; the whole text if no single place is to blame.
pub fn place_of(why: &Why, ast: &Ast, pattern: &str) -> Range<usize> {
    let mut worst: Option<(u64, Range<usize>)> = None;
    visit(ast, &mut |node| {
        let weight = match (why, node) {
            (
                Why::TooManyPositions { .. } | Why::Bound { .. } | Why::Vectors { .. },
                Ast::Repetition(repetition),
            ) => u64::from(largest(&repetition.op.kind)),
            (Why::Feedback, Ast::Repetition(repetition)) => {
                let group = matches!(*repetition.ast, Ast::Group(_) | Ast::ClassUnicode(_));
                u64::from(unbounded(&repetition.op.kind)) * if group { 2 } else { 1 }
            }
            (Why::UnicodeBoundary, Ast::Assertion(assertion)) => u64::from(!matches!(
                assertion.kind,
                AssertionKind::StartLine
                    | AssertionKind::EndLine
                    | AssertionKind::StartText
                    | AssertionKind::EndText
            )),
            _ => 0,
        };
        if weight > worst.as_ref().map_or(0, |(most, _)| *most) {
            let span = node.span();
            worst = Some((weight, span.start.offset..span.end.offset));
        }
    });
    worst.map_or(0..pattern.len(), |(_, at)| at)
}

fn visit(ast: &Ast, see: &mut impl FnMut(&Ast)) {
    see(ast);
    match ast {
        Ast::Repetition(repetition) => visit(&repetition.ast, see),
        Ast::Group(group) => visit(&group.ast, see),
        Ast::Alternation(alternation) => alternation.asts.iter().for_each(|inner| visit(inner, see)),
        Ast::Concat(concat) => concat.asts.iter().for_each(|inner| visit(inner, see)),
        _ => {}
    }
}

/// How many copies a repetition stands for where it is unrolled.
fn largest(kind: &RepetitionKind) -> u32 {
    match kind {
        RepetitionKind::Range(
            RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n) | RepetitionRange::Bounded(_, n),
        ) => *n,
        _ => 1,
    }
}

fn unbounded(kind: &RepetitionKind) -> bool {
    matches!(
        kind,
        RepetitionKind::ZeroOrMore
            | RepetitionKind::OneOrMore
            | RepetitionKind::Range(RepetitionRange::AtLeast(_))
    )
}
