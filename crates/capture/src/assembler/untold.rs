//! Stores that the compiler's pass has left out, found by what must stand before a store that it has told.
//!
//! gcc tells nothing of what a call returns as a whole structure (`a = f()`), of what a function writes into the structure
//! that it returns, and of a `__builtin_memcpy` that it expands; clang, of values whose size is none of 1, 2, 4, 8 and 16
//! bytes. But a store that is told has its hook before it, and between the two there is no other call: neither compiler moves a store over
//! a call. So a store outside of the stack frame that no hook of a store covers gets a hook of its own.
//!
//! Behind inline assembly, and behind a label that is reached from between a hook and its store (`awaited.rs`), nothing is known until the next
//! call, and no store is taken for left out.

use std::collections::HashSet;

use super::instruction::{Instruction, register_bytes, without_size};
use super::persist::{Address, Hook};

/// What the hooks say of the stores to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    /// Control may have come from elsewhere.
    #[default]
    Unknown,
    /// Nothing.
    Nothing,
    /// A store of so many bytes, no part of which has been executed.
    Store(u32),
    /// The rest of one: so many bytes at most.
    Rest(u32),
}

/// Follows a function's straight pieces of code.
#[derive(Default)]
pub struct Untold<'a> {
    told: Told,
    /// Registers that hold addresses in the stack frame, one bit each.
    frame: u16,
    /// Places in the frame, as operands, where such an address was put aside.
    put_aside: HashSet<&'a [u8]>,
}

/// Registers that a call changes: rax, rcx, rdx, rsi, rdi, r8 to r11.
const CALLER_SAVED: u16 = 0b0000_1111_1100_0111;
/// `%rsp` in [`REGISTERS`].
const STACK_POINTER: u16 = 1 << 4;
const REGISTERS: [&[u8]; 16] = [
    b"rax", b"rcx", b"rdx", b"rbx", b"rsp", b"rbp", b"rsi", b"rdi", b"r8", b"r9", b"r10", b"r11", b"r12",
    b"r13", b"r14", b"r15",
];

impl<'a> Untold<'a> {
    /// A function begins.
    pub fn function(&mut self) {
        *self = Untold { told: Told::Nothing, frame: STACK_POINTER, put_aside: HashSet::new() };
    }

    /// Control does not get here; a label comes next.
    pub fn leave(&mut self) {
        self.told = Told::Nothing;
    }

    /// Inline assembly, or a label that is reached from where a store was told that has not been executed yet.
    pub fn forget(&mut self) {
        self.told = Told::Unknown;
    }

    /// The hook of a load.
    pub fn load(&mut self) {
        // A structure's assignment is told as a store, then as a load, and then executed.
        if !matches!(self.told, Told::Store(_)) {
            self.told = Told::Nothing;
        }
        self.frame &= !CALLER_SAVED;
    }

    /// The hook of a store of `bytes`; `None`: of any number.
    pub fn store(&mut self, bytes: Option<u32>) {
        self.told = Told::Store(bytes.unwrap_or(u32::MAX));
        self.frame &= !CALLER_SAVED;
    }

    /// Any other call.
    pub fn call(&mut self) {
        self.told = Told::Nothing;
        self.frame &= !CALLER_SAVED;
    }

    /// Looks at an instruction that calls nothing; the hook that it needs.
    pub fn instruction(&mut self, instruction: &Instruction<'a>, intel: bool) -> Option<Hook<'a>> {
        let first = instruction.split().next()?;
        let last = instruction.split().last()?;
        let (source, target) = if intel { (last, first) } else { (first, last) };
        if !is_memory(target) {
            self.follow(instruction.name, source, target);
            return None;
        }
        if reads_only(instruction.name) || target.ends_with(b"}") {
            return None;
        }
        if registers(target) & self.frame != 0 {
            self.put_aside(source, without_size(target));
            return None;
        }
        let bytes = stored_bytes(instruction.name, source, target);
        match (self.told, bytes) {
            (Told::Unknown, _) => None,
            // A wider one is another store, which the compiler has put between.
            (Told::Store(told), bytes) if bytes.is_none_or(|bytes| bytes <= told) => {
                self.told = Told::Rest(told.saturating_sub(bytes.unwrap_or(told)));
                None
            }
            (Told::Rest(rest), Some(bytes)) if bytes <= rest => {
                self.told = Told::Rest(rest - bytes);
                None
            }
            (_, bytes) => {
                let address = (!target.contains(&b':')).then_some(Address::Operand(target));
                Some(Hook::new("store", bytes?, Some(address?)))
            }
        }
    }

    /// Looks at a string instruction with `rep`, which stores at `%rdi`; whether nobody has told that.
    pub fn repeated(&mut self) -> bool {
        if registers(b"rdi") & self.frame != 0 {
            return false;
        }
        let untold = matches!(self.told, Told::Nothing | Told::Rest(_));
        if !untold && self.told != Told::Unknown {
            self.told = Told::Nothing;
        }
        untold
    }

    /// Takes note of what a place in the frame gets.
    fn put_aside(&mut self, source: &[u8], place: &'a [u8]) {
        if registers(source) & self.frame != 0 {
            self.put_aside.insert(place);
        } else {
            self.put_aside.remove(place);
        }
    }

    /// Takes note of a register that gets an address in the frame, or another value.
    fn follow(&mut self, name: &[u8], source: &[u8], target: &[u8]) {
        let target = registers(target);
        let fetched = name.starts_with(b"mov") && self.put_aside.contains(without_size(source));
        let moves = name.starts_with(b"mov") && !is_memory(source);
        if name.starts_with(b"lea") || moves || fetched {
            if fetched || registers(source) & self.frame != 0 {
                self.frame |= target;
            } else {
                self.frame &= !target | STACK_POINTER;
            }
        } else if [&b"mov"[..], b"pop", b"cmov", b"xor"].iter().any(|other| name.starts_with(other)) {
            self.frame &= !target | STACK_POINTER;
        }
    }
}

/// Whether the instruction writes to memory.
pub fn stores(instruction: &Instruction<'_>, intel: bool) -> bool {
    let mut operands = instruction.split();
    let target = if intel { operands.next() } else { operands.last() };
    target.is_some_and(is_memory) && !reads_only(instruction.name) && !instruction.name.starts_with(b"lea")
}

/// Whether an operand is in memory.
pub fn is_memory(operand: &[u8]) -> bool {
    operand.iter().any(|b| matches!(b, b'(' | b'['))
}

/// The 64-bit registers that an operand names.
fn registers(operand: &[u8]) -> u16 {
    let mut found = 0;
    for word in operand.split(|b| !b.is_ascii_alphanumeric()) {
        if word.first() == Some(&b'r')
            && let Some(at) = REGISTERS.iter().position(|&name| name == word)
        {
            found |= 1 << at;
        }
    }
    found
}

fn reads_only(name: &[u8]) -> bool {
    [
        &b"cmp"[..],
        b"test",
        b"bt",
        b"ucomis",
        b"comis",
        b"vucomis",
        b"vcomis",
        b"prefetch",
        b"nop",
        b"push",
        b"fld",
        b"fild",
    ]
    .iter()
    .any(|other| name.starts_with(other))
}

/// Bytes that a plain move called `name` stores; `None` for other instructions.
pub fn stored_bytes(name: &[u8], source: &[u8], target: &[u8]) -> Option<u32> {
    let vector = source.windows(2).any(|word| word == b"mm");
    let register = register_bytes(source);
    let name = name.strip_prefix(b"v").unwrap_or(name);
    match name {
        b"fstpt" => Some(10),
        b"fstp" if target.starts_with(b"TBYTE") => Some(10),
        b"movb" => Some(1),
        b"movw" => Some(2),
        b"movl" | b"movd" | b"movss" => Some(4),
        b"movq" | b"movabsq" | b"movsd" | b"movlps" | b"movlpd" | b"movhps" | b"movhpd" => Some(8),
        b"mov" | b"movabs" if !vector => register.or_else(|| pointer_bytes(target)),
        b"movaps" | b"movapd" | b"movups" | b"movupd" | b"movdqa" | b"movdqu" => register,
        b"movdqa32" | b"movdqa64" | b"movdqu8" | b"movdqu16" | b"movdqu32" | b"movdqu64" => register,
        _ => None,
    }
}

/// Width of an Intel memory operand with a size in front.
fn pointer_bytes(operand: &[u8]) -> Option<u32> {
    let sizes: [(&[u8], u32); 4] = [(b"BYTE PTR", 1), (b"WORD PTR", 2), (b"DWORD PTR", 4), (b"QWORD PTR", 8)];
    sizes.into_iter().find_map(|(name, bytes)| {
        operand.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name)).then_some(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the hooks that the instructions of a function get. `read`, `write 8`, `write`, `call` and `label` stand
    /// for what they say.
    fn hooks(lines: &[&'static str], intel: bool) -> Vec<u32> {
        let mut untold = Untold::default();
        untold.function();
        let mut found = Vec::new();
        for line in lines {
            match line.split_once(' ') {
                Some(("write", bytes)) => untold.store(Some(bytes.parse().unwrap())),
                Some(_) => {
                    let hook = untold.instruction(&Instruction::parse(line.as_bytes()), intel);
                    found.extend(hook.map(|hook| hook.bytes));
                }
                None if *line == "write" => untold.store(None),
                None if *line == "read" => untold.load(),
                None if *line == "call" => untold.call(),
                None => untold.forget(),
            }
        }
        found
    }

    #[test]
    fn a_store_without_a_hook_since_the_last_call_is_untold() {
        for (store, bytes) in [
            ("movq %rax, g(%rip)", Some(8)),
            ("movl $5, (%rbx)", Some(4)),
            ("movw %ax, (%rbx)", Some(2)),
            ("mov %dl, 2(%rbx,%rcx,4)", Some(1)),
            ("movaps %xmm0, g(%rip)", Some(16)),
            ("vmovdqu %ymm1, 32(%rbp)", Some(32)),
            ("movsd %xmm1, 8(%rbx)", Some(8)),
            ("movss %xmm0, -4(%rbp)", Some(4)),
            ("fstpt 16(%rbx)", Some(10)),
            ("movq %rax, 8(%rsp)", None),
            ("movq %rax, %fs:8", None),
            ("movq %rax, %fs:8(%rbx)", None),
            ("movq %rax, %rbx", None),
            ("movq (%rbx), %rax", None),
            ("addq %rax, (%rbx)", None),
            ("cmpq %rax, (%rbx)", None),
        ] {
            let wanted: Vec<u32> = bytes.into_iter().collect();
            assert_eq!(hooks(&[store], false), wanted, "{store} as a function begins");
            assert_eq!(hooks(&["call", store], false), wanted, "{store}");
            assert_eq!(hooks(&["read", store], false), wanted, "{store}");
            assert_eq!(hooks(&["call", "label", store], false), [], "{store} behind a label");
            for told in [&["write 64"][..], &["write"], &["write 64", "read"]] {
                assert_eq!(hooks(&[told, &[store]].concat(), false), [], "{store} behind {told:?}");
            }
        }
        assert_eq!(hooks(&["call", "mov QWORD PTR [rbx+8], rdx", "mov BYTE PTR 4[rbx], 7"], true), [8, 1]);
        assert_eq!(hooks(&["call", "mov rdx, QWORD PTR [rbx+8]"], true), []);
    }

    #[test]
    fn a_hook_covers_as_many_bytes_as_it_tells() {
        let (half, byte) = ("movq %rax, (%rbx)", "movb %al, 24(%rbx)");
        assert_eq!(hooks(&["write 16", half, half, byte], false), [1]);
        assert_eq!(hooks(&["write", half, half, byte], false), []);
        assert_eq!(hooks(&["write 8", half, "read", byte], false), [1]);
        assert_eq!(hooks(&["write 4", half, "movl %ecx, 8(%rbx)", byte], false), [8, 1]);
        assert_eq!(hooks(&["write 8", "orq %rax, (%rbx)", byte], false), [1]);
    }

    #[test]
    fn the_frame_is_left_alone_however_it_is_addressed() {
        for frame in [
            &["movq %rsp, %rbp", "movq %rax, -8(%rbp)"][..],
            &["leaq 16(%rsp), %rbx", "call", "movq %rax, 8(%rbx)"],
            &["leaq 16(%rsp), %rbx", "movq %rbx, %rdx", "addq $8, %rdx", "movq %rax, (%rdx,%rcx,8)"],
            &["leaq 16(%rsp), %rax", "movq %rax, 8(%rsp)", "call", "movq 8(%rsp), %rax", "movl $5, (%rax)"],
        ] {
            assert_eq!(hooks(frame, false), [], "{frame:?}");
        }
        for elsewhere in [
            &["leaq 16(%rsp), %rax", "call", "movq $5, (%rax)"][..],
            &["leaq 16(%rsp), %rbx", "movq 8(%rdi), %rbx", "movq $5, (%rbx)"],
            &[
                "leaq 16(%rsp), %rax",
                "movq %rax, 8(%rsp)",
                "movq %rdi, 8(%rsp)",
                "movq 8(%rsp), %rbx",
                "movq $5, (%rbx)",
            ],
        ] {
            assert_eq!(hooks(elsewhere, false), [8], "{elsewhere:?}");
        }
        assert_eq!(hooks(&["mov rbp, rsp", "mov QWORD PTR -8[rbp], rax"], true), []);
    }
}
