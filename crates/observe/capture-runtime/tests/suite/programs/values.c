// Stores of all sizes into an arena, whose bytes are written to standard output in the end.
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void copy_observed(const long *from, long *to, long count);
void *strandline_memcpy(void *to, const void *from, size_t len);
void *strandline_memset(void *to, int byte, size_t len);
char *strandline_strcpy(char *to, const char *from);

#define ARENA (1 << 16)
static union {
    unsigned char bytes[ARENA];
    uint16_t halves[ARENA / 2];
    uint32_t words[ARENA / 4];
    uint64_t longs[ARENA / 8];
    _Atomic uint64_t atomics[ARENA / 8];
} arena;
static uint64_t state = 88172645463325252u;
static long source[1024];

__attribute__((no_sanitize("thread"))) static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

struct __attribute__((packed)) crooked {
    char first;
    uint64_t second;
};

struct two {
    uint64_t longs[2];
};
struct many {
    char bytes[333];
};

int main(int argc, char **argv) {
    for (int at = 0; at < 1024; at++)
        source[at] = (long)next();
    for (int round = 0; round < 5000; round++) {
        uint64_t value = next(), at = next();
        switch (next() % 14) {
        case 0: arena.bytes[at % ARENA] = (unsigned char)value; break;
        case 1: arena.halves[at % (ARENA / 2)] = (uint16_t)value; break;
        case 2: arena.words[at % (ARENA / 4)] = (uint32_t)value; break;
        case 3: arena.longs[at % (ARENA / 8)] += value; break;
        case 4: ((struct crooked *)(arena.bytes + at % (ARENA - 9)))->second = value; break;
        case 5: atomic_fetch_add(&arena.atomics[at % (ARENA / 8)], value); break;
        case 6: atomic_store(&arena.atomics[at % (ARENA / 8)], value); break;
        case 7: strandline_memcpy(arena.bytes + at % (ARENA / 2), source, value % 8000); break;
        case 8: strandline_memset(arena.bytes + at % (ARENA / 2), (int)value, value % 9000); break;
        case 9: strandline_strcpy((char *)arena.bytes + at % (ARENA - 16), "seaweed"); break;
        case 11: *(struct two *)&arena.longs[at % (ARENA / 8 - 2)] = *(struct two *)&source[value % 1000]; break;
        case 12: *(struct many *)(arena.bytes + at % (ARENA - 333)) = *(struct many *)((char *)source + value % 7000); break;
        case 13: *(struct many *)(arena.bytes + at % (ARENA - 333)) = (struct many){{1, 2, 3}}; break;
        case 10: copy_observed(source, (long *)arena.longs + at % (ARENA / 16), value % 1000); break;
        }
    }
    fprintf(stdout, "%p\n", (void *)&arena);
    fwrite(&arena, 1, sizeof arena, stdout);
    return 0;
}
