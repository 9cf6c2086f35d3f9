/*
 * A chest of drawers with sheets of paper, in a pool that grows, is tidied up, and is looked at.
 *
 *   chest try POOL [MISTAKE]     for `strandline check`: fills a pool until it has grown, empties most drawers, and moves the rest together
 *   chest --recover POOL         status 0 if what is there is right, else 1 and a line that says why
 *   chest calls FOLDER           growing, moving small and large blocks, and reading only, and what is an error there
 *
 * MISTAKE is `two-regions`: a sheet is moved in one region, and its drawer updated in another; or `leak`: a drawer is emptied and its sheet kept.
 * STRANDLINE_ENGINE chooses how a new pool keeps its regions.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "strandline_pool.h"

#define LAYOUT "chest"

enum { DRAWERS = 30, WORDS = 125, POOL = 1 << 16 };

struct chest {
    sl_ref drawer[DRAWERS];
};

static sl_pool *pool;

#define WANT(condition)                                                              \
    do {                                                                             \
        if (!(condition))                                                            \
            errx(1, "line %d: not so: %s; %s", __LINE__, #condition, sl_error());    \
    } while (0)
#define FAILS(call, failed, status, words) \
    WANT((call) == (failed) && sl_error_code() == (status) && strstr(sl_error(), words))

static sl_ref drawer(int number)
{
    return sl_root(pool) + offsetof(struct chest, drawer) + sizeof(sl_ref) * (unsigned)number;
}

static sl_ref sheet_in(int number)
{
    return SL_PEEK(pool, drawer(number), sl_ref);
}

static void make(const char *path, uint64_t flags)
{
    const struct sl_pool_options options = {getenv("STRANDLINE_ENGINE"), flags};
    pool = sl_pool_create(path, LAYOUT, POOL, sizeof(struct chest), &options);
    WANT(pool);
}

static void fill(int number)
{
    uint64_t words[WORDS];
    sl_ref sheet;
    for (int word = 0; word < WORDS; word++)
        words[word] = (uint64_t)number;
    WANT(!sl_begin(pool));
    sheet = sl_alloc(pool, sizeof words);
    WANT(sheet && !sl_write(pool, sheet, words, sizeof words));
    WANT(!SL_PUT(pool, drawer(number), sl_ref, sheet) && !sl_commit(pool));
}

static void empty(int number, int leak)
{
    WANT(!sl_begin(pool));
    WANT(leak || !sl_free(pool, sheet_in(number)));
    WANT(!SL_PUT(pool, drawer(number), sl_ref, 0) && !sl_commit(pool));
}

static void move(int number, int in_two)
{
    const sl_ref old = sheet_in(number);
    sl_ref new;
    WANT(!sl_begin(pool));
    if (!in_two) {
        new = sl_move(pool, drawer(number));
        WANT(new && new != old && sheet_in(number) == new);
    } else {
        new = sl_alloc(pool, sl_block_bytes(pool, old));
        WANT(new && !sl_copy(pool, new, old, sl_block_bytes(pool, old)) && !sl_free(pool, old));
        WANT(!sl_commit(pool) && !sl_begin(pool));
        WANT(!SL_PUT(pool, drawer(number), sl_ref, new));
    }
    WANT(!sl_commit(pool));
}

/* Moves what is worth it; how many sheets that were, and how many bytes are free now. */
static int tidy(int in_two, int64_t *bytes)
{
    const int64_t worth = sl_moving_begin(pool);
    int moved = 0;
    WANT(worth >= 0);
    for (int number = 0; number < DRAWERS; number++)
        if (sl_moving_wants(pool, sheet_in(number))) {
            move(number, in_two);
            moved++;
        }
    WANT(moved == worth);
    *bytes = sl_moving_end(pool);
    WANT(*bytes >= 0);
    return moved;
}

/* Every fifth drawer stays full. */
static int is_kept(int number)
{
    return number % 5 == 1;
}

static void try(const char *path, const char *mistake)
{
    int64_t bytes;
    make(path, SL_GROW);
    for (int number = 0; number < DRAWERS; number++)
        fill(number);
    WANT(sl_pool_bytes(pool) > POOL);
    for (int number = 0; number < DRAWERS; number++)
        if (!is_kept(number))
            empty(number, number == 7 && !strcmp(mistake, "leak"));
    WANT(tidy(!strcmp(mistake, "two-regions"), &bytes) > 0 && bytes > 0);
    WANT(!sl_pool_close(pool));
}

static int wrong(const char *why, int number)
{
    printf("drawer %d: %s\n", number, why);
    return 1;
}

/* All drawers that ever were full are, but for those that are emptied, in order; nothing is leaked. */
static int recover(const char *path)
{
    const char *done = getenv("STRANDLINE_DONE");
    int64_t sheets = 0;
    int first_empty = DRAWERS, emptied = 0;
    pool = sl_pool_open(path, LAYOUT, NULL);
    if (!pool && (!done || !strcmp(done, "0")) && (sl_error_code() == SL_E_NO_POOL || sl_error_code() == SL_E_FILE))
        return 0;
    WANT(pool);
    for (int number = 0; number < DRAWERS; number++) {
        uint64_t words[WORDS];
        if (!sheet_in(number)) {
            if (number == 0)
                emptied = 1;
            else if (is_kept(number) && first_empty == DRAWERS)
                first_empty = number;
            continue;
        }
        sheets++;
        if (number > first_empty)
            return wrong("full, and one before it is not", number);
        if (!sl_block_bytes(pool, sheet_in(number)))
            return wrong("a sheet that is not allocated", number);
        if (sl_read(pool, sheet_in(number), words, sizeof words))
            return wrong(sl_error(), number);
        for (int word = 0; word < WORDS; word++)
            if (words[word] != (uint64_t)number)
                return wrong("half a sheet, or another one", number);
    }
    /* The first regions fill a drawer each. */
    if (done && atoi(done) < DRAWERS && sheets != atoi(done) && sheets != atoi(done) + 1)
        return wrong("full or not, but not as reported", atoi(done));
    if (emptied && sheets && first_empty < DRAWERS)
        return wrong("emptied, and others were never full", first_empty);
    if (sl_pool_blocks(pool, NULL, 0) != sheets + 1)
        return wrong("more sheets are allocated than lie in drawers", 0);
    return 0;
}

static void calls(const char *folder)
{
    const struct sl_pool_options read_only = {NULL, SL_READ_ONLY}, both = {NULL, SL_READ_ONLY | SL_GROW};
    char path[4096];
    struct sl_usage before, after;
    struct stat file;
    sl_pool *other;
    int64_t bytes;
    snprintf(path, sizeof path, "%s/chest", folder);
    FAILS(sl_pool_create(path, LAYOUT, POOL, 8, &read_only), NULL, SL_E_ARGUMENT, "read only");
    FAILS(sl_pool_open(path, LAYOUT, &both), NULL, SL_E_ARGUMENT, "grow");
    umask(027);
    make(path, 0);
    WANT(!stat(path, &file) && (file.st_mode & 0777) == 0640);
    FAILS(sl_pool_grow(pool, 4 * POOL + 1), SL_E_ARGUMENT, SL_E_ARGUMENT, path);
    WANT(sl_pool_bytes(pool) == POOL && !sl_pool_grow(pool, POOL / 2) && sl_pool_bytes(pool) == POOL);
    WANT(!sl_pool_grow(pool, 4 * POOL) && sl_pool_bytes(pool) == 4 * POOL);
    WANT(!stat(path, &file) && file.st_size == 4 * POOL);
    for (int number = 0; number < DRAWERS; number++)
        fill(number);
    WANT(tidy(0, &bytes) == 0);
    for (int number = 0; number < DRAWERS; number++)
        if (!is_kept(number))
            empty(number, 0);

    FAILS(sl_moving_end(pool), -1, SL_E_STATE, "sl_moving_begin");
    WANT(sl_moving_begin(pool) > 0);
    FAILS(sl_moving_begin(pool), -1, SL_E_STATE, "sl_moving_end");
    WANT(!sl_moving_wants(pool, 0) && !sl_moving_wants(pool, sl_root(pool)) && !sl_moving_wants(pool, 4096));
    FAILS(sl_move(pool, drawer(1)), 0, SL_E_STATE, "region");
    WANT(!sl_begin(pool));
    FAILS(sl_move(pool, drawer(0)), 0, SL_E_REFERENCE, "nowhere");
    WANT(!sl_abort(pool) && !sl_begin(pool));
    FAILS(sl_move(pool, 4096), 0, SL_E_REFERENCE, "pool");
    WANT(!sl_abort(pool) && sl_moving_end(pool) >= 0);
    WANT(!sl_pool_usage(pool, &before));
    WANT(tidy(0, &bytes) > 0 && bytes > 0 && !sl_pool_usage(pool, &after));
    WANT(after.taken == before.taken && after.blocks == before.blocks);
    WANT(after.free_chunks == before.free_chunks + (uint64_t)bytes);
    for (int number = 0; number < DRAWERS; number++)
        WANT(is_kept(number) ? SL_PEEK(pool, sheet_in(number) + 8, uint64_t) == (uint64_t)number : !sheet_in(number));
    FAILS(sl_pool_open(path, LAYOUT, &read_only), NULL, SL_E_LOCKED, path);
    WANT(!sl_pool_close(pool) && !stat(path, &file));

    WANT(!chmod(path, 0440));
    pool = sl_pool_open(path, LAYOUT, &read_only);
    other = sl_pool_open(path, LAYOUT, &read_only);
    WANT(pool && other && SL_PEEK(pool, sheet_in(1), uint64_t) == 1);
    FAILS(sl_begin(pool), SL_E_STATE, SL_E_STATE, "read only");
    FAILS(sl_pool_grow(pool, 8 * POOL), SL_E_STATE, SL_E_STATE, "read only");
    WANT(sl_moving_begin(pool) == 0);
    FAILS(sl_moving_end(pool), -1, SL_E_STATE, "read only");
    WANT(!sl_pool_close(pool) && !sl_pool_close(other) && !chmod(path, 0640));
    pool = sl_pool_open(path, LAYOUT, NULL);
    WANT(pool && sl_pool_bytes(pool) == 4 * POOL && !sl_pool_close(pool));
}

/* A block of several chunks, each of whose bytes says where it is and whose it is. */
enum { LARGE = 5 * 4096 + 100 };

static void put_large(int number)
{
    unsigned char bytes[LARGE];
    sl_ref large;
    for (int at = 0; at < LARGE; at++)
        bytes[at] = (unsigned char)(at * 7 + number);
    WANT(!sl_begin(pool));
    large = sl_alloc(pool, LARGE);
    WANT(large && !sl_write(pool, large, bytes, LARGE));
    WANT(!SL_PUT(pool, drawer(number), sl_ref, large) && !sl_commit(pool));
}

static int is_large(int number)
{
    unsigned char bytes[LARGE];
    WANT(!sl_read(pool, sheet_in(number), bytes, LARGE));
    for (int at = 0; at < LARGE; at++)
        if (bytes[at] != (unsigned char)(at * 7 + number))
            return 0;
    return 1;
}

/* Large blocks with gaps between them are moved to the beginning, and the longest free piece grows. */
static void large(const char *folder)
{
    char path[4096];
    struct sl_usage before, after;
    int64_t bytes;
    sl_ref old;
    snprintf(path, sizeof path, "%s/large", folder);
    make(path, 0);
    WANT(!sl_pool_grow(pool, 16 * POOL));
    WANT(!sl_begin(pool));
    FAILS(sl_alloc(pool, UINT64_C(512) * 4096), 0, SL_E_FULL, "at most 2093056");
    WANT(!sl_commit(pool));
    for (int number = 0; number < 24; number++)
        put_large(number);
    for (int number = 0; number < 24; number += 2)
        empty(number, 0);
    WANT(!sl_pool_usage(pool, &before));
    old = sheet_in(23);

    /* What is given up stays where it was. */
    WANT(sl_moving_begin(pool) > 0 && sl_moving_wants(pool, old));
    WANT(!sl_begin(pool) && sl_move(pool, drawer(23)) != old && sheet_in(23) != old && is_large(23) && !sl_abort(pool));
    WANT(sheet_in(23) == old && is_large(23) && sl_moving_end(pool) >= 0);

    WANT(sl_moving_begin(pool) > 0);
    for (int number = 23; number > 0; number -= 2)
        if (sl_moving_wants(pool, sheet_in(number))) {
            WANT(!sl_begin(pool) && sl_move(pool, drawer(number)) && !sl_commit(pool));
        }
    bytes = sl_moving_end(pool);
    WANT(bytes >= 0 && sheet_in(23) < old && !sl_block_bytes(pool, old));
    WANT(!sl_pool_usage(pool, &after) && after.blocks == before.blocks && after.taken == before.taken);
    WANT(after.longest_free > before.longest_free);
    WANT(!sl_pool_close(pool));
    pool = sl_pool_open(path, LAYOUT, NULL);
    WANT(pool);
    for (int number = 1; number < 24; number += 2)
        WANT(is_large(number) && sl_block_bytes(pool, sheet_in(number)) >= LARGE);
    WANT(sl_pool_blocks(pool, NULL, 0) == 13 && !sl_pool_close(pool));
}

int main(int argc, char **argv)
{
    if (argc < 3)
        errx(2, "usage: chest try|calls|--recover PLACE [MISTAKE]");
    if (!strcmp(argv[1], "try"))
        try(argv[2], argc > 3 ? argv[3] : "none");
    else if (!strcmp(argv[1], "calls"))
        calls(argv[2]), large(argv[2]);
    else
        return recover(argv[2]);
    return 0;
}
