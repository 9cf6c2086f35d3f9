//! Code that a compiler wrote with nobody watching: each access is taken from the instruction that makes it.
//!
//! Left out is what only the function's own frame can see, by the stack pointer or the frame pointer, but for
//! stores to words whose address is taken; what has a segment of its own (thread-local variables); and the
//! compiler's constants and tables of addresses.

use super::control::transfers_control;
use super::hand_written::{Repeated, store, stored};
use super::instruction::{Instruction, flat, register_bytes, without_size};
use super::loads::loaded;
use super::persist::{Address, Hook, based_on_stack_pointer};
use super::taken::Taken;
use super::unhooked::moved;

/// What is known of the function that is being read.
#[derive(Default)]
pub struct Frames<'s> {
    taken: Taken<'s>,
    /// `%rbp` was put aside.
    saved: bool,
    /// It holds the frame's address.
    pointer: bool,
}

impl<'s> Frames<'s> {
    /// Before the first function of a source.
    pub fn new(source: &'s [u8]) -> Self {
        Frames { taken: Taken::of(source), ..Frames::default() }
    }

    /// A function begins whose label stands here.
    pub fn function(&mut self, label: usize) {
        self.taken.function(label);
        (self.saved, self.pointer) = (false, false);
    }

    /// Follows an instruction.
    pub fn instruction(&mut self, instruction: &Instruction<'_>, intel: bool) {
        let (first, last) = (instruction.split().next(), instruction.split().last());
        let (Some(first), Some(last)) = (first, last) else { return };
        let (source, target) = if intel { (last, first) } else { (first, last) };
        let is = |operand: &[u8], name: &[u8]| operand.strip_prefix(b"%").unwrap_or(operand) == name;
        if instruction.name.starts_with(b"push") {
            self.saved |= is(source, b"rbp");
        } else if is(target, b"rbp") && !instruction.name.starts_with(b"pop") {
            self.pointer = self.saved && instruction.name.starts_with(b"mov") && is(source, b"rsp");
        }
    }

    /// The hook that an instruction needs which is no flush, fence, non-temporal, masked, string or locked
    /// one.
    pub fn access<'a>(&self, instruction: &Instruction<'a>, intel: bool) -> Option<Hook<'a>> {
        if Repeated::of(instruction).is_some() {
            return store(instruction, intel);
        }
        let transfers = transfers_control(instruction.name);
        let memory = instruction.split().find(|operand| is_memory(operand, transfers, intel))?;
        let place = memory.strip_prefix(b"*").unwrap_or(memory);
        let own = self.is_own(place);
        if own && !self.taken.contains(place) || is_of_compiler(place) {
            return None;
        }
        let (first, last) = (instruction.split().next()?, instruction.split().last()?);
        let (source, target) = if intel { (last, first) } else { (first, last) };
        let source = moved(instruction, target).unwrap_or(source);
        let stored = if target == memory { stored(instruction, source, target, intel) } else { None };
        let (name, bytes) = match stored {
            Some((8, false)) if own => ("store", 8),
            _ if own => return None,
            Some((bytes, true)) => ("change", bytes),
            Some((bytes, false)) => ("store", bytes),
            None if is_constant(without_size(place)) => return None,
            None => ("load", loaded(instruction, place, intel)?),
        };
        Some(Hook::new(name, bytes, Some(address(instruction.name, place)?)))
    }

    /// Whether an operand is in the function's frame.
    fn is_own(&self, memory: &[u8]) -> bool {
        based_on_stack_pointer(memory) || self.pointer && memory.windows(3).any(|word| word == b"rbp")
    }
}

/// Whether an operand is in memory. Jumps by a table are the compiler's own.
fn is_memory(operand: &[u8], transfers: bool, intel: bool) -> bool {
    let bracketed = operand.iter().any(|byte| matches!(byte, b'(' | b'['));
    match operand.first() {
        _ if intel => !transfers && (bracketed || operand.windows(4).any(|word| word == b"PTR ")),
        Some(b'*') => transfers && bracketed && !operand.windows(2).any(|word| word == b".L"),
        Some(b'$') | None => false,
        Some(b'%') => operand.contains(&b':'),
        Some(b'{') => false,
        Some(_) => !transfers && register_bytes(operand).is_none(),
    }
}

/// Whether an operand is an entry of a table of addresses that linker and loader make.
fn is_of_compiler(memory: &[u8]) -> bool {
    memory.windows(4).any(|word| word == b"@GOT")
}

/// Whether an operand is one of the compiler's constants.
fn is_constant(memory: &[u8]) -> bool {
    memory.starts_with(b".LC") || memory.starts_with(b".L.str")
}

/// The address of an operand; `None` if its segment has a base of its own.
fn address<'a>(name: &[u8], memory: &'a [u8]) -> Option<Address<'a>> {
    let memory = flat(memory)?;
    // What stands behind it (`{1to8}`) is no part of the address.
    let end = memory.iter().position(|&byte| byte == b'{').unwrap_or(memory.len());
    let memory = memory[..end].trim_ascii_end();
    let absolute = name.starts_with(b"movabs");
    Some(if absolute { Address::Absolute(memory) } else { Address::Operand(memory) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(lines: &[&'static str]) -> Vec<String> {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for line in lines {
            let instruction = Instruction::parse(line.as_bytes());
            let hook = frames.access(&instruction, false);
            found.extend(hook.map(|hook| format!("{}{}", hook.name, hook.bytes)));
            frames.instruction(&instruction, false);
        }
        found
    }

    #[test]
    fn each_access_has_its_hook() {
        for (line, hook) in [
            ("movq %rax, (%rdi)", "store8"),
            ("movl $5, g(%rip)", "store4"),
            ("movl $5, g", "store4"),
            ("movl $5, 268435456", "store4"),
            ("movabsq %rax, 1099511627776", "store8"),
            ("movabsl 1099511627776, %eax", "load4"),
            ("movq (%rdi), %rax", "load8"),
            ("addq $1, (%rdi)", "change8"),
            ("incb (%rdi)", "change1"),
            ("addq (%rdi), %rax", "load8"),
            ("cmpl $3, (%rdi)", "load4"),
            ("testb $1, 4(%rdi)", "load1"),
            ("movups %xmm0, 16(%rdi)", "store16"),
            ("vmovdqu %ymm0, (%rdi,%rax)", "store32"),
            ("movhps %xmm0, (%rdi)", "store8"),
            ("sete (%rdi)", "store1"),
            ("popq (%rdi)", "store8"),
            ("pushq (%rdi)", "load8"),
            ("fstpt (%rdi)", "store10"),
            ("call *16(%rax)", "load8"),
            ("movq -8(%rbp), %rax", "load8"),
            ("vaddps (%rdi){1to8}, %ymm0, %ymm1", "load4"),
        ] {
            assert_eq!(hooks(&[line]), [hook], "{line}");
        }
    }

    #[test]
    fn frame_constants_and_segments_are_left_out() {
        for line in [
            "movq %rax, 8(%rsp)",
            "movq %fs:40, %rax",
            "movq %rax, %fs:8(%rbx)",
            "movq g@GOTPCREL(%rip), %rax",
            "movsd .LC0(%rip), %xmm0",
            "leaq 8(%rdi), %rax",
            "movq $g, %rax",
            "fstp %st(1)",
            "fadd %st(2), %st",
            "jmp *.L4(,%rax,8)",
            "call f",
            "je .L3",
            "movq %rax, %rbx",
            "shlq %cl, %rax",
        ] {
            assert!(hooks(&[line]).is_empty(), "{line}");
        }
        let frames = Frames::new(b"leaq 8(%rsp), %rdi");
        let hook = |line: &'static str| frames.access(&Instruction::parse(line.as_bytes()), false).is_some();
        assert!(hook("movq %rax, 8(%rsp)"), "its address is taken");
        assert!(!hook("movl %eax, 8(%rsp)") && !hook("movq 8(%rsp), %rax") && !hook("movq %rax, 16(%rsp)"));
        let frame = ["pushq %rbp", "movq %rsp, %rbp", "movq %rax, -8(%rbp)"];
        assert!(hooks(&frame).is_empty());
        assert_eq!(hooks(&["pushq %rbp", "movq %rdi, %rbp", "movq %rax, -8(%rbp)"]), ["store8"]);
        assert_eq!(hooks(&[&frame[..], &["leaq 8(%rdi), %rbp", frame[2]]].concat()), ["store8"]);
    }
}
