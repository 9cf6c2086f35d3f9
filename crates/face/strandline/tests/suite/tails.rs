//! Calls at the end of a function are reported at the line where they stand, though compilers make jumps of them.

use crate::common::{Scratch, compile, dump, has, record};

const CALLS: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void pmem_persist(const void *, size_t);
#define ALONE __attribute__((noinline, noclone))
char text[4096];
uint64_t number;
unsigned __int128 pair __attribute__((aligned(16)));
ALONE void ends_in_memcpy(char *to, const char *from) { memcpy(to, from, 400); }
ALONE void ends_in_memset(char *to, size_t len) { memset(to, 7, len); }
ALONE void ends_in_strcpy(char *to, const char *from) { strcpy(to, from); }
ALONE void ends_in_store(uint64_t n) { __atomic_store_n(&number, n, __ATOMIC_RELEASE); }
ALONE int ends_in_exchange(char *at) { return __atomic_test_and_set(at, 0); }
ALONE void ends_in_persist(char *at) { pmem_persist(at, 64); }
ALONE int ends_in_sprintf(char *to, const char *format, int a, int b, int c, int d, int e, int f) {
    return sprintf(to, format, a, b, c, d, e, f);
}
ALONE void *ends_in_malloc(size_t len) { return malloc(len); }
ALONE void may_end_in_memset(char *to, size_t len) { if (len) memset(to, 9, len); else to[1]++; }
/* Their own calls stay jumps: nothing else has room for so many. */
ALONE long odd(long n);
ALONE long even(long n) { return n == 0 ? number : odd(n - 1); }
ALONE long odd(long n) { return n == 0 ? 0 : even(n - 1); }
int main(int argc, char **argv) {
    ends_in_memcpy(text, text + 1000);
    ends_in_memset(text, argc + 100);
    ends_in_strcpy(text, argv[0]);
    ends_in_store(5);
    ends_in_exchange(text + 9);
    ends_in_persist(text);
    ends_in_sprintf(text, "%d %d %d %d %d %d", 1, 2, 3, 4, 5, 6);
    free(ends_in_malloc(argc + 100));
    may_end_in_memset(text + 200, argc);
    return strcmp(text, "1 2 3 4 5 6") || even(10000000) != 5 || text[200] != 9;
}
"#;

const EXCEPTIONS: &str = r#"
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#define ALONE __attribute__((noinline))
static int destroyed;
struct Guard { ~Guard() { destroyed++; } };
static char text[300];
ALONE void *ends_in_new(size_t len) { return operator new(len); }
static int throws(const void *, const void *) { throw std::runtime_error("compared"); }
ALONE void ends_in_qsort(int *numbers, size_t count) { qsort(numbers, count, sizeof(int), throws); }
/* A function with a table of the calls that exceptions may come from. */
ALONE void *both(size_t len, int *numbers) {
    {
        Guard guard;
        try { ends_in_qsort(numbers, 2); } catch (const std::runtime_error &) { destroyed++; }
    }
    if (len == 5) { memset(text, 7, sizeof text); return 0; }
    return operator new(len);
}
int main() {
    int numbers[2] = {2, 1}, caught = 0;
    try { ends_in_new((size_t)-1 / 4); } catch (const std::bad_alloc &) { caught++; }
    try { ends_in_qsort(numbers, 2); } catch (const std::runtime_error &) { caught++; }
    try { both((size_t)-1 / 4, numbers); } catch (const std::bad_alloc &) { caught++; }
    both(5, numbers);
    return caught != 3 || destroyed != 4 || text[299] != 7;
}
"#;

#[test]
fn the_last_call_of_a_function_has_the_functions_line() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            continue;
        }
        for level in [
            "-O1",
            "-O2",
            "-O3",
            "-Os",
            "-O2 -masm=intel",
            "-O2 -fno-asynchronous-unwind-tables",
            "-O2 -fno-plt",
        ] {
            let scratch = Scratch::new();
            scratch.file("t.c", CALLS);
            compile(scratch.dir(), "cc", &format!("--compiler={compiler} {level} -g -o t t.c"));
            record(&scratch, &[], &["./t"]);
            let lines = dump(&scratch.path("t.slt"));
            for (op, function) in [
                ("store", "ends_in_memcpy"),
                ("store", "ends_in_memset"),
                ("store", "ends_in_strcpy"),
                ("store", "ends_in_store"),
                ("locked-fence", "ends_in_exchange"),
                ("clwb", "ends_in_persist"),
                ("store", "ends_in_sprintf"),
                ("alloc", "ends_in_malloc"),
                ("store", "may_end_in_memset"),
            ] {
                let line = CALLS
                    .lines()
                    .position(|line| line.contains(&format!("{function}(")))
                    .expect("it is there");
                let line = line + 1 + usize::from(function == "ends_in_sprintf");
                let place = format!("{function} (t.c:{line})");
                assert!(
                    lines.iter().any(|l| l.contains(&format!(" {op} ")) && l.contains(&place)),
                    "{compiler} {level}: no {op} in {place}:\n{}",
                    lines.join("\n")
                );
            }
        }
    }
}

#[test]
fn exceptions_pass_through_the_last_call_of_a_function() {
    for compiler in ["g++", "clang++"] {
        if !has(compiler) {
            continue;
        }
        for level in ["-O0", "-O2", "-O2 -fno-asynchronous-unwind-tables", "-Os -fno-omit-frame-pointer"] {
            let scratch = Scratch::new();
            scratch.file("e.cc", EXCEPTIONS);
            compile(scratch.dir(), "c++", &format!("--compiler={compiler} {level} -g -o e e.cc"));
            record(&scratch, &[], &["./e"]);
        }
    }
}
