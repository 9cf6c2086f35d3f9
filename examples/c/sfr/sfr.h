/*
 * What the benchmarks share: options, threads, the clock, and the state that is checked after a crash.
 *
 * A benchmark is ordinary C with ordinary locks; its data lies in a pool. It says how it sets its data
 * up, what one operation does, and what has to hold of the data at any frontier of synchronisation-free
 * regions (SFRs): with `--check` it opens the pool, which runs recovery, and verifies that. Locks are not
 * in the pool: after a crash all of them are free.
 *
 * A pool is always mapped at the address that it was made for, so pointers into it stay right.
 */
#ifndef SFR_H
#define SFR_H

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__STRANDLINE_PERSIST__) && !defined(SFR_PLAIN)
#include <strandline_pool.h>
#else
#include "pool_plain.h"
#endif

#define THREADS_MAX 64
#define STORES_MAX 64
/* An operation that is acknowledged is durable: every so many a thread waits for that. */
#define ACKNOWLEDGED 64

struct options {
    uint64_t ops, size, seed;
    unsigned threads, stores, reads;
    const char *path, *acks;
    bool check, setup;
};

/* A thread of the run. */
struct worker {
    unsigned index;
    uint64_t random, done;
    uint64_t spare;
    pthread_t thread;
};

/* The root object. */
struct root {
    uint64_t ready, bytes, size, stores, counted;
    void *data;
    /* If operations are counted: how many of each thread are in, its own line each. */
    uint64_t done[THREADS_MAX][8];
};

/* Of a benchmark. */
struct benchmark {
    const char *name, *size_means;
    uint64_t size;
    /* Bytes that its data takes at most. */
    uint64_t (*bytes)(void);
    /* Makes the data, in steps that end with `step`. */
    void (*setup)(void);
    /* Makes what is not in the pool. */
    void (*start)(void);
    void (*operate)(struct worker *worker);
    /* NULL, or what is wrong. */
    const char *(*verify)(void);
};

static struct options options;
static sl_pool *pool;
static struct root *root;
static uint64_t pool_bytes;
static char reason[256];

/* What is wrong, in words. */
#define wrong(...) (snprintf(reason, sizeof reason, __VA_ARGS__), (const char *)reason)

/* Bits that look random (splitmix64). */
static inline uint64_t mix(uint64_t word)
{
    word += 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}

static inline uint64_t random_below(struct worker *worker, uint64_t limit)
{
    worker->random += 0x9e3779b97f4a7c15u;
    return (uint64_t)((unsigned __int128)mix(worker->random) * limit >> 64);
}

/* A block of the pool, as it comes. */
static inline void *block_new(uint64_t bytes)
{
    sl_ref block = sl_alloc(pool, bytes);
    if (!block)
        errx(3, "%s: the pool has no room: %s", options.path, sl_error());
    return sl_at(pool, block);
}

/* The same, of zeros. */
static inline void *block_zeros(uint64_t bytes)
{
    sl_ref block = sl_zalloc(pool, bytes);
    if (!block)
        errx(3, "%s: the pool has no room: %s", options.path, sl_error());
    return sl_at(pool, block);
}

static inline void block_free(void *block)
{
    sl_ref ref = sl_root(pool) + (uint64_t)((char *)block - (char *)root);
    if (sl_free(pool, ref))
        errx(1, "%s: a block can't be freed: %s", options.path, sl_error());
}

/* Whether something of that size can be at `at` in the pool: a check follows no other pointer. */
static inline bool in_pool(const void *at, uint64_t bytes)
{
    /* The root object is near the beginning, so this errs by less than a heap's tables. */
    int64_t from = (const char *)at - (const char *)root;
    return (uintptr_t)at % 8 == 0 && from > -(int64_t)pool_bytes &&
            from + (int64_t)bytes < (int64_t)pool_bytes;
}

/* Locks, a line each. */
struct lock {
    pthread_mutex_t mutex;
} __attribute__((aligned(64)));

static inline struct lock *locks_new(uint64_t count)
{
    struct lock *locks = aligned_alloc(64, count * sizeof *locks);
    if (!locks)
        err(1, "locks");
    for (uint64_t i = 0; i < count; i++)
        pthread_mutex_init(&locks[i].mutex, NULL);
    return locks;
}

static inline void lock(struct lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void unlock(struct lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

/* Ends an SFR of the setup, so that its log stays short. */
static inline void step(void)
{
    static struct lock between = {PTHREAD_MUTEX_INITIALIZER};
    lock(&between);
    unlock(&between);
}

/* To be called in the SFR that makes an operation: counts it there, if that is wanted. */
static inline void counted(struct worker *worker)
{
    if (root->counted)
        root->done[worker->index][0]++;
}

static inline uint64_t counted_in_all(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < THREADS_MAX; i++)
        sum += root->done[i][0];
    return sum;
}

/* Words of a payload: the version, and what follows from it. */
static inline uint64_t payload(uint64_t key, uint64_t version, unsigned i)
{
    return i ? (version << 20) + (key << 6) + i : version;
}

static inline void payload_store(uint64_t *words, uint64_t key, uint64_t version)
{
    for (unsigned i = 0; i < options.stores; i++)
        words[i] = payload(key, version, i);
}

/* The first word that is not of the version in word 0; the number of words if all are. */
static inline unsigned payload_torn(const uint64_t *words, uint64_t key)
{
    unsigned i = 0;
    while (i < options.stores && words[i] == payload(key, words[0], i))
        i++;
    return i;
}

#include "sfr_main.h"

#endif
