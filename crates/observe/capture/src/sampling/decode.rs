//! Whether an x86 instruction with a memory operand stores, by its opcode alone: for faults of which the kernel does not say
//! what kind of access they were.

/// `Some(true)` if the instruction stores to memory, `Some(false)` if it only loads, `None` if it does both at different
/// addresses (`movs`, `push` of memory) or the bytes are none.
pub fn stores(code: &[u8]) -> Option<bool> {
    let mut at = 0;
    let (mut repeats, mut wide) = (None, false);
    while let Some(byte @ (0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)) = code.get(at) {
        repeats = Some(*byte).filter(|byte| *byte >= 0xf2).or(repeats);
        wide |= *byte == 0x66;
        at += 1;
    }
    if let Some(0x40..=0x4f) = code.get(at) {
        at += 1;
    }
    let byte = |offset: usize| code.get(at + offset).copied();
    let reg = |offset: usize| Some(byte(offset)? >> 3 & 7);
    match byte(0)? {
        0x0f => match byte(1)? {
            0x38 => Some(byte(2)? == 0xf1 && repeats != Some(0xf2)),
            0x3a => Some(matches!(byte(2)?, 0x14..=0x17)),
            opcode => Some(two_bytes(opcode, reg(2)?, repeats, wide)),
        },
        // VEX: the map of opcodes, then the prefix that stands for 66, f3, f2.
        0xc5 => Some(two_bytes(byte(2)?, reg(3)?, prefix(byte(1)?), byte(1)? & 3 == 1)),
        0xc4 => vector(byte(1)? & 31, byte(3)?, reg(4)?, byte(2)?),
        0x62 => vector(byte(1)? & 7, byte(4)?, reg(5)?, byte(2)?),
        opcode => one_byte(opcode, reg(1)),
    }
}

fn prefix(byte: u8) -> Option<u8> {
    [None, None, Some(0xf3), Some(0xf2)][usize::from(byte & 3)]
}

fn vector(map: u8, opcode: u8, reg: u8, prefixes: u8) -> Option<bool> {
    match map {
        1 => Some(two_bytes(opcode, reg, prefix(prefixes), prefixes & 3 == 1)),
        2 => Some(matches!(opcode, 0x2e | 0x2f | 0x8e | 0x8a | 0xa0..=0xa3)),
        3 => Some(matches!(opcode, 0x14..=0x17 | 0x19 | 0x1b | 0x1d | 0x39 | 0x3b)),
        _ => None,
    }
}

fn one_byte(opcode: u8, reg: Option<u8>) -> Option<bool> {
    Some(match opcode {
        // Arithmetic: to memory but for comparisons, from memory, with constants.
        0x00..=0x3f => opcode & 6 == 0 && opcode & 0x38 != 0x38,
        0x80..=0x83 => reg? != 7,
        0xa4 | 0xa5 => return None,
        0x50..=0x57 | 0x68 | 0x6a | 0xe8 | 0x9c => true,
        0x86..=0x89 | 0x8c | 0xa2 | 0xa3 | 0xaa | 0xab | 0xc0 | 0xc1 | 0xc6 | 0xc7 | 0xd0..=0xd3 => true,
        0xd9 => matches!(reg?, 2 | 3 | 6 | 7),
        0xdb | 0xdd | 0xdf => matches!(reg?, 1..=3 | 6 | 7),
        0xf6 | 0xf7 => matches!(reg?, 2 | 3),
        0xfe => true,
        0xff => match reg? {
            0 | 1 => true,
            4 | 5 => false,
            _ => return None,
        },
        0x8f => return None,
        _ => false,
    })
}

fn two_bytes(opcode: u8, reg: u8, repeats: Option<u8>, wide: bool) -> bool {
    match opcode {
        0x11 | 0x13 | 0x17 | 0x29 | 0x2b | 0x7f | 0xc3 | 0xe7 => true,
        0x7e => repeats != Some(0xf3),
        0xd6 => wide,
        0x90..=0x9f | 0xab | 0xb3 | 0xbb | 0xb0 | 0xb1 | 0xc0 | 0xc1 | 0xc7 | 0xa4 | 0xa5 | 0xac | 0xad => {
            true
        }
        0xba => reg != 4,
        0xae => matches!(reg, 0 | 3 | 4 | 6),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_say_what_stores() {
        let all: [(&[u8], Option<bool>); 22] = [
            (&[0x88, 0x07], Some(true)),                         // mov %al,(%rdi)
            (&[0x48, 0x89, 0x07], Some(true)),                   // mov %rax,(%rdi)
            (&[0x48, 0x8b, 0x07], Some(false)),                  // mov (%rdi),%rax
            (&[0x0f, 0xb6, 0x07], Some(false)),                  // movzbl (%rdi),%eax
            (&[0xc6, 0x07, 0x01], Some(true)),                   // movb $1,(%rdi)
            (&[0xf3, 0xaa], Some(true)),                         // rep stos
            (&[0xf3, 0x48, 0xa5], None),                         // rep movs
            (&[0x83, 0x07, 0x01], Some(true)),                   // addl $1,(%rdi)
            (&[0x83, 0x3f, 0x01], Some(false)),                  // cmpl $1,(%rdi)
            (&[0x48, 0x01, 0x07], Some(true)),                   // add %rax,(%rdi)
            (&[0x48, 0x03, 0x07], Some(false)),                  // add (%rdi),%rax
            (&[0x39, 0x07], Some(false)),                        // cmp %eax,(%rdi)
            (&[0x0f, 0x11, 0x07], Some(true)),                   // movups %xmm0,(%rdi)
            (&[0x0f, 0x10, 0x07], Some(false)),                  // movups (%rdi),%xmm0
            (&[0x66, 0x0f, 0xd6, 0x07], Some(true)),             // movq %xmm0,(%rdi)
            (&[0xf3, 0x0f, 0x7e, 0x07], Some(false)),            // movq (%rdi),%xmm0
            (&[0xc5, 0xfe, 0x7f, 0x07], Some(true)),             // vmovdqu %ymm0,(%rdi)
            (&[0xc5, 0xfe, 0x6f, 0x07], Some(false)),            // vmovdqu (%rdi),%ymm0
            (&[0x62, 0xe1, 0xfe, 0x28, 0x7f, 0x07], Some(true)), // vmovdqu64 %ymm16,(%rdi)
            (&[0x62, 0xe1, 0xfe, 0x28, 0x6f, 0x07], Some(false)),
            (&[0xf0, 0x0f, 0xb1, 0x0f], Some(true)), // lock cmpxchg
            (&[], None),
        ];
        for (code, expected) in all {
            assert_eq!(stores(code), expected, "{code:x?}");
        }
    }
}
