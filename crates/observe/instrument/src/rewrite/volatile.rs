//! Accesses to volatiles: threads wait for each other by them, so each stays a call.
//!
//! Not so the two halves of a structure's assignment, which gcc announces as a store and then a load before
//! it carries it out: those become code in line like any other's, which knows that order. Nobody waits by a
//! whole structure, nor by 16 bytes.

use super::blocks::Access;
use super::control::{called, transfers_control};
use super::instruction::Instruction;
use super::unhooked::stores;

/// How many lines are looked at for the other half.
const LINES: usize = 40;

/// Follows what stands behind the hook of a store.
#[derive(Default)]
pub struct Volatiles {
    /// A store was announced and nothing was stored since.
    awaited: bool,
}

impl Volatiles {
    /// The access that the call of a volatile's hook is to be treated as, if it is to become code in line;
    /// `rest` is the source behind it.
    pub fn in_line(&self, target: &[u8], rest: &[u8], intel: bool) -> Option<Access> {
        let access = Access::of_volatile(target)?;
        let in_line = match access.stored_bytes() {
            Some(bytes) => bytes > 8 || load_follows(rest, intel),
            None => access.is_wide() || self.awaited,
        };
        in_line.then_some(access)
    }

    /// The hook of an access.
    pub fn access(&mut self, stores: bool) {
        self.awaited = stores;
    }

    /// Any other instruction, or a label.
    pub fn forget(&mut self) {
        self.awaited = false;
    }

    /// An instruction that transfers no control.
    pub fn instruction(&mut self, instruction: &Instruction<'_>, intel: bool) {
        self.awaited &= !stores(instruction, intel);
    }
}

/// Whether the hook of a load comes before anything is stored.
fn load_follows(rest: &[u8], intel: bool) -> bool {
    for line in rest.split(|&b| b == b'\n').skip(1).take(LINES) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let instruction = Instruction::parse(line);
        if instruction.is_directive() {
            continue;
        }
        if let Some(symbol) = called(&instruction) {
            let access = Access::of(symbol).or_else(|| Access::of_volatile(symbol));
            return access.is_some_and(|access| access.stored_bytes().is_none());
        }
        let leaves = line.ends_with(b":") || transfers_control(instruction.name);
        if leaves || stores(&instruction, intel) {
            return false;
        }
    }
    false
}
