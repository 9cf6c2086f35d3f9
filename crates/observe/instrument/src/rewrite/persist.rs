//! Flushes, fences, non-temporal and masked stores and locked instructions: what the sanitizer pass does not
//! see.
//!
//! They come from intrinsics, inline assembly and handwritten files alike. Before each goes a call that
//! preserves everything, with the address in `%rdi`, past the red zone of a function that may have one.

use super::instruction::{Instruction, flat, register_bytes};
use super::masked::Mask;

/// A call to put before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook<'a> {
    /// The hook's name is `strandline_hook_` and this,
    pub name: &'static str,
    /// and this, if it is not 0, and a masked store's number of elements.
    pub bytes: u32,
    /// The operand whose address it gets.
    pub address: Option<Address<'a>>,
    /// What says which elements of it are stored, if not all.
    pub mask: Option<Mask<'a>>,
}

/// Where the address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address<'a> {
    /// A memory operand.
    Operand(&'a [u8]),
    /// The value of a register.
    Register(&'a [u8]),
    /// A number of 64 bits.
    Absolute(&'a [u8]),
}

impl<'a> Hook<'a> {
    /// A hook that gets an address, or nothing.
    pub fn new(name: &'static str, bytes: u32, address: Option<Address<'a>>) -> Self {
        Hook { name, bytes, address, mask: None }
    }

    /// The hook that `instruction` needs.
    ///
    /// `operand_size_prefix` says that a `.byte 0x66` stands before it, which turns `clflush` into
    /// `clflushopt` and `xsaveopt` into `clwb`: the spelling of libraries that must build with old
    /// assemblers.
    pub fn of(instruction: &Instruction<'a>, operand_size_prefix: bool, intel: bool) -> Option<Self> {
        let first = instruction.name.first()?.to_ascii_lowercase();
        if instruction.lock {
            return locked(instruction, intel);
        }
        if !matches!(first, b'c' | b's' | b'm' | b'x' | b'v' | b'p') || instruction.name.len() > 16 {
            return None;
        }
        let mut lower = [0; 16];
        let lower = &mut lower[..instruction.name.len()];
        lower.copy_from_slice(instruction.name);
        lower.make_ascii_lowercase();
        let flush = |name| Some(Hook::new(name, 0, Some(memory(instruction)?)));
        match &*lower {
            b"clwb" => flush("clwb"),
            b"clflushopt" => flush("clflushopt"),
            b"clflush" if operand_size_prefix => flush("clflushopt"),
            b"clflush" => flush("clflush"),
            b"xsaveopt" if operand_size_prefix => flush("clwb"),
            b"cldemote" => flush("cldemote"),
            b"prefetcht0" | b"prefetcht1" | b"prefetcht2" | b"prefetchnta" | b"prefetchw" => {
                flush("prefetch")
            }
            b"sfence" => Some(Hook::new("sfence", 0, None)),
            b"mfence" => Some(Hook::new("mfence", 0, None)),
            b"xchg" | b"xchgb" | b"xchgw" | b"xchgl" | b"xchgq" => locked(instruction, intel),
            b"maskmovdqu" | b"vmaskmovdqu" => Hook::of_bytes(instruction, intel),
            name => non_temporal(name, instruction, intel).or_else(|| Hook::of_masked(instruction, intel)),
        }
    }
}

fn non_temporal<'a>(name: &[u8], instruction: &Instruction<'a>, intel: bool) -> Option<Hook<'a>> {
    let (source, target) = ends(instruction, intel)?;
    let register = |default| register_bytes(source).unwrap_or(default);
    let bytes = match name {
        b"movnti" => register(4),
        b"movntil" | b"movntss" => 4,
        b"movntiq" | b"movntq" | b"movntsd" => 8,
        b"movntdq" | b"movntps" | b"movntpd" => 16,
        b"vmovntdq" | b"vmovntps" | b"vmovntpd" => register(16),
        b"movdiri" => register(8),
        b"movdir64b" => {
            return Some(Hook::new("nt", 64, Some(Address::Register(target))));
        }
        _ => return None,
    };
    Some(Hook::new("nt", bytes, Some(checked(target)?)))
}

/// A read-modify-write, or the usual full fence made of one: adding or or-ing nothing to the top of the
/// stack.
fn locked<'a>(instruction: &Instruction<'a>, intel: bool) -> Option<Hook<'a>> {
    let operands = || instruction.split();
    let adds_nothing = operands().any(|operand| matches!(operand, b"$0" | b"$0x0" | b"0"));
    let address = memory(instruction)?;
    let Address::Operand(text) = address else { return None };
    if adds_nothing && based_on_stack_pointer(text) {
        return Some(Hook::new("mfence", 0, None));
    }
    Some(Hook::new("rmw", width(instruction, text, intel), Some(address)))
}

/// How many bytes an instruction changes at its memory operand.
pub fn width(instruction: &Instruction<'_>, memory: &[u8], intel: bool) -> u32 {
    let name = instruction.name;
    if name.ends_with(b"16b") {
        16
    } else if name.ends_with(b"8b") {
        8
    } else if let Some(bytes) =
        instruction.split().filter(|&operand| operand != memory).find_map(register_bytes)
    {
        // The count of a bit operation by register has the operand's width, too.
        bytes
    } else if intel {
        pointer_bytes(memory)
    } else {
        match name.last() {
            Some(b'b') if name != b"sub" => 1,
            Some(b'w') => 2,
            Some(b'l') => 4,
            _ => 8,
        }
    }
}

/// Width of an Intel memory operand with a size in front.
fn pointer_bytes(operand: &[u8]) -> u32 {
    let word = operand.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    match word.to_ascii_lowercase().as_slice() {
        b"byte" => 1,
        b"word" => 2,
        b"dword" => 4,
        b"xmmword" => 16,
        _ => 8,
    }
}

/// Source and target.
fn ends<'a>(instruction: &Instruction<'a>, intel: bool) -> Option<(&'a [u8], &'a [u8])> {
    let mut operands = instruction.split();
    let (first, second) = (operands.next()?, operands.next()?);
    Some(if intel { (second, first) } else { (first, second) })
}

/// The one operand that is neither register nor immediate.
fn memory<'a>(instruction: &Instruction<'a>) -> Option<Address<'a>> {
    let is_memory = |operand: &&[u8]| {
        let bracketed = operand.iter().any(|b| matches!(b, b'(' | b'['));
        let immediate = operand.first().is_none_or(|&b| b == b'$' || b.is_ascii_digit() && !bracketed);
        !immediate && register_bytes(operand).is_none()
    };
    checked(instruction.split().find(is_memory)?)
}

/// `None` where `lea` would not give the address: the segment has a base of its own.
fn checked(operand: &[u8]) -> Option<Address<'_>> {
    flat(operand).map(Address::Operand)
}

/// Whether pushing changes what `operand` means.
pub fn based_on_stack_pointer(operand: &[u8]) -> bool {
    operand.windows(3).any(|word| word.eq_ignore_ascii_case(b"rsp"))
}

/// Bytes between `%rsp` before a hook's code and `%rsp` when its address is computed.
const PUSHED: u32 = 128 + 8;

/// Writes the code for `hook`, a sequence of statements on one line, with a separator at its end.
pub fn write(hook: &Hook<'_>, intel: bool, out: &mut Vec<u8>) {
    use super::edits::put;
    let open: &[u8] =
        if intel { b"lea rsp, [rsp-128]; push rdi; " } else { b"leaq -128(%rsp), %rsp; pushq %rdi; " };
    out.extend_from_slice(open);
    let masked: &[u8] = match (hook.mask, intel) {
        (Some(_), false) => b"pushq %rsi; ",
        (Some(_), true) => b"push rsi; ",
        (None, _) => b"",
    };
    out.extend_from_slice(masked);
    let pushed = if hook.mask.is_some() { PUSHED + 8 } else { PUSHED };
    match hook.address {
        Some(Address::Operand(operand)) => lea(operand, pushed, intel, out),
        Some(Address::Register(name)) => {
            let register = |out: &mut Vec<u8>| out.extend_from_slice(name);
            if intel {
                out.extend_from_slice(b"mov rdi, ");
                register(out);
            } else {
                out.extend_from_slice(b"movq ");
                register(out);
                out.extend_from_slice(b", %rdi");
            }
            out.extend_from_slice(b"; ");
        }
        Some(Address::Absolute(number)) => {
            out.extend_from_slice(if intel { b"movabs rdi, OFFSET " } else { b"movabsq $" });
            out.extend_from_slice(number);
            out.extend_from_slice(if intel { b"; " } else { b", %rdi; " });
        }
        None => {}
    }
    if let Some(mask) = hook.mask {
        mask.write(hook.bytes, intel, out);
    }
    let bytes = match (hook.bytes, hook.mask) {
        (0, _) => String::new(),
        (bytes, None) => bytes.to_string(),
        (bytes, Some(mask)) => format!("{bytes}x{}", mask.elements),
    };
    let name = hook.name;
    if intel {
        put(out, format_args!("call [QWORD PTR strandline_hook_{name}{bytes}@GOTPCREL[rip]]; "));
        out.extend_from_slice(if hook.mask.is_some() { b"pop rsi; " } else { b"" });
        out.extend_from_slice(b"pop rdi; lea rsp, [rsp+128]; ");
    } else {
        put(out, format_args!("call *strandline_hook_{name}{bytes}@GOTPCREL(%rip); "));
        out.extend_from_slice(if hook.mask.is_some() { b"popq %rsi; " } else { b"" });
        out.extend_from_slice(b"popq %rdi; leaq 128(%rsp), %rsp; ");
    }
}

/// The code behind an instruction before which a hook has begun what ends here.
pub fn done(intel: bool) -> &'static [u8] {
    if intel {
        b"; lea rsp, [rsp-128]; call [QWORD PTR strandline_hook_done@GOTPCREL[rip]]; lea rsp, [rsp+128]"
    } else {
        b"; leaq -128(%rsp), %rsp; call *strandline_hook_done@GOTPCREL(%rip); leaq 128(%rsp), %rsp"
    }
}

/// Writes a `lea` of the operand into `%rdi`, `pushed` bytes below where it was written for.
pub fn lea(operand: &[u8], pushed: u32, intel: bool, out: &mut Vec<u8>) {
    use super::edits::put;
    let moved = based_on_stack_pointer(operand);
    if intel {
        // A size in front would not fit `lea`.
        let pointer = operand.windows(4).position(|word| word.eq_ignore_ascii_case(b"ptr "));
        let operand = pointer.map_or(operand, |at| operand[at + 4..].trim_ascii_start());
        out.extend_from_slice(b"lea rdi, ");
        match operand.iter().rposition(|&b| b == b']').filter(|_| moved) {
            Some(end) => {
                out.extend_from_slice(&operand[..end]);
                put(out, format_args!("+{pushed}"));
                out.extend_from_slice(&operand[end..]);
            }
            None => out.extend_from_slice(operand),
        }
    } else {
        out.extend_from_slice(b"leaq ");
        if moved {
            put(out, format_args!("{pushed}"));
            // No displacement at all, or one to add to.
            if operand.first() != Some(&b'(') {
                out.push(b'+');
            }
        }
        out.extend_from_slice(operand);
        out.extend_from_slice(b", %rdi");
    }
    out.extend_from_slice(b"; ");
}
