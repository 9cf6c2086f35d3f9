/*
 * What the programs share: variants, options, threads, random numbers, checksums.
 *
 * A variant is chosen when a program is compiled, so that the inner loops are those of the original and a pre-store is
 * the line that one would insert: nothing for the unmodified program, or -DCLEAN, -DSKIP, -DDEMOTE, -DMISUSE.
 */
#ifndef COMMON_H
#define COMMON_H

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "strandline.h"

#if defined(CLEAN)
#define VARIANT "clean"
#elif defined(SKIP)
#define VARIANT "skip"
#elif defined(DEMOTE)
#define VARIANT "demote"
#elif defined(MISUSE)
#define VARIANT "misuse"
#else
#define VARIANT "plain"
#endif

struct options {
    uint64_t n;       /* how much work */
    uint64_t size;    /* how big the data */
    uint64_t threads;
    uint64_t seed;
    uint64_t keys;    /* key-value programs only */
    char workload;    /* key-value programs only */
};

/* Reads the command line into `options`, which holds the defaults. `n` and `size` say what the two mean. */
static inline void parse_options(int argc, char **argv, struct options *options, const char *n, const char *size)
{
    static const struct option LONG[] = {{"seed", required_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    const char *allowed = options->keys ? "n:s:t:k:w:h" : "n:s:t:h";
    int option;
    while ((option = getopt_long(argc, argv, allowed, LONG, NULL)) != -1) {
        char *end = NULL;
        uint64_t value = optarg ? strtoull(optarg, &end, 0) : 0;
        if (option == 'w' && strchr("abcd", optarg[0] | 32) && optarg[0] && !optarg[1]) {
            options->workload = (char)(optarg[0] | 32);
            continue;
        }
        if (option == 'h') {
            printf("usage: %s [options]\n  -n N      %s (%llu)\n  -s SIZE   %s (%llu)\n  -t N      threads (%llu)\n"
                   "  --seed N  of the random numbers (%llu)\n",
                   argv[0], n, (unsigned long long)options->n, size, (unsigned long long)options->size,
                   (unsigned long long)options->threads, (unsigned long long)options->seed);
            if (options->keys)
                printf("  -k N      keys loaded before (%llu)\n  -w a|b|c|d  the YCSB workload (%c)\n",
                       (unsigned long long)options->keys, options->workload);
            exit(0);
        }
        if (option == '?' || option == 'w' || !end || end == optarg || *end || optarg[0] == '-' || (!value && option != 'r')) {
            fprintf(stderr, "%s: try --help\n", argv[0]);
            exit(2);
        }
        switch (option) {
        case 'n': options->n = value; break;
        case 's': options->size = value; break;
        case 't': options->threads = value; break;
        case 'k': options->keys = value; break;
        default: options->seed = value;
        }
    }
    if (optind < argc || options->threads > 64) {
        fprintf(stderr, "%s: %s; try --help\n", argv[0], optind < argc ? "too many arguments" : "at most 64 threads");
        exit(2);
    }
}

/* Ends the program for a size that it can't run with. */
static inline void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "options: %s\n", what);
        exit(2);
    }
}

/* `bytes` that start at a line, not yet written. */
static inline void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!memory) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

/* The same, zeros. */
static inline void *allocate_zeros(size_t bytes)
{
    return memset(allocate(bytes), 0, bytes);
}

/* A step of a random sequence (splitmix64). */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t mix(uint64_t value)
{
    return next_random(&value);
}

/* From 0 to below 1. */
static inline double next_fraction(uint64_t *state)
{
    return (double)(next_random(state) >> 11) / 9007199254740992.0;
}

/* Of numbers with their places, so that it depends on both but not on who computed what. */
static inline uint64_t checksum(const double *numbers, size_t count)
{
    uint64_t sum = 0;
    size_t i;
    for (i = 0; i < count; i++) {
        union {
            double number;
            uint64_t bits;
        } both = {numbers[i]};
        sum += mix(both.bits ^ i * 0x9e3779b97f4a7c15u);
    }
    return sum;
}

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The program's last words. */
static inline void report(const char *program, uint64_t sum, double elapsed)
{
    printf("%s %s\nseconds %.6f\nchecksum %016llx\n", program, VARIANT, elapsed, (unsigned long long)sum);
}

/* Work on [low, high), which is this thread's part of a loop. */
typedef void body_fn(void *context, long low, long high, int thread);

struct part {
    body_fn *body;
    void *context;
    long low, high;
    int thread;
};

static inline void *run_part(void *argument)
{
    struct part *part = (struct part *)argument;
    part->body(part->context, part->low, part->high, part->thread);
    return NULL;
}

/* Splits [low, high) into one contiguous part per thread, as a static schedule does, and waits for all. */
static inline void parallel(int threads, long low, long high, body_fn *body, void *context)
{
    struct part parts[64];
    pthread_t others[64];
    const long count = high - low;
    int i;
    for (i = 0; i < threads; i++) {
        struct part part = {body, context, low + count * i / threads, low + count * (i + 1) / threads, i};
        parts[i] = part;
        if (i && pthread_create(&others[i], NULL, run_part, &parts[i])) {
            fprintf(stderr, "can't start thread %d\n", i);
            exit(1);
        }
    }
    run_part(&parts[0]);
    for (i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
}

#endif
