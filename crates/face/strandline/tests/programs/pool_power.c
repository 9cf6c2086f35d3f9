/*
 * A ledger that tells what is safe, for machines and processes that end at any time.
 *
 *     power work POOL             makes the pool, and adds entries until somebody ends this; says of each when its region has ended
 *     power check POOL N DURABLE  opens it: every entry that was reported, in order and whole; what becomes of more is as DURABLE says
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "strandline_pool.h"

#define WANT(condition)                                                                           \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("line %d: not so: %s (%s)\n", __LINE__, #condition, sl_error());               \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

struct entry {
    uint64_t number, complement;
    sl_ref before;
};
struct root {
    sl_ref last;
    uint64_t count;
};

/* Adds an entry, and changes the length of the ledger with it. */
static void add(sl_pool *pool, uint64_t number)
{
    WANT(sl_begin(pool) == 0);
    const sl_ref root = sl_root(pool), place = sl_alloc(pool, sizeof(struct entry));
    const struct entry entry = {number, ~number, SL_GET(pool, root, struct root, last)};
    sl_write(pool, place, &entry, sizeof entry);
    SL_SET(pool, root, struct root, last, place);
    SL_SET(pool, root, struct root, count, number);
    WANT(sl_commit(pool) == 0);
}

/* What the ledger holds: entries from its length down to 1, and no other block. */
static uint64_t count(sl_pool *pool)
{
    const sl_ref root = sl_root(pool);
    const uint64_t count = SL_PEEK(pool, root + offsetof(struct root, count), uint64_t);
    uint64_t number = count;
    for (sl_ref at = SL_PEEK(pool, root, sl_ref); at; number--) {
        const struct entry entry = SL_PEEK(pool, at, struct entry);
        WANT(entry.number == number && entry.complement == ~number);
        at = entry.before;
    }
    WANT(number == 0 && sl_pool_blocks(pool, NULL, 0) == (int64_t)count + 1);
    return count;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "work") == 0) {
        sl_pool *pool = sl_pool_create(argv[2], "ledger, 1", 8 << 20, sizeof(struct root), NULL);
        WANT(pool);
        for (uint64_t number = 1;; number++) {
            add(pool, number);
            char line[64];
            const int length = snprintf(line, sizeof line, "reported %llu\n", (unsigned long long)number);
            WANT(write(1, line, length) == length);
            /* There is room for some 100,000, and nobody waits for as many. */
            if (number > 2000)
                usleep(20000);
        }
    }
    WANT(argc == 5 && strcmp(argv[1], "check") == 0);
    sl_pool *pool = sl_pool_open(argv[2], "ledger, 1", NULL);
    WANT(pool);
    const uint64_t reported = strtoull(argv[3], NULL, 10), found = count(pool);
    printf("%llu entries, reported were %llu, %s\n", (unsigned long long)found, (unsigned long long)reported,
           sl_pool_durability(pool));
    WANT(reported > 0 && found >= reported);
    WANT(strcmp(sl_pool_durability(pool), argv[4]) == 0);
    add(pool, found + 1);
    WANT(count(pool) == found + 1);
    /* Without closing it, again. */
    return 0;
}
