//! The dialect that is in force.

use super::instruction::Instruction;

/// AT&T, or Intel as a directive set it.
#[derive(Clone, Debug, Default)]
pub struct Syntax<'a> {
    /// The directive to return to it.
    intel: Option<&'a str>,
    leave: String,
}

impl<'a> Syntax<'a> {
    /// Follows `.intel_syntax` and `.att_syntax`; whether `directive` was one of them.
    pub fn follow(&mut self, directive: &Instruction<'a>, text: &'a [u8]) -> bool {
        match directive.name {
            b".att_syntax" => *self = Syntax::default(),
            b".intel_syntax" => {
                self.intel = std::str::from_utf8(text).ok();
                self.leave = self.intel.map(|back| format!("; {back}; ")).unwrap_or_default();
            }
            _ => return false,
        }
        true
    }

    /// Whether operands come target first.
    pub fn is_intel(&self) -> bool {
        self.intel.is_some()
    }

    /// What to write before and after a piece of AT&T code.
    pub fn att(&self) -> (&'static str, &str) {
        if self.is_intel() { (".att_syntax prefix; ", &self.leave) } else { ("", "") }
    }
}
