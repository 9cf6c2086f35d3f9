//! Calls at the end of a function, for which compilers write a jump.
//!
//! What the runtime does is recorded for the place that called, which it knows by the return address; behind
//! a jump that is the caller's caller. So a jump to one of the runtime's functions becomes a call with a
//! return behind it. Jumps to all other functions stay as they are: a program may go as deep as it likes by
//! them.

use super::instruction::Instruction;

/// What is known of the function that a piece of code belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// There is unwind information: `.cfi_startproc` was seen.
    pub described: bool,
    /// It has a table of the calls that exceptions may come from. One that is missing there ends the program.
    pub catches: bool,
}

impl Frame {
    /// Follows a directive.
    pub fn directive(&mut self, name: &[u8]) {
        match name {
            b".cfi_startproc" => *self = Frame { described: true, catches: false },
            b".cfi_endproc" => *self = Frame::default(),
            b".cfi_lsda" => self.catches = true,
            _ => {}
        }
    }
}

/// Words of the caller's frame that a function gets again whose arguments may not all be in registers. A
/// function can hand on by a jump no more than it got itself.
const WORDS: u32 = 16;

/// What stands before and behind `call` where a jump to the runtime's function `name` becomes one; `None` if
/// that can't be done. `number` is one that no other in the file has, `end` what the function does before it
/// returns.
pub fn call(
    jump: &Instruction<'_>,
    name: &[u8],
    frame: Frame,
    intel: bool,
    number: usize,
    end: &str,
) -> Option<[String; 2]> {
    if returns_twice(name) || frame.catches && !is_silent(name) {
        return None;
    }
    let around = match (jump.name, inverse(jump.name)) {
        (b"jmp" | b"jmpq", _) => None,
        (_, Some(inverse)) => Some(inverse),
        (_, None) => return None,
    };
    let (mut before, mut after) = (String::new(), String::new());
    if let Some(inverse) = &around {
        before += &format!("{inverse} .Lslt{number}; ");
    }
    let words = if has_words(name) { WORDS } else { 0 };
    let bytes = 8 * (words + 1);
    let (make_room, push, leave) = if intel {
        ("sub rsp, 8; ", format!("push QWORD PTR [rsp+{bytes}]; "), format!("add rsp, {bytes}"))
    } else {
        ("subq $8, %rsp; ", format!("pushq {bytes}(%rsp); "), format!("addq ${bytes}, %rsp"))
    };
    before += make_room;
    before += &push.repeat(words as usize);
    after += &format!("; {leave}; ");
    if frame.described {
        // Nothing of the frame is left, whatever the compiler says of it here.
        before += &format!(".cfi_remember_state; .cfi_def_cfa 7, {}; ", bytes + 8);
        for saved in [3, 6, 12, 13, 14, 15] {
            before += &format!(".cfi_restore {saved}; ");
        }
        after += &format!(".cfi_def_cfa_offset 8; {end}ret; .cfi_restore_state");
    } else {
        after += &format!("{end}ret");
    }
    if around.is_some() {
        after += &format!("; .Lslt{number}:");
    }
    Some([before, after])
}

/// The jump that is taken where this one is not.
fn inverse(jump: &[u8]) -> Option<String> {
    let condition = std::str::from_utf8(jump).ok()?.strip_prefix('j')?;
    match condition {
        "cxz" | "ecxz" | "rcxz" | "mp" | "mpq" | "" => None,
        "pe" => Some("jpo".into()),
        "po" => Some("jpe".into()),
        _ => Some(match condition.strip_prefix('n') {
            Some(rest) => format!("j{rest}"),
            None => format!("jn{condition}"),
        }),
    }
}

/// Functions that a frame of their caller's must not be put away behind.
fn returns_twice(name: &[u8]) -> bool {
    name == b"vfork" || contains(name, b"setjmp") || contains(name, b"context")
}

/// Functions whose arguments may be on the stack: more than six, or any number.
fn has_words(name: &[u8]) -> bool {
    name.starts_with(b"GOMP_")
        || name.starts_with(b"execl")
        || contains(name, b"printf")
        || name == b"syscall"
        || name == b"__tsan_atomic128_compare_exchange_val"
}

/// Whether no exception comes out of a function, nor the end of a thread that is cancelled.
fn is_silent(name: &[u8]) -> bool {
    let own = name.starts_with(b"strandline_") && !name.starts_with(b"strandline__Zn");
    let prefixes: [&[u8]; 6] =
        [b"__tsan_", b"pmem", b"sl_", b"pthread_mutex_", b"pthread_rwlock_", b"pthread_spin_"];
    own || prefixes.into_iter().any(|prefix| name.starts_with(prefix))
        || matches!(name, b"malloc" | b"calloc" | b"realloc" | b"free" | b"munmap" | b"mmap" | b"sem_post")
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|word| word == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(source: &str) -> String {
        let names = [
            "__tsan_atomic8_store",
            "pmem_persist",
            "write",
            "fprintf",
            "vfork",
            "strandline_memcpy",
            "strandline_memset",
        ];
        let exports = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let source = format!("\t.ident \"a compiler\"\n{source}\n");
        let text = super::super::rewrite(source.as_bytes(), &exports)
            .map_or_else(|| source.clone(), |text| String::from_utf8(text).unwrap());
        text.lines().skip(1).collect::<Vec<_>>().join("\n").trim().to_string()
    }

    #[test]
    fn a_jump_to_the_runtime_becomes_a_call() {
        for (jump, call) in [
            (
                "jmp __tsan_atomic8_store@PLT",
                "subq $8, %rsp; call __tsan_atomic8_store@PLT; addq $8, %rsp; ret",
            ),
            (
                "jmp\t*pmem_persist@GOTPCREL(%rip)",
                "subq $8, %rsp; call\t*pmem_persist@GOTPCREL(%rip); addq $8, %rsp; ret",
            ),
            ("jmp memcpy@PLT", "subq $8, %rsp; call strandline_memcpy@PLT; addq $8, %rsp; ret"),
            (
                "jne write@PLT # TAILCALL",
                "je .Lslt0; subq $8, %rsp; call write@PLT; addq $8, %rsp; ret; .Lslt0: # TAILCALL",
            ),
            (
                ".intel_syntax noprefix\njna write@PLT",
                ".intel_syntax noprefix\nja .Lslt0; sub rsp, 8; call write@PLT; add rsp, 8; ret; .Lslt0:",
            ),
            ("jmp mine@PLT", "jmp mine@PLT"),
            ("jmp *%rax", "jmp *%rax"),
            ("jmp .L3", "jmp .L3"),
            ("jmp vfork@PLT", "jmp vfork@PLT"),
            ("#APP\njmp write@PLT\n#NO_APP", "#APP\njmp write@PLT\n#NO_APP"),
            ("memcpy: jmp memcpy", "memcpy: jmp memcpy"),
        ] {
            assert_eq!(rewritten(jump), call, "{jump}");
        }
    }

    #[test]
    fn words_on_the_stack_are_handed_on() {
        let found = rewritten("jmp fprintf@PLT");
        assert_eq!(found.matches("pushq 136(%rsp); ").count(), 16, "{found}");
        assert!(found.ends_with("call fprintf@PLT; addq $136, %rsp; ret"), "{found}");
    }

    #[test]
    fn unwinding_is_reported_of_the_frame() {
        let found = rewritten("f: .cfi_startproc\n jmp write@PLT\n .cfi_endproc");
        assert!(
            found.contains(".cfi_remember_state; .cfi_def_cfa 7, 16; .cfi_restore 3; ")
                && found.contains("; addq $8, %rsp; .cfi_def_cfa_offset 8; ret; .cfi_restore_state"),
            "{found}"
        );
        assert!(!rewritten("f: .cfi_startproc\n .cfi_endproc\n jmp write@PLT").contains("remember"));
    }

    #[test]
    fn what_may_throw_stays_a_jump_where_a_table_of_calls_would_miss_it() {
        let catches = "f: .cfi_startproc\n .cfi_lsda 27, .L1\n";
        assert!(rewritten(&format!("{catches}jmp write@PLT")).ends_with("jmp write@PLT"));
        assert!(rewritten(&format!("{catches}jmp memcpy@PLT")).contains("call strandline_memcpy"));
    }

    #[test]
    fn conditions_have_their_inverse() {
        for (jump, other) in
            [("je", "jne"), ("jnae", "jae"), ("ja", "jna"), ("jno", "jo"), ("jpe", "jpo"), ("jns", "js")]
        {
            assert_eq!(inverse(jump.as_bytes()).as_deref(), Some(other));
        }
        assert_eq!(inverse(b"jrcxz"), None);
    }
}
