//! Where a register holds the buffer position from one block to the next.
//!
//! Each block moves the thread's buffer position on. To read it back from memory right after it was written
//! there takes a processor longer than all else that a block does, so in a function that uses [`REGISTER`]
//! for nothing, the position stays in it. Memory has it too, always: to read it there again is never wrong,
//! only slow.
//!
//! The rule is: at every local label and every local jump the register holds the position. It does not at a
//! function's entry, after a call or inline assembly (which may record, or use the register), and at a label
//! that is reached in other ways than by a jump: a landing pad of an exception, or one whose address is
//! taken. There [`Held::now`] is false until the next block, which reads the position itself, or until a jump
//! or a label, before which it has to be read.

use std::collections::{HashMap, HashSet};

use super::instruction::Instruction;
use super::scan;

/// The register, as gcc leaves it alone and as the wrapper writes it.
pub const REGISTER: &str = "%r11";
/// How its name is found in a source, in any width and dialect.
const NAME: &[u8] = b"r11";

/// What a look at the whole file finds out.
#[derive(Default)]
struct Survey<'a> {
    /// Names of the compiler's functions and of their parts.
    names: HashSet<&'a [u8]>,
    /// Functions with blocks, by name up to the first dot: their parts jump into each other. Whether the
    /// register is free in all of them.
    functions: HashMap<&'a [u8], bool>,
    /// Labels that are reached in other ways than by a jump of their function.
    entered: HashSet<&'a [u8]>,
}

/// What is known at one point of the walk.
#[derive(Default)]
pub struct Held<'a> {
    survey: Survey<'a>,
    /// The function at hand has blocks and leaves the register alone.
    usable: bool,
    now: bool,
    /// Where we are is data.
    data: bool,
    /// The same of the section before, and of those that wait to be gone back to.
    data_before: bool,
    sections: Vec<bool>,
}

impl<'a> Held<'a> {
    /// Before the first statement of a file.
    pub fn new(source: &'a [u8]) -> Self {
        Held { survey: Survey::of(source), ..Held::default() }
    }

    /// Whether the register is to be used here.
    pub fn usable(&self) -> bool {
        self.usable
    }

    /// Whether the register holds the position.
    pub fn now(&self) -> bool {
        self.now
    }

    /// Whether the position has to be read before a jump that comes now.
    pub fn missing(&self) -> bool {
        self.usable && !self.now && !self.data
    }

    /// Whether the position has to be read before this label.
    pub fn is_missing_at(&self, label: &[u8]) -> bool {
        self.missing() && label.starts_with(b".L") && !self.is_entered(label)
    }

    /// Follows a directive that goes to another section.
    pub fn section(&mut self, directive: &Instruction<'_>) {
        let here = self.data;
        match directive.name {
            b".popsection" => self.data = self.sections.pop().unwrap_or_default(),
            b".previous" => self.data = self.data_before,
            b".data" | b".bss" => self.data = true,
            b".text" => self.data = false,
            _ => {
                if directive.name == b".pushsection" {
                    self.sections.push(here);
                }
                let mut operands = directive.split();
                let name = operands.next().unwrap_or_default();
                let flags = operands.find(|operand| operand.starts_with(b"\""));
                let code = flags.map_or(name.starts_with(b".text"), |flags| flags.contains(&b'x'));
                self.data = !code;
            }
        }
        self.data_before = here;
    }

    /// The register holds the position from here on, or control does not get here.
    pub fn set(&mut self) {
        self.now = true;
    }

    /// The register may hold anything from here on.
    pub fn forget(&mut self) {
        self.now = false;
    }

    /// A label is passed, in inline assembly or not.
    pub fn label(&mut self, name: &[u8], inline_assembly: bool) {
        if self.data {
            return;
        }
        if !inline_assembly && self.survey.names.contains(name) {
            self.usable = self.survey.functions.get(function(name)).copied().unwrap_or(false);
        }
        self.now = name.starts_with(b".L") && !self.is_entered(name);
    }

    /// Whether control reaches this label in other ways than by a jump.
    pub fn is_entered(&self, name: &[u8]) -> bool {
        self.survey.entered.contains(name)
    }
}

impl<'a> Survey<'a> {
    fn of(source: &'a [u8]) -> Self {
        let mut survey = Survey::default();
        let mut here: &[u8] = b"";
        let (mut in_exceptions, mut in_assembly) = (false, false);
        for line in source.split(|&b| b == b'\n') {
            let text = line.trim_ascii_start();
            if text.starts_with(b"#APP") || text.starts_with(b"#NO_APP") {
                in_assembly = text.starts_with(b"#APP");
            }
            let name = symbol(line);
            if !in_assembly && line[name.len()..].starts_with(b":") && survey.names.contains(name) {
                here = function(name);
            }
            if let Some(rest) = text.strip_prefix(b".type").filter(|_| !in_assembly)
                && contains(rest, b"function")
            {
                survey.names.insert(symbol(rest.trim_ascii_start()));
            }
            if text.starts_with(b".section") {
                in_exceptions = contains(text, b".gcc_except_table");
            } else if text.starts_with(b".text") {
                in_exceptions = false;
            }
            if contains(text, b"__tsan_") {
                survey.functions.entry(here).or_insert(true);
            }
            if contains(text, NAME) {
                survey.functions.insert(here, false);
            }
            // A jump table's entries are reached by a jump; what an instruction computes goes who knows
            // where.
            if in_exceptions
                || text.starts_with(b"lea")
                || contains(text, b"$.L")
                || contains(text, b"OFFSET")
            {
                survey.entered.extend(labels(text));
            }
        }
        survey
    }
}

/// The name that all parts of a function have in common.
fn function(name: &[u8]) -> &[u8] {
    let end = name.iter().skip(1).position(|&b| b == b'.').map_or(name.len(), |at| at + 1);
    &name[..end]
}

/// The symbol that a text begins with.
fn symbol(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|&b| !scan::is_symbol(b)).unwrap_or(text.len())]
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    let first = part[0];
    text.iter().enumerate().any(|(at, &byte)| byte == first && text[at..].starts_with(part))
}

/// The local labels that a line names.
fn labels(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| !scan::is_symbol(b) || b == b'$').filter(|word| word.starts_with(b".L"))
}
