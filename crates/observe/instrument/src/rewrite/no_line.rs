//! Code to which the compiler gave no line of source.
//!
//! clang says `.loc FILE 0` of code that stands for several lines, or for none. The GNU assembler leaves that
//! out, so the line before would go on. So such code gets a line that no file has, and whoever looks up names
//! takes that for what it is. What clang moves to a function's beginning has not even that: it stands under
//! the line with which the function begins.

use std::ops::Range;

use abi::NO_LINE;

use super::edits::Edits;
use super::instruction::Instruction;

/// What holds for the code that is being read.
#[derive(Default)]
pub struct NoLine<'a> {
    /// A function of clang's has begun.
    begins: bool,
    /// Its first line's file, as long as there is no other.
    opening: Option<&'a [u8]>,
}

impl<'a> NoLine<'a> {
    /// A label has come.
    pub fn label(&mut self, name: &[u8]) {
        if name.starts_with(b".Lfunc_begin") {
            *self = NoLine { begins: true, opening: None };
        }
    }

    /// A directive has come that ends at `end`.
    pub fn directive(&mut self, directive: &Instruction<'a>, end: usize, edits: &mut Edits) {
        if directive.name != b".loc" {
            return;
        }
        let operands = directive.operands;
        let file = word(operands, 0);
        let line = word(operands, file.end);
        self.opening = self.begins.then(|| &operands[file]);
        self.begins = false;
        if &operands[line.clone()] == b"0" {
            let start = end - operands.len();
            edits.replace(start + line.start..start + line.end, format_args!("{NO_LINE}"));
        }
    }

    /// A statement at `at` announces what the program does.
    pub fn hook(&mut self, at: usize, edits: &mut Edits) {
        if let Some(file) = self.opening.take() {
            edits.replace(at..at, format_args!(".loc {} {NO_LINE} 0; ", String::from_utf8_lossy(file)));
        }
    }
}

/// The word of `text` that begins at `from` or behind blanks there.
fn word(text: &[u8], from: usize) -> Range<usize> {
    let start = from + text[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    start..start + text[start..].iter().take_while(|byte| !byte.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use crate::rewrite::{Exports, rewrite};

    fn rewritten(source: &str) -> String {
        let text = rewrite(source.as_bytes(), &Exports::default()).expect("changed");
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn code_of_no_line_gets_one_that_no_file_has() {
        let text = rewritten(
            "f:\n\t.loc\t0 7 5\n\tnop\n\t.loc\t0 0 10 is_stmt 0 # a.c:0:10\n\tcall __tsan_write8\n\t.loc 0 9 1\n",
        );
        assert!(text.contains("\t.loc\t0 268435455 10 is_stmt 0 #"), "{text}");
        assert!(text.contains(".loc\t0 7 5\n") && text.contains(".loc 0 9 1\n"), "{text}");
    }

    #[test]
    fn what_stands_under_the_line_of_a_function_of_clangs_has_no_line() {
        let begins = "f:\n.Lfunc_begin0:\n\t.loc\t2 4 0\n\tpushq %rbx\n";
        let access = "\tleaq 8(%rsi), %rdi\n\tcallq __tsan_write8@PLT\n\tmovq %rax, 8(%rsi)\n";
        let text = rewritten(&format!("{begins}{access}{access}"));
        assert_eq!(text.matches(".loc 2 268435455 0; ").count(), 1, "{text}");
        assert!(text.contains("%rdi\n\t.loc 2 268435455 0; "), "{text}");
        // gcc has labels of other names, and means what it says.
        let text = rewritten(&format!("f:\n.LFB0:\n\t.loc\t2 4 0\n\tpushq %rbx\n{access}"));
        assert!(!text.contains("268435455"), "{text}");
        let text = rewritten(&format!("{begins}\t.loc\t2 5 3 prologue_end\n{access}"));
        assert!(!text.contains("268435455"), "{text}");
    }

    #[test]
    fn arguments_that_are_put_on_the_stack_keep_the_line_of_their_function() {
        let text = rewritten(
            "f:\n.Lfunc_begin0:\n\t.loc\t2 4 0\n\tleaq -8(%rbp), %rdi\n\tcallq __tsan_write8@PLT\n\tmovq %rax, -8(%rbp)\n",
        );
        assert!(!text.contains("268435455"), "{text}");
    }
}
