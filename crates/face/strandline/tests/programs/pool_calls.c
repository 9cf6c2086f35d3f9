/*
 * Calls of strandline_pool.h that are right, and all kinds that are not: each of those is an error with its number, and changes nothing.
 * pool_calls FOLDER ENGINE works on files in the folder and ends with status 0, or 1 and the line that was not as expected.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "strandline_pool.h"

#define WANT(condition)                                                                          \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            printf("line %d: not so: %s\n  last error %d: %s\n", __LINE__, #condition,           \
                   sl_error_code(), sl_error());                                                 \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)
/* A call that fails with that number and a text with these words. */
#define FAILS(call, status, words) \
    WANT((call) == (status) && sl_error_code() == (status) && strstr(sl_error(), words))
/* The same of a call that gives NULL or 0. */
#define NOTHING(call, status, words) WANT(!(call) && sl_error_code() == (status) && strstr(sl_error(), words))

struct inner {
    uint32_t a;
    char text[12];
};
struct root {
    uint64_t number;
    sl_ref block;
    struct inner inner;
    unsigned char bytes[64];
};

enum { POOL = 1 << 20 };

static const char *engine;
static char first_path[4096], second_path[4096], other_path[4096];
static sl_pool *first, *second;

static struct sl_pool_options options(const char *name)
{
    struct sl_pool_options result = {name, 0};
    return result;
}

static sl_pool *make(const char *path)
{
    const struct sl_pool_options by = options(engine);
    sl_pool *pool = sl_pool_create(path, "calls", POOL, sizeof(struct root), &by);
    WANT(pool);
    return pool;
}

static uint64_t number(void)
{
    return SL_GET(first, sl_root(first), struct root, number);
}

static void files(void)
{
    struct sl_pool_options by = options(engine), wrong = options("magic"), flags = {engine, 128};
    struct sl_pool_options another = options(strcmp(engine, "redo") ? "redo" : "undo");
    FILE *file;
    NOTHING(sl_pool_open(first_path, "calls", NULL), SL_E_FILE, first_path);
    WANT(errno == ENOENT);
    NOTHING(sl_pool_open(NULL, "calls", NULL), SL_E_ARGUMENT, "path");
    NOTHING(sl_pool_create(first_path, NULL, POOL, 8, &by), SL_E_ARGUMENT, "layout");
    NOTHING(sl_pool_create(first_path, "\xff", POOL, 8, &by), SL_E_ARGUMENT, "UTF-8");
    NOTHING(sl_pool_create(first_path, "calls", POOL, 8, &wrong), SL_E_ARGUMENT, "redo, undo");
    NOTHING(sl_pool_create(first_path, "calls", POOL, 8, &flags), SL_E_ARGUMENT, "0x80");
    NOTHING(sl_pool_create(first_path, "calls", 1001, 8, &by), SL_E_ARGUMENT, first_path);
    NOTHING(sl_pool_create(first_path, "calls", 4096, 8, &by), SL_E_ARGUMENT, first_path);
    NOTHING(sl_pool_create(first_path, "calls", POOL, 2 * POOL, &by), SL_E_FULL, first_path);
    NOTHING(sl_pool_create(first_path, "calls", POOL, UINT64_MAX, &by), SL_E_FULL, first_path);
    NOTHING(sl_pool_create("/no/such/folder/pool", "calls", POOL, 8, &by), SL_E_FILE, "/no/such/folder");
    WANT(access(first_path, F_OK));

    first = make(first_path);
    WANT(!strcmp(sl_pool_engine(first), engine) && !strcmp(sl_pool_layout(first), "calls"));
    WANT(strstr("dax synced volatile", sl_pool_durability(first)));
    NOTHING(sl_pool_create(first_path, "calls", POOL, 8, &by), SL_E_FILE, first_path);
    WANT(errno == EEXIST);
    NOTHING(sl_pool_open(first_path, "calls", NULL), SL_E_LOCKED, first_path);
    WANT(!sl_pool_close(first));
    NOTHING(sl_pool_open(first_path, "letters", NULL), SL_E_FOREIGN, "letters");
    NOTHING(sl_pool_open(first_path, "calls", &another), SL_E_FOREIGN, engine);
    file = fopen(other_path, "w");
    WANT(file && fwrite("what is this?", 13, 1, file) == 1 && !fclose(file));
    NOTHING(sl_pool_open(other_path, "calls", NULL), SL_E_NO_POOL, other_path);
    WANT(!truncate(other_path, POOL));
    NOTHING(sl_pool_open(other_path, "calls", NULL), SL_E_NO_POOL, other_path);
    WANT(!unlink(other_path));
    file = fopen(first_path, "r+");
    WANT(file && !ftruncate(fileno(file), POOL - 3));
    NOTHING(sl_pool_open(first_path, "calls", NULL), SL_E_DAMAGED, "1048573; it was cut");
    WANT(!ftruncate(fileno(file), POOL) && !fclose(file));
    first = sl_pool_open(first_path, "calls", &by);
    WANT(first);
    second = make(second_path);
}

static void right_calls(void)
{
    const sl_ref root = sl_root(first);
    struct sl_usage usage;
    struct sl_block blocks[3];
    struct inner inner = {3, "words"};
    unsigned char bytes[64];
    sl_ref block, zeros;
    uint64_t threshold, ticket;
    int i;
    WANT(root && sl_block_bytes(first, root) >= sizeof(struct root) && number() == 0);
    WANT(!sl_in_region(first) && !sl_begin(first) && sl_in_region(first) && !sl_in_region(second));
    WANT(!SL_SET(first, root, struct root, number, 5) && number() == 5);
    WANT(!SL_SET(first, root, struct root, inner, inner));
    WANT(!strcmp(SL_GET(first, root, struct root, inner).text, "words"));
    for (i = 0; i < 64; i++)
        bytes[i] = (unsigned char)i;
    WANT(!sl_write(first, root + offsetof(struct root, bytes), bytes, 64));
    /* Onto itself, from both sides, at odd places. */
    WANT(!sl_copy(first, root + offsetof(struct root, bytes) + 3, root + offsetof(struct root, bytes), 40));
    WANT(!sl_read(first, root + offsetof(struct root, bytes), bytes, 64) && bytes[2] == 2 && bytes[42] == 39 && bytes[43] == 43);
    WANT(!sl_copy(first, root + offsetof(struct root, bytes), root + offsetof(struct root, bytes) + 3, 40));
    WANT(!sl_read(first, root + offsetof(struct root, bytes), bytes, 64) && bytes[0] == 0 && bytes[39] == 39 && bytes[40] == 37);
    WANT(!sl_fill(first, root + offsetof(struct root, bytes) + 1, 0xAB, 5));
    WANT(!sl_read(first, root + offsetof(struct root, bytes), bytes, 8) && bytes[0] == 0 && bytes[1] == 0xAB && bytes[5] == 0xAB && bytes[6] == 6);
    block = sl_alloc(first, 100);
    zeros = sl_zalloc(first, 5000);
    WANT(block && zeros && !sl_write(first, block + 99, "x", 1) && SL_PEEK(first, zeros + 4999, char) == 0);
    WANT(!SL_SET(first, root, struct root, block, block));
    WANT(!sl_write(first, root, NULL, 0));
    WANT(!sl_commit(first) && !sl_in_region(first) && number() == 5);
    WANT(!sl_pool_usage(first, &usage) && usage.blocks == 3 && usage.taken >= 5100 + sizeof(struct root) && usage.heap > usage.taken);
    WANT(sl_pool_blocks(first, NULL, 0) == 3 && sl_pool_blocks(first, blocks, 2) == 3 && blocks[0].at == root);
    WANT(sl_pool_blocks(first, blocks, 3) == 3 && blocks[1].bytes == sl_block_bytes(first, blocks[1].at));
    WANT(!sl_begin(first) && !sl_free(first, zeros) && !sl_free(first, block) && !sl_commit(first));
    WANT(sl_pool_blocks(first, NULL, 0) == 1 && !sl_pool_checkpoint(first) && sl_pool_consolidate(first) == 0);
    if (strcmp(engine, "micro-buffer"))
        FAILS(sl_pool_measure_threshold(first, &threshold), SL_E_STATE, "no threshold");
    else
        WANT(!sl_pool_measure_threshold(first, &threshold) && threshold >= 64);
    FAILS(sl_pool_measure_threshold(first, NULL), SL_E_ARGUMENT, "null");
    WANT(!sl_begin(first) && !sl_begin(first) && !sl_commit_async(first, &ticket) && ticket == 0);
    WANT(!SL_SET(first, root, struct root, number, 6) && !sl_commit_async(first, &ticket) && number() == 6);
    WANT(sl_is_due(first, 0) == 1 && sl_is_due(first, ticket) == !!strcmp(engine, "group"));
    WANT(!sl_wait(first, ticket) && sl_is_due(first, ticket) == 1);
    WANT(!sl_begin(first) && !SL_SET(first, root, struct root, number, 5) && !sl_commit_async(first, &ticket));
    WANT(!sl_sync(first) && sl_is_due(first, ticket) == 1 && number() == 5);
    FAILS(sl_commit_async(first, &ticket), SL_E_STATE, "begun no region");
    FAILS(sl_commit_async(first, NULL), SL_E_ARGUMENT, "null");
    FAILS(sl_wait(NULL, ticket), SL_E_ARGUMENT, "null");
}

/* Blocks that are reserved and filled without a region, and published with the reference to them. */
static void reserved(void)
{
    const sl_ref root = sl_root(first), cell = root + offsetof(struct root, block);
    const sl_ref old = SL_PEEK(first, cell, sl_ref);
    sl_ref block, other;

    NOTHING(sl_reserve(first, 0), SL_E_ARGUMENT, "at least 1 byte");
    block = sl_reserve(first, 100);
    other = sl_reserve(first, 70000);
    WANT(block && other && block != other);
    WANT(!sl_reserved_write(first, block + 96, "end", 4) && !sl_reserved_write(first, other + 69999, "x", 1));
    FAILS(sl_reserved_write(first, block + 97, "end", 4), SL_E_REFERENCE, "out of the reserved block");
    FAILS(sl_reserved_write(first, block, NULL, 4), SL_E_ARGUMENT, "null");
    WANT(!sl_publish(first, block, cell) && SL_PEEK(first, cell, sl_ref) == block);
    WANT(SL_PEEK(first, block, char) == 0 && SL_PEEK(first, block + 96, char) == 'e');
    FAILS(sl_publish(first, block, cell), SL_E_REFERENCE, "no block is reserved");
    FAILS(sl_cancel(first, block), SL_E_REFERENCE, "no block is reserved");
    /* As a part of a region that is given up: the block is free again. */
    WANT(!sl_begin(first) && !sl_publish(first, other, cell) && SL_PEEK(first, cell, sl_ref) == other);
    WANT(!sl_abort(first) && SL_PEEK(first, cell, sl_ref) == block);
    other = sl_reserve(first, 70000);
    WANT(other && !sl_cancel(first, other));
    other = sl_reserve(first, 24);
    FAILS(sl_publish(first, other, 0), SL_E_REFERENCE, "leads nowhere");
    WANT(!sl_begin(first) && !sl_free(first, block) && !SL_SET(first, root, struct root, block, old) && !sl_commit(first));
    /* What is left reserved is given up when the pool is closed. */
    WANT(sl_reserve(second, 24));
}

static void nested(void)
{
    const sl_ref root = sl_root(first);
    WANT(!sl_begin(first) && !SL_SET(first, root, struct root, number, 6));
    WANT(!sl_begin(first) && !SL_SET(first, root, struct root, number, 7) && !sl_commit(first));
    WANT(sl_in_region(first) && !sl_abort(first) && number() == 5);
    WANT(!sl_begin(first) && !SL_SET(first, root, struct root, number, 6) && !sl_begin(first) && !sl_abort(first));
    FAILS(SL_SET(first, root, struct root, number, 8), SL_E_FAILED, "aborted");
    FAILS(sl_commit(first), SL_E_FAILED, "aborted");
    WANT(!sl_in_region(first) && number() == 5);
    /* Regions in two pools are two regions. */
    WANT(!sl_begin(first) && !sl_begin(second));
    WANT(!SL_SET(first, root, struct root, number, 6) && !SL_SET(second, sl_root(second), struct root, number, 60));
    WANT(!sl_commit(second) && !sl_abort(first));
    WANT(number() == 5 && SL_GET(second, sl_root(second), struct root, number) == 60);
}

static int gives_up(sl_pool *pool, void *argument)
{
    SL_SET(pool, sl_root(pool), struct root, number, *(uint64_t *)argument);
    return *(uint64_t *)argument == 13 ? 77 : 0;
}

static void as_a_function(void)
{
    uint64_t wanted = 13;
    WANT(sl_region(first, gives_up, &wanted) == 77 && number() == 5 && !sl_in_region(first));
    wanted = 8;
    WANT(sl_region(first, gives_up, &wanted) == 0 && number() == 8);
    FAILS(sl_region(NULL, gives_up, &wanted), SL_E_ARGUMENT, "null");
    wanted = 5;
    WANT(sl_region(first, gives_up, &wanted) == 0);
}

/* Each is done in a region of its own, after a write that must not be there then. */
#define DOOMS(call, status, words)                                                                    \
    do {                                                                                              \
        WANT(!sl_begin(first) && !SL_SET(first, sl_root(first), struct root, number, 99));            \
        FAILS(call, status, words);                                                                   \
        FAILS(sl_commit(first), SL_E_FAILED, words);                                                  \
        WANT(number() == 5 && !sl_in_region(first) && sl_pool_blocks(first, NULL, 0) == 2);           \
    } while (0)

static void wrong_calls(void)
{
    const sl_ref root = sl_root(first);
    const sl_ref mark = root & ~(sl_ref)0 << 48;
    unsigned char bytes[8] = "aaaaaaa";
    uint64_t garbage[8] = {1, 2, 3};
    sl_ref block;
    FAILS(SL_SET(first, root, struct root, number, 9), SL_E_STATE, "sl_begin");
    NOTHING(sl_alloc(first, 8), SL_E_STATE, "sl_begin");
    FAILS(sl_free(first, root), SL_E_STATE, "sl_begin");
    FAILS(sl_commit(first), SL_E_STATE, "begun no region");
    FAILS(sl_abort(first), SL_E_STATE, "begun no region");
    FAILS(sl_read(first, 0, bytes, 8), SL_E_REFERENCE, "nowhere");
    WANT(bytes[0] == 0 && bytes[7] == 0);
    FAILS(sl_read(first, sl_root(second), bytes, 8), SL_E_REFERENCE, "none of this pool");
    FAILS(sl_read(first, mark | (POOL - 4), bytes, 8), SL_E_REFERENCE, "out of");
    FAILS(sl_read(first, root, bytes, UINT64_MAX), SL_E_ARGUMENT, "bytes");
    FAILS(sl_read(first, root, NULL, 8), SL_E_ARGUMENT, "null");
    FAILS(sl_read(NULL, root, bytes, 8), SL_E_ARGUMENT, "null");
    FAILS(sl_read((sl_pool *)(void *)garbage, root, bytes, 8), SL_E_ARGUMENT, "no pool");
    FAILS(sl_read((sl_pool *)((char *)garbage + 1), root, bytes, 8), SL_E_ARGUMENT, "no pool");
    FAILS(sl_pool_usage(first, NULL), SL_E_ARGUMENT, "null");
    WANT(sl_pool_blocks(first, NULL, 1) == -1 && sl_error_code() == SL_E_ARGUMENT);
    NOTHING(sl_block_bytes(first, root + 8), SL_E_REFERENCE, "allocated");
    NOTHING(sl_root(NULL), SL_E_ARGUMENT, "null");
    NOTHING(sl_pool_engine(NULL), SL_E_ARGUMENT, "null");
    FAILS(sl_pool_consolidate(NULL), SL_E_ARGUMENT, "null");

    WANT(!sl_begin(first) && (block = sl_alloc(first, 64)) && !sl_commit(first));
    DOOMS(sl_write(first, 0, bytes, 8), SL_E_REFERENCE, "nowhere");
    DOOMS(sl_write(first, sl_root(second), bytes, 8), SL_E_REFERENCE, "none of this pool");
    /* The header and the logs are nobody's. */
    DOOMS(sl_write(first, mark | 64, bytes, 8), SL_E_REFERENCE, "out of");
    DOOMS(sl_write(first, mark | 12288, bytes, 8), SL_E_REFERENCE, "out of");
    DOOMS(sl_write(first, mark | POOL, bytes, 8), SL_E_REFERENCE, "out of");
    DOOMS(sl_write(first, root, NULL, 8), SL_E_ARGUMENT, "null");
    DOOMS(sl_read(first, 0, bytes, 8), SL_E_REFERENCE, "nowhere");
    DOOMS(sl_fill(first, root, 0, UINT64_MAX), SL_E_REFERENCE, "out of");
    DOOMS(sl_copy(first, root, 0, 8), SL_E_REFERENCE, "nowhere");
    DOOMS(sl_copy(first, root, mark | (POOL - 8), 16), SL_E_REFERENCE, "out of");
    DOOMS(sl_free(first, root), SL_E_REFERENCE, "root");
    DOOMS(sl_free(first, block + 8), SL_E_REFERENCE, "allocated");
    DOOMS(sl_free(first, 0), SL_E_REFERENCE, "nowhere");
    DOOMS((sl_free(first, block), sl_free(first, block)), SL_E_REFERENCE, "allocated");
    DOOMS((sl_alloc(first, 0), sl_error_code()), SL_E_ARGUMENT, "1 byte");
    WANT(!sl_begin(first) && !sl_free(first, block) && !sl_commit(first));
    WANT(!sl_begin(first));
    FAILS(sl_free(first, block), SL_E_REFERENCE, "allocated");
    WANT(!sl_abort(first));
    /* A full pool leaves the region as it was. */
    WANT(!sl_begin(first) && !SL_SET(first, root, struct root, number, 6));
    NOTHING(sl_alloc(first, POOL), SL_E_FULL, "full");
    NOTHING(sl_alloc(first, UINT64_MAX), SL_E_FULL, "at most");
    WANT(!SL_SET(first, root, struct root, number, 5) && !sl_commit(first) && number() == 5);
}

/* A thread that leaves its region open. */
static void *leaves(void *closes)
{
    WANT(!sl_begin(first) && !SL_SET(first, sl_root(first), struct root, number, 44));
    FAILS(sl_pool_close(first), SL_E_STATE, "1 regions");
    if (closes)
        pthread_exit(NULL);
    return NULL;
}

static void threads(void)
{
    pthread_t thread;
    int i;
    for (i = 0; i < 2; i++) {
        WANT(!pthread_create(&thread, NULL, leaves, i ? &thread : NULL) && !pthread_join(thread, NULL));
        WANT(number() == 5);
    }
}

/* A process that ends without a word, its region open or not. */
static void ended(int with_open_region)
{
    struct sl_recovered found;
    const pid_t child = fork();
    int status;
    if (child == 0) {
        const sl_ref root = (first = sl_pool_open(first_path, "calls", NULL)) ? sl_root(first) : 0;
        WANT(!sl_begin(first) && !SL_SET(first, root, struct root, number, 5) && !sl_commit(first));
        if (with_open_region)
            WANT(!sl_begin(first) && !SL_SET(first, root, struct root, number, 1000));
        _exit(0);
    }
    WANT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    first = sl_pool_open(first_path, "calls", NULL);
    WANT(first && !sl_pool_recovered(first, &found));
    if (!strcmp(engine, "redo"))
        WANT(found.redone > 0 && found.undone == 0);
    if (!strcmp(engine, "undo"))
        WANT(found.redone == 0 && found.undone == (unsigned)with_open_region);
    if (strcmp(engine, "none"))
        WANT(number() == 5);
}

/* A child goes on with a pool of its parent's, and ends in the middle of a region of its parent's. */
static void forked(void)
{
    const sl_ref root = sl_root(first);
    uint64_t value = 0;
    pid_t child;
    int status;
    WANT(!sl_begin(first) && !SL_SET(first, root, struct root, number, 6));
    child = fork();
    if (child == 0) {
        FAILS(sl_write(first, root, &value, 8), SL_E_STATE, "forked");
        FAILS(sl_commit(first), SL_E_STATE, "forked");
        FAILS(sl_begin(first), SL_E_STATE, "forked");
        FAILS(sl_read(first, root, &value, 8), SL_E_STATE, "forked");
        FAILS(sl_pool_close(first), SL_E_STATE, "forked");
        NOTHING(sl_pool_open(first_path, "calls", NULL), SL_E_LOCKED, first_path);
        second = make(other_path);
        WANT(!sl_begin(second) && !SL_SET(second, sl_root(second), struct root, number, 1) && !sl_commit(second));
        WANT(!sl_pool_close(second) && !unlink(other_path));
        exit(0);
    }
    WANT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    WANT(number() == 6 && !SL_SET(first, root, struct root, number, 5) && !sl_commit(first) && number() == 5);
}

/* Files may have a limit, which no signal tells. */
static void limited(void)
{
    const struct rlimit most = {POOL, POOL};
    const struct sl_pool_options grows = {engine, SL_GROW};
    const pid_t child = fork();
    int status;
    if (child == 0) {
        sl_pool *pool;
        WANT(!setrlimit(RLIMIT_FSIZE, &most));
        NOTHING(sl_pool_create(other_path, "limited", 2 * POOL, 8, &grows), SL_E_FILE, other_path);
        WANT(errno == EFBIG && access(other_path, F_OK));
        WANT((pool = sl_pool_create(other_path, "limited", POOL, 8, &grows)));
        FAILS(sl_pool_grow(pool, 2 * POOL), SL_E_FILE, other_path);
        WANT(!sl_begin(pool) && sl_alloc(pool, POOL / 2));
        NOTHING(sl_alloc(pool, POOL), SL_E_FULL, "grow");
        WANT(!sl_commit(pool) && !sl_pool_close(pool) && !unlink(other_path));
        exit(0);
    }
    WANT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* A pool that finds no room, and one that makes some. */
static void growing(void)
{
    struct sl_pool_options grows = {engine, SL_GROW};
    struct sl_usage before, after;
    sl_pool *pool = sl_pool_create(other_path, "grows", POOL, 8, &grows);
    sl_ref block = 0;
    int i;
    WANT(pool && !sl_pool_usage(pool, &before));
    for (i = 0; i < 30; i++) {
        WANT(!sl_begin(pool) && (block = sl_alloc(pool, 100000)) && !sl_fill(pool, block, i, 100));
        WANT(!SL_PUT(pool, sl_root(pool), sl_ref, block) && !sl_commit(pool));
    }
    WANT(!sl_begin(pool));
    /* No pool of these chunks can ever have that: it does not try. */
    NOTHING(sl_alloc(pool, 8 * POOL), SL_E_FULL, "at most");
    NOTHING(sl_alloc(pool, UINT64_MAX), SL_E_FULL, "at most");
    WANT(!sl_abort(pool));
    WANT(!sl_pool_usage(pool, &after) && after.heap > 3 * before.heap && after.heap < 8 * POOL);
    WANT(!sl_pool_close(pool));
    pool = sl_pool_open(other_path, "grows", NULL);
    WANT(pool && SL_PEEK(pool, SL_PEEK(pool, sl_root(pool), sl_ref) + 99, char) == 29);
    WANT(sl_pool_blocks(pool, NULL, 0) == 31 && !sl_begin(pool));
    NOTHING(sl_alloc(pool, 100 * POOL), SL_E_FULL, "at most");
    WANT(!sl_abort(pool) && !sl_pool_close(pool) && !unlink(other_path));
}

static void closing(void)
{
    struct sl_recovered found;
    uint64_t threshold;
    struct sl_pool_options force = {NULL, SL_FORCE};
    FILE *file;
    WANT(!sl_begin(first));
    FAILS(sl_pool_close(first), SL_E_STATE, "1 regions");
    FAILS(sl_pool_checkpoint(first), SL_E_STATE, "under way");
    FAILS(sl_pool_measure_threshold(first, &threshold), SL_E_STATE, "under way");
    WANT(!sl_abort(first) && !sl_pool_close(first));
    FAILS(sl_pool_close(first), SL_E_STATE, "closed");
    FAILS(sl_begin(first), SL_E_STATE, "closed");
    FAILS(sl_write(first, sl_root(second), "x", 1), SL_E_STATE, "closed");
    NOTHING(sl_root(first), SL_E_STATE, "closed");
    FAILS(sl_pool_close(NULL), SL_E_ARGUMENT, "null");
    WANT(!sl_pool_close(second));
    ended(0);
    WANT(!sl_pool_close(first));
    ended(1);
    WANT(!sl_pool_close(first));
    first = sl_pool_open(first_path, "calls", &force);
    WANT(first && strstr("forced dax", sl_pool_durability(first)));
    WANT(!sl_pool_recovered(first, &found) && !(found.redone | found.undone | found.torn_lines | found.moved_lines));
    WANT(!sl_pool_close(first));
    /* Both copies of the header. */
    file = fopen(first_path, "r+");
    WANT(file && !fseek(file, 60, SEEK_SET) && fputc('#', file) == '#' && !fseek(file, 4156, SEEK_SET) &&
         fputc('#', file) == '#' && !fclose(file));
    NOTHING(sl_pool_open(first_path, "calls", NULL), SL_E_DAMAGED, first_path);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    engine = argv[2];
    snprintf(first_path, sizeof first_path, "%s/first", argv[1]);
    snprintf(second_path, sizeof second_path, "%s/second", argv[1]);
    snprintf(other_path, sizeof other_path, "%s/other", argv[1]);
    WANT(sl_error_code() == 0 && !*sl_error());
    files();
    right_calls();
    reserved();
    nested();
    as_a_function();
    wrong_calls();
    threads();
    forked();
    limited();
    growing();
    closing();
    return 0;
}
