/*
 * Six shapes of crash bugs, in a table of 64 slots with one bit per slot that says whether it is in use.
 *
 * Published checkers each miss some of them: those that never let an unflushed store survive miss `token-first`, those
 * that see each flush as if it were also a fence miss `no-fence`, those that know flushes alone miss `two-tokens`.
 * (The ordering of `token-first` is that of ten bugs in Level hashing, found by Witcher, W7 to W16.)
 *
 * An update writes the new pair into a free slot and then turns both bits with one store.
 */
#include "bugs.h"

enum { FIXED, TOKEN_FIRST, VALUE_UNFLUSHED, NO_FENCE, TWO_TOKENS, ROOT_UNFLUSHED, REDUNDANT_FLUSH };
static const struct variant VARIANTS[] = {
    {"fixed", "shape 0: correct"},
    {"token-first", "shape 1: the bit is stored before key and value are durable"},
    {"value-unflushed", "shape 2: the value, on a line of its own, is never flushed"},
    {"no-fence", "shape 3: key and value are flushed, but no fence comes before the bit"},
    {"two-tokens", "shape 4: an update clears the old bit and sets the new one by two stores"},
    {"root-unflushed", "shape 5: the root's pointer to the table is never flushed"},
    {"redundant-flush", "shape 6: a flush of lines that are clean (slow, not wrong)"},
};

struct slot {
    uint64_t key;
    char on_another_line[LINE - 8];
    uint64_t value;
    char rest[LINE - 8];
};

struct table {
    uint64_t used; /* a bit per slot */
    char rest[LINE - 8];
    struct slot slots[64];
};

struct root {
    uint64_t table;
};

static const struct operation OPERATIONS[] = {
    {'i', 1}, {'i', 2}, {'i', 3}, {'u', 2}, {'i', 4}, {'i', 5}, {'d', 3}, {'i', 6},
    {'u', 5}, {'i', 7}, {'i', 3}, {'u', 1}, {'d', 4}, {'i', 8}, {'u', 2}, {'i', 9},
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct table *table(void)
{
    return (struct table *)at(root()->table, sizeof(struct table));
}

static int find(uint64_t key)
{
    int i;
    for (i = 0; i < 64; i++)
        if (table()->used >> i & 1 && table()->slots[i].key == key)
            return i;
    return -1;
}

static void put(uint64_t key, uint64_t value)
{
    struct table *t = table();
    const int old = find(key), new = __builtin_ctzll(~t->used);
    struct slot *slot = &t->slots[new];
    const uint64_t without = old < 0 ? t->used : t->used & ~(1ull << old);

    slot->key = key;
    SET(slot->value, value);
    if (variant == TOKEN_FIRST)
        SET(t->used, without | 1ull << new);
    flush(&slot->key, sizeof slot->key);
    if (variant != VALUE_UNFLUSHED)
        flush(&slot->value, sizeof slot->value);
    if (variant == REDUNDANT_FLUSH)
        flush(&slot->key, sizeof slot->key);
    if (variant != NO_FENCE)
        fence();

    if (variant == TWO_TOKENS && old >= 0) {
        SET(t->used, without);
        persist(&t->used, sizeof t->used);
    }
    if (variant != TOKEN_FIRST)
        SET(t->used, without | 1ull << new);
    persist(&t->used, sizeof t->used);
}

static void delete(uint64_t key)
{
    struct table *t = table();
    SET(t->used, t->used & ~(1ull << find(key)));
    persist(&t->used, sizeof t->used);
}

static void run(void)
{
    size_t i;
    pool_create(sizeof(struct root));
    SET(root()->table, allocate(sizeof(struct table)));
    if (variant != ROOT_UNFLUSHED)
        persist(&root()->table, sizeof root()->table);
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        sl_region_begin(i + 1);
        if (OPERATIONS[i].kind == 'd')
            delete(OPERATIONS[i].key);
        else
            put(OPERATIONS[i].key, value_of(OPERATIONS[i].key, i + 1));
        sl_region_end(i + 1);
    }
}

static void check(void)
{
    const struct table *t = table();
    uint64_t key;
    int i;
    for (i = 0; i < 64; i++) {
        if (!(t->used >> i & 1))
            continue;
        if (!is_known(OPERATIONS, COUNT(OPERATIONS), t->slots[i].key))
            wrong("slot %d is in use with the key %llu, which nobody inserted", i, (unsigned long long)t->slots[i].key);
        if (find(t->slots[i].key) != i)
            wrong("key %llu is there twice", (unsigned long long)t->slots[i].key);
    }
    for (key = 1; key <= 9; key++) {
        const int slot = find(key);
        if (slot >= 0 && !t->slots[slot].value)
            wrong("key %llu has no value", (unsigned long long)key);
        check_key(OPERATIONS, COUNT(OPERATIONS), key, slot < 0 ? 0 : t->slots[slot].value);
    }
}

MAIN(run, check)
