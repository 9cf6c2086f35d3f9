//! Whole structures that a function returns and its caller stores.
//!
//! For `a = f()`, gcc's pass tells no store. The compiler puts what comes back from the call in registers and stores it from there, and
//! nothing is told in between; an ordinary store always has its hook between a call and itself. So a register that is stored behind a
//! call, before any hook and outside of the stack frame, gets a hook of its own.

use super::instruction::{Instruction, register_bytes};
use super::persist::{Address, Hook};

/// Whether a call has just returned.
#[derive(Default)]
pub struct Returned {
    after_call: bool,
    /// The function has a frame pointer.
    framed: bool,
}

impl Returned {
    /// A function begins.
    pub fn function(&mut self) {
        *self = Returned::default();
    }

    /// A call of the program's own; what follows may store what it returns.
    pub fn call(&mut self) {
        self.after_call = true;
    }

    /// A hook, a label, a jump, or inline assembly: what follows has been told or is something else.
    pub fn forget(&mut self) {
        self.after_call = false;
    }

    /// Looks at an instruction that calls nothing; the hook that it needs.
    pub fn instruction<'a>(&mut self, instruction: &Instruction<'a>, intel: bool) -> Option<Hook<'a>> {
        if !instruction.name.starts_with(b"mov") && !instruction.name.starts_with(b"vmov") {
            return None;
        }
        let mut operands = instruction.split();
        let (first, second) = (operands.next()?, operands.next()?);
        let (source, target) = if intel { (second, first) } else { (first, second) };
        let (source, name) = (bare(source), bare(target));
        self.framed |= source == b"rsp" && name == b"rbp";
        let in_memory = target.iter().any(|b| matches!(b, b'(' | b'['));
        if !self.after_call || !in_memory || self.in_frame(target) || target.contains(&b':') {
            return None;
        }
        let bytes = stored_bytes(instruction.name, source)?;
        Some(Hook { name: "store", bytes, address: Some(Address::Operand(target)) })
    }

    fn in_frame(&self, operand: &[u8]) -> bool {
        let names = |register: &[u8]| operand.windows(3).any(|word| word == register);
        names(b"rsp") || (self.framed && names(b"rbp"))
    }
}

fn bare(register: &[u8]) -> &[u8] {
    register.strip_prefix(b"%").unwrap_or(register)
}

/// Bytes that a move called `name` stores from the register `source`.
fn stored_bytes(name: &[u8], source: &[u8]) -> Option<u32> {
    let register = register_bytes(source)?;
    let vector = source.windows(2).any(|word| word == b"mm");
    let name = name.strip_prefix(b"v").unwrap_or(name);
    match name {
        b"mov" | b"movb" | b"movw" | b"movl" | b"movq" if !vector => Some(register),
        b"movd" | b"movss" => Some(4),
        b"movq" | b"movsd" | b"movlps" | b"movlpd" | b"movhps" | b"movhpd" => Some(8),
        b"movaps" | b"movapd" | b"movups" | b"movupd" | b"movdqa" | b"movdqu" => Some(register),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(lines: &[&str], intel: bool) -> Vec<Option<u32>> {
        let mut returned = Returned::default();
        let mut found = Vec::new();
        for line in lines {
            match *line {
                "call" => returned.call(),
                "hook" => returned.forget(),
                line => {
                    let hook = returned.instruction(&Instruction::parse(line.as_bytes()), intel);
                    found.push(hook.map(|hook| hook.bytes));
                }
            }
        }
        found
    }

    #[test]
    fn registers_stored_behind_a_call_are_what_it_returned() {
        for (store, bytes) in [
            ("movq %rax, g(%rip)", Some(8)),
            ("movl %eax, (%rbx)", Some(4)),
            ("movw %ax, (%rbx)", Some(2)),
            ("mov %dl, 2(%rbx,%rcx,4)", Some(1)),
            ("movaps %xmm0, g(%rip)", Some(16)),
            ("vmovdqu %ymm1, 32(%rbp)", Some(32)),
            ("movsd %xmm1, 8(%rbx)", Some(8)),
            ("movq %xmm0, 8(%rbx)", Some(8)),
            ("movss %xmm0, -4(%rbp)", Some(4)),
            ("movq $0, (%rbx)", None),
            ("movq %rax, 8(%rsp)", None),
            ("movq %rax, %fs:8", None),
            ("movq %rax, %rbx", None),
            ("movq (%rbx), %rax", None),
            ("addq %rax, (%rbx)", None),
        ] {
            assert_eq!(hooks(&["call", store], false), [bytes], "{store}");
            assert_eq!(hooks(&["call", "hook", store], false), [None], "{store} behind a hook");
            assert_eq!(hooks(&[store], false), [None], "{store} without a call");
        }
        assert_eq!(hooks(&["call", "mov QWORD PTR [rbx+8], rdx"], true), [Some(8)]);
        assert_eq!(hooks(&["call", "mov rdx, QWORD PTR [rbx+8]"], true), [None]);
    }

    #[test]
    fn with_a_frame_pointer_the_frame_is_the_stack() {
        assert_eq!(hooks(&["movq %rsp, %rbp", "call", "movq %rax, -8(%rbp)"], false), [None, None]);
        assert_eq!(hooks(&["mov rbp, rsp", "call", "mov QWORD PTR -8[rbp], rax"], true), [None, None]);
    }
}
