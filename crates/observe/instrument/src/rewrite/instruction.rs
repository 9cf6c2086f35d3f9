//! One statement taken apart, in AT&T or Intel syntax.

/// A statement's parts. Slices of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// Has a `lock` prefix.
    pub lock: bool,
    /// Mnemonic or directive; empty if the statement is prefixes only.
    pub name: &'a [u8],
    /// What follows it, blanks trimmed.
    pub operands: &'a [u8],
}

/// Words that may stand before a mnemonic and change nothing that matters here.
const PREFIXES: [&[u8]; 19] = [
    b"rep",
    b"repe",
    b"repz",
    b"repne",
    b"repnz",
    b"bnd",
    b"notrack",
    b"data16",
    b"addr32",
    b"rex64",
    b"rex",
    b"xacquire",
    b"xrelease",
    b"cs",
    b"ds",
    b"es",
    b"ss",
    b"fs",
    b"gs",
];

impl<'a> Instruction<'a> {
    /// Takes `statement` apart.
    pub fn parse(statement: &'a [u8]) -> Self {
        let mut lock = false;
        let mut rest = statement;
        loop {
            let end = rest.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
            let (name, operands) = (&rest[..end], rest[end..].trim_ascii_start());
            let is_lock = name.eq_ignore_ascii_case(b"lock");
            let pseudo = name.first() == Some(&b'{') && name.last() == Some(&b'}');
            if is_lock || pseudo || (end <= 8 && is_prefix(name)) {
                lock |= is_lock;
                rest = operands;
                if !rest.is_empty() {
                    continue;
                }
                return Instruction { lock, name: b"", operands };
            }
            return Instruction { lock, name, operands };
        }
    }

    /// Whether this is a directive or an assignment, and no instruction.
    pub fn is_directive(&self) -> bool {
        self.name.first() == Some(&b'.') || self.operands.first() == Some(&b'=')
    }

    /// The operands, in the order of the source.
    pub fn split(&self) -> Operands<'a> {
        Operands { rest: self.operands }
    }
}

fn is_prefix(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'r' | b'b' | b'n' | b'd' | b'a' | b'x' | b'c' | b'e' | b's' | b'f' | b'g'))
        && PREFIXES.contains(&name)
}

/// Cuts at the commas outside of parentheses.
pub struct Operands<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Operands<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let mut depth = 0_i32;
        let end = self.rest.iter().position(|&byte| {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth -= 1,
                _ => {}
            }
            byte == b',' && depth <= 0
        });
        let (first, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &[][..]),
        };
        self.rest = rest.trim_ascii_start();
        Some(first.trim_ascii())
    }
}

/// Bytes of a general-purpose, MMX or vector register (without `%`); `None` if it is no such register.
pub fn register_bytes(name: &[u8]) -> Option<u32> {
    let name = name.strip_prefix(b"%").unwrap_or(name);
    let numbered = |prefix: &[u8]| {
        let digits = name.get(prefix.len()..).filter(|_| name.starts_with(prefix))?;
        let number = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
        (number > 0).then(|| &digits[number..])
    };
    for (prefix, bytes) in [(&b"xmm"[..], 16), (b"ymm", 32), (b"zmm", 64), (b"mm", 8)] {
        // A mask may follow: `%zmm1{%k1}`.
        if numbered(prefix).is_some_and(|rest| rest.is_empty() || rest[0] == b'{') {
            return Some(bytes);
        }
    }
    if let Some(suffix) = numbered(b"r") {
        return match suffix {
            b"" => Some(8),
            b"d" => Some(4),
            b"w" => Some(2),
            b"b" => Some(1),
            _ => None,
        };
    }
    match name {
        b"rax" | b"rbx" | b"rcx" | b"rdx" | b"rsi" | b"rdi" | b"rbp" | b"rsp" => Some(8),
        b"eax" | b"ebx" | b"ecx" | b"edx" | b"esi" | b"edi" | b"ebp" | b"esp" => Some(4),
        b"ax" | b"bx" | b"cx" | b"dx" | b"si" | b"di" | b"bp" | b"sp" => Some(2),
        b"al" | b"bl" | b"cl" | b"dl" | b"ah" | b"bh" | b"ch" | b"dh" | b"sil" | b"dil" | b"bpl" | b"spl" => {
            Some(1)
        }
        _ => None,
    }
}

/// Whether a memory operand lies above the stack pointer or below what may be the frame pointer.
pub fn in_frame(operand: &[u8]) -> bool {
    let names = |register: &[u8]| operand.windows(3).any(|word| word == register);
    names(b"rsp") || (names(b"rbp") && operand.contains(&b'-'))
}

/// A memory operand without a segment whose base is 0; `None`: the segment has a base of its own, and so
/// `lea` would not give the address.
pub fn flat(operand: &[u8]) -> Option<&[u8]> {
    let Some(colon) = operand.iter().position(|&b| b == b':') else { return Some(operand) };
    let (segment, rest) = (without_size(&operand[..colon]), operand[colon + 1..].trim_ascii_start());
    let segment = segment.strip_prefix(b"%").unwrap_or(segment).to_ascii_lowercase();
    // A number alone would be another thing without its segment, in Intel's syntax.
    let addressed = rest.iter().any(|b| matches!(b, b'(' | b'['));
    (matches!(&*segment, b"ds" | b"es" | b"ss" | b"cs") && addressed).then_some(rest)
}

/// An operand without the size that Intel's syntax may put in front.
pub fn without_size(operand: &[u8]) -> &[u8] {
    let pointer = operand.windows(4).position(|word| word.eq_ignore_ascii_case(b"ptr "));
    pointer.map_or(operand, |at| operand[at + 4..].trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_come_off() {
        let cases: [(&str, bool, &str, &str); 5] = [
            ("lock cmpxchgq\t%rdx, (%rdi)", true, "cmpxchgq", "%rdx, (%rdi)"),
            ("lock", true, "", ""),
            ("{vex} vmovntdq %ymm1, (%rax)", false, "vmovntdq", "%ymm1, (%rax)"),
            ("rep ret", false, "ret", ""),
            ("notrack jmp *%rax", false, "jmp", "*%rax"),
        ];
        for (text, lock, name, operands) in cases {
            let wanted = Instruction { lock, name: name.as_bytes(), operands: operands.as_bytes() };
            assert_eq!(Instruction::parse(text.as_bytes()), wanted, "{text}");
        }
        assert!(Instruction::parse(b".long 1").is_directive() && Instruction::parse(b"a = 3").is_directive());
    }

    #[test]
    fn operands_split_at_outer_commas() {
        let split = |text: &'static str| Instruction::parse(text.as_bytes()).split().collect::<Vec<_>>();
        assert_eq!(split("movq 8(%rax,%rbx,4) , %rdi"), [&b"8(%rax,%rbx,4)"[..], b"%rdi"]);
        assert_eq!(split("mov QWORD PTR [rax+rbx*4], rdi"), [&b"QWORD PTR [rax+rbx*4]"[..], b"rdi"]);
        assert!(split("ret").is_empty());
    }

    #[test]
    fn segments_without_a_base_come_off() {
        for (operand, flat_operand) in [
            ("8(%rax)", Some("8(%rax)")),
            ("%ds:-64(%rax,%rbx,8)", Some("-64(%rax,%rbx,8)")),
            ("%ES:(%rdi)", Some("(%rdi)")),
            ("BYTE PTR ds:[rax+8]", Some("[rax+8]")),
            ("%fs:8(%rax)", None),
            ("%gs:(%rax)", None),
            ("%ds:8", None),
        ] {
            assert_eq!(flat(operand.as_bytes()), flat_operand.map(str::as_bytes), "{operand}");
        }
    }

    #[test]
    fn registers_have_widths() {
        for (name, bytes) in [
            ("%rax", Some(8)),
            ("r11", Some(8)),
            ("r11d", Some(4)),
            ("%r9b", Some(1)),
            ("edi", Some(4)),
            ("%xmm12", Some(16)),
            ("ymm0", Some(32)),
            ("%zmm31{%k1}", Some(64)),
            ("%mm3", Some(8)),
            ("r", None),
            ("rip", None),
            ("xmm", None),
        ] {
            assert_eq!(register_bytes(name.as_bytes()), bytes, "{name}");
        }
    }
}
