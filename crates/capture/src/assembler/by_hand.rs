//! Stores that no compiler told: in inline assembly, and by string instructions.

use super::instruction::{Instruction, register_bytes};
use super::persist::{Address, Hook, based_on_stack_pointer, width};
use super::untold::{is_memory, stored_bytes};

/// Instructions that change what is in memory, without the letter that says how wide it is.
const CHANGES: [&[u8]; 14] = [
    b"add", b"sub", b"and", b"or", b"xor", b"adc", b"sbb", b"inc", b"dec", b"neg", b"not", b"bts", b"btr",
    b"btc",
];

/// The hook of a store by hand; `None` for all other instructions, and for what goes to the stack.
pub fn store<'a>(instruction: &Instruction<'a>, intel: bool) -> Option<Hook<'a>> {
    let operands: Vec<&[u8]> = instruction.split().collect();
    let (&first, &last) = (operands.first()?, operands.last()?);
    let (target, source) = if intel { (first, last) } else { (last, first) };
    if !is_memory(target)
        || target.contains(&b':')
        || target.contains(&b'{')
        || based_on_stack_pointer(target)
    {
        return None;
    }
    let changes = || {
        let name = instruction.name;
        let known = CHANGES.iter().any(|known| {
            name.strip_prefix(*known).is_some_and(|rest| matches!(rest, b"" | b"b" | b"w" | b"l" | b"q"))
        });
        known.then(|| width(instruction, target, intel))
    };
    let bytes = stored_bytes(instruction.name, source, target).or_else(changes)?;
    Some(Hook::new("store", bytes, Some(Address::Operand(target))))
}

/// A string instruction by hand, with `rep` before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// `movs` or `stos`,
    name: &'static str,
    /// and the bytes of one turn.
    bytes: u32,
}

impl Repeated {
    /// What it is; `None` for other instructions.
    pub fn of(instruction: &Instruction<'_>) -> Option<Self> {
        let (name, size) = match instruction.name.strip_prefix(b"movs") {
            Some(size) => ("movs", size),
            None => ("stos", instruction.name.strip_prefix(b"stos")?),
        };
        // `movsd` with a vector register is something else.
        if instruction.split().any(|operand| register_bytes(operand) == Some(16)) {
            return None;
        }
        let bytes = match size {
            b"b" => 1,
            b"w" => 2,
            b"l" | b"d" => 4,
            b"q" => 8,
            _ => return None,
        };
        Some(Repeated { name, bytes })
    }

    /// What stands in its place: the runtime does it, and tells it.
    pub fn code(self, intel: bool) -> String {
        let Repeated { name, bytes } = self;
        let hook = format!("strandline_hook_{name}{bytes}");
        if intel {
            format!("lea rsp, [rsp-128]; call [QWORD PTR {hook}@GOTPCREL[rip]]; lea rsp, [rsp+128]")
        } else {
            format!("leaq -128(%rsp), %rsp; call *{hook}@GOTPCREL(%rip); leaq 128(%rsp), %rsp")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_by_hand_have_their_width() {
        for (source, bytes) in [
            ("movq %rax, (%rdi)", Some(8)),
            ("movl $1, 8(%rdi)", Some(4)),
            ("mov %al, (%rdi,%rcx)", Some(1)),
            ("movups %xmm0, (%rdi)", Some(16)),
            ("vmovdqu64 %zmm1, (%rdi)", Some(64)),
            ("addq $1, (%rdi)", Some(8)),
            ("orl %eax, (%rdi)", Some(4)),
            ("incw (%rdi)", Some(2)),
            ("movq (%rdi), %rax", None),
            ("movq %rax, 8(%rsp)", None),
            ("movq %rax, %fs:8", None),
            ("cmpq %rax, (%rdi)", None),
            ("leaq 8(%rdi), %rax", None),
        ] {
            let hook = store(&Instruction::parse(source.as_bytes()), false);
            assert_eq!(hook.map(|hook| hook.bytes), bytes, "{source}");
        }
        let hook = store(&Instruction::parse(b"mov DWORD PTR [rdi+8], 7"), true);
        assert_eq!(hook.map(|hook| hook.bytes), Some(4));
    }

    #[test]
    fn string_instructions_are_told_from_scalar_moves() {
        let of = |source: &'static str| Repeated::of(&Instruction::parse(source.as_bytes()));
        assert_eq!(of("rep movsb"), Some(Repeated { name: "movs", bytes: 1 }));
        assert_eq!(of("rep stosq"), Some(Repeated { name: "stos", bytes: 8 }));
        assert_eq!(of("rep movsl (%rsi), (%rdi)"), Some(Repeated { name: "movs", bytes: 4 }));
        for other in ["movsd %xmm0, (%rdi)", "movss (%rax), %xmm1", "movslq %eax, %rbx", "repne scasb"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
