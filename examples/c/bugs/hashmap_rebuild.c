/*
 * How PMDK's example hashmap_atomic grows: a table of more buckets is filled beside the one in use, `table_tmp` leads to it, and only then
 * it takes the other one's place. In between there is no table in use, so whoever opens the map has to look at `table_tmp` first.
 *
 * Entries are copied here and not moved, which leaves the old ones as they are; a crash leaks at most one of the tables.
 */
#include "bugs.h"

enum { FIXED, TMP_INVERTED, TMP_UNPERSISTED, TABLE_UNPERSISTED, COPY_UNPERSISTED };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"tmp-inverted", "XFDetector hashmap_atomic sem1: opening tests buckets_tmp for null the wrong way round"},
    {"tmp-unpersisted", "PMTest hashmap_atomic writeback: the persist of buckets_tmp is dropped"},
    {"table-unpersisted", "PMTest hashmap_atomic writeback: the persist of buckets is dropped"},
    {"copy-unpersisted", "PMTest hashmap_atomic writeback: the persist of the whole map is dropped"},
};

struct entry {
    uint64_t key, value, next;
};

struct table {
    uint64_t buckets;
    uint64_t bucket[];
};

struct root {
    uint64_t table;
    char rest[LINE - 8];
    uint64_t table_tmp;
};

static const struct operation OPERATIONS[] = {
    {'i', 1}, {'i', 2}, {'i', 3}, {'g', 4}, {'i', 4}, {'u', 2}, {'d', 1}, {'i', 5}, {'g', 7}, {'i', 6}, {'d', 3}, {'u', 5},
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct entry *entry(uint64_t offset)
{
    return (struct entry *)at(offset, sizeof(struct entry));
}

static struct table *table(uint64_t offset)
{
    struct table *found = (struct table *)at(offset, sizeof *found);
    if (!found->buckets || found->buckets > 64)
        wrong("a table of %llu buckets", (unsigned long long)found->buckets);
    return (struct table *)at(offset, sizeof *found + found->buckets * 8);
}

static void set(uint64_t *place, uint64_t value)
{
    SET(*place, value);
    persist(place, sizeof *place);
}

static uint64_t *bucket(struct table *in, uint64_t key)
{
    return &in->bucket[mix(key) % in->buckets];
}

/* The pointer that leads to the key's entry, or the bucket's last. */
static uint64_t *find(uint64_t key)
{
    uint64_t *place = bucket(table(root()->table), key);
    while (*place && entry(*place)->key != key)
        place = &entry(*place)->next;
    return place;
}

static uint64_t new_entry(uint64_t key, uint64_t value, uint64_t next)
{
    const uint64_t offset = allocate(sizeof(struct entry));
    entry(offset)->key = key;
    entry(offset)->value = value;
    entry(offset)->next = next;
    persist(entry(offset), sizeof(struct entry));
    return offset;
}

static uint64_t new_table(uint64_t buckets)
{
    const size_t bytes = sizeof(struct table) + buckets * 8;
    const uint64_t offset = allocate(bytes);
    ((struct table *)at(offset, bytes))->buckets = buckets;
    return offset;
}

static void persist_table(uint64_t offset)
{
    persist(table(offset), sizeof(struct table) + table(offset)->buckets * 8);
}

static void grow(uint64_t buckets)
{
    const uint64_t copy = new_table(buckets);
    const struct table *old = table(root()->table);
    uint64_t i, offset;
    for (i = 0; i < old->buckets; i++)
        for (offset = old->bucket[i]; offset; offset = entry(offset)->next) {
            uint64_t *place = bucket(table(copy), entry(offset)->key);
            SET(*place, new_entry(entry(offset)->key, entry(offset)->value, *place));
        }
    if (variant != COPY_UNPERSISTED)
        persist_table(copy);
    SET(root()->table_tmp, copy);
    if (variant != TMP_UNPERSISTED)
        persist(&root()->table_tmp, sizeof copy);
    set(&root()->table, 0); /* where the original frees it */
    SET(root()->table, copy);
    if (variant != TABLE_UNPERSISTED)
        persist(&root()->table, sizeof copy);
    set(&root()->table_tmp, 0);
}

static void run(void)
{
    size_t i;
    uint64_t first;
    pool_create(sizeof(struct root));
    first = new_table(2);
    persist_table(first);
    set(&root()->table, first);
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key, value = value_of(key, i + 1);
        sl_region_begin(i + 1);
        switch (OPERATIONS[i].kind) {
        case 'i': set(bucket(table(root()->table), key), new_entry(key, value, *bucket(table(root()->table), key))); break;
        case 'u': set(&entry(*find(key))->value, value); break;
        case 'd': set(find(key), entry(*find(key))->next); break;
        default: grow(key);
        }
        sl_region_end(i + 1);
    }
}

static void recover(void)
{
    if (!root()->table_tmp == (variant != TMP_INVERTED))
        return;
    if (root()->table_tmp && root()->table != root()->table_tmp)
        set(&root()->table, root()->table_tmp);
    set(&root()->table_tmp, 0);
}

/* What a growth leaves is the same map: only the other operations count. */
static void check(void)
{
    struct operation operations[COUNT(OPERATIONS)];
    uint64_t key, i, offset;
    recover();
    if (!root()->table)
        wrong("the map has no table");
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        operations[i] = OPERATIONS[i];
        if (operations[i].kind == 'g')
            operations[i].key = 0;
    }
    for (i = 0; i < table(root()->table)->buckets; i++)
        for (offset = table(root()->table)->bucket[i]; offset; offset = entry(offset)->next)
            if (*find(entry(offset)->key) != offset || !is_known(operations, COUNT(operations), entry(offset)->key))
                wrong("key %llu is there twice, or was never inserted", (unsigned long long)entry(offset)->key);
    for (key = 1; key <= 6; key++) {
        const uint64_t place = *find(key);
        check_key(operations, COUNT(operations), key, place ? entry(place)->value : 0);
    }
}

MAIN(run, check)
