//! What no compiler announced: stores in inline assembly and by string instructions, and system calls in
//! inline assembly.

use super::instruction::{Instruction, flat, register_bytes};
use super::persist::{Address, Hook, based_on_stack_pointer, width};
use super::unhooked::{is_memory, moved, stored_bytes};

/// Instructions that change what is in memory, without the letter that says how wide it is.
const CHANGES: [&[u8]; 28] = [
    b"add",
    b"sub",
    b"and",
    b"or",
    b"xor",
    b"adc",
    b"sbb",
    b"inc",
    b"dec",
    b"neg",
    b"not",
    b"bts",
    b"btr",
    b"btc",
    b"xadd",
    b"cmpxchg",
    b"rol",
    b"ror",
    b"rcl",
    b"rcr",
    b"shl",
    b"shr",
    b"sar",
    b"sal",
    b"shld",
    b"shrd",
    b"cmpxchg8b",
    b"cmpxchg16b",
];
/// Instructions whose width their name says.
const STORES: [(&[u8], u32); 26] = [
    (b"movbew", 2),
    (b"movbel", 4),
    (b"movbeq", 8),
    (b"pop", 8),
    (b"popq", 8),
    (b"popw", 2),
    (b"fstps", 4),
    (b"fsts", 4),
    (b"fstpl", 8),
    (b"fstl", 8),
    (b"fstpt", 10),
    (b"fistps", 2),
    (b"fistp", 2),
    (b"fists", 2),
    (b"fistpl", 4),
    (b"fistl", 4),
    (b"fistpll", 8),
    (b"fistpq", 8),
    (b"fisttpl", 4),
    (b"fisttpll", 8),
    (b"fisttps", 2),
    (b"fbstp", 10),
    (b"fnstsw", 2),
    (b"stmxcsr", 4),
    (b"vstmxcsr", 4),
    (b"fnstcw", 2),
];

/// The hook of a system call or a store as hand-written assembly; `None` for all other instructions, and for
/// what goes to the stack.
pub fn hook<'a>(instruction: &Instruction<'a>, intel: bool) -> Option<Hook<'a>> {
    match instruction.name {
        b"syscall" => Some(Hook::new("system_call", 0, None)),
        _ => store(instruction, intel),
    }
}

/// The hook of a store, likewise.
pub fn store<'a>(instruction: &Instruction<'a>, intel: bool) -> Option<Hook<'a>> {
    if let Some(string) = Repeated::of(instruction) {
        let register: &[u8] = if intel { b"rdi" } else { b"%rdi" };
        return Some(Hook::new("store", string.bytes, Some(Address::Register(register))));
    }
    let operands: Vec<&[u8]> = instruction.split().collect();
    let (&first, &last) = (operands.first()?, operands.last()?);
    let (target, source) = if intel { (first, last) } else { (last, first) };
    let source = moved(instruction, target).unwrap_or(source);
    if !is_memory(target) || target.contains(&b'{') || based_on_stack_pointer(target) {
        return None;
    }
    let (bytes, _) = stored(instruction, source, target, intel)?;
    Some(Hook::new("store", bytes, Some(Address::Operand(flat(target)?))))
}

/// How many bytes of `target`, its operand in memory, an instruction stores, and whether it loads them first;
/// `None` if it stores nothing there.
pub fn stored(
    instruction: &Instruction<'_>,
    source: &[u8],
    target: &[u8],
    intel: bool,
) -> Option<(u32, bool)> {
    let name = instruction.name;
    let suffixed = |known: &&[u8]| {
        name.strip_prefix(*known).is_some_and(|rest| matches!(rest, b"" | b"b" | b"w" | b"l" | b"q"))
    };
    // A shift's count says nothing of the width.
    let by_letter = || match name.last() {
        Some(b'b') => 1,
        Some(b'w') => 2,
        Some(b'l') => 4,
        _ => 8,
    };
    let changes = || {
        let known = CHANGES.iter().find(|known| suffixed(known))?;
        let shifts = matches!(known[0], b'r') || known.starts_with(b"sh") || known.starts_with(b"sa");
        Some(if shifts && !intel && name.len() > known.len() {
            by_letter()
        } else {
            width(instruction, target, intel)
        })
    };
    let announced = || {
        if intel && matches!(name, b"fst" | b"fstp" | b"fist" | b"fistp" | b"fisttp") {
            return Some(width(instruction, target, intel));
        }
        STORES.iter().find(|(known, _)| *known == name).map(|&(_, bytes)| bytes)
    };
    let one = || (name.starts_with(b"set") && instruction.split().count() == 1).then_some(1);
    let plain = || stored_bytes(name, source, target).or_else(announced).or_else(one);
    plain().map(|bytes| (bytes, false)).or_else(|| Some((changes()?, true)))
}

/// A string instruction as hand-written assembly, with `rep` before it.
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

    /// What stands in its place: the runtime does it, and announces it.
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
            ("xaddq %rax, (%rdi)", Some(8)),
            ("cmpxchgl %ecx, (%rdi)", Some(4)),
            ("cmpxchg8b (%rdi)", Some(8)),
            ("cmpxchg16b (%rdi)", Some(16)),
            ("fnstsw (%rdi)", Some(2)),
            ("rolw $3, (%rdi)", Some(2)),
            ("shrl %cl, (%rdi)", Some(4)),
            ("shldq $3, %rax, (%rdi)", Some(8)),
            ("sete 20(%rdi)", Some(1)),
            ("movbe %eax, (%rdi)", Some(4)),
            ("popq 8(%rdi)", Some(8)),
            ("fistpll (%rdi)", Some(8)),
            ("vpextrq $1, %xmm0, (%rdi)", Some(8)),
            ("movq %rax, %ds:8(%rdi)", Some(8)),
            ("movsb", Some(1)),
            ("stosq", Some(8)),
            ("movq (%rdi), %rax", None),
            ("movq %rax, 8(%rsp)", None),
            ("movq %rax, %fs:8", None),
            ("cmpq %rax, (%rdi)", None),
            ("leaq 8(%rdi), %rax", None),
        ] {
            let hook = hook(&Instruction::parse(source.as_bytes()), false);
            assert_eq!(hook.map(|hook| hook.bytes), bytes, "{source}");
        }
        let by_intel = hook(&Instruction::parse(b"mov DWORD PTR [rdi+8], 7"), true);
        assert_eq!(by_intel.map(|hook| hook.bytes), Some(4));
        let call = hook(&Instruction::parse(b"syscall"), false);
        assert_eq!(call.map(|hook| hook.name), Some("system_call"));
    }

    #[test]
    fn string_instructions_are_distinguished_from_scalar_moves() {
        let of = |source: &'static str| Repeated::of(&Instruction::parse(source.as_bytes()));
        assert_eq!(of("rep movsb"), Some(Repeated { name: "movs", bytes: 1 }));
        assert_eq!(of("rep stosq"), Some(Repeated { name: "stos", bytes: 8 }));
        assert_eq!(of("rep movsl (%rsi), (%rdi)"), Some(Repeated { name: "movs", bytes: 4 }));
        for other in ["movsd %xmm0, (%rdi)", "movss (%rax), %xmm1", "movslq %eax, %rbx", "repne scasb"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
