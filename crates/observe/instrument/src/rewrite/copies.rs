//! Whole structures that the program copies or clears.
//!
//! gcc's pass announces such an assignment itself, by calls of `__tsan_read_range` and `__tsan_write_range`,
//! and then the compiler may carry it out by calling memcpy or memset. That call is not one of the program's:
//! renamed, it would count the same bytes a second time. It is known by the length, which is the same
//! constant in both calls, and by that nothing has been stored since.

use std::ops::Range;

use super::instruction::{Instruction, in_frame};

/// What a call of memcpy or memset is.
#[derive(Debug, PartialEq, Eq)]
pub enum Call {
    /// The program's own, or another function's.
    Own,
    /// It carries out what range hooks have announced.
    Announced,
    /// It carries out what one hook, the call at this place, has announced as a load only: the store is not
    /// announced, as into the structure that the function returns.
    HalfAnnounced(Range<usize>),
}

/// What a basic block has announced of ranges so far.
#[derive(Default)]
pub struct Copies {
    /// Constant in the second argument's register.
    second: Option<u64>,
    /// Constant in the third argument's register.
    third: Option<u64>,
    /// Length of the range that was announced and not yet carried out.
    announced: Option<u64>,
    /// The hook's call, if only a load was announced.
    loaded: Option<Range<usize>>,
}

impl Copies {
    /// Looks at an instruction that calls nothing.
    pub fn instruction(&mut self, instruction: &Instruction<'_>, intel: bool) {
        if executes(instruction, intel) {
            self.announced = None;
        }
        if !instruction.name.starts_with(b"mov") {
            return;
        }
        let Some((target, value)) = constant_load(instruction, intel) else { return };
        match target {
            b"esi" | b"rsi" => self.second = value,
            b"edx" | b"rdx" => self.third = value,
            _ => {}
        }
    }

    /// Length of the range that a hook gets which is called now, if it is known.
    pub fn range_bytes(&self) -> Option<u32> {
        self.second?.try_into().ok()
    }

    /// Looks at a call, the statement at `place`.
    pub fn call(&mut self, symbol: &[u8], place: Range<usize>) -> Call {
        let (second, third) = (self.second.take(), self.third.take());
        match symbol {
            b"__tsan_read_range" => {
                let stored = self.announced.is_some() && self.loaded.is_none();
                self.loaded = (!stored).then_some(place);
                self.announced = second;
                Call::Own
            }
            b"__tsan_write_range" => {
                self.loaded = None;
                self.announced = second;
                Call::Own
            }
            b"memcpy" | b"memmove" | b"memset" => {
                let announced = self.announced.take().is_some_and(|announced| Some(announced) == third);
                match self.loaded.take() {
                    _ if !announced => Call::Own,
                    None => Call::Announced,
                    Some(hook) => Call::HalfAnnounced(hook),
                }
            }
            _ => {
                self.forget();
                Call::Own
            }
        }
    }

    /// A basic block begins.
    pub fn forget(&mut self) {
        *self = Copies::default();
    }
}

/// Whether an instruction stores what a range hook may have announced: a call that follows is another matter
/// then.
fn executes(instruction: &Instruction<'_>, intel: bool) -> bool {
    let mut operands = instruction.split();
    let (first, second) = (operands.next(), operands.next());
    let Some(target) = (if intel { first } else { second }) else {
        return instruction.name.starts_with(b"movs") || instruction.name.starts_with(b"stos");
    };
    // Into the stack frame go registers that are put aside, too.
    let memory = target.iter().any(|b| matches!(b, b'(' | b'['));
    instruction.name.starts_with(b"mov") && memory && !in_frame(target)
}

/// The register that a move goes to, and the constant moved, if it is one.
fn constant_load<'a>(instruction: &Instruction<'a>, intel: bool) -> Option<(&'a [u8], Option<u64>)> {
    let mut operands = instruction.split();
    let (first, second) = (operands.next()?, operands.next()?);
    let (target, source) = if intel { (first, Some(second)) } else { (second, first.strip_prefix(b"$")) };
    let target = target.strip_prefix(b"%").unwrap_or(target);
    let number = source.and_then(|digits| std::str::from_utf8(digits).ok()?.trim().parse().ok());
    Some((target, number))
}
