//! Vector stores that leave elements out, by a mask: the sanitizer pass sees none of them.
//!
//! What is announced is from the first element that is stored to the last. What lies between them keeps its
//! bytes, and nothing is touched behind them, where there may be no memory.

use super::instruction::{Instruction, flat, register_bytes};
use super::persist::{Address, Hook};
use super::unhooked::{extracted_bytes, moved, narrowed};

/// What says which elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask<'a> {
    /// A mask register, or a vector register, whose elements' upper bits count.
    register: &'a [u8],
    /// Elements of the vector; a mask register's bits above them may be anything.
    pub elements: u32,
}

impl<'a> Hook<'a> {
    /// The hook of a masked store; `None` for any other instruction.
    pub fn of_masked(instruction: &Instruction<'a>, intel: bool) -> Option<Self> {
        if !instruction.name.starts_with(b"v") {
            return None;
        }
        let operands: Vec<&[u8]> = instruction.split().collect();
        let (&first, &last) = (operands.first()?, operands.last()?);
        let (target, source) = if intel { (first, last) } else { (last, first) };
        if !target.iter().any(|b| matches!(b, b'(' | b'[')) {
            return None;
        }
        let target = flat(target)?;
        let all = register_bytes(moved(instruction, target).unwrap_or(source))?;
        let plain = &instruction.name[1..];
        let narrowed = narrowed(plain).or_else(|| (plain == b"cvtps2ph").then_some((4, 2)));
        let (name, bytes) = match instruction.name {
            _ if narrowed.is_some() => ("masked", narrowed?.1),
            _ if extracted_bytes(plain).is_some() => ("masked", if contains(plain, b"32x") { 4 } else { 8 }),
            b"vmaskmovps" | b"vpmaskmovd" => ("masked", 4),
            b"vmaskmovpd" | b"vpmaskmovq" => ("masked", 8),
            b"vmovss" | b"vmovsd" if !target.ends_with(b"}") => return None,
            b"vmovss" => ("masked", 4),
            b"vmovsd" => ("masked", 8),
            b"vmovdqu8" => ("masked", 1),
            b"vmovdqu16" => ("masked", 2),
            b"vmovups" | b"vmovaps" | b"vmovdqu32" | b"vmovdqa32" => ("masked", 4),
            b"vmovupd" | b"vmovapd" | b"vmovdqu64" | b"vmovdqa64" => ("masked", 8),
            b"vpcompressb" => ("packed", 1),
            b"vpcompressw" => ("packed", 2),
            b"vpcompressd" | b"vcompressps" => ("packed", 4),
            b"vpcompressq" | b"vcompresspd" => ("packed", 8),
            _ => return None,
        };
        let (operand, register) = match target.iter().position(|&b| b == b'{') {
            Some(at) => {
                let register = target[at + 1..].split(|&b| b == b'}').next()?;
                (target[..at].trim_ascii_end(), register)
            }
            // The mask stands between the other two.
            None if operands.len() == 3 && contains(instruction.name, b"maskmov") => (target, operands[1]),
            None => return None,
        };
        // Of a scalar's register one element counts.
        let elements = match (narrowed, extracted_bytes(plain)) {
            (Some((wide, _)), _) => all / wide,
            (None, Some(part)) => part / bytes,
            _ if instruction.name.starts_with(b"vmovs") => 1,
            _ => all / bytes,
        };
        let mask = Some(Mask { register, elements });
        Some(Hook { mask, ..Hook::new(name, bytes, Some(Address::Operand(operand))) })
    }

    /// The hook of `maskmovdqu`, which stores single bytes of a register non-temporally, where `%rdi`
    /// points.
    pub fn of_bytes(instruction: &Instruction<'a>, intel: bool) -> Option<Self> {
        let (first, second) = (instruction.split().next()?, instruction.split().nth(1)?);
        let mask = Some(Mask { register: if intel { second } else { first }, elements: 16 });
        let address: &[u8] = if intel { b"rdi" } else { b"%rdi" };
        Some(Hook { mask, ..Hook::new("streamed", 1, Some(Address::Register(address))) })
    }
}

impl Mask<'_> {
    /// Writes the code that puts the mask into `%rsi`, for elements of so many bytes.
    pub fn write(self, bytes: u32, intel: bool, out: &mut Vec<u8>) {
        let Mask { register, elements } = self;
        let is_vector = register_bytes(register).is_some();
        // None of them needs what the store does not.
        let (instruction, target) = match (is_vector, elements) {
            (true, _) if bytes == 1 => ("pmovmskb", "esi"),
            (true, _) if bytes == 4 => ("vmovmskps", "esi"),
            (true, _) => ("vmovmskpd", "esi"),
            (false, 0..=16) => ("kmovw", "esi"),
            (false, 17..=32) => ("kmovd", "esi"),
            (false, _) => ("kmovq", "rsi"),
        };
        let register = String::from_utf8_lossy(register);
        let text = if intel {
            format!("{instruction} {target}, {register}; ")
        } else {
            format!("{instruction} {register}, %{target}; ")
        };
        out.extend_from_slice(text.as_bytes());
    }
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|word| word == part)
}
