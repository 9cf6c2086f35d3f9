//! Small functions that store, flush, fence or sync for their callers: the program's own `pm_flush`,
//! `persist`, `set`.
//!
//! A large function is where its reader looks anyway, and its stores are not its callers' doing.

use std::collections::HashSet;

use super::scan;

/// Instructions that a helper has at most, with the pass's calls.
const FLUSHING_MAX: usize = 80;
/// The same of one that only stores, and calls nothing.
const STORING_MAX: usize = 40;

/// Instructions that flush, fence or are non-temporal stores.
const INSTRUCTIONS: [&[u8]; 9] = [
    b"clwb",
    b"clflush",
    b"clflushopt",
    b"xsaveopt",
    b"sfence",
    b"mfence",
    b"movnti",
    b"movntdq",
    b"vmovntdq",
];
/// Functions that do, or that make a file durable or change it.
const CALLED: [&[u8]; 14] = [
    b"msync",
    b"fsync",
    b"fdatasync",
    b"sync_file_range",
    b"write",
    b"pwrite",
    b"pwrite64",
    b"writev",
    b"pwritev",
    b"ftruncate",
    b"ftruncate64",
    b"rename",
    b"unlink",
    b"fwrite",
];

/// What is known of a function.
#[derive(Default)]
struct Seen<'a> {
    name: &'a [u8],
    instructions: usize,
    flushes: bool,
    stores: bool,
    calls: bool,
}

impl Seen<'_> {
    fn helps(&self) -> bool {
        let flushes = self.flushes && self.instructions <= FLUSHING_MAX;
        let stores = self.stores && !self.calls && self.instructions <= STORING_MAX;
        !matches!(self.name, b"" | b"main") && (flushes || stores)
    }

    fn instruction(&mut self, line: &[u8]) {
        self.instructions += 1;
        let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
        let (name, operands) = (&line[..end], line[end..].trim_ascii());
        self.flushes |= INSTRUCTIONS.contains(&name);
        if !name.starts_with(b"call") && name != b"jmp" || operands.starts_with(b".L") {
            return;
        }
        let symbol = operands.iter().position(|&byte| !scan::is_symbol(byte) || byte == b'@');
        let symbol = &operands[..symbol.unwrap_or(operands.len())];
        if let Some(hook) = symbol.strip_prefix(b"__tsan_") {
            self.stores |= hook.starts_with(b"write") || hook.starts_with(b"unaligned_write");
            self.stores |= hook.starts_with(b"volatile_write");
        } else {
            self.calls = true;
            self.flushes |= CALLED.contains(&symbol) || symbol.starts_with(b"pmem_");
        }
    }
}

/// The helpers that a compiler's source defines, if it has line numbers: without them a caller has no line.
pub fn helpers(source: &[u8]) -> HashSet<&[u8]> {
    let mut found = HashSet::new();
    let mut seen = Seen::default();
    let mut lines = false;
    for line in source.split(|&byte| byte == b'\n') {
        let text = line.trim_ascii();
        lines |= text.starts_with(b".loc");
        match (line.first(), text.first()) {
            (_, None | Some(b'.' | b'#')) => {}
            (Some(&first), _) if scan::is_symbol(first) => {
                let end = line.iter().position(|&byte| !scan::is_symbol(byte)).unwrap_or(line.len());
                if line.get(end) == Some(&b':') {
                    let name = &line[..end];
                    let before = std::mem::replace(&mut seen, Seen { name, ..Seen::default() });
                    found.extend(before.helps().then_some(before.name));
                }
            }
            _ => seen.instruction(text),
        }
    }
    found.extend(seen.helps().then_some(seen.name));
    if lines { found } else { HashSet::new() }
}

#[cfg(test)]
mod tests {
    use super::helpers;

    #[test]
    fn small_functions_that_flush_or_store_for_others_are_helpers() {
        let source = b"pm_flush:\n.LFB0:\n\t.loc 1 2 3\n\tclwb (%rdi)\n\tsfence\n\tret\n\
            set:\n\tcall __tsan_write8\n\tmovq %rsi, (%rdi)\n\tret\n\
            insert:\n\tcall __tsan_write8\n\tmovq %rsi, (%rdi)\n\tcall pm_flush\n\tret\n\
            save:\n\tjmp fsync@PLT\n\
            get:\n\tcall __tsan_read8\n\tmovq (%rdi), %rax\n\tret\n\
            main:\n\tsfence\n\tret\n";
        let found = helpers(source);
        let mut names: Vec<&[u8]> = found.into_iter().collect();
        names.sort_unstable();
        assert_eq!(names, [&b"pm_flush"[..], b"save", b"set"]);
    }
}
