//! Where functions begin and end.
//!
//! Whoever reads where a store or a flush was made wants the callers of those functions that were compiled as
//! functions of their own only by chance: those of C++'s library, and [helpers](super::helpers) of the
//! program's. These announce where they begin and end if stored bytes are recorded. Where call stacks are
//! recorded, all functions do. If nobody wants to know, that is three instructions. What an exception or a
//! jump through a register leaves ends unhooked: whoever reads knows by the stack.

use std::collections::HashSet;

use super::instruction::Instruction;
use super::syntax::Syntax;

/// A part of the paths of its headers.
const HEADERS: &[u8] = b"/include/c++/";

/// Which functions are of one kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// They stand for their callers.
    Callers,
    /// They stand for themselves.
    Own,
}

/// What is known of the function that is being read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Function {
    /// Nothing: it has no line yet.
    #[default]
    New,
    /// None of its instructions was read.
    Begins(Whose),
    /// Some were.
    Begun(Whose),
}

/// Whose function is being read.
#[derive(Default)]
pub struct Library<'a> {
    /// The program's own functions that stand for their callers.
    helpers: HashSet<&'a [u8]>,
    /// Numbers of the library's files.
    files: HashSet<&'a [u8]>,
    function: Function,
    /// Calls so far, for label names.
    calls: usize,
}

impl<'a> Library<'a> {
    /// Of a file with these helpers.
    pub fn new(helpers: HashSet<&'a [u8]>) -> Self {
        Library { helpers, ..Library::default() }
    }

    /// A function begins, or the part of one that is seldom executed.
    pub fn function(&mut self, name: &[u8]) {
        if !name.windows(5).any(|part| part == b".cold") {
            let helps = self.helpers.contains(name);
            self.function = if helps { Function::Begins(Whose::Callers) } else { Function::New };
        }
    }

    /// A directive has come.
    pub fn directive(&mut self, directive: &Instruction<'a>) {
        let mut words = directive.operands.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(number) = words.next() else { return };
        match directive.name {
            b".file" if directive.operands.windows(HEADERS.len()).any(|part| part == HEADERS) => {
                self.files.insert(number);
            }
            b".loc" if self.function == Function::New => {
                let whose = if self.files.contains(number) { Whose::Callers } else { Whose::Own };
                self.function = Function::Begins(whose);
            }
            _ => {}
        }
    }

    /// The code before the first instruction of a function, or before a label there; nothing elsewhere.
    pub fn begin(&mut self, syntax: &Syntax<'_>) -> Option<String> {
        let Function::Begins(whose) = self.function else { return None };
        self.function = Function::Begun(whose);
        Some(self.call("strandline_begin", whose, syntax))
    }

    /// The code before the instruction with which a function ends; nothing elsewhere.
    pub fn end(&mut self, syntax: &Syntax<'_>) -> Option<String> {
        let Function::Begun(whose) = self.function else { return None };
        Some(self.call("strandline_end", whose, syntax))
    }

    /// Nothing of the function's own lies below the stack pointer there, and flags are not alive. `%r11`
    /// may be: a compiler that knows both functions keeps what the called one does not use.
    fn call(&mut self, name: &str, whose: Whose, syntax: &Syntax<'_>) -> String {
        let number = self.calls;
        self.calls += 1;
        let (enter, leave) = syntax.att();
        let quiet = match whose {
            Whose::Callers => abi::QUIET,
            Whose::Own => abi::QUIET + 4,
        };
        format!(
            "{enter}pushq %r11; movq strandline_tls@gottpoff(%rip), %r11; cmpl $0, %fs:{quiet}(%r11); popq %r11; \
             jne .Lslf{number}; call *{name}@GOTPCREL(%rip); .Lslf{number}: {leave}"
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::rewrite::{Exports, rewrite};

    const FILES: &str =
        "\t.file 1 \"app.cc\"\n\t.file 5 \"/usr/include/c++/12/bits\" \"stl_algo.h\"\n\t.ident \"GCC\"\n";

    fn rewritten(code: &str) -> String {
        let runtime: Exports = [b"strandline_memmove".to_vec()].into_iter().collect();
        let source = format!("{FILES}{code}");
        let text = rewrite(source.as_bytes(), &runtime).unwrap_or(source.into_bytes());
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn functions_tell_where_they_begin_and_end_and_whose_they_are() {
        let function = |file| {
            format!(
                "f{file}:\n.LFB{file}:\n\t.loc {file} 7 1\n\t.cfi_startproc\n\tendbr64\n\tpushq %rbp\n\tje .L2\n\tret\n.L2:\n\tjmp g\n"
            )
        };
        let text = rewritten(&format!("{}{}", function(5), function(1)));
        let (library, own) = text.split_once("\nf1:").expect("both");
        let begin = library.find("strandline_begin").expect("a beginning");
        assert!(
            library.find("endbr64").expect("it") < begin && begin < library.find("pushq %rbp").expect("it"),
            "{text}"
        );
        assert_eq!(library.matches("strandline_begin").count(), 1, "{text}");
        assert!(library.contains("call *strandline_end@GOTPCREL(%rip); .Lslf1: ret\n"), "{text}");
        assert!(library.contains("call *strandline_end@GOTPCREL(%rip); .Lslf2: jmp g"), "{text}");
        assert_eq!(own.matches("strandline_begin").count(), 1, "{text}");
        let (callers, others) = (format!("%fs:{}(", abi::QUIET), format!("%fs:{}(", abi::QUIET + 4));
        assert_eq!([library.matches(&callers).count(), library.matches(&others).count()], [3, 0], "{text}");
        assert_eq!([own.matches(&callers).count(), own.matches(&others).count()], [0, 3], "{text}");
    }

    #[test]
    fn what_jumps_by_a_thunk_keeps_the_register_with_its_target() {
        for thunk in ["__llvm_retpoline_r11", "__x86_indirect_thunk_r11"] {
            let text = rewritten(&format!("f:\n\t.loc 5 7 1\n\tmovq (%rdi), %r11\n\tjmp {thunk}\n"));
            assert!(text.contains("strandline_begin") && !text.contains("strandline_end"), "{text}");
        }
    }

    #[test]
    fn what_jumps_back_to_its_beginning_tells_it_once() {
        let text =
            rewritten("f:\n.LFB0:\n\t.loc 5 7 1\n\t.cfi_startproc\n.L2:\n\tdecq %rdi\n\tjne .L2\n\tret\n");
        let begin = text.find("strandline_begin").expect("a beginning");
        assert!(begin < text.find(".L2:").expect("a label"), "{text}");
    }

    #[test]
    fn the_seldom_part_of_a_function_does_not_begin_one() {
        let text = rewritten(
            "f:\n\t.loc 5 7 1\n\tjne .L2\n\tret\n\t.section .text.unlikely\nf.cold:\n\t.loc 1 9 1\n.L2:\n\tret\n",
        );
        assert_eq!(
            (text.matches("strandline_begin").count(), text.matches("strandline_end").count()),
            (1, 2),
            "{text}"
        );
    }

    #[test]
    fn a_last_call_is_reported_before_the_end() {
        let text = rewritten("f:\n\t.loc 5 7 1\n\tmovq %rsi, %rdi\n\tjmp memmove\n");
        let end = text.find("strandline_end").expect("an end");
        assert!(
            text.find("call strandline_memmove").expect("a call") < end
                && end < text.rfind("ret").expect("it"),
            "{text}"
        );
    }
}
