//! Words of a function's own frame whose address the function takes: others may see them.
//!
//! `pm_persist(&node, …)` flushes a pointer in the frame in place of what it points to; to say so, the words
//! that a flush can reach must be known. Only whole words count, and only those that an instruction names in
//! the same way as the one that takes their address.

use std::collections::{HashMap, HashSet};

use super::instruction::{Instruction, without_size};
use super::persist::based_on_stack_pointer;
use super::scan::{Item, Scanner};

/// The words of each function, by where its label stands.
#[derive(Default)]
pub struct Taken<'a> {
    functions: HashMap<usize, HashSet<&'a [u8]>>,
    function: usize,
}

impl<'a> Taken<'a> {
    /// Of a whole source.
    pub fn of(source: &'a [u8]) -> Self {
        let mut taken = Taken::default();
        for item in Scanner::new(source) {
            match item {
                Item::Label(place) if is_function(&source[place.clone()]) => taken.function(place.start),
                Item::Statement(place) => {
                    let operand = address_of(&Instruction::parse(&source[place]));
                    if let Some(operand) = operand {
                        taken.functions.entry(taken.function).or_default().insert(operand);
                    }
                }
                _ => {}
            }
        }
        taken
    }

    /// The function begins whose label stands here.
    pub fn function(&mut self, label: usize) {
        self.function = label;
    }

    /// Whether the function takes the address of this operand.
    pub fn contains(&self, operand: &[u8]) -> bool {
        let words = self.functions.get(&self.function);
        words.is_some_and(|words| words.contains(without_size(operand)))
    }
}

/// Whether a label is a function's.
pub fn is_function(label: &[u8]) -> bool {
    !label.starts_with(b".L") && !label.first().is_some_and(u8::is_ascii_digit)
}

/// What an instruction takes the address of, if that is in the frame.
fn address_of<'a>(instruction: &Instruction<'a>) -> Option<&'a [u8]> {
    if instruction.name.starts_with(b"lea") {
        let is_frame =
            |operand: &[u8]| based_on_stack_pointer(operand) || operand.windows(3).any(|word| word == b"rbp");
        return instruction
            .split()
            .find(|operand| operand.ends_with(b")") || operand.ends_with(b"]"))
            .filter(|operand| is_frame(operand));
    }
    // A copy of the stack pointer is the address of the frame's first word.
    let mut operands = instruction.split();
    let (first, last) = (operands.next()?, operands.next()?);
    let to_register = |operand: &[u8]| !operand.ends_with(b"bp");
    match (first, last) {
        _ if !instruction.name.starts_with(b"mov") => None,
        (b"%rsp", last) if to_register(last) => Some(b"(%rsp)"),
        (first, b"rsp") if to_register(first) => Some(b"[rsp]"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_their_function() {
        let source = concat!(
            "f:\n\tmovq %rax, 8(%rsp)\n.L1:\n\tleaq 8(%rsp), %rdi\n\tcall g\n",
            "g:\n\tmovq %rsp, %rbp\n\tret\n",
            "h:\n\tmovq %rsp, %rdi\n",
        );
        let mut taken = Taken::of(source.as_bytes());
        let mut of = |function: &str, operand: &str| {
            taken.function(source.find(function).expect("a label"));
            taken.contains(operand.as_bytes())
        };
        assert!(of("f:", "8(%rsp)") && !of("f:", "16(%rsp)"));
        assert!(!of("g:", "8(%rsp)") && !of("g:", "(%rsp)"));
        assert!(of("h:", "(%rsp)"));
        let intel = b"f:\n\tlea rax, [rsp+8]\n\tlea rcx, [rdi+8]\n";
        let taken = Taken::of(intel);
        assert!(taken.contains(b"QWORD PTR [rsp+8]") && !taken.contains(b"[rdi+8]"));
    }
}
