/*
 * Concurrent C programs of many kinds over data in a pool, each with what must hold at every frontier.
 */
#ifndef OTHERS_H
#define OTHERS_H

#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <strandline_pool.h>

enum { THREADS = 4, ACCOUNTS = 16, BUCKETS = 8, SLOTS = 32, TEXT = 48 };

struct item {
    struct item *next, *before, *chain;
    long key, value, twin;
    _Atomic long marked;
};

/* A line with words that change together. */
struct pair {
    _Alignas(64) long one;
    long two, three, four;
};

struct root {
    struct pair pairs[64];
    _Atomic long words[64];
    struct item *heads[64];
    _Atomic(struct item *) links[8];
    _Alignas(16) __int128 wide[8];
    long ring[SLOTS];
    char texts[SLOTS][TEXT];
    long counts[64];
    /* Set while a run that goes on after a crash puts things in order. */
    long mending;
};

extern sl_pool *pool;
extern struct root *root;
/* Rounds of each thread. */
extern unsigned long rounds;

/* A program: how it runs, what must hold, what it does first when it goes on after a crash. */
struct kind {
    const char *name;
    /* Whether all its data is changed in critical sections of the threads library: what ATLAS protects. */
    bool locked;
    void (*run)(void);
    bool (*holds)(void);
    void (*mend)(void);
};

extern const struct kind by_locks[], by_words[], by_waits[], by_openmp[];

/* Says what is wrong; false. */
bool wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* `work(thread, round)` by all threads, for all rounds. */
void threads(void (*work)(unsigned thread, unsigned long round));

/* A random number of the thread's own. */
unsigned long chance(unsigned long below);

/* Blocks of the pool. */
struct item *item_new(void);
void item_free(struct item *item);

#endif
