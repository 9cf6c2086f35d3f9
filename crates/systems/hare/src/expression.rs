//! An expression, compiled as far as hardware and software share it.

use crate::error::{Refusal, Why};
use crate::positions::{Lowering, Positions};
use crate::syntax::{self, Parsed, Reading};
use crate::tree::Tree;

/// An expression that was read.
#[derive(Debug)]
pub struct Expression {
    pattern: String,
    parsed: Parsed,
    tree: Tree,
}

impl Expression {
    /// Reads `pattern`.
    pub fn read(pattern: &str, reading: Reading) -> Result<Expression, Refusal> {
        let parsed = syntax::parse(pattern, reading)?;
        match Tree::of(&parsed.hir) {
            Ok(tree) => {
                let tree = if reading.lines { tree.without(b'\n') } else { tree };
                Ok(Expression { pattern: pattern.to_owned(), parsed, tree })
            }
            Err(why) => {
                let at = syntax::place_of(&why, &parsed.ast, pattern);
                Err(Refusal { pattern: pattern.to_owned(), at, why })
            }
        }
    }

    /// Its positions.
    pub fn positions(&self, lowering: &Lowering) -> Result<Positions, Refusal> {
        Positions::of(&self.tree, lowering).map_err(|why| self.refused(why))
    }

    /// A refusal that points at the construct.
    pub fn refused(&self, why: Why) -> Refusal {
        let at = syntax::place_of(&why, &self.parsed.ast, &self.pattern);
        Refusal { pattern: self.pattern.clone(), at, why }
    }

    /// The expression as it was written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The expression as bytes.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Whether it matches Unicode characters rather than bytes.
    pub fn is_unicode(&self) -> bool {
        self.parsed.unicode
    }
}
