/*
 * YCSB's core workloads A to D, over a key-value store that the including program defines.
 *
 * A value is crafted by whoever puts it, in fresh memory of the thread's own, and stays until the end: the stores of the
 * originals take memory back by epochs, which in a run of this length never come round. What a value holds depends on
 * its key alone, so that the checksum of a run does not depend on who came first.
 */
#ifndef YCSB_H
#define YCSB_H

#include <math.h>

#include "common.h"

/* The store: makes room, puts, gets (NULL if there is none). */
static void store_create(uint64_t keys);
static void ycsb_put(struct worker *worker, uint64_t key);
static const uint64_t *store_get(uint64_t key);

/* A bump allocator over big chunks, a thread's own. */
struct arena {
    char *at, *end;
};

struct worker {
    struct arena values, nodes; /* for what is put, and for the store's own */
    size_t size; /* bytes of a value */
    uint64_t random;
    uint64_t sum;
};

static void *arena_allocate(struct arena *arena, size_t bytes)
{
    void *found;
    bytes = (bytes + 63) & ~(size_t)63;
    if ((size_t)(arena->end - arena->at) < bytes) {
        const size_t chunk = bytes > 1 << 20 ? bytes : 1 << 20;
        arena->at = (char *)allocate(chunk);
        arena->end = arena->at + chunk;
    }
    found = arena->at;
    arena->at += bytes;
    return found;
}

/* A new value for `key`, written from front to back. */
static __attribute__((noinline)) uint64_t *craftValue(struct worker *worker, uint64_t key)
{
    uint64_t *value = (uint64_t *)arena_allocate(&worker->values, worker->size);
    const size_t words = worker->size / 8;
    size_t i;
#if defined(SKIP)
    for (i = 0; i < words; i += 8) {
        uint64_t line[8];
        const size_t rest = words - i < 8 ? words - i : 8;
        size_t j;
        for (j = 0; j < 8; j++)
            line[j] = key * 0x9e3779b97f4a7c15u + i + j;
        sl_copy_skip(&value[i], line, rest * 8);
    }
#else
    for (i = 0; i < words; i++)
        value[i] = key * 0x9e3779b97f4a7c15u + i;
#endif
    return value;
}

/* What a client does with an answer: it reads it. */
static uint64_t read_value(const uint64_t *value, size_t bytes)
{
    uint64_t sum = 0;
    size_t i;
    for (i = 0; i < bytes / 8; i++)
        sum += value[i];
    return sum;
}

static struct {
    struct options options;
    struct worker workers[64];
    double zeta, eta, alpha, half; /* of the Zipf distribution */
} ycsb;

static void prepare_zipf(uint64_t items)
{
    const double theta = 0.99;
    uint64_t i;
    ycsb.zeta = 0;
    for (i = 1; i <= items; i++)
        ycsb.zeta += 1.0 / pow((double)i, theta);
    ycsb.half = pow(0.5, theta);
    ycsb.alpha = 1.0 / (1.0 - theta);
    ycsb.eta = (1.0 - pow(2.0 / (double)items, 1.0 - theta)) / (1.0 - (1.0 + ycsb.half) / ycsb.zeta);
}

/* A rank below `items`, the lower the likelier. */
static uint64_t next_zipf(uint64_t *random, uint64_t items)
{
    const double u = next_fraction(random), uz = u * ycsb.zeta;
    uint64_t rank;
    if (uz < 1.0)
        return 0;
    if (uz < 1.0 + ycsb.half)
        return 1;
    rank = (uint64_t)((double)items * pow(ycsb.eta * u - ycsb.eta + 1.0, ycsb.alpha));
    return rank < items ? rank : items - 1;
}

/* Keys are scattered, and none is 0. */
static uint64_t key_of(uint64_t number)
{
    return mix(number) | 1;
}

static void load_part(void *context, long low, long high, int thread)
{
    long i;
    (void)context;
    for (i = low; i < high; i++)
        ycsb_put(&ycsb.workers[thread], key_of((uint64_t)i));
}

/* What a client that got the value of key `number` makes of it. */
static uint64_t get(const struct worker *worker, uint64_t number)
{
    const uint64_t key = key_of(number), *value = store_get(key);
    if (!value) {
        fprintf(stderr, "key %llu is lost\n", (unsigned long long)number);
        exit(1);
    }
    return read_value(value, worker->size) ^ key;
}

/* Operations [low, high): A updates half of the time, B one in twenty, C never; D inserts one in twenty and reads what was
 * inserted lately (by the same thread, so that the run can be repeated). */
static void run_part_of(void *context, long low, long high, int thread)
{
    struct worker *worker = &ycsb.workers[thread];
    const uint64_t keys = ycsb.options.keys, threads = ycsb.options.threads;
    const uint64_t writes = ycsb.options.workload == 'a' ? 50 : ycsb.options.workload == 'c' ? 0 : 5;
    uint64_t random = worker->random, inserted = 0, sum = 0;
    long i;
    (void)context;
    for (i = low; i < high; i++) {
        const int writing = next_random(&random) % 100 < writes;
        const uint64_t rank = next_zipf(&random, keys);
        if (ycsb.options.workload != 'd') {
            const uint64_t number = mix(rank) % keys;
            if (writing)
                ycsb_put(worker, key_of(number));
            else
                sum += get(worker, number);
        } else if (writing) {
            ycsb_put(worker, key_of(keys + inserted++ * threads + (uint64_t)thread));
        } else {
            sum += get(worker, rank < inserted ? keys + (inserted - 1 - rank) * threads + (uint64_t)thread : keys - 1 - (rank - inserted));
        }
    }
    worker->sum = sum;
}

static int ycsb_main(int argc, char **argv, const char *program)
{
    struct options options = {50000, 1024, 2, 1, 50000, 'a'};
    uint64_t sum = 0, i;
    parse_options(argc, argv, &options, "operations", "bytes of a value, a multiple of 8");
    require(options.size % 8 == 0, "-s must be a multiple of 8");
    require(options.keys >= 2, "-k must be at least 2");
    ycsb.options = options;
    for (i = 0; i < options.threads; i++) {
        ycsb.workers[i].size = options.size;
        ycsb.workers[i].random = mix(options.seed ^ i << 32);
    }
    prepare_zipf(options.keys);

    sl_phase("load");
    store_create(options.keys);
    parallel((int)options.threads, 0, (long)options.keys, load_part, NULL);

    sl_phase("run");
    const double start = seconds();
    parallel((int)options.threads, 0, (long)options.n, run_part_of, NULL);
    const double elapsed = seconds() - start;

    sl_phase("check");
    for (i = 0; i < options.threads; i++)
        sum += ycsb.workers[i].sum;
    for (i = 0; i < options.keys; i++)
        sum += mix(get(&ycsb.workers[0], i) ^ i);
    report(program, sum, elapsed);
    return 0;
}

#endif
