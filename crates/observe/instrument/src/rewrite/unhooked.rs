//! Stores that the compiler's pass has left out, found by what must stand before a store that it has
//! announced.
//!
//! gcc announces nothing of what a call returns as a whole structure (`a = f()`), of what a function writes
//! into the structure that it returns, and of a `__builtin_memcpy` that it expands; clang, of values whose
//! size is none of 1, 2, 4, 8 and 16 bytes. But a store that is announced has its hook before it, and between
//! the two there is no other call: neither compiler moves a store over a call. So a store outside of the
//! stack frame that no hook of a store covers gets a hook of its own.
//!
//! Behind inline assembly, and behind a label that is reached from between a hook and its store
//! ([`awaited`](super::awaited)), nothing is known until the next call, and no store is taken for left out.

use std::collections::HashSet;

use super::instruction::{Instruction, flat, in_frame, register_bytes, without_size};
use super::persist::{Address, Hook};
use super::scan::{Item, Scanner};

/// How much of a source is looked at for a store that is to come.
const LINES: usize = 60;

/// What the hooks say of the stores to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Announced {
    /// Control may have come from elsewhere.
    #[default]
    Unknown,
    /// Nothing.
    Nothing,
    /// A store of so many bytes, no part of which has been executed.
    Store(u32),
    /// The rest of one: so many bytes at most.
    Rest(u32),
    /// A store whose hook was taken away: so many bytes, of which each store gets a hook of its own.
    Postponed(u32),
    /// What is left of a structure's assignment, which several stores carry out. The last of them may overlap
    /// the one before.
    Range(u32),
}

/// Follows a function's straight pieces of code.
#[derive(Default)]
pub struct Unhooked<'a> {
    announced: Announced,
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

impl<'a> Unhooked<'a> {
    /// A function begins.
    pub fn function(&mut self) {
        *self = Unhooked { announced: Announced::Nothing, frame: STACK_POINTER, put_aside: HashSet::new() };
    }

    /// Control does not get here; a label comes next.
    pub fn leave(&mut self) {
        self.announced = Announced::Nothing;
    }

    /// Inline assembly, or a label that is reached from where a store was announced that has not been
    /// executed yet.
    pub fn forget(&mut self) {
        self.announced = Announced::Unknown;
    }

    /// The hook of a load.
    pub fn load(&mut self) {
        // A structure's assignment is announced as a store, then as a load, and then executed.
        if !matches!(self.announced, Announced::Store(_) | Announced::Range(_)) {
            self.announced = Announced::Nothing;
        }
        self.frame &= !CALLER_SAVED;
    }

    /// The hook of a store of `bytes`.
    pub fn store(&mut self, bytes: u32) {
        self.announced = Announced::Store(bytes);
        self.frame &= !CALLER_SAVED;
    }

    /// The hook of a whole structure's; `None`: of any number of bytes.
    pub fn store_range(&mut self, bytes: Option<u32>) {
        self.announced = Announced::Range(bytes.unwrap_or(u32::MAX));
        self.frame &= !CALLER_SAVED;
    }

    /// Bytes of a store that was announced, and of which nothing has been executed.
    pub fn pending(&self) -> Option<u32> {
        if let Announced::Store(bytes) = self.announced { Some(bytes) } else { None }
    }

    /// The store that is pending is executed.
    pub fn executed(&mut self) {
        if matches!(self.announced, Announced::Store(_)) {
            self.announced = Announced::Rest(0);
        }
    }

    /// The hook of the store that is pending was taken away.
    pub fn postpone(&mut self) {
        if let Announced::Store(bytes) = self.announced {
            self.announced = Announced::Postponed(bytes);
        }
    }

    /// Any other call.
    pub fn call(&mut self) {
        self.announced = Announced::Nothing;
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
        let bytes = stored_bytes(instruction.name, moved(instruction, target).unwrap_or(source), target);
        match (self.announced, bytes) {
            (Announced::Unknown, _) => None,
            (Announced::Range(rest), bytes) if rest > 0 => {
                self.announced = Announced::Range(rest.saturating_sub(bytes.unwrap_or(0)));
                None
            }
            // A wider one is another store, which the compiler has put between.
            (Announced::Postponed(announced), bytes) if bytes.is_none_or(|bytes| bytes <= announced) => {
                let bytes = bytes.unwrap_or(announced);
                self.announced = if bytes < announced {
                    Announced::Postponed(announced - bytes)
                } else {
                    Announced::Rest(0)
                };
                Some(Hook::new("store", bytes, Some(Address::Operand(flat(target)?))))
            }
            (Announced::Store(announced), bytes) if bytes.is_none_or(|bytes| bytes <= announced) => {
                self.announced = Announced::Rest(announced.saturating_sub(bytes.unwrap_or(announced)));
                None
            }
            (Announced::Rest(rest), Some(bytes)) if bytes <= rest => {
                self.announced = Announced::Rest(rest - bytes);
                None
            }
            (_, bytes) => Some(Hook::new("store", bytes?, Some(Address::Operand(flat(target)?)))),
        }
    }

    /// Looks at a string instruction with `rep`, which stores at `%rdi`; whether nobody has announced that.
    pub fn repeated(&mut self) -> bool {
        if registers(b"rdi") & self.frame != 0 {
            return false;
        }
        // What was announced as one store, of a register's size, is not carried out so.
        let unhooked = matches!(
            self.announced,
            Announced::Nothing | Announced::Rest(_) | Announced::Range(0) | Announced::Store(_)
        );
        if !unhooked && self.announced != Announced::Unknown {
            self.announced = Announced::Nothing;
        }
        unhooked
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

/// Whether a store of so many bytes outside of the frame comes before `source` goes elsewhere.
pub fn store_follows(source: &[u8], bytes: u32, intel: bool) -> bool {
    for item in Scanner::new(source).take(LINES) {
        match item {
            Item::Label(name) if super::source::is_mark(&source[name.clone()], &source[name.end..]) => {}
            Item::Label(_) | Item::InlineAssembly(_) => return false,
            Item::Statement(place) => {
                let instruction = Instruction::parse(&source[place]);
                let (Some(first), Some(last)) = (instruction.split().next(), instruction.split().last())
                else {
                    if super::control::transfers_control(instruction.name) {
                        return false;
                    }
                    continue;
                };
                let (source, target) = if intel { (last, first) } else { (first, last) };
                if instruction.is_directive() {
                    continue;
                }
                if super::control::transfers_control(instruction.name) {
                    return false;
                }
                let source = moved(&instruction, target).unwrap_or(source);
                if is_memory(target)
                    && !in_frame(target)
                    && stored_bytes(instruction.name, source, target) == Some(bytes)
                {
                    return true;
                }
            }
        }
    }
    false
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

/// The register that goes into memory, whatever else an instruction names.
pub fn moved<'a>(instruction: &Instruction<'a>, target: &[u8]) -> Option<&'a [u8]> {
    instruction.split().find(|&operand| operand != target && register_bytes(operand).is_some())
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
        b"pextrb" | b"kmovb" => Some(1),
        b"pextrw" | b"kmovw" => Some(2),
        b"pextrd" | b"extractps" | b"kmovd" => Some(4),
        b"pextrq" | b"kmovq" => Some(8),
        b"movbe" => register,
        b"cvtps2ph" => Some(register? / 2),
        _ => extracted_bytes(name)
            .or_else(|| narrowed(name).and_then(|(wide, narrow)| Some(register? / wide * narrow))),
    }
}

/// Bytes of the part of a vector that an instruction takes out.
pub fn extracted_bytes(name: &[u8]) -> Option<u32> {
    match name.strip_prefix(b"extract")?.get(1..)? {
        b"128" | b"32x4" | b"64x2" => Some(16),
        b"64x4" | b"32x8" => Some(32),
        _ => None,
    }
}

/// Bytes of an element before and after, of an instruction (without its `v`) that makes a vector's elements
/// narrower.
pub fn narrowed(name: &[u8]) -> Option<(u32, u32)> {
    let kind = name.strip_prefix(b"pmov")?;
    let kind = kind.strip_prefix(b"us").or_else(|| kind.strip_prefix(b"s")).unwrap_or(kind);
    match kind {
        b"wb" => Some((2, 1)),
        b"db" => Some((4, 1)),
        b"dw" => Some((4, 2)),
        b"qb" => Some((8, 1)),
        b"qw" => Some((8, 2)),
        b"qd" => Some((8, 4)),
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

    /// The bytes of the hooks that the instructions of a function get. `read`, `write 8`, `range 8`, `range`,
    /// `call` and `label` stand for what they say.
    fn hooks(lines: &[&'static str], intel: bool) -> Vec<u32> {
        let mut unhooked = Unhooked::default();
        unhooked.function();
        let mut found = Vec::new();
        for line in lines {
            match line.split_once(' ') {
                Some(("write", bytes)) => unhooked.store(bytes.parse().unwrap()),
                Some(("range", bytes)) => unhooked.store_range(Some(bytes.parse().unwrap())),
                Some(_) => {
                    let hook = unhooked.instruction(&Instruction::parse(line.as_bytes()), intel);
                    found.extend(hook.map(|hook| hook.bytes));
                }
                None if *line == "range" => unhooked.store_range(None),
                None if *line == "read" => unhooked.load(),
                None if *line == "call" => unhooked.call(),
                None => unhooked.forget(),
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
            ("vmovhps %xmm1, 64(%rbx)", Some(8)),
            ("vpextrw $2, %xmm1, (%rbx)", Some(2)),
            ("vextractf128 $1, %ymm1, (%rbx)", Some(16)),
            ("vextracti64x4 $1, %zmm1, (%rbx)", Some(32)),
            ("vpmovqd %zmm0, (%rbx)", Some(32)),
            ("vpmovusqb %xmm0, (%rbx)", Some(2)),
            ("vcvtps2ph $0, %zmm6, (%rbx)", Some(32)),
            ("kmovw %k1, (%rbx)", Some(2)),
            ("movbe %eax, (%rbx)", Some(4)),
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
            for announced in [&["write 64"][..], &["range"], &["write 64", "read"], &["range 64", "read"]] {
                assert_eq!(hooks(&[announced, &[store]].concat(), false), [], "{store} behind {announced:?}");
            }
        }
        assert_eq!(hooks(&["call", "mov QWORD PTR [rbx+8], rdx", "mov BYTE PTR 4[rbx], 7"], true), [8, 1]);
        assert_eq!(hooks(&["call", "mov rdx, QWORD PTR [rbx+8]"], true), []);
    }

    #[test]
    fn a_hook_covers_as_many_bytes_as_it_tells() {
        let (half, byte) = ("movq %rax, (%rbx)", "movb %al, 24(%rbx)");
        assert_eq!(hooks(&["write 16", half, half, byte], false), [1]);
        assert_eq!(hooks(&["range", half, half, byte], false), []);
        // Two halves that overlap, and what does not belong to it.
        let (first, last) = ("movups %xmm0, (%rbx)", "movups %xmm1, 15(%rbx)");
        assert_eq!(hooks(&["range 31", "read", first, last, byte], false), [1]);
        assert_eq!(hooks(&["range 32", "vmovdqu %ymm3, (%rbx)", "vmovhps %xmm1, 64(%rbx)"], false), [8]);
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
