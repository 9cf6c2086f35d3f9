/*
 * The same as `regions.rs` measures, by libpmemobj, and the unit: run by that bench, which prints the ratios.
 * usage: regions FILE
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <libpmemobj.h>
#include <sys/mman.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 64 << 17, TURNS = 30 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

/* A word on a random line. */
static uint64_t *somewhere(uint64_t *words)
{
    return &words[next_random() % (WORDS / 8) * 8];
}

__attribute__((target("clwb"))) static void unit(uint64_t *words, int count)
{
    for (int n = 0; n < count; n++) {
        uint64_t *word = somewhere(words);
        *(volatile uint64_t *)word = (uint64_t)n;
        _mm_clwb(word);
        _mm_sfence();
    }
}

static void regions(PMEMobjpool *pool, uint64_t *words, int lines, int count)
{
    for (int n = 0; n < count; n++) {
        TX_BEGIN(pool) {
            for (int line = 0; line < lines; line++) {
                uint64_t *word = somewhere(words);
                pmemobj_tx_add_range_direct(word, 8);
                *word = (uint64_t)n;
            }
        } TX_END
    }
}

static void allocations(PMEMobjpool *pool, int count)
{
    for (int n = 0; n < count; n++) {
        PMEMoid block;
        if (pmemobj_alloc(pool, &block, 64, 1, NULL, NULL))
            exit(1);
        pmemobj_free(&block);
    }
}

int main(int argc, char **argv)
{
    static const int lines[] = {1, 4, 16, 64};
    PMEMobjpool *pool = argc > 1 ? pmemobj_create(argv[1], "regions", 256 << 20, 0600) : NULL;
    if (!pool)
        return 1;
    PMEMoid array;
    if (pmemobj_zalloc(pool, &array, WORDS * 8, 2))
        return 1;
    uint64_t *words = (uint64_t *)pmemobj_direct(array);
    // As our pools are: together to huge pages (MADV_COLLAPSE), where the kernel does that. The handle is where the pool is mapped.
    if (argc < 3 && madvise(pool, 256 << 20, 25))
        fprintf(stderr, "libpmemobj's pool is in small pages\n");
    for (int turn = 0; turn < TURNS; turn++) {
        double begin = cpu_ns();
        unit(words, 10000);
        printf("unit %.1f\n", (cpu_ns() - begin) / 10000);
        for (int k = 0; k < 4; k++) {
            const int count = 10000 / lines[k];
            begin = cpu_ns();
            regions(pool, words, lines[k], count);
            printf("%d %.1f\n", lines[k], (cpu_ns() - begin) / count);
        }
        begin = cpu_ns();
        allocations(pool, 2500);
        printf("alloc %.1f\n", (cpu_ns() - begin) / 2500);
    }
    pmemobj_close(pool);
    return 0;
}
