/* Each store into the arena stores the line that it stands in, shifted, and something that only the run knows: what is reported of it can be held against that.
 *
 * ./lines prints the arena's address and length. ENDS: with branches whose ends clang makes one from -O2 on. */
#include <stdint.h>
#include <stdio.h>

typedef uint64_t u64;

#define LINE ((u64)__LINE__ << 32)
#define WITH(x) (LINE | (uint32_t)(x))

struct pair {
    u64 first, second, third, fourth;
};

struct arena {
    u64 value, state, count, other;
    struct pair pair;
    u64 items[16];
    u64 sum;
};

static struct arena arena;

__attribute__((noinline)) static u64 unknown(u64 x) {
    __asm__ volatile("" : "+r"(x));
    return x;
}

__attribute__((noinline)) static void branches(struct arena *a, u64 x) {
    a->state = WITH(x);
    if (x & 1)
        a->value = LINE;
    else
        a->value = LINE + 1;
    a->other = LINE;
}

__attribute__((noinline)) static void overwritten(struct arena *a, u64 x) {
    a->value = LINE;
    if (x & 1)
        a->value = LINE + 1;
    a->count = LINE;
}

__attribute__((noinline)) static void one_of_many(struct arena *a, u64 x) {
    switch (x % 6) {
    case 1:
        a->value = LINE;
        break;
    case 2:
        a->value = LINE;
        break;
    case 3:
        a->state = LINE;
        break;
    case 4:
        a->value = LINE;
        break;
    default:
        a->value = LINE;
    }
    a->count = LINE;
}

#ifdef ENDS
__attribute__((noinline)) static void computed(struct arena *a, u64 x, u64 y) {
    if (x & 1)
        a->value = WITH(x);
    else
        a->value = WITH(y);
}

__attribute__((noinline)) static void beginnings(struct arena *a, u64 x) {
    if (x & 2) {
        a->state = WITH(x);
        a->value = LINE;
    } else {
        a->state = WITH(x);
        a->value = LINE + 1;
    }
}
#endif

__attribute__((noinline)) static u64 one_after_the_other(struct arena *a, u64 x) {
    if (x & 1)
        a->value = LINE;
    if (x & 2)
        a->value = LINE + 1;
    return x;
}

__attribute__((noinline)) static void neighbours(struct arena *a) {
    a->pair.first = LINE;
    a->pair.second = LINE;
    a->pair.third = LINE;
    a->pair.fourth = LINE;
}

__attribute__((noinline)) static void loops(struct arena *a, u64 n) {
    for (u64 i = 0; i < n; i++) {
        a->items[i & 15] = WITH(i);
        a->count = WITH(i);
    }
    for (u64 i = 0; i < n; i++)
        a->state = LINE;
}

__attribute__((noinline)) static void in_a_loop(struct arena *a, u64 n) {
    for (u64 i = 0; i < n; i++) {
        if (i & 1)
            a->value = WITH(i);
        else
            a->other = LINE;
    }
}

/* Made of vectors, it would be one store behind the loop, with the loop's line. */
__attribute__((noinline)) static void sums(struct arena *a, u64 n) {
    for (u64 i = 0; i < n; i++)
        a->sum += n;
}

enum { SUM_LINE = __LINE__ - 3 };
static struct arena arena = {.sum = (u64)SUM_LINE << 32};

static inline void put(u64 *place, u64 value) { *place = value; }

__attribute__((noinline)) static void helpers(struct arena *a, u64 x) {
    if (x & 1) a->state = LINE, put(&a->other, (u64)(__LINE__ - 3) << 32);
    a->value = x & 2 ? WITH(x) : LINE;
}

int main(void) {
    struct arena *a = (struct arena *)unknown((u64)&arena);
    printf("%p %zu\n", (void *)a, sizeof *a);
    fflush(stdout);
    for (u64 x = 0; x < 12; x++) {
        const u64 y = unknown(x);
        branches(a, y);
        overwritten(a, y);
        one_of_many(a, y);
        one_after_the_other(a, y);
        neighbours(a);
        loops(a, y);
        in_a_loop(a, y);
        sums(a, y);
        helpers(a, y);
#ifdef ENDS
        computed(a, y, y + 1);
        beginnings(a, y);
#endif
    }
    return 0;
}
