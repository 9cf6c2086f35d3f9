//! Labels between a store's hook and the store.
//!
//! Compilers put the two next to each other, and then let pieces of code that end alike share their ends: a
//! jump may come between. Behind such a label nobody knows what was announced; behind all others a store that
//! no hook covers is one that was left out.

use std::collections::HashSet;

use super::control::{called, transfers_control};
use super::instruction::Instruction;
use super::scan::{Item, Scanner};
use super::unhooked;

/// The local labels that are jumped to while a store that was announced is still to come. Names alone: two
/// functions of a file share none.
pub fn awaited(source: &[u8]) -> HashSet<&[u8]> {
    let intel = contains(source, b".intel_syntax");
    let mut found = HashSet::new();
    let mut awaits = false;
    for item in Scanner::new(source) {
        let Item::Statement(place) = item else { continue };
        let instruction = Instruction::parse(&source[place]);
        if instruction.is_directive() || instruction.name.is_empty() {
            continue;
        }
        if let Some(target) = called(&instruction) {
            awaits =
                target.starts_with(b"__tsan_") && (contains(target, b"write") || contains(target, b"update"));
        } else if transfers_control(instruction.name) {
            if awaits {
                found.insert(instruction.operands.trim_ascii());
            }
        } else if awaits && unhooked::stores(&instruction, intel) {
            awaits = false;
        }
    }
    found
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|here| here == part)
}
