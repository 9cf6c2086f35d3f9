//! Programs that bring their own heap: in themselves, or in a library that they are linked against.

use std::process::Command;

use crate::common::{Scratch, compile, number, ok, record, stderr, strandline};

/// A heap that knows what it gave.
const HEAP: &str = r"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char heap[1 << 20] __attribute__((aligned(64)));
static size_t used;
static void check(void *p) {
    if ((char *)p < heap || (char *)p >= heap + sizeof heap) abort();
}
void *malloc(size_t n) {
    size_t at = __atomic_fetch_add(&used, ((n + 15) & ~15ul) + 16, __ATOMIC_RELAXED);
    *(size_t *)(heap + at) = n;
    return heap + at + 16;
}
void free(void *p) { if (p) check(p); }
size_t malloc_usable_size(void *p) { check(p); return ((size_t *)p)[-2]; }
void *calloc(size_t a, size_t b) { return malloc(a * b); }
void *realloc(void *p, size_t n) {
    char *to = malloc(n), *from = p;
    size_t old = p ? malloc_usable_size(p) : 0;
    for (size_t i = 0; i < old && i < n; i++) to[i] = from[i];
    return to;
}
int posix_memalign(void **p, size_t a, size_t n) {
    *p = (void *)(((size_t)malloc(n + a) + a) & ~(a - 1));
    return 0;
}
";

const PROGRAM: &str = r"
#include <malloc.h>
#include <stdlib.h>
int main(void) {
    volatile long *a = malloc(1000 * sizeof *a);
    for (int i = 0; i < 1000; i++) a[i] = i;
    if (malloc_usable_size((void *)a) != 8000) return 1;
    a = realloc((void *)a, 16000);
    if (malloc_usable_size((void *)a) != 16000 || a[999] != 999) return 2;
    free((void *)a);
    void *aligned;
    if (posix_memalign(&aligned, 64, 100) || (size_t)aligned % 64) return 3;
    free(aligned);
    return 0;
}
";

#[test]
fn an_allocator_in_a_library_stays_the_programs() {
    let scratch = Scratch::new();
    scratch.file("heap.c", HEAP);
    scratch.file("p.c", PROGRAM);
    ok(Command::new("gcc").current_dir(scratch.dir()).args([
        "-O2",
        "-fno-builtin",
        "-fPIC",
        "-shared",
        "-o",
        "libheap.so",
        "heap.c",
    ]));
    compile(scratch.dir(), "cc", "-O2 -o p p.c -L. -lheap -Wl,-rpath,$ORIGIN");
    ok(Command::new(scratch.path("p")).current_dir(scratch.dir()));
    let info = record(&scratch, &[], &["./p"]);
    // The C library may allocate too.
    assert!((3..10).contains(&number(&info, "allocs")), "{info:#}");
    assert!((1000..1010).contains(&number(&info, "stores")), "{info:#}");
}

/// The runtime itself calls such a `malloc` and `memcpy` before the program begins.
#[test]
fn an_allocator_in_the_program_is_observed_as_its_code() {
    let scratch = Scratch::new();
    let copy = "void *memcpy(void *to, const void *from, size_t n) {\n    volatile char *t = to;\n    \
                const char *f = from;\n    for (size_t i = 0; i < n; i++) t[i] = f[i];\n    return to;\n}\n";
    scratch.file("p.c", &format!("{HEAP}{copy}{PROGRAM}"));
    compile(scratch.dir(), "cc", "-O2 -fno-builtin -o p p.c");
    let output = ok(strandline().current_dir(scratch.dir()).args(["record", "-o", "t.slt", "--", "./p"]));
    assert!(!stderr(&output).contains("missing"), "{}", stderr(&output));
    let recorded = crate::common::info(&scratch.path("t.slt"));
    let output =
        ok(strandline().current_dir(scratch.dir()).args(["record", "--count", "--json", "--", "./p"]));
    let counted: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for key in ["loads", "stores"] {
        assert_eq!(number(&counted, key), number(&recorded, key), "{key}");
    }
}
