/*
 * P-BwTree (RECIPE, commit 5b4cf3e): a node's changes are delta records, linked in front of each other. They are cut off a
 * chunk from its end; `tail` is where the last one begins. Two missing flushes that Witcher found (W28, W29) are seen only
 * when the program goes on after a crash, so the check does.
 */
#include "bugs.h"

enum { FIXED, TAIL, CHUNK_HEADER };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"tail", "P-BwTree W28: tail.fetch_sub is never flushed, so that a record is given out again"},
    {"chunk-header", "P-BwTree W29: the header of a new chunk is never flushed"},
};

struct record {
    uint64_t key, value, next, unused;
};

enum { RECORDS = 6 };

struct chunk {
    uint64_t tail, before;
    char rest[LINE - 16];
    struct record record[RECORDS];
};

struct root {
    uint64_t chunk;
    char rest[LINE - 8];
    uint64_t newest; /* the first record of the chain */
};

static const struct operation OPERATIONS[] = {
    {'i', 1}, {'i', 2}, {'i', 3}, {'u', 1}, {'i', 4}, {'i', 5},  {'i', 6},
    {'u', 4}, {'i', 7}, {'i', 8}, {'u', 6}, {'i', 9}, {'i', 10}, {'i', 11},
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct record *record(uint64_t offset)
{
    return (struct record *)at(offset, sizeof(struct record));
}

static void add_chunk(void)
{
    const uint64_t offset = allocate(sizeof(struct chunk));
    struct chunk *chunk = (struct chunk *)at(offset, sizeof *chunk);
    chunk->tail = offset_of(chunk->record + RECORDS);
    chunk->before = root()->chunk;
    if (variant != CHUNK_HEADER)
        persist(chunk, LINE);
    SET(root()->chunk, offset);
    persist(&root()->chunk, sizeof root()->chunk);
}

static uint64_t cut_record(void)
{
    struct chunk *chunk = (struct chunk *)at(root()->chunk, sizeof *chunk);
    uint64_t tail;
    if (chunk->tail == offset_of(chunk->record)) {
        add_chunk();
        chunk = (struct chunk *)at(root()->chunk, sizeof *chunk);
    }
    tail = __atomic_fetch_sub(&chunk->tail, sizeof(struct record), __ATOMIC_ACQ_REL) - sizeof(struct record);
    if (variant == FIXED)
        persist(&chunk->tail, sizeof chunk->tail);
    return tail;
}

static void append(uint64_t key, uint64_t value)
{
    const uint64_t offset = cut_record();
    struct record *new = record(offset);
    new->key = key;
    new->value = value;
    new->next = root()->newest;
    persist(new, sizeof *new);
    SET(root()->newest, offset);
    persist(&root()->newest, sizeof root()->newest);
}

static uint64_t find(uint64_t key)
{
    uint64_t offset = root()->newest;
    while (offset && record(offset)->key != key)
        offset = record(offset)->next;
    return offset ? record(offset)->value : 0;
}

static void run(void)
{
    size_t i;
    pool_create(sizeof(struct root));
    add_chunk();
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        sl_region_begin(i + 1);
        append(OPERATIONS[i].key, value_of(OPERATIONS[i].key, i + 1));
        sl_region_end(i + 1);
    }
}

static void check(void)
{
    uint64_t key, before[12];
    for (key = 1; key <= 11; key++) {
        before[key] = find(key);
        check_key(OPERATIONS, COUNT(OPERATIONS), key, before[key]);
    }
    /* The program goes on. */
    for (key = 101; key <= 103; key++)
        append(key, key);
    for (key = 1; key <= 11; key++)
        if (find(key) != before[key])
            wrong("key %llu is overwritten when the program goes on", (unsigned long long)key);
    for (key = 101; key <= 103; key++)
        if (find(key) != key)
            wrong("what is appended after the crash can't be found");
}

MAIN(run, check)
