//! The sanitizer's calls become a few instructions in line.
//!
//! A *block* is up to [`BLOCK_MAX`] accesses that follow one another without label or call; it goes on behind
//! a jump forward that may not be taken. Its first access takes room for the whole block from the thread's
//! buffer and writes the address of the block's descriptor; every access then stores its data address. What
//! is not executed stays zero. Where the calls stood, all caller-saved registers and the flags are dead and
//! the stack is aligned, so nothing needs saving. A scratch register that the code between the accesses does
//! not mention carries the buffer position from one to the next; an access after the first costs one
//! instruction then, or two: a store's address is complemented, which distinguishes it from a load's (see
//! `abi::record`). Where a register [holds](super::held) the position already, the block need not read it.
//!
//! An access behind a store begins a *segment* and looks at the limit again. When stored bytes
//! are recorded, the limit is always zero: the runtime is asked, announces what the store has stored, and the
//! rest of the block becomes a record with a descriptor of its own.
//!
//! For the assignment of a whole structure (`a = b`), gcc announces the store, then the load, and only then
//! copies. Such a store takes the load's word in the record and the load takes the store's, so that they are
//! announced in the order in which they happen, and the segment ends behind both.
//!
//! Descriptors and slow paths go to `.subsection 1` of the section that they belong to, out of the way of the
//! hot code, and live and die with it when the linker drops sections.

use std::ops::Range;

use super::edits::{Edits, put};
use super::held::{Held, REGISTER};
use super::instruction::{Instruction, in_frame, register_bytes, without_size};
use super::syntax::Syntax;
use abi::{BLOCK_MAGIC, BLOCK_MAX, BLOCK_STORE};

/// Registers that may carry the position, and the thread's own distance in a second one. Nothing but an
/// instruction that names them reads or writes them.
const CARRIERS: [&str; 4] = [REGISTER, "%r10", "%r9", "%r8"];

/// An access as its hook's name announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// As in a descriptor: `log2(size)`, plus [`BLOCK_STORE`].
    code: u8,
}

impl Access {
    /// What `target`, the symbol that is called, stands for; `None` if it is no access of one fixed size.
    pub fn of(target: &[u8]) -> Option<Self> {
        let name = target.strip_prefix(b"__tsan_")?;
        let name = name.strip_prefix(b"unaligned_").unwrap_or(name);
        // The pointer to the virtual functions has hooks of its own, with the address in the same place.
        let (store, size) = match name {
            b"vptr_update" => (BLOCK_STORE, &b"8"[..]),
            b"vptr_read" => (0, &b"8"[..]),
            _ => match name.strip_prefix(b"read") {
                Some(size) => (0, size),
                None => (BLOCK_STORE, name.strip_prefix(b"write")?),
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

    /// What `target` stands for as an access to a volatile, of which each is recorded by a call.
    pub fn of_volatile(target: &[u8]) -> Option<Self> {
        let name = target.strip_prefix(b"__tsan_")?;
        let name = name.strip_prefix(b"unaligned_").unwrap_or(name);
        Self::of(&[b"__tsan_", name.strip_prefix(b"volatile_")?].concat())
    }

    /// Bytes that it stores; `None` for a load.
    pub fn stored_bytes(self) -> Option<u32> {
        self.is_store().then(|| 1 << (self.code & !BLOCK_STORE))
    }

    /// Whether it is one of 16 bytes.
    pub fn is_wide(self) -> bool {
        self.code & !BLOCK_STORE == 4
    }

    fn is_store(self) -> bool {
        self.code & BLOCK_STORE != 0
    }
}

/// One access of a block that is being gathered.
struct Place {
    /// The call that goes.
    call: Range<usize>,
    access: Access,
    /// Instructions since the access before, or since the block's start.
    instructions: u32,
    /// Its word's place among those of the accesses, if it is not its own place: a structure's store and load
    /// change theirs.
    moved: Moved,
}

/// Where an access stands in the record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// Where it stands in the code.
    Not,
    /// One later: a store that is executed only after the load that follows.
    Later,
    /// One earlier: that load.
    Earlier,
}

impl Place {
    /// Whether the next access begins a segment.
    fn ends_segment(&self) -> bool {
        match self.moved {
            Moved::Not => self.access.is_store(),
            Moved::Later => false,
            Moved::Earlier => true,
        }
    }

    /// The word of the record, not counting the header, of the access at `index` in the code.
    fn word(&self, index: usize) -> usize {
        match self.moved {
            Moved::Not => index,
            Moved::Later => index + 1,
            Moved::Earlier => index - 1,
        }
    }
}

/// Gathers blocks while a file is walked through.
#[derive(Default)]
pub struct Blocks {
    places: Vec<Place>,
    /// Operand of the last `lea` since the last access, if it is in the stack frame.
    frame_address: Vec<u8>,
    /// The same before the last access, whose address it may be.
    last_frame_address: Vec<u8>,
    /// Since the last access, something was stored that may be what it announced.
    executed: bool,
    /// Carriers named since the block began, up to its last access; one bit each.
    used: u8,
    /// Carriers named since its last access.
    mentioned: u8,
    /// The program's instructions since the last access (without its own), or since the block's start.
    since: i32,
    /// One of them set up `%rdi` for a hook.
    setup: bool,
    /// One of them may have stored to memory.
    stored: bool,
    /// The position was in its register when the block began.
    held: bool,
    /// It is to stay there.
    holds: bool,
    /// Blocks so far, for label names.
    number: usize,
    /// Descriptors and slow paths that still have to be written, into the current section.
    cold: Vec<u8>,
}

impl Blocks {
    /// An instruction of the program that is neither an access's hook nor the end of a block.
    pub fn instruction(&mut self, instruction: &Instruction<'_>, syntax: &Syntax<'_>) {
        self.since += 1;
        self.setup |= sets_up_address(instruction, syntax.is_intel());
        self.stored |= stores_to_memory(instruction, syntax.is_intel());
        self.executed |= self.may_be_own_store(instruction, syntax.is_intel());
        if let Some(operand) = frame_address(instruction, syntax.is_intel()) {
            self.frame_address.clear();
            self.frame_address.extend_from_slice(operand);
        }
        if !self.places.is_empty() {
            self.mentioned |= carriers(instruction.operands);
        }
    }

    /// The call of an access's hook.
    pub fn access(
        &mut self,
        call: Range<usize>,
        access: Access,
        held: &mut Held<'_>,
        syntax: &Syntax<'_>,
        edits: &mut Edits,
    ) {
        // The access's own instruction follows its hook, so `since` starts at -1 after one.
        let instructions = (self.since + 1 - i32::from(self.setup)).max(0).unsigned_abs();
        // A store may want to change places with a load that follows.
        let last_of_block = self.places.len() + usize::from(access.is_store()) >= BLOCK_MAX;
        let moved = if self.waits_for(access) { Moved::Earlier } else { Moved::Not };
        if moved == Moved::Earlier
            && let Some(store) = self.places.last_mut()
        {
            store.moved = Moved::Later;
        } else if last_of_block {
            self.finish(0, syntax, edits);
        }
        if self.places.is_empty() {
            self.held = held.usable() && held.now();
            self.holds = held.usable();
            held.set();
        } else {
            self.used |= self.mentioned;
        }
        self.mentioned = 0;
        self.places.push(Place { call, access, instructions, moved });
        self.since = -1;
        self.setup = false;
        self.stored = false;
        self.executed = false;
        self.last_frame_address = std::mem::take(&mut self.frame_address);
    }

    /// Whether the last access is a store that has yet to be executed, as the one of a structure whose load
    /// `access` is.
    fn waits_for(&self, access: Access) -> bool {
        let store = Access { code: access.code | BLOCK_STORE };
        !access.is_store()
            && !self.executed
            && self.places.last().is_some_and(|place| place.access == store && place.moved == Moved::Not)
    }

    /// Whether `instruction` may be what the last access announced, if that was a store.
    ///
    /// What is stored into the stack frame may also be a register that is put aside for later.
    fn may_be_own_store(&self, instruction: &Instruction<'_>, intel: bool) -> bool {
        let mut operands = instruction.split();
        let (first, last) = (operands.next(), instruction.split().last());
        let (target, source) = if intel { (first, last) } else { (last, first) };
        let (Some(target), Some(source)) = (target, source) else {
            return instruction.name.starts_with(b"stos") || instruction.name.starts_with(b"movs");
        };
        let put_aside = in_frame(target)
            && register_bytes(source).is_some()
            && without_size(target) != self.last_frame_address.as_slice();
        writes_operand(instruction, target) && !put_aside
    }

    /// A non-temporal store of `bytes` is about to get its own hook. clang's pass has put one of an ordinary
    /// store before it: if the last access is a store of that size and nothing has stored since, it goes.
    /// Whether it did.
    pub fn replace_store(&mut self, bytes: u32, held: &mut Held<'_>, edits: &mut Edits) -> bool {
        let last = self.places.pop_if(|place| {
            !self.stored && place.access.is_store() && 1 << (place.access.code & !BLOCK_STORE) == bytes
        });
        let Some(place) = last else { return false };
        edits.replace(place.call, format_args!(""));
        if self.places.is_empty() && !self.held {
            held.forget();
        }
        self.since += place.instructions.cast_signed();
        true
    }

    /// Whether the last address taken since the last access is in the stack frame.
    pub fn is_of_frame(&self) -> bool {
        !self.frame_address.is_empty()
    }

    /// Whether no block is being gathered.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
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
        let places = std::mem::take(&mut self.places);
        let mut free = (0..CARRIERS.len()).filter(|bit| self.used >> bit & 1 == 0).map(|bit| CARRIERS[bit]);
        let (cursor, base) = (free.next(), free.next());
        let segments = places.split_inclusive(Place::ends_segment);
        match (cursor, base) {
            (Some(cursor), Some(base)) => {
                // The distance is wanted again only where another segment begins.
                let base = if segments.count() > 1 { base } else { "%rcx" };
                let carried = Carried { cursor, base, lasts: true, held: self.held };
                self.emit(&places, &carried, after, syntax, edits);
            }
            _ => {
                let (mut left, mut held) = (places.len(), self.held);
                for segment in segments {
                    left -= segment.len();
                    let after = if left == 0 { after } else { 0 };
                    if let Some(cursor) = cursor {
                        let carried = Carried { cursor, base: "%rcx", lasts: true, held };
                        self.emit(segment, &carried, after, syntax, edits);
                        held = self.holds;
                        continue;
                    }
                    for alone in segment.split_inclusive(|place| place.moved != Moved::Later) {
                        let carried = Carried { cursor: "%rax", base: "%rcx", lasts: false, held: false };
                        self.emit(alone, &carried, 0, syntax, edits);
                    }
                }
            }
        }
        self.used = 0;
        self.mentioned = 0;
    }

    fn emit(
        &mut self,
        places: &[Place],
        carried: &Carried,
        after: u32,
        syntax: &Syntax<'_>,
        edits: &mut Edits,
    ) {
        let number = self.number;
        self.number += 1;
        let (enter, leave) = syntax.att();
        let Carried { cursor, base, lasts, held } = carried;
        let distance = format!("movq strandline_tls@gottpoff(%rip), {base}");
        let position = format!("{distance}; movq %fs:({base}), {cursor}");
        let mut segment = true;
        for (index, place) in places.iter().enumerate() {
            let id = format_args!("{number}_{index}");
            let call = place.call.clone();
            // Counted from the end: the position has moved past the block.
            let word = place.word(index);
            let back = 8 * (places.len() - word);
            let mark = if place.access.is_store() { "notq %rdi; " } else { "" };
            if index == 0 {
                let read = if *held { &distance } else { &position };
                edits.replace(
                    call,
                    format_args!(
                        "{enter}.Lsla{id}: {read}; \
                         cmpq %fs:8({base}), {cursor}; jae .Lsls{id}; \
                         .Lslb{id}: leaq .Lsld{id}+2(%rip), %rdx; rorq $2, %rdx; \
                         movq %rdx, ({cursor}); {mark}movq %rdi, {}({cursor}); addq ${}, {cursor}; \
                         movq {cursor}, %fs:({base}){leave}",
                        8 * (word + 1),
                        8 * (places.len() + 1)
                    ),
                );
            } else if segment {
                edits.replace(
                    call,
                    format_args!(
                        "{enter}.Lsla{id}: {mark}cmpq %fs:8({base}), {cursor}; jae .Lsls{id}; \
                         movq %rdi, -{back}({cursor}); .Lslb{id}:{leave}"
                    ),
                );
            } else if *lasts {
                edits.replace(
                    call,
                    format_args!("{enter}.Lsla{id}: {mark}movq %rdi, -{back}({cursor}){leave}"),
                );
            } else {
                edits.replace(
                    call,
                    format_args!("{enter}.Lsla{id}: {position}; {mark}movq %rdi, -{back}({cursor}){leave}"),
                );
            }
            if segment {
                self.slow_path(number, index, places, carried);
                self.describe(number, index, places, after);
            }
            segment = place.ends_segment();
        }
    }

    /// What the first access of a segment does when the runtime has to be asked.
    fn slow_path(
        &mut self,
        number: usize,
        index: usize,
        places: &[Place],
        Carried { cursor, base, .. }: &Carried,
    ) {
        let id = format_args!("{number}_{index}");
        let cold = &mut self.cold;
        put(cold, format_args!(".Lsls{id}: call *strandline_refill@GOTPCREL(%rip); "));
        if *cursor != "%rax" {
            put(cold, format_args!("movq %rax, {cursor}; "));
        }
        if *base != "%rcx" {
            put(cold, format_args!("movq %rcx, {base}; "));
        }
        if index > 0 {
            put(
                cold,
                format_args!(
                    "leaq .Lsld{id}+2(%rip), %rdx; rorq $2, %rdx; \
                     movq %rdx, ({cursor}); movq %rdi, {}({cursor}); \
                     addq ${}, {cursor}; movq {cursor}, %fs:({base}); ",
                    8 * (places[index].word(index) - index + 1),
                    8 * (places.len() - index + 1)
                ),
            );
        }
        put(cold, format_args!("jmp .Lslb{id}; "));
    }

    /// The descriptor of the accesses from `index` on (`abi::BLOCK_MAGIC` has the layout).
    fn describe(&mut self, number: usize, index: usize, places: &[Place], after: u32) {
        let cold = &mut self.cold;
        let before = places[index].instructions.min(u16::MAX.into());
        put(
            cold,
            format_args!(
                ".p2align 2; .Lsld{number}_{index}: .long {BLOCK_MAGIC}; .byte {}, {}; .value {before}; ",
                places.len() - index,
                after.min(255)
            ),
        );
        for at in index..places.len() {
            let instructions = if at == index { 0 } else { places[at].instructions.min(255) };
            // An access and its word change places with the same one.
            let announced = places[at].word(at);
            let code = places[announced].access.code;
            put(
                cold,
                format_args!(".long .Lsla{number}_{announced}-.; .byte {code}, {instructions}; .value 0; "),
            );
        }
    }
}

/// The registers of a block.
struct Carried {
    /// The buffer position.
    cursor: &'static str,
    /// The distance of the thread's state from the thread pointer.
    base: &'static str,
    /// Whether they last from one access to the next.
    lasts: bool,
    /// Whether the position's register holds it already.
    held: bool,
}

/// Reads the position into the register that is to hold it, before the statement at `at`.
pub fn read_position(at: usize, syntax: &Syntax<'_>, edits: &mut Edits) {
    let (enter, leave) = syntax.att();
    let text = format_args!(
        "{enter}movq strandline_tls@gottpoff(%rip), {REGISTER}; movq %fs:({REGISTER}), {REGISTER}; {leave}"
    );
    edits.replace(at..at, text);
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

/// Whether the program's `instruction` may store to memory that is not its own stack frame.
fn stores_to_memory(instruction: &Instruction<'_>, intel: bool) -> bool {
    let target = if intel { instruction.split().next() } else { instruction.split().last() };
    target.is_some_and(|target| {
        writes_operand(instruction, target) && !target.windows(3).any(|word| word == b"rsp")
    })
}

/// Whether `target`, the operand that an instruction writes if it writes one, is memory that `instruction`
/// writes.
fn writes_operand(instruction: &Instruction<'_>, target: &[u8]) -> bool {
    let reads_only = [&b"cmp"[..], b"test", b"lea", b"bt", b"ucomis", b"comis", b"prefetch", b"nop"];
    target.iter().any(|b| matches!(b, b'(' | b'['))
        && !reads_only.iter().any(|name| instruction.name.starts_with(name))
}

/// The operand of a `lea` of something in the stack frame.
fn frame_address<'a>(instruction: &Instruction<'a>, intel: bool) -> Option<&'a [u8]> {
    let operand = if intel { instruction.split().nth(1) } else { instruction.split().next() };
    operand.map(without_size).filter(|operand| instruction.name.starts_with(b"lea") && in_frame(operand))
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
