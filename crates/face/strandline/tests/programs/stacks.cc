// Helpers that several callers share, and the ways in which calls end.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <stdexcept>

#define APART __attribute__((noinline, noclone, noipa))

enum { WORDS = 1 << 15 };
static long *table;
static jmp_buf out;

APART void *obtain(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) abort();
    return memory;
}
APART long sum(const long *from, long count) {
    long all = 0;
    for (long i = 0; i < count; i++) all += from[i];
    return all;
}

APART long *make_table() { return (long *)obtain(WORDS * sizeof(long)); }
APART char *make_name() { return (char *)obtain(24); }
APART long often() { return sum(table, 100) + 1; }
APART long seldom() { return sum(table, 1000) + 1; }

APART void deeper(int levels) {
    if (levels == 0) longjmp(out, 1);
    deeper(levels - 1);
    table[levels]++;
}
APART long behind_jump() { return sum(table, 10) + 1; }

APART void fails(int levels) {
    if (levels == 0) throw std::runtime_error("thrown");
    fails(levels - 1);
    table[levels]++;
}
APART long behind_catch() { return sum(table, 20) + 1; }

APART long recursive(int levels) { return levels == 0 ? sum(table, 30) : recursive(levels - 1) + 1; }
APART long hands_on() { return sum(table, 40); }
APART long behind_hands_on() { return hands_on() + 1; }

APART int compare(const void *a, const void *b) {
    long x = sum((const long *)a, 1), y = sum((const long *)b, 1);
    return (x > y) - (x < y);
}
APART void sorts() { qsort(table, 64, sizeof *table, compare); }

APART void *worker(void *) {
    table[0] += sum(table, 50);
    return nullptr;
}

int main() {
    table = make_table();
    for (long i = 0; i < WORDS; i++) table[i] = i;
    char *names[50];
    for (auto &name : names) name = make_name();
    for (int i = 0; i < 50; i++) table[1] += often();
    table[1] += seldom();
    if (setjmp(out) == 0) deeper(12);
    table[1] += behind_jump();
    try {
        fails(12);
    } catch (const std::exception &) {
        table[2]++;
    }
    table[1] += behind_catch();
    table[1] += recursive(200);
    table[1] += behind_hands_on();
    sorts();
    pthread_t thread;
    pthread_create(&thread, nullptr, worker, nullptr);
    pthread_join(thread, nullptr);
    for (auto name : names) free(name);
    printf("%ld\n", table[1]);
}
