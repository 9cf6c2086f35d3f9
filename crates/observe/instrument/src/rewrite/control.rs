//! Transfers of control: calls, jumps, returns, and the symbols that they go to.

use super::instruction::Instruction;
use super::scan;

/// Whether control may go elsewhere than to the next instruction.
pub fn transfers_control(name: &[u8]) -> bool {
    match name.first() {
        Some(b'j' | b'J') => true,
        Some(b'c' | b'C') => name.len() >= 4 && name[..4].eq_ignore_ascii_case(b"call"),
        Some(b'r' | b'R') => name.len() >= 3 && name[..3].eq_ignore_ascii_case(b"ret"),
        Some(b'l') => name.starts_with(b"loop") || name.starts_with(b"lret"),
        Some(b'i') => name.starts_with(b"iret") || name == b"int" || name == b"int3",
        Some(b's') => matches!(name, b"syscall" | b"sysenter" | b"sysret" | b"sysexit"),
        Some(b'u') => matches!(name, b"ud0" | b"ud1" | b"ud2"),
        Some(b'h') => name == b"hlt",
        Some(b'x') => matches!(name, b"xbegin" | b"xabort"),
        _ => false,
    }
}

/// Whether it returns, or hands on to another function for good. What jumps by a thunk (`-mretpoline`) has
/// its target in a register, which may be any.
pub fn ends_function(transfer: &Instruction<'_>) -> bool {
    let is_function = |symbol: &[u8]| {
        !symbol.starts_with(b".L") && !symbol.starts_with(b"__llvm_") && !symbol.starts_with(b"__x86_")
    };
    match transfer.name {
        b"ret" | b"retq" => true,
        b"jmp" | b"jmpq" => target(transfer).is_some_and(is_function),
        _ => false,
    }
}

/// Whether control does not go on behind this transfer of it.
pub fn is_final(name: &[u8]) -> bool {
    matches!(name, b"jmp" | b"jmpq" | b"ret" | b"retq" | b"ud2" | b"hlt")
}

/// The symbol that a direct call, or one through the global offset table, goes to.
pub fn called<'a>(instruction: &Instruction<'a>) -> Option<&'a [u8]> {
    if instruction.name.starts_with(b"call") { target(instruction) } else { None }
}

/// The symbol that a call, or a jump as a function's last call, goes to.
pub fn target<'a>(instruction: &Instruction<'a>) -> Option<&'a [u8]> {
    let target = instruction.operands;
    let target = target.strip_prefix(b"*").unwrap_or(target);
    let target = target.strip_prefix(b"[").unwrap_or(target);
    let target = target.strip_prefix(b"QWORD PTR ").unwrap_or(target);
    let target = target.strip_prefix(b"[").unwrap_or(target);
    let end = target.iter().position(|&b| !scan::is_symbol(b)).unwrap_or(target.len());
    let (symbol, rest) = target.split_at(end);
    let known = matches!(
        rest,
        b"" | b"@PLT"
            | b"@plt"
            | b"@GOTPCREL(%rip)"
            | b"@GOTPCREL[rip]"
            | b"@GOTPCREL[rip]]"
            | b"[rip+"
            | b"@GOTPCREL]"
    ) || rest.starts_with(b"@GOTPCREL+");
    known.then_some(symbol)
}
