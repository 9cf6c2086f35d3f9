//! How many bytes an instruction loads from its operand in memory, by its name and its registers.

use super::instruction::{Instruction, register_bytes};
use super::persist::width;
use super::unhooked::{extracted_bytes, narrowed};

/// Instructions that name memory and load nothing from it, by how their names begin.
const WITHOUT: [&[u8]; 13] = [
    b"lea",
    b"nop",
    b"prefetch",
    b"cl",
    b"bnd",
    b"ud",
    b"xsave",
    b"xrstor",
    b"fxsave",
    b"fxrstor",
    b"invlpg",
    // Their index is a vector, so that there is no one address.
    b"vgather",
    b"vscatter",
];
/// Vector instructions that load another number of bytes than their widest register has.
const PARTS: [(&[u8], u32); 22] = [
    (b"movd", 4),
    (b"movq", 8),
    (b"movhps", 8),
    (b"movhpd", 8),
    (b"movlps", 8),
    (b"movlpd", 8),
    (b"pinsrb", 1),
    (b"pinsrw", 2),
    (b"pinsrd", 4),
    (b"pinsrq", 8),
    (b"insertps", 4),
    (b"broadcastss", 4),
    (b"broadcastsd", 8),
    (b"pbroadcastb", 1),
    (b"pbroadcastw", 2),
    (b"pbroadcastd", 4),
    (b"pbroadcastq", 8),
    (b"broadcastf128", 16),
    (b"broadcasti128", 16),
    (b"insertf128", 16),
    (b"inserti128", 16),
    (b"cvtpi2ps", 8),
];

/// Bytes that `instruction` loads from `memory`, one of its operands; `None`: it loads nothing there that has
/// an address and a width.
pub fn loaded(instruction: &Instruction<'_>, memory: &[u8], intel: bool) -> Option<u32> {
    let name = instruction.name;
    let gathers = name.starts_with(b"vpgather") || name.starts_with(b"vpscatter");
    if gathers || WITHOUT.iter().any(|without| name.starts_with(without)) {
        return None;
    }
    let vector = instruction.split().filter_map(register_bytes).max().filter(|&bytes| bytes >= 16);
    let vector = vector.or_else(|| instruction.operands.windows(2).any(|at| at == b"mm").then_some(16));
    if let Some(register) = vector {
        return Some(of_vector(name, memory, register, intel));
    }
    let of_letter = |letter| match letter {
        b'b' => Some(1),
        b'w' => Some(2),
        b'l' => Some(4),
        _ => None,
    };
    match name {
        b"push" | b"pushq" | b"call" | b"callq" | b"jmp" | b"jmpq" => return Some(8),
        b"ldmxcsr" | b"vldmxcsr" => return Some(4),
        b"fldcw" => return Some(2),
        [b'c', b'r', b'c', b'3', b'2', letter] => return Some(of_letter(*letter).unwrap_or(8)),
        [b'k', b'm', b'o', b'v', letter] => {
            return Some(if *letter == b'd' { 4 } else { of_letter(*letter).unwrap_or(8) });
        }
        _ => {}
    }
    if name.first() == Some(&b'f') && !intel {
        return of_float(name);
    }
    // `movzbl`: from a byte.
    let extends = name.strip_prefix(b"movz").or_else(|| name.strip_prefix(b"movs"));
    if let Some([from, _]) = extends.filter(|_| !intel) {
        return of_letter(*from);
    }
    if intel {
        let narrow = width(&Instruction { operands: memory, ..*instruction }, memory, true);
        return Some(if memory.windows(3).any(|at| at == b"PTR") {
            narrow
        } else {
            width(instruction, memory, true)
        });
    }
    Some(width(instruction, memory, false))
}

/// What an instruction with a vector register of so many bytes loads.
fn of_vector(name: &[u8], memory: &[u8], register: u32, intel: bool) -> u32 {
    let plain = name.strip_prefix(b"v").unwrap_or(name);
    let wide = matches!(plain.last(), Some(b'q')) || plain.ends_with(b"pd");
    // One element for all.
    if memory.windows(4).any(|at| at == b"{1to") {
        return if wide { 8 } else { 4 };
    }
    if let Some(&(_, bytes)) = PARTS.iter().find(|(part, _)| *part == plain) {
        return bytes;
    }
    if plain == b"movddup" {
        return if register == 16 { 8 } else { register };
    }
    let inserted = [&b"broadcast"[..], b"insert"].iter().find_map(|kind| plain.strip_prefix(*kind));
    if let Some(part) = inserted.and_then(|part| extracted_bytes(&[b"extract", part].concat())) {
        return part;
    }
    let extended = plain.strip_prefix(b"pmovzx").or_else(|| plain.strip_prefix(b"pmovsx"));
    if let Some(kind) = extended {
        // `pmovzxbw` is the other way round from `pmovwb`.
        let back: Vec<u8> = [&b"pmov"[..], &kind.iter().rev().copied().collect::<Vec<_>>()].concat();
        if let Some((wide, narrow)) = narrowed(&back) {
            return register / wide * narrow;
        }
    }
    if matches!(plain, b"cvtps2pd" | b"cvtdq2pd" | b"cvtph2ps" | b"cvtudq2pd" | b"cvtps2qq") {
        return register / 2;
    }
    if let Some(rest) = plain.strip_prefix(b"cvtsi2s").or_else(|| plain.strip_prefix(b"cvtusi2s")) {
        let by_pointer = intel && memory.starts_with(b"QWORD");
        return if rest.ends_with(b"q") || by_pointer { 8 } else { 4 };
    }
    let packed = plain.starts_with(b"p");
    let contains = |part: &[u8]| plain.windows(part.len()).any(|at| at == part);
    if !packed && (contains(b"ss2") || plain.ends_with(b"ss")) {
        return 4;
    }
    if !packed && (contains(b"sd2") || plain.ends_with(b"sd")) {
        return 8;
    }
    register
}

/// What an instruction of the floating-point stack loads.
fn of_float(name: &[u8]) -> Option<u32> {
    // Nothing, or the whole state.
    if name.starts_with(b"fn") || name.starts_with(b"fst") || name.starts_with(b"fldenv") {
        return None;
    }
    let of_integer = name.starts_with(b"fi");
    match name.last() {
        Some(b't') => Some(10),
        Some(b's') => Some(if of_integer { 2 } else { 4 }),
        Some(b'l') if name.ends_with(b"ll") && of_integer => Some(8),
        Some(b'l') => Some(if of_integer { 4 } else { 8 }),
        Some(b'q') => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_have_their_width() {
        for (source, bytes) in [
            ("movq (%rdi), %rax", Some(8)),
            ("movzbl 3(%rdi), %eax", Some(1)),
            ("movswl (%rdi), %eax", Some(2)),
            ("movslq (%rdi), %rax", Some(4)),
            ("cmpb $0, (%rdi)", Some(1)),
            ("cmpq %rax, (%rdi)", Some(8)),
            ("addl (%rdi), %eax", Some(4)),
            ("cmovl (%rdi), %eax", Some(4)),
            ("cmovb (%rdi), %rax", Some(8)),
            ("imulq $3, (%rdi), %rax", Some(8)),
            ("divl (%rdi)", Some(4)),
            ("crc32b (%rdi), %eax", Some(1)),
            ("crc32q (%rdi), %rax", Some(8)),
            ("pushq (%rdi)", Some(8)),
            ("call *8(%rdi)", Some(8)),
            ("movsd (%rdi), %xmm0", Some(8)),
            ("movss (%rdi), %xmm0", Some(4)),
            ("movups (%rdi), %xmm0", Some(16)),
            ("vmovdqu (%rdi), %ymm0", Some(32)),
            ("vmovdqu64 (%rdi), %zmm0", Some(64)),
            ("addsd (%rdi), %xmm0", Some(8)),
            ("vfmadd231ss (%rdi), %xmm0, %xmm1", Some(4)),
            ("vfmadd231pd (%rdi), %ymm0, %ymm1", Some(32)),
            ("cvtsi2sdl (%rdi), %xmm0", Some(4)),
            ("cvtsi2sdq (%rdi), %xmm0", Some(8)),
            ("cvtss2sd (%rdi), %xmm0", Some(4)),
            ("cvttsd2si (%rdi), %rax", Some(8)),
            ("cvtps2pd (%rdi), %xmm0", Some(8)),
            ("vpdpbusd (%rdi), %ymm0, %ymm1", Some(32)),
            ("pmovzxbw (%rdi), %xmm0", Some(8)),
            ("vpmovsxbq (%rdi), %ymm0", Some(4)),
            ("movq (%rdi), %xmm0", Some(8)),
            ("movd (%rdi), %xmm0", Some(4)),
            ("movhps (%rdi), %xmm0", Some(8)),
            ("pinsrw $2, (%rdi), %xmm0", Some(2)),
            ("vbroadcastss (%rdi), %ymm0", Some(4)),
            ("vinserti128 $1, (%rdi), %ymm0, %ymm1", Some(16)),
            ("vbroadcasti32x4 (%rdi), %zmm1", Some(16)),
            ("vaddps (%rdi){1to8}, %ymm0, %ymm1", Some(4)),
            ("fldt (%rdi)", Some(10)),
            ("fldl (%rdi)", Some(8)),
            ("fadds (%rdi)", Some(4)),
            ("fildll (%rdi)", Some(8)),
            ("kmovw (%rdi), %k1", Some(2)),
            ("leaq (%rdi), %rax", None),
            ("prefetcht0 (%rdi)", None),
            ("nopw 0(%rax,%rax,1)", None),
            ("clwb (%rdi)", None),
            ("vpgatherdd %ymm2, (%rdi,%ymm1,4), %ymm0", None),
            ("vgatherdpd (%rdi,%xmm1,8), %ymm0{%k1}", None),
        ] {
            let instruction = Instruction::parse(source.as_bytes());
            let memory = instruction.split().find(|operand| operand.contains(&b'(')).expect("memory");
            assert_eq!(loaded(&instruction, memory, false), bytes, "{source}");
        }
        for (source, bytes) in [
            ("mov rax, QWORD PTR [rdi]", 8),
            ("movzx eax, BYTE PTR [rdi]", 1),
            ("add eax, DWORD PTR [rdi+4]", 4),
            ("movsd xmm0, QWORD PTR [rdi]", 8),
            ("cvtsi2sd xmm0, QWORD PTR [rdi]", 8),
            ("movups xmm0, XMMWORD PTR [rdi]", 16),
        ] {
            let instruction = Instruction::parse(source.as_bytes());
            let memory = instruction.split().find(|operand| operand.contains(&b'[')).expect("memory");
            assert_eq!(loaded(&instruction, memory, true), Some(bytes), "{source}");
        }
    }
}
