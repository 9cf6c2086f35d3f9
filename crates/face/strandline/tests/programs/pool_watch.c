/*
 * One process makes a pool, another one watches it: it opens it to look only, and notes in a pool of its own what it has seen.
 *
 *   watch work FIRST SECOND
 *   watch --recover FOLDER      status 0, or 1 and a line: what the second pool reports must be in the first one
 *
 * The two do not know of each other but by the first pool, so what the watcher does comes behind it only because it has read it.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "strandline_pool.h"

#define LAYOUT "watch"

enum { POOL = 1 << 16 };

static sl_pool *make(const char *path)
{
    const struct sl_pool_options options = {getenv("STRANDLINE_ENGINE"), 0};
    sl_pool *pool = sl_pool_create(path, LAYOUT, POOL, 8, &options);
    if (!pool)
        errx(2, "%s", sl_error());
    return pool;
}

static void set(sl_pool *pool, uint64_t value)
{
    sl_begin(pool);
    SL_PUT(pool, sl_root(pool), uint64_t, value);
    if (sl_commit(pool))
        errx(2, "%s", sl_error());
}

/* What a pool holds; 0 if there is none yet. */
static uint64_t look(const char *path)
{
    const struct sl_pool_options read_only = {NULL, SL_READ_ONLY};
    sl_pool *pool = sl_pool_open(path, LAYOUT, &read_only);
    uint64_t value = 0;
    if (pool) {
        value = SL_PEEK(pool, sl_root(pool), uint64_t);
        sl_pool_close(pool);
    } else if (sl_error_code() != SL_E_FILE && sl_error_code() != SL_E_NO_POOL && sl_error_code() != SL_E_LOCKED) {
        errx(2, "%s", sl_error());
    }
    return value;
}

static void watch(const char *first, const char *second)
{
    uint64_t seen;
    sl_pool *pool;
    while (!(seen = look(first)))
        usleep(1000);
    pool = make(second);
    set(pool, seen);
    sl_pool_close(pool);
}

static int work(const char *first, const char *second)
{
    int status;
    sl_pool *pool;
    const pid_t watcher = fork();
    if (watcher == 0) {
        watch(first, second);
        _exit(0);
    }
    pool = make(first);
    set(pool, 7);
    sl_pool_close(pool);
    return watcher < 0 || waitpid(watcher, &status, 0) != watcher || status ? 2 : 0;
}

static int recover(const char *folder)
{
    char first[4096], second[4096];
    uint64_t there, reported;
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    there = look(first);
    reported = look(second);
    if (reported == 0 || reported == there)
        return 0;
    printf("the watcher reports %d, and there is %d\n", (int)reported, (int)there);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "work"))
        return work(argv[2], argv[3]);
    if (argc == 3 && !strcmp(argv[1], "--recover"))
        return recover(argv[2]);
    errx(2, "usage: watch work FIRST SECOND|--recover FOLDER");
}
