//! Flushes, fences and non-temporal stores are seen however they are written.

use crate::common::{Scratch, compile, dump, has, number, record};

/// How many lines of a dump are `op`.
fn count(lines: &[String], op: &str) -> usize {
    lines.iter().filter(|line| line.split_whitespace().nth(1) == Some(op)).count()
}

const FORMS: &str = r#"
#include <immintrin.h>
#include <stdint.h>
static char buf[1 << 16] __attribute__((aligned(64)));
#define LINE(i) (buf + 64 * (i))
__attribute__((noinline)) static void leaf(char *p) {
    /* A leaf with locals in the red zone around an inline-assembly flush. */
    volatile long keep[4] = {1, 2, 3, 4};
    __asm__ volatile("clflush %0" : "+m"(*(volatile char *)p));
    if (keep[0] + keep[1] + keep[2] + keep[3] != 10) __builtin_trap();
}
int main(void) {
    for (int i = 0; i < 3; i++) _mm_clwb(LINE(i));
    for (int i = 0; i < 4; i++) _mm_clflushopt(LINE(i));
    for (int i = 0; i < 5; i++) _mm_clflush(LINE(i));
    _mm_sfence();
    _mm_mfence();
    /* The encodings that PMDK and most published indexes use. */
    __asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)LINE(9)));
    __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)LINE(10)));
    __asm__ volatile("clwb (%0)" : : "r"(LINE(11)) : "memory");
    __asm__ volatile("sfence" ::: "memory");
    for (int i = 0; i < 7; i++) leaf(LINE(i));
    for (int i = 0; i < 6; i++) _mm_stream_si64((long long *)LINE(20 + i), i);
    for (int i = 0; i < 2; i++) _mm_stream_si32((int *)LINE(30 + i), i);
    _mm_stream_si128((__m128i *)LINE(40), _mm_setzero_si128());
    _mm_stream_pd((double *)LINE(41), _mm_setzero_pd());
    _mm_sfence();
    return 0;
}
"#;

#[test]
fn every_form_is_seen_with_every_compiler_and_level() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            continue;
        }
        for level in ["-O0", "-O2", "-O3", "-O2 -masm=intel"] {
            let scratch = Scratch::new();
            // Inline assembly is written in AT&T syntax here, so the Intel run leaves it out.
            let text = if level.contains("intel") { strip_asm(FORMS) } else { FORMS.to_owned() };
            scratch.file("f.c", &text);
            compile(
                scratch.dir(),
                "cc",
                &format!("--compiler={compiler} {level} -mclwb -mclflushopt -o f f.c"),
            );
            let info = record(&scratch, &[], &["./f"]);
            let lines = dump(&scratch.path("t.slt"));
            let inline = !level.contains("intel");
            let context = format!("{compiler} {level}: {info:#}");
            assert_eq!(count(&lines, "clwb"), if inline { 5 } else { 3 }, "{context}");
            assert_eq!(count(&lines, "clflushopt"), if inline { 5 } else { 4 }, "{context}");
            assert_eq!(count(&lines, "clflush"), if inline { 12 } else { 5 }, "{context}");
            assert_eq!(count(&lines, "sfence"), if inline { 3 } else { 2 }, "{context}");
            assert_eq!(count(&lines, "mfence"), 1, "{context}");
            assert_eq!(number(&info, "nt_stores"), 10, "{context}");
            assert_eq!(number(&info, "nt_bytes"), 6 * 8 + 2 * 4 + 2 * 16, "{context}");
            assert!(
                lines.iter().filter(|l| l.contains(" clwb ")).all(|l| l.contains("main (f.c:")),
                "{context}"
            );
        }
    }
}

fn strip_asm(text: &str) -> String {
    text.lines().filter(|line| !line.contains("__asm__")).collect::<Vec<_>>().join("\n")
}

#[test]
fn assembly_files_are_seen_too() {
    let scratch = Scratch::new();
    scratch.file(
        "persist.S",
        ".text\n.globl persist\n.type persist, @function\npersist:\n  clwb (%rdi)\n  movnti %rsi, 8(%rdi)\n  \
         sfence\n  ret\n.size persist, .-persist\n.section .note.GNU-stack,\"\",@progbits\n",
    );
    scratch.file(
        "main.c",
        "void persist(void *, long);\nstatic long a[64] __attribute__((aligned(64)));\n\
         int main(void) { for (int i = 0; i < 8; i++) persist(a + 8 * i, i);\n  return a[9] == 1 ? 0 : 1; }\n",
    );
    compile(scratch.dir(), "cc", "-c persist.S");
    compile(scratch.dir(), "cc", "-O2 -c main.c");
    compile(scratch.dir(), "cc", "-o app main.o persist.o");
    let info = record(&scratch, &[], &["./app"]);
    assert_eq!(
        (number(&info, "flushes"), number(&info, "nt_bytes"), number(&info, "fences")),
        (8, 64, 8),
        "{info:#}"
    );
}

#[test]
fn libpmem_is_seen() {
    if !std::path::Path::new("/usr/include/libpmem.h").exists() {
        println!("skipped: no libpmem.h (apt-get install libpmem-dev)");
        return;
    }
    let scratch = Scratch::new();
    scratch.file(
        "p.c",
        r#"
#include <libpmem.h>
#include <string.h>
int main(int argc, char **argv) {
    size_t len;
    int is_pmem;
    char *p = pmem_map_file(argv[1], 1 << 20, PMEM_FILE_CREATE, 0600, &len, &is_pmem);
    if (!p) return 1;
    for (int i = 0; i < 10; i++) {
        p[64 * i] = 1;
        pmem_persist(p + 64 * i, 64);
    }
    pmem_flush(p + 4096, 256);
    pmem_drain();
    pmem_memcpy_persist(p + 8192, p, 4096);
    pmem_unmap(p, len);
    return 0;
}
"#,
    );
    compile(scratch.dir(), "cc", "-O2 -o p p.c -lpmem");
    let pool = format!("/dev/shm/strandline-test-{}", std::process::id());
    let info = record(&scratch, &[], &["./p", &pool]);
    std::fs::remove_file(&pool).expect("the pool was made");
    let lines = dump(&scratch.path("t.slt"));
    // The copy of 4096 bytes is non-temporal: its lines are stored, not flushed.
    assert_eq!(number(&info, "flushes"), 10 + 4, "{info:#}");
    assert_eq!(number(&info, "nt_bytes"), 4096, "{info:#}");
    assert!(number(&info, "fences") >= 12, "{info:#}");
    assert!(lines.iter().any(|l| l.contains(" map ") && l.contains(&pool)), "no map event of {pool}");
}

/// Compilers that a test tries where they are installed.
const COMPILERS: [&str; 13] = [
    "gcc", "gcc-11", "gcc-12", "gcc-13", "gcc-14", "clang", "clang-14", "clang-15", "clang-16", "clang-17",
    "clang-18", "clang-19", "clang-20",
];

const FENCES: &str = r#"
#include <stdatomic.h>
static int data, flag;
void publish(int value)
{
    data = value;
    atomic_thread_fence(memory_order_release);
    flag = 1;
    atomic_thread_fence(memory_order_seq_cst);
}
int main(void)
{
    publish(1);
    return flag - data;
}
"#;

#[test]
fn fences_of_the_language_are_recorded_and_no_cause_for_warnings() {
    for compiler in COMPILERS.into_iter().filter(|compiler| has(compiler)) {
        for level in ["-O0", "-O2"] {
            let scratch = Scratch::new();
            scratch.file("f.c", FENCES);
            let options = format!("--compiler={compiler} {level} -Wall -Wextra -Werror -o f f.c");
            compile(scratch.dir(), "cc", &options);
            record(&scratch, &[], &["./f"]);
            let lines = dump(&scratch.path("t.slt"));
            // On x86-64 a release fence is no instruction.
            assert_eq!(count(&lines, "mfence"), 1, "{compiler} {level}: {lines:?}");
        }
    }
}

#[test]
fn larger_frames_are_no_cause_for_warnings() {
    const FRAMES: &str = "long sum(const long *v, int n)\n{\n    long t[16], s = 0;\n    for (int i = 0; i < 16; i++)\n        t[i] = v[i] * n;\n    for (int i = 0; i < 16; i++)\n        s += t[(i * n) & 15];\n    return s;\n}\n";
    for compiler in COMPILERS.into_iter().filter(|compiler| has(compiler)) {
        let scratch = Scratch::new();
        scratch.file("f.c", FRAMES);
        let options = format!("--compiler={compiler} -O2 -Wall -Wextra -Werror -Wframe-larger-than=1 -c f.c");
        compile(scratch.dir(), "cc", &options);
    }
}
