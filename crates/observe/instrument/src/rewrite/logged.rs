//! The dialect for programs that survive by the persistency runtime ([`rewrite_logged`]): each store asks the
//! runtime, before it happens, to keep what it overwrites.
//!
//! Of the sanitizer pass's calls, those for stores stay, behind a check in line whether the address lies in
//! the window where persistent memory is mapped: elsewhere a store costs four instructions and no call. Calls
//! for loads go. Atomic operations stay calls, which the runtime carries out. Stores that the pass did not
//! see get a call that preserves registers; flushes and fences are nobody's business here. The functions of
//! the C library that write are called under the runtime's names.

use std::collections::HashSet;
use std::ops::Range;

use super::awaited;
use super::control::{called, is_final, target, transfers_control};
use super::copies::Copies;
use super::edits::{Edits, put};
use super::exports::Exports;
use super::hand_written::{self, Repeated};
use super::instruction::Instruction;
use super::persist::{self, Address, Hook};
use super::rename::{self, Kept};
use super::scan::{Item, Scanner};
use super::source::{is_hand_written, is_mark, own_symbols};
use super::syntax::Syntax;
use super::taken::is_function;
use super::unhooked::Unhooked;

/// Addresses whose upper bits, from [`WINDOW_SHIFT`] on, are this are in the window.
const WINDOW: u32 = 4;
const WINDOW_SHIFT: u32 = 42;

/// The source with the runtime asked before each store; `None` if there is nothing to change.
#[must_use]
pub fn rewrite_logged(source: &[u8], runtime: &Exports) -> Option<Vec<u8>> {
    let hand_written = is_hand_written(source);
    let logged = Logged {
        source,
        edits: Edits::default(),
        syntax: Syntax::default(),
        kept: own_symbols(source).and_missing(runtime),
        copies: Copies::default(),
        unhooked: Unhooked::default(),
        awaited: awaited::awaited(source),
        hand_written,
        inline_assembly: hand_written,
        macros: 0,
        prefix: None,
        ordinary: false,
        checks: 0,
    };
    logged.lead()
}

struct Logged<'a> {
    source: &'a [u8],
    edits: Edits,
    syntax: Syntax<'a>,
    /// Functions of the C library that the file has itself, or the runtime has not.
    kept: Kept,
    copies: Copies,
    unhooked: Unhooked<'a>,
    awaited: HashSet<&'a [u8]>,
    hand_written: bool,
    inline_assembly: bool,
    macros: u32,
    /// A prefix that is a statement of its own, and where it stands.
    prefix: Option<Prefix>,
    /// Whether `%rdi` has just got an address that is in no window: of the stack, or of a variable.
    ordinary: bool,
    checks: u32,
}

#[derive(Clone, Copy)]
struct Prefix {
    at: usize,
    lock: bool,
    repeats: bool,
}

/// What a call of the pass's is.
enum Call {
    /// Nothing that matters here.
    Dropped,
    /// A store of so many bytes, or of a range.
    Store(Option<u32>),
}

impl<'a> Logged<'a> {
    fn lead(mut self) -> Option<Vec<u8>> {
        for item in Scanner::new(self.source) {
            match item {
                Item::Label(place) => self.label(place),
                Item::Statement(place) => self.statement(place),
                Item::InlineAssembly(on) => self.inline_assembly = on || self.hand_written,
            }
        }
        if !self.source.ends_with(b"\n") {
            self.edits.insert_if_any(self.source.len(), b"\n");
        }
        self.edits.apply(self.source)
    }

    fn label(&mut self, place: Range<usize>) {
        let name = &self.source[place.clone()];
        if is_mark(name, &self.source[place.end..]) {
            return;
        }
        self.ordinary = false;
        if is_function(name) {
            self.unhooked.function();
        } else if self.awaited.contains(name) {
            self.unhooked.forget();
        }
        self.copies.forget();
    }

    fn statement(&mut self, place: Range<usize>) {
        let prefix = self.prefix.take();
        let text = &self.source[place.clone()];
        let mut instruction = Instruction::parse(text);
        if instruction.is_directive() {
            self.directive(&instruction, text, place);
        } else if instruction.name.is_empty() {
            let repeats = repeats(text);
            let prefix = Prefix { at: place.start, lock: instruction.lock, repeats };
            self.prefix = (instruction.lock || repeats).then_some(prefix);
        } else {
            instruction.lock |= prefix.is_some_and(|prefix| prefix.lock);
            self.instruction(&instruction, place, prefix);
        }
    }

    fn directive(&mut self, directive: &Instruction<'a>, text: &'a [u8], place: Range<usize>) {
        match directive.name {
            b".macro" | b".rept" | b".irp" | b".irpc" => self.macros += 1,
            b".endm" | b".endr" => self.macros = self.macros.saturating_sub(1),
            b".intel_syntax" | b".att_syntax" => _ = self.syntax.follow(directive, text),
            b".quad" | b".8byte" | b".long" | b".4byte" | b".int" | b".weak" | b".addrsig_sym" => {
                self.rename(directive, place);
            }
            b".section" if directive.operands.ends_with(LINKER_OPTIONS) => {
                // No linker of ELF files keeps this section: it is one to exclude.
                let kind = place.end - LINKER_OPTIONS.len()..place.end;
                self.edits.replace(kind, format_args!("@progbits"));
            }
            _ => {}
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'a>, place: Range<usize>, prefix: Option<Prefix>) {
        let intel = self.syntax.is_intel();
        let ordinary = std::mem::replace(&mut self.ordinary, is_ordinary(instruction, intel));
        let compiled = self.macros == 0 && !self.inline_assembly;
        if compiled && let Some(call) = called(instruction).and_then(of_the_pass) {
            return self.call(call, place, ordinary);
        }
        if self.macros > 0 {
            return self.rename(instruction, place);
        }
        let start = prefix.map_or(place.start, |prefix| prefix.at);
        let repeated = prefix.is_some_and(|prefix| prefix.repeats) || repeats(&self.source[place.clone()]);
        if let Some(repeated) = Repeated::of(instruction).filter(|_| repeated)
            && (self.inline_assembly || self.unhooked.repeated())
        {
            self.edits.replace(start..place.end, format_args!("{}", repeated.code(intel)));
            return;
        }
        let found = Hook::of(instruction, false, intel);
        let found = found.filter(|hook| matches!(hook.name, "nt" | "rmw") || hook.mask.is_some());
        let known = found.is_some();
        let found = match found {
            None if self.inline_assembly && !instruction.lock && prefix.is_none() => {
                hand_written::hook(instruction, intel)
            }
            None if compiled && !transfers_control(instruction.name) && !instruction.lock => {
                self.unhooked.instruction(instruction, intel)
            }
            found => found,
        };
        if let Some(hook) = found {
            let mut text = Vec::new();
            write(&hook, intel, &mut text);
            self.edits.insert(start, &text);
        }
        if known || instruction.lock {
            self.unhooked.forget();
        }
        if transfers_control(instruction.name) {
            self.transfer(instruction, place.clone(), compiled);
        } else {
            self.copies.instruction(instruction, intel);
        }
        self.rename(instruction, place);
    }

    /// A call of the pass's, which stands at `place`.
    fn call(&mut self, call: Call, place: Range<usize>, ordinary: bool) {
        let range = self.copies.range_bytes();
        let symbol = &self.source[place.clone()];
        match call {
            Call::Dropped => {
                self.unhooked.load();
                self.edits.replace(place, format_args!(""));
            }
            Call::Store(bytes) => {
                match bytes {
                    Some(bytes) => self.unhooked.store(bytes),
                    None => self.unhooked.store_range(range),
                }
                if ordinary {
                    return self.edits.replace(place, format_args!(""));
                }
                let call = String::from_utf8_lossy(symbol).into_owned();
                let (at, number) = (place.start, self.checks);
                self.checks += 1;
                let (begin, end) = (format!(".Lstrandline_outside{number}"), WINDOW_SHIFT);
                let check = if self.syntax.is_intel() {
                    format!("mov rax, rdi; shr rax, {end}; cmp eax, {WINDOW}; jne {begin}; {call}; {begin}:")
                } else {
                    format!(
                        "movq %rdi, %rax; shrq ${end}, %rax; cmpl ${WINDOW}, %eax; jne {begin}; {call}; {begin}:"
                    )
                };
                self.edits.replace(at..place.end, format_args!("{check}"));
            }
        }
    }

    /// What a transfer of control says of the stores behind it.
    fn transfer(&mut self, instruction: &Instruction<'a>, place: Range<usize>, compiled: bool) {
        if !compiled {
            return self.unhooked.forget();
        }
        if let Some(symbol) = target(instruction) {
            self.copies.call(symbol, place);
        }
        if instruction.name.starts_with(b"call") {
            self.unhooked.call();
        } else if is_final(instruction.name) {
            self.unhooked.leave();
        }
    }

    fn rename(&mut self, instruction: &Instruction<'a>, place: Range<usize>) {
        let operands = place.end - instruction.operands.len()..place.end;
        rename::rename(self.source, operands, self.kept, &mut self.edits);
    }
}

const LINKER_OPTIONS: &[u8] = b"@llvm_linker_options";

/// What a function of the pass's announces; `None` of those that do something.
fn of_the_pass(symbol: &[u8]) -> Option<Call> {
    let rest = symbol.strip_prefix(b"__tsan_")?;
    let rest =
        rest.strip_prefix(b"volatile_").or_else(|| rest.strip_prefix(b"unaligned_volatile_")).unwrap_or(rest);
    let rest = rest.strip_prefix(b"unaligned_").unwrap_or(rest);
    if rest.starts_with(b"read_write") {
        return Some(Call::Store(bytes(rest)));
    }
    match rest {
        b"func_entry" | b"func_exit" | b"vptr_read" => Some(Call::Dropped),
        b"vptr_update" => Some(Call::Store(Some(8))),
        b"write_range" => Some(Call::Store(None)),
        _ if rest.starts_with(b"read") => Some(Call::Dropped),
        _ if rest.starts_with(b"write") => Some(Call::Store(Some(bytes(rest)?))),
        _ => None,
    }
}

/// The number at a name's end.
fn bytes(name: &[u8]) -> Option<u32> {
    let digits = name.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |at| at + 1);
    std::str::from_utf8(&name[digits..]).ok()?.parse().ok()
}

/// Whether an instruction gives `%rdi` an address of the stack, or of a variable of the program.
fn is_ordinary(instruction: &Instruction<'_>, intel: bool) -> bool {
    if !instruction.name.starts_with(b"lea") {
        return false;
    }
    let mut operands = instruction.split();
    let (Some(first), Some(last)) = (operands.next(), operands.last()) else { return false };
    let (source, target) = if intel { (last, first) } else { (first, last) };
    let target = target.strip_prefix(b"%").unwrap_or(target);
    let named = |register: &[u8]| source.windows(register.len()).any(|word| word == register);
    target == b"rdi" && (named(b"rip") || named(b"rsp")) && !source.contains(&b',')
}

fn repeats(statement: &[u8]) -> bool {
    let word = statement.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    word == b"rep"
}

/// Writes the code for a store that nobody announced: a call with the address in `%rdi` and the bytes in
/// `%rsi`, which preserves everything, past the red zone of a function that may have one.
fn write(hook: &Hook<'_>, intel: bool, out: &mut Vec<u8>) {
    if hook.name == "system_call" {
        out.extend_from_slice(call("strandline_persist_system_call", intel).as_bytes());
        return;
    }
    /// Bytes between `%rsp` before the code and when the address is computed.
    const PUSHED: u32 = 128 + 16;
    let (open, close) = if intel {
        ("lea rsp, [rsp-128]; push rdi; push rsi; ", "pop rsi; pop rdi; lea rsp, [rsp+128]; ")
    } else {
        ("leaq -128(%rsp), %rsp; pushq %rdi; pushq %rsi; ", "popq %rsi; popq %rdi; leaq 128(%rsp), %rsp; ")
    };
    put(out, format_args!("{open}"));
    match hook.address {
        Some(Address::Operand(operand)) => persist::lea(operand, PUSHED, intel, out),
        Some(Address::Register(name)) => {
            let name = String::from_utf8_lossy(name);
            if intel {
                put(out, format_args!("mov rdi, {name}; "));
            } else {
                put(out, format_args!("movq {name}, %rdi; "));
            }
        }
        Some(Address::Absolute(_)) | None => return out.truncate(out.len() - open.len()),
    }
    let symbol = match hook.mask {
        Some(mask) => {
            mask.write(hook.bytes, intel, out);
            let packed = if hook.name == "packed" { "packed" } else { "masked" };
            format!("strandline_persist_{packed}{}x{}", hook.bytes, mask.elements)
        }
        None if intel => {
            put(out, format_args!("mov esi, {}; ", hook.bytes));
            "strandline_persist_store".to_owned()
        }
        None => {
            put(out, format_args!("movl ${}, %esi; ", hook.bytes));
            "strandline_persist_store".to_owned()
        }
    };
    if intel {
        put(out, format_args!("call [QWORD PTR {symbol}@GOTPCREL[rip]]; {close}"));
    } else {
        put(out, format_args!("call *{symbol}@GOTPCREL(%rip); {close}"));
    }
}

fn call(symbol: &str, intel: bool) -> String {
    if intel {
        format!("lea rsp, [rsp-128]; call [QWORD PTR {symbol}@GOTPCREL[rip]]; lea rsp, [rsp+128]; ")
    } else {
        format!("leaq -128(%rsp), %rsp; call *{symbol}@GOTPCREL(%rip); leaq 128(%rsp), %rsp; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(source: &str) -> String {
        let source = format!("\t.ident\t\"x\"\n{source}");
        let runtime = [b"strandline_memcpy".to_vec()].into_iter().collect();
        let text = rewrite_logged(source.as_bytes(), &runtime);
        String::from_utf8(text.unwrap_or(source.into_bytes())).unwrap()
    }

    #[test]
    fn a_store_is_checked_in_line_and_a_load_is_not_announced() {
        let text = logged("f:\n\tcall\t__tsan_read8@PLT\n\tcall\t__tsan_write8@PLT\n\tmovq\t%rax, (%rbx)\n");
        assert!(!text.contains("__tsan_read8"), "{text}");
        let check = "shrq $42, %rax; cmpl $4, %eax; jne .Lstrandline_outside0; call\t__tsan_write8@PLT;";
        assert!(text.contains(check), "{text}");
        assert!(!text.contains("strandline_persist_store"), "{text}");
    }

    #[test]
    fn a_variable_is_in_no_window() {
        for address in ["8(%rsp)", "table(%rip)", "(%rsp)"] {
            let text = logged(&format!(
                "f:\n\tleaq\t{address}, %rdi\n\tcall\t__tsan_write4\n\tmovl\t$1, {address}\n"
            ));
            assert!(!text.contains("__tsan_write4"), "{text}");
        }
        let text = logged("f:\n\tleaq\t(%rsp,%rbx), %rdi\n\tcall\t__tsan_write4\n\tmovl\t$1, (%rsp,%rbx)\n");
        assert!(text.contains("__tsan_write4"), "{text}");
    }

    #[test]
    fn what_the_pass_did_not_see_is_announced() {
        let text = logged("f:\n\tcall\tg\n\tmovq\t%rax, (%rbx)\n");
        assert!(
            text.contains("leaq (%rbx), %rdi; movl $8, %esi; call *strandline_persist_store@GOTPCREL"),
            "{text}"
        );
        let text = logged("f:\n\tmovntq\t%rax, 8(%rbx)\n");
        assert!(text.contains("leaq 8(%rbx), %rdi; movl $8, %esi"), "{text}");
        let text = logged("f:\n#APP\n\tmovl\t$1, (%rdi)\n\tsyscall\n#NO_APP\n");
        assert!(text.contains("movl $4, %esi") && text.contains("persist_system_call"), "{text}");
    }

    #[test]
    fn only_functions_that_the_runtime_has_are_renamed() {
        let text = logged("f:\n\tcall\tmemcpy@PLT\n\tcall\tstrlen@PLT\n");
        assert!(text.contains("strandline_memcpy@PLT") && text.contains("\tstrlen@PLT"), "{text}");
    }
}
