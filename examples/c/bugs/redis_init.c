/*
 * A dictionary with a root that says whether it was initialised, in the manner of redis on persistent memory; XFDetector
 * found its initialisation wrong. This program knows no flushes: it makes pages durable by msync, as programs with mapped
 * files do everywhere. Root and dictionary are on different pages, and a page may become durable at any time before.
 */
#include "bugs.h"

enum { FIXED, INIT_EARLY, NEVER_SYNCED, COUNT_FIRST };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"init-early", "redis on PMDK (XFDetector): the root says that it is initialised before the dictionary is"},
    {"never-synced", "the root is never synced"},
    {"count-first", "the number of entries is synced before the entry"},
};

enum { PAGE = 4096, SLOTS = 16, EMPTY = 0xfeed };

struct root {
    uint64_t initialised;
    uint64_t entries;
};

struct entry {
    uint64_t key, value;
};

struct dictionary {
    uint64_t seed; /* of its hash, so that one that is not initialised can't be used */
    struct entry entry[SLOTS];
};

static const struct operation OPERATIONS[] = {
    {'i', 1}, {'i', 2}, {'i', 3}, {'i', 4}, {'i', 5}, {'i', 6}, {'i', 7}, {'i', 8},
};

static struct root *root(void)
{
    return (struct root *)at(PAGE, sizeof(struct root));
}

static struct dictionary *dictionary(void)
{
    return (struct dictionary *)at(2 * PAGE, sizeof(struct dictionary));
}

static void sync_page(void *page)
{
    if (msync(page, PAGE, MS_SYNC))
        fatal("msync: %s", strerror(errno));
}

static void initialise(void)
{
    int i;
    if (variant == INIT_EARLY) {
        SET(root()->initialised, 1);
        sync_page(root());
    }
    dictionary()->seed = 42;
    for (i = 0; i < SLOTS; i++)
        dictionary()->entry[i].key = EMPTY;
    sync_page(dictionary());
    if (variant != INIT_EARLY) {
        SET(root()->initialised, 1);
        if (variant != NEVER_SYNCED)
            sync_page(root());
    }
}

static void insert(uint64_t key, uint64_t value)
{
    const uint64_t place = root()->entries;
    if (variant == COUNT_FIRST) {
        SET(root()->entries, place + 1);
        sync_page(root());
    }
    dictionary()->entry[place].value = value;
    dictionary()->entry[place].key = key;
    sync_page(dictionary());
    if (variant != COUNT_FIRST) {
        SET(root()->entries, place + 1);
        if (variant != NEVER_SYNCED)
            sync_page(root());
    }
}

static void run(void)
{
    size_t i;
    SET(HEADER->magic, MAGIC);
    sync_page(pool);
    initialise();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        sl_region_begin(i + 1);
        insert(OPERATIONS[i].key, value_of(OPERATIONS[i].key, i + 1));
        sl_region_end(i + 1);
    }
}

static void check(void)
{
    uint64_t i;
    if (!root()->initialised) {
        if (root()->entries || done_operations())
            wrong("there are entries, but the root is not initialised");
        return;
    }
    if (dictionary()->seed != 42)
        wrong("the root is initialised and the dictionary is not");
    if (root()->entries > SLOTS || root()->entries < done_operations())
        wrong("%llu entries after %zu operations", (unsigned long long)root()->entries, done_operations());
    for (i = 0; i < root()->entries; i++)
        if (dictionary()->entry[i].key != OPERATIONS[i].key ||
            dictionary()->entry[i].value != value_of(OPERATIONS[i].key, i + 1))
            wrong("entry %llu is not what was inserted", (unsigned long long)i);
}

MAIN(run, check)
