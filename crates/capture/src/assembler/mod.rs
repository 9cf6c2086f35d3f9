//! What stands before the real assembler: [`rewrite`] turns the compiler's output into code that records, and [`run`]
//! is the `as` that the compiler finds.
//!
//! Five things happen to a file. The thread-sanitizer pass's calls become code in line. Flushes,
//! fences, non-temporal stores and locked instructions get a call before them. The C
//! library's memory and string functions, and C++'s `new` and `delete`, are called under the
//! runtime's names. Jumps to the runtime's functions become calls. Everything else stays as it is, byte by byte and line by line: inserted statements
//! share the line of what they belong to, so that the assembler's messages and line numbers stay right.
//!
//! What is not understood is left alone. The runtime has the sanitizer's functions for real, too,
//! so a call that stays is slower and no less true.

mod awaited;
mod by_hand;
mod copies;
mod edits;
mod held;
mod instruction;
mod library;
mod masked;
mod persist;
mod rename;
mod runs;
mod scan;
mod syntax;
mod tail;
#[cfg(test)]
mod tests;
mod unlined;
mod untold;
mod volatile;
mod wrapper;

use std::collections::HashSet;
use std::ops::Range;

pub use tail::Exports;
pub use unlined::NO_LINE;
pub use wrapper::{AssemblerError, run};

use by_hand::Repeated;
use copies::{Call, Copies};
use edits::Edits;
use held::Held;
use instruction::Instruction;
use library::Library;
use persist::Hook;
use rename::Kept;
use runs::{Access, Runs};
use scan::{Item, Scanner};
use syntax::Syntax;
use tail::Frame;
use unlined::Unlined;
use untold::Untold;
use volatile::Volatiles;

/// Rewrites x86-64 assembler source, as said at the module's head, for a runtime with these functions. `None`: there is nothing to change.
#[must_use]
pub fn rewrite(source: &[u8], runtime: &Exports) -> Option<Vec<u8>> {
    let mut walk = Walk::new(source, runtime);
    for item in Scanner::new(source) {
        match item {
            Item::Label(name) => walk.label(name),
            Item::Statement(place) => walk.statement(place),
            Item::InlineAssembly(on) => {
                walk.inline_assembly = on || walk.by_hand;
                walk.held.forget();
            }
        }
    }
    walk.finish()
}

/// The state of a walk through a file.
struct Walk<'a> {
    source: &'a [u8],
    runtime: &'a Exports,
    edits: Edits,
    runs: Runs,
    frame: Frame,
    /// Jumps that have become calls.
    tails: usize,
    held: Held<'a>,
    syntax: Syntax<'a>,
    kept: Kept,
    library: Library<'a>,
    unlined: Unlined<'a>,
    /// The function's labels up to here.
    labels: HashSet<&'a [u8]>,
    /// No compiler wrote the file.
    by_hand: bool,
    /// What follows was not written by a compiler.
    inline_assembly: bool,
    copies: Copies,
    untold: Untold<'a>,
    /// Labels behind which it is not known what was told.
    awaited: HashSet<&'a [u8]>,
    volatiles: Volatiles,
    /// Within `.macro`, `.rept`, `.irp`: how deep.
    macros: u32,
    /// Somewhere else than in a section's first subsection.
    subsection: bool,
    /// A statement that belongs to the next instruction: a lone `lock`, or a prefix spelled `.byte 0x66`.
    pending: Option<Pending>,
}

#[derive(Clone, Copy)]
struct Pending {
    at: usize,
    lock: bool,
    /// A lone `rep`.
    repeats: bool,
}

/// The type of a section that clang writes for C++20, and that the GNU assembler warns of.
const LINKER_OPTIONS: &[u8] = b"@llvm_linker_options";

/// What a directive means here.
enum Directive {
    SectionSwitch,
    Subsection,
    MacroBegin,
    MacroEnd,
    /// Its arguments are expressions that may name functions.
    Data,
    Byte,
    Other,
}

impl Directive {
    fn of(name: &[u8]) -> Self {
        match name {
            b".section" | b".text" | b".data" | b".bss" | b".pushsection" | b".popsection" | b".previous" => {
                Directive::SectionSwitch
            }
            b".subsection" => Directive::Subsection,
            b".macro" | b".rept" | b".irp" | b".irpc" => Directive::MacroBegin,
            b".endm" | b".endr" => Directive::MacroEnd,
            b".quad" | b".8byte" | b".long" | b".4byte" | b".int" | b".weak" | b".addrsig_sym" => {
                Directive::Data
            }
            b".byte" => Directive::Byte,
            _ => Directive::Other,
        }
    }
}

impl<'a> Walk<'a> {
    fn new(source: &'a [u8], runtime: &'a Exports) -> Self {
        let by_hand = is_by_hand(source);
        Walk {
            source,
            runtime,
            frame: Frame::default(),
            tails: 0,
            edits: Edits::default(),
            runs: Runs::default(),
            held: Held::new(source),
            syntax: Syntax::default(),
            kept: own_symbols(source),
            library: Library::default(),
            unlined: Unlined::default(),
            labels: HashSet::new(),
            by_hand,
            inline_assembly: by_hand,
            copies: Copies::default(),
            untold: Untold::default(),
            awaited: awaited::awaited(source),
            volatiles: Volatiles::default(),
            macros: 0,
            subsection: false,
            pending: None,
        }
    }

    fn label(&mut self, place: Range<usize>) {
        let name = &self.source[place.clone()];
        self.unlined.label(name);
        let is_mark = is_mark(name, &self.source[place.end..]);
        if !is_mark {
            self.begin_library(place.start);
        }
        if is_mark {
            // clang marks a landing pad like any other place; no run goes on there.
            if self.held.is_entered(name) && self.runs.is_empty() {
                self.held.forget();
            }
        } else {
            if self.held.is_missing_at(name) {
                runs::read_position(place.start, &self.syntax, &mut self.edits);
            }
            if name.starts_with(b".L") {
                self.labels.insert(name);
            } else {
                self.labels.clear();
                self.library.function(name);
            }
            if name.starts_with(b".L") || name.first().is_some_and(u8::is_ascii_digit) {
                if self.awaited.contains(name) {
                    self.untold.forget();
                }
            } else {
                self.untold.function();
            }
            self.runs.end_block(&self.syntax, &mut self.edits);
            self.copies.forget();
            self.volatiles.forget();
            self.held.label(name, self.inline_assembly);
        }
    }

    fn statement(&mut self, place: Range<usize>) {
        let pending = self.pending.take();
        let text = &self.source[place.clone()];
        let mut instruction = Instruction::parse(text);
        if instruction.is_directive() {
            self.directive(&instruction, text, place);
        } else if instruction.name.is_empty() {
            let repeats = is_repeat(text);
            let pending = Pending { at: place.start, lock: instruction.lock, repeats };
            self.pending = (instruction.lock || repeats).then_some(pending);
        } else {
            instruction.lock |= pending.is_some_and(|pending| pending.lock);
            self.instruction(&instruction, place, pending);
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'a>, place: Range<usize>, pending: Option<Pending>) {
        let operands = place.end - instruction.operands.len()..place.end;
        let transfers = transfers_control(instruction.name);
        let compiled = self.macros == 0 && !self.subsection && !self.inline_assembly;
        if compiled {
            self.precede(instruction, place.start);
        }
        if transfers && compiled && self.takes_hook(instruction, place.clone()) {
            return;
        }
        let prefixed = pending.is_some_and(|pending| !pending.lock && !pending.repeats);
        if self.macros == 0
            && !self.subsection
            && self.carries_out_repeated(instruction, place.clone(), pending)
        {
            return;
        }
        let hook = Hook::of(instruction, prefixed, self.syntax.is_intel());
        let stores = hook.as_ref().is_some_and(|hook| hook.mask.is_some() || hook.name == "nt");
        if let Some(hook) = hook {
            if hook.name == "nt" && self.runs.replace_store(hook.bytes, &mut self.held, &mut self.edits) {
                self.untold.executed();
            } else if stores && compiled {
                self.postpone_store(place.end);
            }
            self.runs.end_block(&self.syntax, &mut self.edits);
            self.put_before(pending.map_or(place.start, |pending| pending.at), &hook);
        }
        if transfers || !compiled {
            self.volatiles.forget();
        } else {
            self.volatiles.instruction(instruction, self.syntax.is_intel());
        }
        if self.inline_assembly
            && self.macros == 0
            && !instruction.lock
            && pending.is_none()
            && let Some(hook) = by_hand::store(instruction, self.syntax.is_intel())
        {
            self.runs.end_block(&self.syntax, &mut self.edits);
            self.put_before(place.start, &hook);
        }
        if transfers || !compiled {
            self.follow_call(instruction, compiled);
        } else if instruction.lock || prefixed {
            self.untold.forget();
        } else if !stores && let Some(hook) = self.untold.instruction(instruction, self.syntax.is_intel()) {
            self.postpone_store(place.end);
            self.runs.end_block(&self.syntax, &mut self.edits);
            self.put_before(place.start, &hook);
        }
        let mut leaves = false;
        if !self.carries_out_copy(instruction, place.clone(), transfers) {
            rename::rename(self.source, operands, self.kept, &mut self.edits);
            leaves =
                transfers && compiled && pending.is_none() && self.calls_at_end(instruction, place.clone());
            if compiled && !leaves && ends_function(instruction) {
                self.end_library(place.start);
            }
        }
        self.runs.instruction(instruction, &self.syntax);
        if transfers && self.macros == 0 {
            self.transfer(instruction, place.start, leaves);
        }
        if (transfers && !self.stays_in_run(instruction)) || self.inline_assembly {
            self.runs.end_block(&self.syntax, &mut self.edits);
        }
    }

    /// Tells what is to be known before a compiler's `instruction`, which stands at `at`.
    fn precede(&mut self, instruction: &Instruction<'a>, at: usize) {
        if instruction.name != b"endbr64" {
            self.begin_library(at);
        }
        // An argument that is put on the stack belongs to the function's line.
        if called(instruction).is_some() && !self.runs.is_of_frame() {
            self.unlined.told(at, &mut self.edits);
        }
    }

    /// Tells at `at` that a function of C++'s library begins, if one does.
    fn begin_library(&mut self, at: usize) {
        if let Some(code) = self.library.begin(&self.syntax) {
            self.edits.insert(at, code.as_bytes());
            self.held.forget();
        }
    }

    /// Tells at `at` that one ends, if one is being read.
    fn end_library(&mut self, at: usize) {
        if let Some(code) = self.library.end(&self.syntax) {
            self.edits.insert(at, code.as_bytes());
        }
    }

    /// Takes the call of a hook of the pass's, if it becomes something else than a call.
    fn takes_hook(&mut self, call: &Instruction<'a>, place: Range<usize>) -> bool {
        if let Some(access) = called(call).and_then(|target| self.access(target, place.end)) {
            self.volatiles.access(access.stored_bytes().is_some());
            self.runs.access(place, access, &mut self.held, &self.syntax, &mut self.edits);
            match access.stored_bytes() {
                Some(bytes) => self.untold.store(bytes),
                None => self.untold.load(),
            }
            return true;
        }
        let replaced = self.is_one_store(call, place.end);
        if replaced {
            // That store gets a hook of its own: others may come between.
            self.edits.replace(place, format_args!(""));
            self.untold.call();
            self.copies.forget();
            self.volatiles.forget();
        }
        replaced
    }

    /// Whether this is a string instruction with `rep` that nobody told: the runtime does it instead.
    fn carries_out_repeated(
        &mut self,
        instruction: &Instruction<'a>,
        place: Range<usize>,
        pending: Option<Pending>,
    ) -> bool {
        let repeats =
            pending.is_some_and(|pending| pending.repeats) || is_repeat(&self.source[place.clone()]);
        let Some(repeated) = Repeated::of(instruction).filter(|_| repeats) else { return false };
        if !self.inline_assembly && !self.untold.repeated() {
            return false;
        }
        self.runs.end_block(&self.syntax, &mut self.edits);
        let start = pending.map_or(place.start, |pending| pending.at);
        self.edits.replace(start..place.end, format_args!("{}", repeated.code(self.syntax.is_intel())));
        self.held.forget();
        true
    }

    /// Whether this, which ends at `end`, is the hook of a range that a single instruction stores.
    fn is_one_store(&self, instruction: &Instruction<'_>, end: usize) -> bool {
        called(instruction) == Some(b"__tsan_write_range")
            && self.copies.range_bytes().is_some_and(|bytes| {
                matches!(bytes, 1 | 2 | 4 | 8 | 16 | 32 | 64)
                    && untold::store_follows(&self.source[end..], bytes, self.syntax.is_intel())
            })
    }

    /// Another store than the one that was told last comes before it, in an instruction that ends at `at`: the one that was told gets its hook where it is executed,
    /// because a store's bytes are read when the next thing is told.
    fn postpone_store(&mut self, at: usize) {
        if let Some(bytes) = self.untold.pending()
            && untold::store_follows(&self.source[at..], bytes, self.syntax.is_intel())
            && self.runs.replace_store(bytes, &mut self.held, &mut self.edits)
        {
            self.untold.postpone();
        }
    }

    /// The access that the call of `target`, which ends at `end`, becomes in line.
    fn access(&self, target: &[u8], end: usize) -> Option<Access> {
        Access::of(target)
            .or_else(|| self.volatiles.in_line(target, &self.source[end..], self.syntax.is_intel()))
    }

    fn put_before(&mut self, at: usize, hook: &Hook<'_>) {
        self.unlined.told(at, &mut self.edits);
        let mut text = Vec::new();
        persist::write(hook, self.syntax.is_intel(), &mut text);
        self.edits.insert(at, &text);
        self.held.forget();
    }

    /// What a call, a jump, or anything that no compiler wrote says of the stores behind it.
    fn follow_call(&mut self, instruction: &Instruction<'_>, compiled: bool) {
        if !compiled {
            return self.untold.forget();
        }
        if !instruction.name.starts_with(b"call") {
            if is_final(instruction.name) {
                self.untold.leave();
            }
            return;
        }
        match target(instruction) {
            Some(b"__tsan_write_range") => self.untold.store_range(self.copies.range_bytes()),
            Some(b"__tsan_read_range") => self.untold.load(),
            other => match other.and_then(Access::of_volatile).map(Access::stored_bytes) {
                Some(Some(bytes)) => self.untold.store(bytes),
                Some(None) => self.untold.load(),
                None => self.untold.call(),
            },
        }
    }

    /// Makes a call of a jump to a function of the runtime; whether it was one.
    fn calls_at_end(&mut self, jump: &Instruction<'a>, place: Range<usize>) -> bool {
        if jump.name.first() != Some(&b'j') || !self.source[place.clone()].starts_with(jump.name) {
            return false;
        }
        let Some(symbol) = target(jump).filter(|symbol| !symbol.starts_with(b".L")) else { return false };
        let name = self.kept.called(symbol);
        if !self.runtime.contains(&name) {
            return false;
        }
        let end = self.library.end(&self.syntax).unwrap_or_default();
        let call = tail::call(jump, &name, self.frame, self.syntax.is_intel(), self.tails, &end);
        let Some([before, after]) = call else { return false };
        self.tails += 1;
        self.edits.replace(place.start..place.start + jump.name.len(), format_args!("{before}call"));
        self.edits.insert(place.end, after.as_bytes());
        true
    }

    /// What the transfer of control at `at` means for the register that holds the position. `leaves`: it leaves the function.
    fn transfer(&mut self, instruction: &Instruction<'a>, at: usize, leaves: bool) {
        let first = instruction.name[0].to_ascii_lowercase();
        let jumps = first == b'j' || instruction.name.starts_with(b"loop") || instruction.name == b"xbegin";
        let leaves = leaves
            || instruction.name == b"jmp"
                && !self.syntax.is_intel()
                && target(instruction).is_some_and(|symbol| !symbol.starts_with(b".L"));
        if jumps && !leaves && self.held.missing() {
            runs::read_position(at, &self.syntax, &mut self.edits);
            self.held.set();
        }
        match first {
            // What follows is reached from elsewhere.
            b'j' if instruction.name.eq_ignore_ascii_case(b"jmp") => self.held.set(),
            b'r' | b'u' | b'h' => self.held.set(),
            b'j' => {}
            _ => self.held.forget(),
        }
    }

    /// Whether this calls memcpy for an assignment that the compiler's pass has told itself.
    fn carries_out_copy(
        &mut self,
        instruction: &Instruction<'a>,
        place: Range<usize>,
        transfers: bool,
    ) -> bool {
        if !transfers {
            self.copies.instruction(instruction, self.syntax.is_intel());
            return false;
        }
        match target(instruction).map(|symbol| self.copies.call(symbol, place)) {
            Some(Call::Told) => true,
            Some(Call::HalfTold(hook)) => {
                // The function that the call is renamed to tells the load, too.
                self.edits.replace(hook, format_args!(""));
                false
            }
            Some(Call::Own) | None => false,
        }
    }

    /// Whether this is a jump that may fall through and, if it does not, goes forward.
    ///
    /// A run goes on behind such a jump; if it is taken, the rest of the run's words stay zero. A
    /// jump back ends the run, because it is the likely way.
    fn stays_in_run(&self, jump: &Instruction<'a>) -> bool {
        jump.name.first() == Some(&b'j')
            && jump.name != b"jmp"
            && jump.operands.starts_with(b".L")
            && !self.labels.contains(jump.operands)
    }

    fn directive(&mut self, directive: &Instruction<'a>, text: &'a [u8], place: Range<usize>) {
        self.frame.directive(directive.name);
        match Directive::of(directive.name) {
            Directive::SectionSwitch => {
                self.end_section(place.start);
                self.held.section(directive);
                if directive.operands.ends_with(LINKER_OPTIONS) {
                    // No linker of ELF files keeps this section: it is one to exclude.
                    let kind = place.end - LINKER_OPTIONS.len()..place.end;
                    self.edits.replace(kind, format_args!("@progbits"));
                }
                self.subsection = directive.name == b".text" && !matches!(directive.operands, b"" | b"0");
            }
            Directive::Subsection => {
                self.end_section(place.start);
                self.subsection = directive.operands != b"0";
            }
            Directive::MacroBegin => self.macros += 1,
            Directive::MacroEnd => self.macros = self.macros.saturating_sub(1),
            Directive::Data => {
                let arguments = place.end - directive.operands.len()..place.end;
                rename::rename(self.source, arguments, self.kept, &mut self.edits);
            }
            Directive::Byte if matches!(directive.operands, b"0x66" | b"102" | b"0X66") => {
                self.pending = Some(Pending { at: place.start, lock: false, repeats: false });
            }
            Directive::Byte | Directive::Other => {
                self.library.directive(directive);
                self.unlined.directive(directive, place.end, &mut self.edits);
                if matches!(directive.name, b".intel_syntax" | b".att_syntax") {
                    self.runs.end_block(&self.syntax, &mut self.edits);
                    self.syntax.follow(directive, text);
                }
            }
        }
    }

    fn end_section(&mut self, at: usize) {
        if self.macros == 0 {
            self.runs.end_block(&self.syntax, &mut self.edits);
            self.runs.end_section(at, &self.syntax, &mut self.edits);
        }
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        self.runs.end_block(&self.syntax, &mut self.edits);
        let end = self.source.len();
        if !self.source.ends_with(b"\n") {
            self.edits.insert_if_any(end, b"\n");
        }
        self.runs.end_section(end, &self.syntax, &mut self.edits);
        self.edits.insert_if_any(end, b"\n");
        self.edits.apply(self.source)
    }
}

/// Whether a statement begins with `rep`.
fn is_repeat(statement: &[u8]) -> bool {
    let word = statement.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    word == b"rep"
}

/// Whether control may go elsewhere than to the next instruction.
fn transfers_control(name: &[u8]) -> bool {
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

/// Whether it returns, or hands on to another function for good. What jumps by a thunk (`-mretpoline`) has its target in a register, which may be any.
fn ends_function(transfer: &Instruction<'_>) -> bool {
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
fn is_final(name: &[u8]) -> bool {
    matches!(name, b"jmp" | b"jmpq" | b"ret" | b"retq" | b"ud2" | b"hlt")
}

/// The symbol that a direct call, or one through the global offset table, goes to.
fn called<'a>(instruction: &Instruction<'a>) -> Option<&'a [u8]> {
    if instruction.name.starts_with(b"call") { target(instruction) } else { None }
}

/// The symbol that a call, or a jump as a function's last call, goes to.
fn target<'a>(instruction: &Instruction<'a>) -> Option<&'a [u8]> {
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

/// Labels that only debug and unwind information refers to, by the names that gcc and clang give them.
/// No jump goes to one, so they don't end a run.
fn is_mark(name: &[u8], after: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b".L") else { return false };
    let number = |prefix: &[u8]| {
        rest.strip_prefix(prefix)
            .is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
    };
    if number(b"tmp") {
        // clang uses these for targets of computed jumps, too, and says so.
        let line = after.split(|&b| b == b'\n').next().unwrap_or_default();
        return !line.windows(13).any(|words| words == b"address taken");
    }
    // clang's `.LBB1_2` is a jump's target and has an underscore.
    let marks: [&[u8]; 11] =
        [b"VL", b"BB", b"BE", b"BI", b"EHB", b"EHE", b"CFI", b"FB", b"FE", b"func_begin", b"func_end"];
    marks.into_iter().any(number)
}

/// Whether a person wrote the file: compilers leave their name, or else the pass's calls.
fn is_by_hand(source: &[u8]) -> bool {
    let mut lines = source.split(|&b| b == b'\n');
    !lines.any(|line| {
        let has = |text: &[u8]| line.windows(text.len()).any(|part| part == text);
        line.trim_ascii_start().starts_with(b".ident") || has(b"__tsan_")
    })
}

/// The functions that the file has itself, or refuses to take from elsewhere.
fn own_symbols(source: &[u8]) -> Kept {
    let mut kept = Kept::default();
    for line in source.split(|&b| b == b'\n') {
        if line.first().is_some_and(|&b| scan::is_symbol(b) && b != b'.') {
            let end = line.iter().position(|&b| !scan::is_symbol(b)).unwrap_or(line.len());
            let after = line[end..].trim_ascii_start();
            if matches!(after.first(), Some(b':' | b'=')) {
                kept.keep(&line[..end]);
            }
        } else if let Some(rest) = declaration(line.trim_ascii_start()) {
            let end = rest.iter().position(|&b| !scan::is_symbol(b)).unwrap_or(rest.len());
            kept.keep(&rest[..end]);
        }
    }
    kept
}

/// What follows a directive that makes a symbol the file's own.
fn declaration(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b".")?;
    let directives: [&[u8]; 7] = [b"set", b"equ", b"comm", b"lcomm", b"hidden", b"internal", b"symver"];
    let named = directives.into_iter().find_map(|name| rest.strip_prefix(name))?;
    named.first().is_some_and(u8::is_ascii_whitespace).then(|| named.trim_ascii_start())
}
