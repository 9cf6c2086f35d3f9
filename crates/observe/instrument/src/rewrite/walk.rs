//! The walk through a source: one pass over its labels and statements, which asks each part in turn.

use std::collections::HashSet;
use std::ops::Range;

use super::atomics::{Atomics, Kind, Synchronizing};
use super::blocks::{Access, Blocks};
use super::control::{called, ends_function, is_final, target, transfers_control};
use super::copies::{Call, Copies};
use super::edits::Edits;
use super::exports::Exports;
use super::hand_written::Repeated;
use super::held::Held;
use super::helpers::helpers;
use super::instruction::Instruction;
use super::library::Library;
use super::no_line::NoLine;
use super::persist::Hook;
use super::rename::Kept;
use super::scan::{Item, Scanner};
use super::shipped::Frames;
use super::source::{is_hand_written, is_mark, own_symbols};
use super::syntax::Syntax;
use super::tail::Frame;
use super::taken::is_function;
use super::unhooked::Unhooked;
use super::volatile::Volatiles;
use super::{awaited, blocks, hand_written, persist, rename, tail, unhooked};

/// Rewrites x86-64 assembler source, as said at the module's head, for a runtime with these functions.
/// `None`: there is nothing to change.
#[must_use]
pub fn rewrite(source: &[u8], runtime: &Exports) -> Option<Vec<u8>> {
    Walk::new(source, runtime, None).lead()
}

/// The same for what a compiler wrote without its pass: all accesses get hooks where the instructions are.
/// `atomics` says which moves synchronise threads, if the source does not.
#[must_use]
pub fn rewrite_shipped(source: &[u8], runtime: &Exports, atomics: &Atomics) -> Option<Vec<u8>> {
    let shipped = Shipped { frames: Frames::new(source), synchronizing: Synchronizing::new(atomics) };
    Walk::new(source, runtime, Some(shipped)).lead()
}

/// What is followed in code without the pass.
struct Shipped<'a> {
    frames: Frames<'a>,
    synchronizing: Synchronizing<'a>,
}

/// The state of a walk through a file.
struct Walk<'a> {
    source: &'a [u8],
    runtime: &'a Exports,
    edits: Edits,
    blocks: Blocks,
    frame: Frame,
    /// Jumps that have become calls.
    tails: usize,
    held: Held<'a>,
    syntax: Syntax<'a>,
    kept: Kept,
    library: Library<'a>,
    no_line: NoLine<'a>,
    /// The function's labels up to here.
    labels: HashSet<&'a [u8]>,
    /// No compiler wrote the file.
    hand_written: bool,
    /// What follows was not written by a compiler.
    inline_assembly: bool,
    copies: Copies,
    unhooked: Unhooked<'a>,
    /// The pass was not there.
    shipped: Option<Shipped<'a>>,
    /// Labels behind which it is not known what was announced.
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
    fn new(source: &'a [u8], runtime: &'a Exports, shipped: Option<Shipped<'a>>) -> Self {
        let hand_written = is_hand_written(source);
        Walk {
            source,
            runtime,
            frame: Frame::default(),
            tails: 0,
            edits: Edits::default(),
            blocks: Blocks::default(),
            held: Held::new(source),
            syntax: Syntax::default(),
            kept: own_symbols(source),
            library: Library::new(if hand_written { HashSet::new() } else { helpers(source) }),
            no_line: NoLine::default(),
            labels: HashSet::new(),
            hand_written,
            inline_assembly: hand_written,
            copies: Copies::default(),
            unhooked: Unhooked::default(),
            shipped,
            awaited: awaited::awaited(source),
            volatiles: Volatiles::default(),
            macros: 0,
            subsection: false,
            pending: None,
        }
    }

    fn lead(mut self) -> Option<Vec<u8>> {
        for item in Scanner::new(self.source) {
            match item {
                Item::Label(name) => self.label(name),
                Item::Statement(place) => self.statement(place),
                Item::InlineAssembly(on) => {
                    self.inline_assembly = on || self.hand_written;
                    self.held.forget();
                }
            }
        }
        self.finish()
    }

    fn label(&mut self, place: Range<usize>) {
        let name = &self.source[place.clone()];
        self.no_line.label(name);
        let is_mark = is_mark(name, &self.source[place.end..]);
        if !is_mark {
            self.begin_library(place.start);
        }
        if is_mark {
            // clang marks a landing pad like any other place; no block goes on there.
            if self.held.is_entered(name) && self.blocks.is_empty() {
                self.held.forget();
            }
        } else {
            if self.held.is_missing_at(name) {
                blocks::read_position(place.start, &self.syntax, &mut self.edits);
            }
            if name.starts_with(b".L") {
                self.labels.insert(name);
            } else {
                self.labels.clear();
                self.library.function(name);
            }
            if !is_function(name) {
                if self.awaited.contains(name) {
                    self.unhooked.forget();
                }
            } else {
                self.unhooked.function();
                if let Some(shipped) = &mut self.shipped {
                    shipped.frames.function(place.start);
                }
            }
            self.blocks.end_block(&self.syntax, &mut self.edits);
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
        if self.shipped.is_some() {
            return self.shipped(instruction, place, pending, hook, compiled);
        }
        let stores = hook.as_ref().is_some_and(|hook| hook.mask.is_some() || hook.name == "nt");
        if let Some(hook) = hook {
            if hook.name == "nt" && self.blocks.replace_store(hook.bytes, &mut self.held, &mut self.edits) {
                self.unhooked.executed();
            } else if stores && compiled {
                self.postpone_store(place.end);
            }
            self.blocks.end_block(&self.syntax, &mut self.edits);
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
            && let Some(hook) = hand_written::hook(instruction, self.syntax.is_intel())
        {
            self.blocks.end_block(&self.syntax, &mut self.edits);
            self.put_before(place.start, &hook);
        }
        if transfers || !compiled {
            self.follow_call(instruction, compiled);
        } else if instruction.lock || prefixed {
            self.unhooked.forget();
        } else if !stores && let Some(hook) = self.unhooked.instruction(instruction, self.syntax.is_intel()) {
            self.postpone_store(place.end);
            self.blocks.end_block(&self.syntax, &mut self.edits);
            self.put_before(place.start, &hook);
        }
        self.leave(instruction, place, pending, compiled);
    }

    /// What every instruction comes to that stays.
    fn leave(
        &mut self,
        instruction: &Instruction<'a>,
        place: Range<usize>,
        pending: Option<Pending>,
        compiled: bool,
    ) {
        let operands = place.end - instruction.operands.len()..place.end;
        let transfers = transfers_control(instruction.name);
        let mut leaves = false;
        if !self.carries_out_copy(instruction, place.clone(), transfers) {
            rename::rename(self.source, operands, self.kept, &mut self.edits);
            leaves =
                transfers && compiled && pending.is_none() && self.calls_at_end(instruction, place.clone());
            if compiled && !leaves && ends_function(instruction) {
                self.end_library(place.start);
            }
        }
        self.blocks.instruction(instruction, &self.syntax);
        if transfers && self.macros == 0 {
            self.transfer(instruction, place.start, leaves);
        }
        if (transfers && !self.stays_in_block(instruction)) || self.inline_assembly {
            self.blocks.end_block(&self.syntax, &mut self.edits);
        }
    }

    /// An instruction where the pass was not there; `hook` is the one that it needs as a flush, a fence or
    /// the like.
    fn shipped(
        &mut self,
        instruction: &Instruction<'a>,
        place: Range<usize>,
        pending: Option<Pending>,
        hook: Option<Hook<'a>>,
        compiled: bool,
    ) {
        let intel = self.syntax.is_intel();
        let start = pending.map_or(place.start, |pending| pending.at);
        let mut hooks = [None, None];
        let mut ends = false;
        if let Some(hook) = hook {
            ends = hook.name == "rmw";
            hooks[0] = Some(Hook { name: if ends { "locked" } else { hook.name }, ..hook });
        } else if self.macros == 0 && self.inline_assembly {
            if !instruction.lock && pending.is_none() {
                hooks[0] = hand_written::hook(instruction, intel);
            }
        } else if compiled
            && let Some(shipped) = &mut self.shipped
            && let Some(hook) = shipped.frames.access(instruction, intel)
        {
            let store = hook.name != "load";
            let kind = shipped.synchronizing.kind_at(self.source, place.start, store);
            let kind = kind.filter(|_| matches!(hook.bytes, 1 | 2 | 4 | 8));
            ends = kind.is_some();
            hooks = synchronized(hook, kind);
        }
        if let Some(shipped) = &mut self.shipped {
            shipped.frames.instruction(instruction, intel);
        }
        for hook in hooks.into_iter().flatten() {
            self.put_before(start, &hook);
        }
        if ends {
            self.edits.insert(place.end, persist::done(intel));
        }
        self.leave(instruction, place, pending, compiled);
    }

    /// Announces what is to be known before a compiler's `instruction`, which stands at `at`.
    fn precede(&mut self, instruction: &Instruction<'a>, at: usize) {
        if instruction.name != b"endbr64" {
            self.begin_library(at);
        }
        // An argument that is put on the stack belongs to the function's line.
        if called(instruction).is_some() && !self.blocks.is_of_frame() {
            self.no_line.hook(at, &mut self.edits);
        }
    }

    /// Announces at `at` that a function of C++'s library begins, if one does.
    fn begin_library(&mut self, at: usize) {
        if let Some(code) = self.library.begin(&self.syntax) {
            self.edits.insert(at, code.as_bytes());
            self.held.forget();
        }
    }

    /// Announces at `at` that one ends, if one is being read.
    fn end_library(&mut self, at: usize) {
        if let Some(code) = self.library.end(&self.syntax) {
            self.edits.insert(at, code.as_bytes());
        }
    }

    /// Takes the call of a hook of the pass's, if it becomes something else than a call.
    fn takes_hook(&mut self, call: &Instruction<'a>, place: Range<usize>) -> bool {
        if let Some(access) = called(call).and_then(|target| self.access(target, place.end)) {
            self.volatiles.access(access.stored_bytes().is_some());
            self.blocks.access(place, access, &mut self.held, &self.syntax, &mut self.edits);
            match access.stored_bytes() {
                Some(bytes) => self.unhooked.store(bytes),
                None => self.unhooked.load(),
            }
            return true;
        }
        let replaced = self.is_one_store(call, place.end);
        if replaced {
            // That store gets a hook of its own: others may come between.
            self.edits.replace(place, format_args!(""));
            self.unhooked.call();
            self.copies.forget();
            self.volatiles.forget();
        }
        replaced
    }

    /// Whether this is a string instruction with `rep` that nobody announced: the runtime does it instead.
    fn carries_out_repeated(
        &mut self,
        instruction: &Instruction<'a>,
        place: Range<usize>,
        pending: Option<Pending>,
    ) -> bool {
        let repeats =
            pending.is_some_and(|pending| pending.repeats) || is_repeat(&self.source[place.clone()]);
        let Some(repeated) = Repeated::of(instruction).filter(|_| repeats) else { return false };
        if !self.inline_assembly && self.shipped.is_none() && !self.unhooked.repeated() {
            return false;
        }
        self.blocks.end_block(&self.syntax, &mut self.edits);
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
                    && unhooked::store_follows(&self.source[end..], bytes, self.syntax.is_intel())
            })
    }

    /// Another store than the one that was announced last comes before it, in an instruction that ends at
    /// `at`: the one that was announced gets its hook where it is executed, because a store's bytes are read
    /// when the next thing is announced.
    fn postpone_store(&mut self, at: usize) {
        if let Some(bytes) = self.unhooked.pending()
            && unhooked::store_follows(&self.source[at..], bytes, self.syntax.is_intel())
            && self.blocks.replace_store(bytes, &mut self.held, &mut self.edits)
        {
            self.unhooked.postpone();
        }
    }

    /// The access that the call of `target`, which ends at `end`, becomes in line.
    fn access(&self, target: &[u8], end: usize) -> Option<Access> {
        Access::of(target)
            .or_else(|| self.volatiles.in_line(target, &self.source[end..], self.syntax.is_intel()))
    }

    fn put_before(&mut self, at: usize, hook: &Hook<'_>) {
        self.no_line.hook(at, &mut self.edits);
        let mut text = Vec::new();
        persist::write(hook, self.syntax.is_intel(), &mut text);
        self.edits.insert(at, &text);
        self.held.forget();
    }

    /// What a call, a jump, or anything that no compiler wrote says of the stores behind it.
    fn follow_call(&mut self, instruction: &Instruction<'_>, compiled: bool) {
        if !compiled {
            return self.unhooked.forget();
        }
        if !instruction.name.starts_with(b"call") {
            if is_final(instruction.name) {
                self.unhooked.leave();
            }
            return;
        }
        match target(instruction) {
            Some(b"__tsan_write_range") => self.unhooked.store_range(self.copies.range_bytes()),
            Some(b"__tsan_read_range") => self.unhooked.load(),
            other => match other.and_then(Access::of_volatile).map(Access::stored_bytes) {
                Some(Some(bytes)) => self.unhooked.store(bytes),
                Some(None) => self.unhooked.load(),
                None => self.unhooked.call(),
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

    /// What the transfer of control at `at` means for the register that holds the position. `leaves`: it
    /// leaves the function.
    fn transfer(&mut self, instruction: &Instruction<'a>, at: usize, leaves: bool) {
        let first = instruction.name[0].to_ascii_lowercase();
        let jumps = first == b'j' || instruction.name.starts_with(b"loop") || instruction.name == b"xbegin";
        let leaves = leaves
            || instruction.name == b"jmp"
                && !self.syntax.is_intel()
                && target(instruction).is_some_and(|symbol| !symbol.starts_with(b".L"));
        if jumps && !leaves && self.held.missing() {
            blocks::read_position(at, &self.syntax, &mut self.edits);
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

    /// Whether this calls memcpy for an assignment that the compiler's pass has announced itself.
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
            Some(Call::Announced) => true,
            Some(Call::HalfAnnounced(hook)) => {
                // The function that the call is renamed to announces the load, too.
                self.edits.replace(hook, format_args!(""));
                false
            }
            Some(Call::Own) | None => false,
        }
    }

    /// Whether this is a jump that may fall through and, if it does not, goes forward.
    ///
    /// A block goes on behind such a jump; if it is taken, the rest of the block's words stay zero. A
    /// jump back ends the block, because it is the likely way.
    fn stays_in_block(&self, jump: &Instruction<'a>) -> bool {
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
                if let Some(shipped) = &mut self.shipped {
                    shipped.synchronizing.directive(directive);
                }
                self.no_line.directive(directive, place.end, &mut self.edits);
                if matches!(directive.name, b".intel_syntax" | b".att_syntax") {
                    self.blocks.end_block(&self.syntax, &mut self.edits);
                    self.syntax.follow(directive, text);
                }
            }
        }
    }

    fn end_section(&mut self, at: usize) {
        if self.macros == 0 {
            self.blocks.end_block(&self.syntax, &mut self.edits);
            self.blocks.end_section(at, &self.syntax, &mut self.edits);
        }
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        self.blocks.end_block(&self.syntax, &mut self.edits);
        let end = self.source.len();
        if !self.source.ends_with(b"\n") {
            self.edits.insert_if_any(end, b"\n");
        }
        self.blocks.end_section(end, &self.syntax, &mut self.edits);
        self.edits.insert_if_any(end, b"\n");
        self.edits.apply(self.source)
    }
}

/// The hooks of an access by which threads may synchronise.
fn synchronized(hook: Hook<'_>, kind: Option<Kind>) -> [Option<Hook<'_>>; 2] {
    let [load, store] = match kind {
        None => return [Some(hook), None],
        Some(Kind::Volatile) => ["watched_load", "watched_store"],
        Some(Kind::Atomic) => ["acquire", "release"],
    };
    match hook.name {
        "load" => [Some(Hook { name: load, ..hook }), None],
        "store" => [Some(Hook { name: store, ..hook }), None],
        _ => [Some(Hook { name: "load", ..hook }), Some(Hook { name: store, ..hook })],
    }
}

/// Whether a statement begins with `rep`.
fn is_repeat(statement: &[u8]) -> bool {
    let word = statement.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    word == b"rep"
}
