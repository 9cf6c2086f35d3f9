//! Functions of C++'s library that were compiled as functions of their own, because nothing is inlined.
//!
//! Whoever reads where a store was made wants their caller. So the calls that tell of their beginning and end stay, and those of all other
//! functions, which the compiler cannot be told apart from them, go.

use std::collections::HashSet;

use super::instruction::Instruction;

/// A part of the paths of its headers.
const HEADERS: &[u8] = b"/include/c++/";

/// Whose function is being read.
#[derive(Default)]
pub struct Library<'a> {
    /// Numbers of the library's files.
    files: HashSet<&'a [u8]>,
    /// Whether this function is in one; unknown before its first line.
    within: Option<bool>,
}

impl<'a> Library<'a> {
    /// A function begins.
    pub fn function(&mut self) {
        self.within = None;
    }

    /// A directive has come.
    pub fn directive(&mut self, directive: &Instruction<'a>) {
        let mut words = directive.operands.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(number) = words.next() else { return };
        match directive.name {
            b".file" if directive.operands.windows(HEADERS.len()).any(|part| part == HEADERS) => {
                self.files.insert(number);
            }
            b".loc" if self.within.is_none() => self.within = Some(self.files.contains(number)),
            _ => {}
        }
    }

    /// Whether a call of this function is to go.
    pub fn drops(&self, function: &[u8]) -> bool {
        matches!(function, b"__tsan_func_entry" | b"__tsan_func_exit") && self.within != Some(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::assembler::{Exports, rewrite};

    #[test]
    fn only_functions_of_the_library_tell_that_they_begin() {
        let function = |file: &str| {
            format!(
                "f{file}:\n.LFB{file}:\n\t.loc {file} 7 1\n\tpushq %rbp\n\tcall __tsan_func_entry\n\t.loc 5 8 1\n\tcall g\n\tcall __tsan_func_exit\n\tret\n"
            )
        };
        let files = "\t.file 1 \"app.cc\"\n\t.file 5 \"/usr/include/c++/12/bits/stl_algo.h\"\n";
        let source = format!("{files}{}{}", function("5"), function("1"));
        let rewritten = String::from_utf8(rewrite(source.as_bytes(), &Exports::default()).expect("changed"))
            .expect("text");
        let (library, own) = rewritten.split_once("f1:").expect("both");
        assert!(
            library.contains("call __tsan_func_entry") && library.contains("call __tsan_func_exit"),
            "{library}"
        );
        assert!(!own.contains("__tsan_func") && own.contains("call g"), "{own}");
    }
}
