/* A stand-in for the runtime, and the hand count: what program.c must record. Built without instrumentation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>

struct tls { uint64_t cursor, limit; };
__thread struct tls strandline_tls;

static uint64_t buffer[4096];
static uint64_t end_of_buffer; /* 0: ask at every access that may */
static struct event { char kind; int size; uint64_t address; } events[1000];
static int count;

static void put(char kind, int size, uint64_t address) { events[count++] = (struct event){kind, size, address}; }

static void drain(void)
{
    for (uint64_t *at = buffer; at < (uint64_t *)strandline_tls.cursor;) {
        const unsigned char *run = (const unsigned char *)(*at << 2);
        if (*at++ >> 62 != 2 || memcmp(run, "SLR1", 4))
            puts("no descriptor"), exit(1);
        for (int i = 0; i < run[4]; i++, at++)
            if (*at >> 63)
                put(run[12 + 8 * i] & 16 ? 'W' : '?', 1 << (run[12 + 8 * i] & 15), ~*at);
            else if (*at)
                put(run[12 + 8 * i] & 16 ? '?' : 'R', 1 << (run[12 + 8 * i] & 15), *at);
    }
    memset(buffer, 0, sizeof buffer);
    strandline_tls.cursor = (uint64_t)buffer;
    strandline_tls.limit = end_of_buffer;
}

/* What small functions announce is not looked at. */
__asm__(".globl strandline_begin, strandline_end\nstrandline_begin: strandline_end: ret");

uint64_t refill(void) { drain(); return strandline_tls.cursor; }
__asm__(".globl strandline_refill\nstrandline_refill: pushq %rdi; call refill; popq %rdi\n"
        "movq strandline_tls@gottpoff(%rip), %rcx; ret");

void hook(char kind, uint64_t address) { drain(); put(kind, 0, address); }
#define HOOK(name, kind)                                                                              \
    __asm__(".globl strandline_hook_" name "\nstrandline_hook_" name ": pushfq; pushq %rax; pushq %rcx; pushq %rdx\n" \
            "pushq %rsi; pushq %rdi; pushq %r8; pushq %r9; pushq %r10; pushq %r11; pushq %rbp; movq %rsp, %rbp\n" \
            "movq %rdi, %rsi; movl $'" kind "', %edi; andq $-16, %rsp; call hook; movq %rbp, %rsp; popq %rbp\n" \
            "popq %r11; popq %r10; popq %r9; popq %r8; popq %rdi; popq %rsi; popq %rdx; popq %rcx; popq %rax; popfq; ret")
HOOK("clwb", "c");
HOOK("sfence", "s");
HOOK("rmw4", "r");
HOOK("nt8", "n");
void __tsan_init(void) {}

struct pair { int first; long second; };
long mixed(int *, struct pair *, char *, int);
void loop(short *, int);
double floats(double *, float *);
void marks(void *);

static int next, wrong;
static void expect(char kind, int size, const void *address)
{
    struct event *e = &events[next++];
    if (next <= count && e->kind == kind && e->size == size && (!address || e->address == (uint64_t)address))
        return;
    printf("event %d: %c%d expected, %c%d found\n", next, kind, size, e->kind, e->size);
    wrong = 1;
}

int main(int argc, char **argv)
{
    (void)argv;
    int a[2] = {0};
    struct pair p = {0};
    char c = 1;
    short s[3] = {0};
    double d[2] = {1, 2};
    float f;
    long line[8] __attribute__((aligned(64))) = {0};
    end_of_buffer = argc > 1 ? 0 : (uint64_t)(buffer + 4000);
    for (int take = 0; take < 2; take++)
        mixed(a, &p, &c, take);
    loop(s, 3);
    floats(d, &f);
    marks(line);
    drain();
    for (int take = 0; take < 2; take++) {
        expect('R', 4, &a[0]), expect('W', 4, &a[1]);
        if (take) {
            int byte_first = events[next].size == 1;
            expect('R', byte_first ? 1 : 8, byte_first ? (void *)&c : &p.second);
            expect('R', byte_first ? 8 : 1, byte_first ? (void *)&p.second : &c);
            expect('W', 8, &p.second);
        }
        expect('W', 1, &c), expect('R', 4, &p.first);
    }
    for (int i = 0; i < 3; i++)
        expect('R', 2, &s[i]), expect('W', 2, &s[i]);
    expect('W', 4, &f), expect('R', 8, &d[0]), expect('R', 8, &d[1]);
    expect('c', 0, line), expect('s', 0, 0), expect('r', 0, line), expect('n', 0, &line[1]);
    if (next != count)
        printf("%d events expected, %d found\n", next, count), wrong = 1;
    if (line[0] != 1 || line[1] != 5 || p.second != 7)
        puts("the program computes something else"), wrong = 1;
    return wrong;
}
