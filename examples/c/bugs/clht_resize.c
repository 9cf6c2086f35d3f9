/*
 * P-CLHT (RECIPE): a hash table of buckets of one line each, which is copied into one twice as long when a bucket is full.
 * Tables that are no longer used are freed later, from `oldest` to the one in use.
 *
 * A table that is freed twice would be given out twice; here the heap notices and says so.
 */
#define BY_ASSEMBLY
#include "bugs.h"

enum { FIXED, BUCKETS_UNFLUSHED, SWAP_UNFLUSHED, OLDEST_UNFLUSHED };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"buckets-unflushed", "P-CLHT W31, W32: resizing switches to a table whose buckets were not flushed"},
    {"swap-unflushed", "P-CLHT W33: the pointer to the table in use is not flushed after resizing"},
    {"oldest-unflushed", "RECIPE issue 24: ht_oldest is not persisted after the tables were freed, so they are freed twice"},
};

enum { ENTRIES = 3, LIVE = 1, FREED = 2 };

struct bucket {
    uint64_t value[ENTRIES], key[ENTRIES], unused[2]; /* in one line, so a key does not overtake its value */
};

struct table {
    uint64_t buckets, state, newer;
    char rest[LINE - 24];
    struct bucket bucket[];
};

struct root {
    uint64_t table;
    char rest[LINE - 8];
    uint64_t oldest;
};

static const struct operation OPERATIONS[] = {
    {'i', 1}, {'i', 2}, {'i', 3}, {'i', 4}, {'d', 2}, {'i', 5}, {'i', 6}, {'i', 7}, {'u', 4}, {'i', 8}, {'i', 9}, {'i', 10},
    {'i', 11}, {'i', 2}, {'u', 6}, {'i', 12}, {'d', 9}, {'i', 13}, {'i', 14},
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct table *table(uint64_t offset)
{
    struct table *t = (struct table *)at(offset, sizeof *t);
    if (!t->buckets || t->buckets > POOL_BYTES / LINE)
        wrong("a table of %llu buckets", (unsigned long long)t->buckets);
    return (struct table *)at(offset, sizeof *t + t->buckets * sizeof(struct bucket));
}

static struct bucket *bucket(struct table *t, uint64_t key)
{
    return &t->bucket[mix(key) % t->buckets];
}

static int find(const struct bucket *b, uint64_t key)
{
    int i;
    for (i = 0; i < ENTRIES && b->key[i] != key; i++)
        ;
    return i;
}

static uint64_t make_table(uint64_t buckets)
{
    const uint64_t offset = allocate(sizeof(struct table) + buckets * sizeof(struct bucket));
    struct table *t = (struct table *)(pool + offset);
    t->buckets = buckets;
    t->state = LIVE;
    flush(t, 16);
    return offset;
}

static void release(struct table *t)
{
    if (t->state == FREED)
        wrong("a table is freed twice");
    SET(t->state, FREED);
    persist(&t->state, sizeof t->state);
}

/* Frees the tables from the oldest to the one in use. The oldest is known durably before, so that a crash may leak a
 * table but not free it again. */
static void collect(void)
{
    uint64_t offset = root()->oldest, end = root()->table, next;
    if (offset == end)
        return;
    SET(root()->oldest, end);
    if (variant != OLDEST_UNFLUSHED)
        persist(&root()->oldest, sizeof root()->oldest);
    for (; offset != end; offset = next) {
        next = table(offset)->newer;
        release(table(offset));
    }
}

static void resize(void)
{
    struct table *old = table(root()->table), *new;
    const uint64_t offset = make_table(2 * old->buckets);
    uint64_t i;
    int j, free;
    new = table(offset);
    for (i = 0; i < old->buckets; i++)
        for (j = 0; j < ENTRIES; j++) {
            const uint64_t key = old->bucket[i].key[j];
            if (!key)
                continue;
            free = find(bucket(new, key), 0);
            bucket(new, key)->value[free] = old->bucket[i].value[j];
            bucket(new, key)->key[free] = key;
            if (variant != BUCKETS_UNFLUSHED)
                flush(bucket(new, key), sizeof(struct bucket));
        }
    SET(old->newer, offset);
    flush(&old->newer, sizeof old->newer);
    fence();
    SET(root()->table, offset);
    if (variant != SWAP_UNFLUSHED)
        persist(&root()->table, sizeof root()->table);
    collect();
}

static void insert(uint64_t key, uint64_t value)
{
    struct bucket *b = bucket(table(root()->table), key);
    int free;
    while ((free = find(b, 0)) == ENTRIES) {
        resize();
        b = bucket(table(root()->table), key);
    }
    SET(b->value[free], value);
    SET(b->key[free], key);
    persist(b, sizeof *b);
}

static void run(void)
{
    size_t i;
    uint64_t offset;
    pool_create(sizeof(struct root));
    offset = make_table(1);
    SET(root()->table, offset);
    SET(root()->oldest, offset);
    flush(&root()->table, 8);
    persist(&root()->oldest, 8);
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key;
        struct bucket *b = bucket(table(root()->table), key);
        sl_region_begin(i + 1);
        switch (OPERATIONS[i].kind) {
        case 'i':
            insert(key, value_of(key, i + 1));
            break;
        case 'u':
            SET(b->value[find(b, key)], value_of(key, i + 1));
            persist(b, sizeof *b);
            break;
        default:
            SET(b->key[find(b, key)], 0);
            persist(b, sizeof *b);
        }
        sl_region_end(i + 1);
    }
}

static void check(void)
{
    struct table *t;
    uint64_t key, i;
    int j;
    collect(); /* as recovery does */
    t = table(root()->table);
    if (t->state != LIVE)
        wrong("the table in use is not live");
    for (i = 0; i < t->buckets; i++)
        for (j = 0; j < ENTRIES; j++) {
            key = t->bucket[i].key[j];
            if (key && (!is_known(OPERATIONS, COUNT(OPERATIONS), key) || bucket(t, key) != &t->bucket[i] ||
                        find(bucket(t, key), key) != j))
                wrong("key %llu is there twice, in a wrong bucket, or was never inserted", (unsigned long long)key);
        }
    for (key = 1; key <= 14; key++) {
        j = find(bucket(t, key), key);
        check_key(OPERATIONS, COUNT(OPERATIONS), key, j < ENTRIES ? bucket(t, key)->value[j] : 0);
    }
}

MAIN(run, check)
