/*
 * A map from numbers to numbers that survives: chained buckets in a pool, for any number of threads.
 *
 *   map put POOL KEY VALUE       makes the pool if there is none
 *   map get POOL KEY
 *   map remove POOL KEY
 *   map list POOL
 *   map fill POOL FROM TO        puts these keys, one region each, by four threads, and prints each one that is there for good
 *   map load POOL FROM TO        puts these keys by four threads, which wait only every 16 keys, and prints what is there for good: with
 *                                STRANDLINE_ENGINE=group, all of them share syncs
 *   map try POOL [MISTAKE]       a few operations on a new pool, for `strandline check`
 *   map --recover POOL [try]     recovers it and looks whether it is whole: status 0, or 1 and a line that says why. After `try`, what its
 *                                operations left must be there, too
 *
 * MISTAKE is none, or one of those that `put` is made with below. STRANDLINE_ENGINE chooses how a new pool keeps its regions.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strandline_pool.h"

#define LAYOUT "map of numbers, 1"

enum { BUCKETS = 64, THREADS = 4, POOL_BYTES = 1 << 20 };

struct node {
    uint64_t key, value;
    sl_ref next;
};

struct map {
    uint64_t count;
    sl_ref bucket[BUCKETS];
};

/* The mistakes that one can make with regions. The checker finds them. */
enum mistake { NO_MISTAKE, COUNT_LATER, LEAK, LINK_FIRST };
static const char *const MISTAKES[] = {"none", "count-later", "leak", "link-first"};
static enum mistake mistake;

static sl_pool *pool;
/* Regions do not isolate: this does. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void check(int result)
{
    if (result)
        errx(2, "%s", sl_error());
}

static sl_ref bucket_of(uint64_t key)
{
    return sl_root(pool) + offsetof(struct map, bucket) + sizeof(sl_ref) * (key * 0x9e3779b97f4a7c15u >> 58);
}

/* Where the reference to the key's node lies, or to the end of its bucket. */
static sl_ref find(uint64_t key, sl_ref *node)
{
    sl_ref link = bucket_of(key);
    while ((*node = SL_PEEK(pool, link, sl_ref)) && SL_GET(pool, *node, struct node, key) != key)
        link = *node + offsetof(struct node, next);
    return link;
}

static void add_to_count(uint64_t difference)
{
    SL_SET(pool, sl_root(pool), struct map, count, SL_GET(pool, sl_root(pool), struct map, count) + difference);
}

/* The ticket to wait for. What is written in the region counts when it is committed, so a mistake in the middle shows there. */
static uint64_t put_async(uint64_t key, uint64_t value)
{
    uint64_t ticket;
    sl_ref node, link;
    pthread_mutex_lock(&lock);
    check(sl_begin(pool));
    link = find(key, &node);
    if (node) {
        SL_SET(pool, node, struct node, value, value);
    } else {
        node = sl_zalloc(pool, sizeof(struct node));
        if (!node)
            errx(2, "%s", sl_error());
        if (mistake == LINK_FIRST) {
            SL_PUT(pool, link, sl_ref, node);
            check(sl_commit(pool));
            check(sl_begin(pool));
        }
        SL_SET(pool, node, struct node, key, key);
        SL_SET(pool, node, struct node, value, value);
        SL_PUT(pool, link, sl_ref, node);
        if (mistake == COUNT_LATER) {
            check(sl_commit(pool));
            check(sl_begin(pool));
        }
        add_to_count(1);
    }
    check(sl_commit_async(pool, &ticket));
    pthread_mutex_unlock(&lock);
    return ticket;
}

/* Waits without the lock, so that the regions of other threads become durable by the same sync. */
static void put(uint64_t key, uint64_t value)
{
    check(sl_wait(pool, put_async(key, value)));
}

static int get(uint64_t key, uint64_t *value)
{
    sl_ref node;
    pthread_mutex_lock(&lock);
    find(key, &node);
    *value = node ? SL_GET(pool, node, struct node, value) : 0;
    pthread_mutex_unlock(&lock);
    return node != 0;
}

static int remove_locked(sl_pool *in, void *key)
{
    sl_ref node, link = find(*(uint64_t *)key, &node);
    if (!node)
        return 1;
    SL_PUT(in, link, sl_ref, SL_GET(in, node, struct node, next));
    if (mistake != LEAK)
        sl_free(in, node);
    add_to_count((uint64_t)-1);
    return 0;
}

/* Whether it was there. */
static int remove_key(uint64_t key)
{
    int result;
    pthread_mutex_lock(&lock);
    result = sl_region(pool, remove_locked, &key);
    pthread_mutex_unlock(&lock);
    if (result < 0)
        errx(2, "%s", sl_error());
    return result == 0;
}

/* Looks at all of it; prints it if `print`. */
static void whole(int print)
{
    uint64_t count = 0, i;
    sl_ref node;
    for (i = 0; i < BUCKETS; i++)
        for (node = SL_PEEK(pool, sl_root(pool) + offsetof(struct map, bucket) + i * sizeof(sl_ref), sl_ref); node;
             node = SL_GET(pool, node, struct node, next)) {
            const struct node found = SL_PEEK(pool, node, struct node);
            if (sl_block_bytes(pool, node) < sizeof(struct node))
                errx(1, "bucket %" PRIu64 " leads to no node: %s", i, sl_error());
            if (bucket_of(found.key) != sl_root(pool) + offsetof(struct map, bucket) + i * sizeof(sl_ref))
                errx(1, "key %" PRIu64 " is in bucket %" PRIu64 ", where it does not belong", found.key, i);
            if (print)
                printf("%" PRIu64 " %" PRIu64 "\n", found.key, found.value);
            if (++count > POOL_BYTES / sizeof(struct node))
                errx(1, "bucket %" PRIu64 " leads in circles", i);
        }
    if (count != SL_GET(pool, sl_root(pool), struct map, count))
        errx(1, "%" PRIu64 " keys are there, and %" PRIu64 " are counted", count,
             SL_GET(pool, sl_root(pool), struct map, count));
    if (sl_pool_blocks(pool, NULL, 0) != (int64_t)count + 1)
        errx(1, "%" PRIi64 " blocks are allocated for %" PRIu64 " keys", sl_pool_blocks(pool, NULL, 0) - 1, count);
}

static void open_or_create(const char *path)
{
    const struct sl_pool_options options = {getenv("STRANDLINE_ENGINE"), 0};
    pool = sl_pool_create(path, LAYOUT, POOL_BYTES, sizeof(struct map), &options);
    if (!pool && sl_error_code() == SL_E_FILE && errno == EEXIST)
        pool = sl_pool_open(path, LAYOUT, NULL);
    if (!pool)
        errx(2, "%s", sl_error());
}

static uint64_t fill_from, fill_to;

static void *fill(void *number)
{
    uint64_t key = fill_from + (uint64_t)(uintptr_t)number;
    for (; key < fill_to; key += THREADS) {
        char line[32];
        put(key, key * 7);
        /* In one piece, and past stdio, which would keep it. */
        if (fwrite(line, 1, (size_t)snprintf(line, sizeof line, "%" PRIu64 "\n", key), stderr) == 0)
            break;
    }
    return NULL;
}

/* Waits for a few keys at once; the last of them may be fewer. */
static void *load(void *number)
{
    enum { AT_ONCE = 16 };
    uint64_t key = fill_from + (uint64_t)(uintptr_t)number, first = key, ticket;
    while (key < fill_to) {
        ticket = put_async(key, key * 7);
        key += THREADS;
        if (key < fill_to && key - first < AT_ONCE * THREADS)
            continue;
        check(sl_wait(pool, ticket));
        for (; first < key; first += THREADS)
            fprintf(stderr, "%" PRIu64 "\n", first);
    }
    return NULL;
}

static void by_threads(void *(*work)(void *number))
{
    pthread_t threads[THREADS];
    uintptr_t i;
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i))
            errx(2, "no thread");
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Operations with what each must have left. */
static const struct {
    uint64_t key, value; /* value 0: removed */
} OPERATIONS[] = {{1, 10}, {2, 20}, {65, 30}, {1, 11}, {2, 0}, {3, 40}};
enum { OPERATION_COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

static void try_out(void)
{
    size_t i;
    for (i = 0; i < OPERATION_COUNT; i++)
        if (OPERATIONS[i].value)
            put(OPERATIONS[i].key, OPERATIONS[i].value);
        else
            remove_key(OPERATIONS[i].key);
}

/* What the regions that ended before the crash left must be there; the checker says how many there were. */
static void recover(const char *path, int tried)
{
    const char *text = getenv("STRANDLINE_DONE");
    const size_t done = text ? strtoull(text, NULL, 10) : 0;
    uint64_t value;
    size_t i, later;
    pool = sl_pool_open(path, LAYOUT, NULL);
    if (!pool && !done && (sl_error_code() == SL_E_NO_POOL || (sl_error_code() == SL_E_FILE && errno == ENOENT)))
        return;
    if (!pool)
        errx(1, "%s", sl_error());
    whole(0);
    for (i = 0; tried && i < done && i < OPERATION_COUNT; i++) {
        for (later = i + 1; later < OPERATION_COUNT && OPERATIONS[later].key != OPERATIONS[i].key; later++)
            ;
        get(OPERATIONS[i].key, &value);
        /* Unless a later operation may have changed it. */
        if (later == OPERATION_COUNT && value != OPERATIONS[i].value)
            errx(1, "key %" PRIu64 " has the value %" PRIu64 " after %zu operations", OPERATIONS[i].key, value, done);
    }
}

static uint64_t number(const char *text)
{
    char *end;
    const uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end)
        errx(2, "%s is no number", text);
    return value;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[1] : "";
    uint64_t value;
    if (!strcmp(verb, "--recover")) {
        recover(argv[2], argc > 3 && !strcmp(argv[3], "try"));
        return 0;
    }
    if (argc > 2)
        open_or_create(argv[2]);
    if (!strcmp(verb, "put") && argc == 5) {
        put(number(argv[3]), number(argv[4]));
    } else if (!strcmp(verb, "get") && argc == 4) {
        if (!get(number(argv[3]), &value))
            errx(1, "no such key");
        printf("%" PRIu64 "\n", value);
    } else if (!strcmp(verb, "remove") && argc == 4) {
        if (!remove_key(number(argv[3])))
            errx(1, "no such key");
    } else if (!strcmp(verb, "list") && argc == 3) {
        whole(1);
    } else if (!strcmp(verb, "fill") && argc == 5) {
        fill_from = number(argv[3]), fill_to = number(argv[4]);
        by_threads(fill);
    } else if (!strcmp(verb, "load") && argc == 5) {
        fill_from = number(argv[3]), fill_to = number(argv[4]);
        by_threads(load);
    } else if (!strcmp(verb, "try")) {
        if (argc > 3)
            while (strcmp(MISTAKES[mistake], argv[3]))
                if (++mistake > LINK_FIRST)
                    errx(2, "no mistake %s", argv[3]);
        try_out();
    } else {
        errx(2, "usage: map put|get|remove|list|fill|load|try POOL ... (see the head of map.c)");
    }
    check(sl_pool_close(pool));
    return 0;
}
