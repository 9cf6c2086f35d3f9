//! Any text, taken for assembler source, with the compiler's pass, without, and for logs, and for clang's
//! intermediate code: it is rewritten or left, and what is in it goes through, each line on its own.
#![no_main]

use std::sync::LazyLock;

use instrument::{Atomics, Exports, rewrite, rewrite_logged, rewrite_shipped};
use libfuzzer_sys::fuzz_target;

static RUNTIME: LazyLock<Exports> = LazyLock::new(|| {
    let names = ["__tsan_atomic8_store", "strandline_memcpy", "strandline_sprintf", "pmem_persist", "write"];
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
});

/// Whether a line has words that the rewriting looks for.
fn is_known(line: &[u8]) -> bool {
    !line.iter().all(|&byte| byte.is_ascii_digit() || matches!(byte, b' ' | b'\t' | b',' | b'$' | b'%'))
}

fuzz_target!(|source: &[u8]| {
    let mut atomics = Atomics::default();
    atomics.add_module(&String::from_utf8_lossy(source));
    assert_eq!(Atomics::of_text(&atomics.to_text()), atomics);
    _ = rewrite_logged(source, &RUNTIME);
    for text in [rewrite(source, &RUNTIME), rewrite_shipped(source, &RUNTIME, &atomics)] {
        hold(source, text);
    }
});

fn hold(source: &[u8], text: Option<Vec<u8>>) {
    let Some(text) = text else { return };
    let lines = |text: &[u8]| text.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (before, after) = (lines(source), lines(&text));
    assert!(after.len() >= before.len(), "lines keep their numbers");
    // Behind the end of the source stand descriptors.
    for (before, after) in before.iter().zip(&after).take(before.len().saturating_sub(1)) {
        if !is_known(before) {
            assert!(after.ends_with(before), "a line that means nothing is kept");
        }
    }
}
