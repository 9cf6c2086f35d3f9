//! The sanitizer's calls become a few instructions in line.
//!
//! A *run* is a straight piece of code with up to [`RUN_MAX`] accesses, ending at the latest with its first store.
//! Its first access takes room for the whole run from the thread's buffer and writes the address of the run's
//! descriptor; every access then stores its data address. Where the calls stood, all caller-saved registers
//! and the flags are dead and the stack is aligned, so nothing needs saving. A scratch register that the code between
//! the accesses does not mention carries the buffer position from one to the next; an access after the first costs one
//! instruction then.
//!
//! Descriptors and slow paths go to `.subsection 1` of the section that they belong to, out of the way of the hot
//! code, and live and die with it when the linker drops sections.

use std::ops::Range;

use super::edits::{Edits, put};
use super::instruction::Instruction;
use super::syntax::Syntax;
use crate::wire::{RUN_MAGIC, RUN_MAX, RUN_STORE};

/// Registers that may carry the position. Nothing but an instruction that names them reads or writes them.
const CARRIERS: [&str; 4] = ["%r11", "%r10", "%r9", "%r8"];

/// An access as its hook's name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// As in a descriptor: `log2(size)`, plus [`RUN_STORE`].
    code: u8,
}

impl Access {
    /// What `target`, the symbol that is called, stands for; `None` if it is no access of one fixed size.
    pub fn of(target: &[u8]) -> Option<Self> {
        let name = target.strip_prefix(b"__tsan_")?;
        let name = name.strip_prefix(b"unaligned_").unwrap_or(name);
        // The pointer to the virtual functions has hooks of its own, with the address in the same place.
        let (store, size) = match name {
            b"vptr_update" => (RUN_STORE, &b"8"[..]),
            b"vptr_read" => (0, &b"8"[..]),
            _ => match name.strip_prefix(b"read") {
                Some(size) => (0, size),
                None => (RUN_STORE, name.strip_prefix(b"write")?),
            },
        };
        let log2_size = match size {
            b"1" => 0,
            b"2" => 1,
            b"4" => 2,
            b"8" => 3,
            b"16" => 4,
            _ => return None,
        };
        Some(Access { code: log2_size | store })
    }

    fn is_store(self) -> bool {
        self.code & RUN_STORE != 0
    }
}

/// One access of a run that is being gathered.
struct Place {
    /// The call that goes.
    call: Range<usize>,
    access: Access,
    /// Instructions since the access before, or since the block's start.
    instructions: u32,
}

/// Gathers runs while a file is walked through.
#[derive(Default)]
pub struct Runs {
    places: Vec<Place>,
    /// The run ended with a store; it is kept until it is known what follows.
    sealed: bool,
    /// Carriers named since the run began, up to its last access; one bit each.
    used: u8,
    /// Carriers named since its last access.
    mentioned: u8,
    /// The program's instructions since the last access (without its own), or since the block's start.
    since: i32,
    /// One of them set up `%rdi` for a hook.
    setup: bool,
    /// Runs so far, for label names.
    number: usize,
    /// Descriptors and slow paths that still have to be written, into the current section.
    cold: Vec<u8>,
}

impl Runs {
    /// An instruction of the program that is neither an access's hook nor the end of a block.
    pub fn instruction(&mut self, instruction: &Instruction<'_>, syntax: &Syntax<'_>) {
        self.since += 1;
        self.setup |= sets_up_address(instruction, syntax.is_intel());
        if !self.places.is_empty() {
            self.mentioned |= carriers(instruction.operands);
        }
    }

    /// The call of an access's hook.
    pub fn access(&mut self, call: Range<usize>, access: Access, syntax: &Syntax<'_>, edits: &mut Edits) {
        // The access's own instruction follows its hook, so `since` starts at -1 after one.
        let instructions = (self.since + 1 - i32::from(self.setup)).max(0).unsigned_abs();
        if self.sealed || self.places.len() == RUN_MAX {
            self.finish(0, syntax, edits);
        }
        if !self.places.is_empty() {
            self.used |= self.mentioned;
        }
        self.mentioned = 0;
        self.places.push(Place { call, access, instructions });
        self.sealed = access.is_store();
        self.since = -1;
        self.setup = false;
    }

    /// The basic block ends.
    pub fn end_block(&mut self, syntax: &Syntax<'_>, edits: &mut Edits) {
        if !self.places.is_empty() {
            self.finish(self.since.max(0).unsigned_abs(), syntax, edits);
        }
        self.since = 0;
        self.setup = false;
    }

    /// The section ends at `at`, the beginning of a statement.
    pub fn end_section(&mut self, at: usize, syntax: &Syntax<'_>, edits: &mut Edits) {
        if !self.cold.is_empty() {
            let (enter, leave) = syntax.att();
            let cold = String::from_utf8_lossy(&self.cold);
            edits.replace(at..at, format_args!("{enter}.subsection 1; {cold}.subsection 0; {leave}"));
            self.cold.clear();
        }
    }

    fn finish(&mut self, after: u32, syntax: &Syntax<'_>, edits: &mut Edits) {
        let number = self.number;
        self.number += 1;
        let carrier = (0..CARRIERS.len()).find(|bit| self.used >> bit & 1 == 0).map(|bit| CARRIERS[bit]);
        let (enter, leave) = syntax.att();
        let count = self.places.len();
        for (index, place) in self.places.iter().enumerate() {
            let label = format_args!(".Lsla{number}_{index}:");
            // Counted from the end: the position has moved past the run.
            let back = 8 * (count - index);
            let call = place.call.clone();
            match carrier {
                _ if index == 0 => {
                    let cursor = carrier.unwrap_or("%rax");
                    edits.replace(
                        call,
                        format_args!(
                            "{enter}{label} movq strandline_tls@gottpoff(%rip), %rcx; movq %fs:(%rcx), {cursor}; \
                             cmpq %fs:8(%rcx), {cursor}; jae .Lsls{number}; .Lslb{number}: \
                             leaq .Lsld{number}(%rip), %rdx; movq %rdx, ({cursor}); movq %rdi, 8({cursor}); \
                             addq ${}, {cursor}; movq {cursor}, %fs:(%rcx){leave}",
                            8 * (count + 1)
                        ),
                    );
                }
                Some(cursor) => {
                    edits.replace(call, format_args!("{enter}{label} movq %rdi, -{back}({cursor}){leave}"))
                }
                None => edits.replace(
                    call,
                    format_args!(
                        "{enter}{label} movq strandline_tls@gottpoff(%rip), %rcx; movq %fs:(%rcx), %rax; \
                         movq %rdi, -{back}(%rax){leave}"
                    ),
                ),
            }
        }
        self.describe(number, carrier, after);
        self.places.clear();
        self.sealed = false;
        self.used = 0;
        self.mentioned = 0;
    }

    /// Slow path and descriptor (`wire::RUN_MAGIC` has the layout).
    fn describe(&mut self, number: usize, carrier: Option<&str>, after: u32) {
        let cold = &mut self.cold;
        put(cold, format_args!(".Lsls{number}: call *strandline_refill@GOTPCREL(%rip); "));
        if let Some(cursor) = carrier {
            put(cold, format_args!("movq %rax, {cursor}; "));
        }
        let before = self.places.first().map_or(0, |place| place.instructions.min(u16::MAX.into()));
        put(
            cold,
            format_args!(
                "jmp .Lslb{number}; .p2align 2; .Lsld{number}: .long {RUN_MAGIC}; .byte {}, {}; .value {before}; ",
                self.places.len(),
                after.min(255)
            ),
        );
        for (index, place) in self.places.iter().enumerate() {
            let instructions = if index == 0 { 0 } else { place.instructions.min(255) };
            let code = place.access.code;
            put(
                cold,
                format_args!(".long .Lsla{number}_{index}-.; .byte {code}, {instructions}; .value 0; "),
            );
        }
    }
}

/// Whether this `mov` or `lea` is (most probably) there for the hook that follows only.
fn sets_up_address(instruction: &Instruction<'_>, intel: bool) -> bool {
    let operands = instruction.operands;
    let into = if intel {
        operands.starts_with(b"rdi,") || operands.starts_with(b"edi,")
    } else {
        operands.ends_with(b"%rdi") || operands.ends_with(b"%edi")
    };
    into && (instruction.name.starts_with(b"mov") || instruction.name.starts_with(b"lea"))
}

/// Which of [`CARRIERS`] are named.
fn carriers(operands: &[u8]) -> u8 {
    let mut found = 0;
    for at in 0..operands.len().saturating_sub(1) {
        if operands[at] == b'r' {
            found |= match (operands[at + 1], operands.get(at + 2)) {
                (b'1', Some(b'1')) => 1,
                (b'1', Some(b'0')) => 2,
                (b'9', _) => 4,
                (b'8', _) => 8,
                _ => 0,
            };
        }
    }
    found
}
