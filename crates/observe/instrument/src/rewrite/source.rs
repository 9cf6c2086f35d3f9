//! What a file says of itself: who wrote it, which functions it defines, which labels no jump goes to.

use super::rename::Kept;
use super::scan;

/// Labels that only debug and unwind information refers to, by the names that gcc and clang give them.
/// No jump goes to one, so they don't end a block.
pub fn is_mark(name: &[u8], after: &[u8]) -> bool {
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

/// Whether a person wrote the file: compilers leave their name, or else the pass's calls, or labels at the
/// first function.
pub fn is_hand_written(source: &[u8]) -> bool {
    let mut lines = source.split(|&b| b == b'\n');
    !lines.any(|line| {
        let has = |text: &[u8]| line.windows(text.len()).any(|part| part == text);
        let first = line.starts_with(b".LFB0:") || line.starts_with(b".Lfunc_begin0:");
        first || line.trim_ascii_start().starts_with(b".ident") || has(b"__tsan_")
    })
}

/// The functions that the file has itself, or refuses to take from elsewhere.
pub fn own_symbols(source: &[u8]) -> Kept {
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
pub fn declaration(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b".")?;
    let directives: [&[u8]; 7] = [b"set", b"equ", b"comm", b"lcomm", b"hidden", b"internal", b"symver"];
    let named = directives.into_iter().find_map(|name| rest.strip_prefix(name))?;
    named.first().is_some_and(u8::is_ascii_whitespace).then(|| named.trim_ascii_start())
}
