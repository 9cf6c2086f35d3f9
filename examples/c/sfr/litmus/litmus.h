/*
 * What the litmus programs share. Each runs a few stores and synchronisation operations, dies at a chosen
 * moment by an instruction that is none, and is started again with `--check`: then it prints which stores
 * survived.
 *
 * A crash of the process loses no cache lines, so what these show is what recovery undoes and what it
 * leaves; which lines a crash of the machine may lose shows `strandline check`.
 */
#ifndef LITMUS_H
#define LITMUS_H

#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__STRANDLINE_PERSIST__) && !defined(SFR_PLAIN)
#include <strandline_pool.h>
#else
#include "../pool_plain.h"
#endif

static sl_pool *pool;
static void *root;

/* Dies here, with all that was stored before, and without a system call, which would be a boundary. */
#define die()                               \
    do {                                    \
        __asm__ volatile("" ::: "memory"); \
        __builtin_trap();                   \
    } while (0)

/* Opens the pool of the path that was given, or makes it. True if this is the run that checks. */
static inline bool litmus(int count, char **arguments, uint64_t root_bytes)
{
    bool check = count == 3 && !strcmp(arguments[1], "--check");
    const char *path = arguments[count - 1];
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (count != 2 && !check)
        errx(2, "usage: %s [--check] POOL", arguments[0]);
    if (check)
        pool = sl_pool_open(path, "litmus", NULL);
    else
        pool = sl_pool_create(path, "litmus", 16 << 20, root_bytes, NULL);
    if (!pool)
        errx(2, "%s", sl_error());
    root = sl_at(pool, sl_root(pool));
    if (!check)
        sl_psync(pool);
    return check;
}

/* What survived, and whether SFRs permit it. */
static inline int outcome(bool permitted, const char *text)
{
    printf("%s: %s\n", text, permitted ? "permitted" : "forbidden");
    return permitted ? 0 : 1;
}

static inline void thread(pthread_t *at, void *(*work)(void *))
{
    if (pthread_create(at, NULL, work, NULL))
        err(2, "a thread");
}

#endif
