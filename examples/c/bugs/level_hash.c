/*
 * Level hashing (Pfzuo, commit 28eca31): two arrays of buckets, the upper one twice as long. A key has two buckets in
 * each. A bucket's tokens say which of its slots are in use; they and a slot may lie on different lines.
 *
 * The bugs are those that Witcher found (W7 to W23). What the original does in several stores is one store here if it is
 * right: a table is a line with capacity and arrays, and the root's pointer to it changes at once; a move of an entry is
 * written down first, so that recovery finishes it.
 */
#include "bugs.h"

enum { FIXED, TOKEN_FIRST, UPDATE_LOSES, MOVE_TWICE, EXPAND_CAPACITY, SHRINK_SWAP };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"token-first", "Level hashing W7-W16: the token is 1 before key and value are durable"},
    {"update-loses", "Level hashing W22, W23: an update clears the old token and sets the new one by two stores"},
    {"move-twice", "Level hashing W19-W21: an entry moves by two token writes, between which it is there twice"},
    {"expand-capacity", "Level hashing W17: expansion changes the capacity before the new array exists"},
    {"shrink-swap", "Level hashing W18: shrinking replaces capacity and arrays one after the other"},
};

enum { SLOTS = 2 };

struct bucket {
    uint64_t tokens; /* a bit per slot */
    char rest[LINE - 8];
    struct {
        uint64_t key, value;
    } slot[SLOTS];
    char unused[LINE - 16 * SLOTS];
};

struct array {
    uint64_t buckets;
    char rest[LINE - 8];
    struct bucket bucket[];
};

struct table {
    uint64_t capacity; /* buckets of the upper array; the lower one has half as many */
    uint64_t upper, lower;
};

struct root {
    uint64_t table;
    char rest[LINE - 8];
    uint64_t moving; /* where an entry moves from and, in the upper half, to; 0 when none does */
};

static const struct operation OPERATIONS[] = {
    {'i', 1}, {'i', 2}, {'i', 3}, {'u', 2}, {'i', 4}, {'i', 5}, {'i', 6}, {'i', 7},  {'i', 8}, {'u', 7}, {'i', 9}, {'i', 10},
    {'i', 11}, {'u', 1}, {'i', 12}, {'d', 3}, {'d', 5}, {'d', 6}, {'d', 9}, {'d', 11}, {'d', 4},
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct table *table(void)
{
    return (struct table *)at(root()->table, sizeof(struct table));
}

static struct array *array(uint64_t offset)
{
    struct array *a = (struct array *)at(offset, sizeof *a);
    if (a->buckets > POOL_BYTES / sizeof(struct bucket))
        wrong("an array of %llu buckets", (unsigned long long)a->buckets);
    return (struct array *)at(offset, sizeof *a + a->buckets * sizeof(struct bucket));
}

/* Chosen so that few keys make entries move and the table grow. */
enum { SEED = 40000 };

/* The bucket of a key in an array, for each of the two hashes. */
static struct bucket *bucket(struct array *a, uint64_t key, int hash)
{
    return &a->bucket[mix(key + 1000u * (unsigned)hash + SEED) % a->buckets];
}

/* A slot is named by its bucket's offset and, in the low bits, its number. */
static struct bucket *find(uint64_t key, int *slot)
{
    uint64_t arrays[2] = {table()->upper, table()->lower};
    int i;
    for (i = 0; i < 4; i++) {
        struct bucket *b = bucket(array(arrays[i / 2]), key, i % 2);
        for (*slot = 0; *slot < SLOTS; ++*slot)
            if (b->tokens >> *slot & 1 && b->slot[*slot].key == key)
                return b;
    }
    return NULL;
}

static int free_slot(const struct bucket *b)
{
    int slot = 0;
    while (slot < SLOTS && b->tokens >> slot & 1)
        slot++;
    return slot;
}

static void set_tokens(struct bucket *b, uint64_t tokens)
{
    SET(b->tokens, tokens);
    persist(&b->tokens, sizeof b->tokens);
}

/* Writes an entry into a free slot and turns the tokens from those in `without` to that and its own. */
static void put(struct bucket *b, int slot, uint64_t key, uint64_t value, uint64_t without)
{
    b->slot[slot].key = key;
    b->slot[slot].value = value;
    if (variant == TOKEN_FIRST) {
        SET(b->tokens, without | 1ull << slot);
        flush(&b->slot[slot], sizeof b->slot[slot]);
        persist(&b->tokens, sizeof b->tokens);
        return;
    }
    persist(&b->slot[slot], sizeof b->slot[slot]);
    if (variant == UPDATE_LOSES && without != b->tokens)
        set_tokens(b, without);
    set_tokens(b, without | 1ull << slot);
}

static void set_moving(uint64_t moving)
{
    SET(root()->moving, moving);
    persist(&root()->moving, sizeof root()->moving);
}

/* Makes room in `from` by moving an entry to its other bucket in the same array. Returns the slot, or SLOTS. */
static int move(struct array *a, struct bucket *from)
{
    int slot, hash, free;
    for (slot = 0; slot < SLOTS; slot++)
        for (hash = 0; hash < 2; hash++) {
            struct bucket *to = bucket(a, from->slot[slot].key, hash);
            if (to == from || (free = free_slot(to)) == SLOTS)
                continue;
            to->slot[free] = from->slot[slot];
            persist(&to->slot[free], sizeof to->slot[free]);
            if (variant != MOVE_TWICE)
                set_moving((offset_of(from) + (unsigned)slot) | (offset_of(to) + (unsigned)free) << 32);
            set_tokens(to, to->tokens | 1ull << free);
            set_tokens(from, from->tokens & ~(1ull << slot));
            if (variant != MOVE_TWICE)
                set_moving(0);
            return slot;
        }
    return SLOTS;
}

/* Recovery: the entry is in its new place, and no longer in its old one. */
static void finish_move(void)
{
    const uint64_t moving = root()->moving, from = moving & 0xffffffff, to = moving >> 32;
    struct bucket *b;
    if (!moving)
        return;
    b = (struct bucket *)at(to & ~63ull, sizeof *b);
    set_tokens(b, b->tokens | 1ull << (to & 1));
    b = (struct bucket *)at(from & ~63ull, sizeof *b);
    set_tokens(b, b->tokens & ~(1ull << (from & 1)));
    set_moving(0);
}

/* A new, unreachable array; its entries are flushed, and durable after the next fence. */
static uint64_t make_array(uint64_t buckets)
{
    const uint64_t offset = allocate(sizeof(struct array) + buckets * sizeof(struct bucket));
    struct array *a = (struct array *)(pool + offset);
    a->buckets = buckets;
    flush(&a->buckets, sizeof a->buckets);
    return offset;
}

/* Copies the entries of an array into one of two that nobody can reach yet. */
static void copy(uint64_t from, uint64_t to, uint64_t or_to)
{
    const struct array *old = array(from);
    uint64_t i;
    int slot, choice, free;
    for (i = 0; i < old->buckets; i++)
        for (slot = 0; slot < SLOTS; slot++) {
            struct bucket *b = NULL;
            if (!(old->bucket[i].tokens >> slot & 1))
                continue;
            for (choice = 0, free = SLOTS; choice < 4 && free == SLOTS; choice++) {
                b = bucket(array(choice < 2 ? to : or_to), old->bucket[i].slot[slot].key, choice % 2);
                free = free_slot(b);
            }
            if (free == SLOTS)
                fatal("no room in the new array");
            b->slot[free] = old->bucket[i].slot[slot];
            b->tokens |= 1ull << free;
            flush(&b->slot[free], sizeof b->slot[free]);
            flush(&b->tokens, sizeof b->tokens);
        }
}

/* The table changes to these three. */
static void switch_table(uint64_t capacity, uint64_t upper, uint64_t lower)
{
    if (variant == EXPAND_CAPACITY || variant == SHRINK_SWAP) {
        SET(table()->capacity, capacity);
        SET(table()->upper, upper);
        SET(table()->lower, lower);
        persist(table(), sizeof(struct table));
    } else {
        const uint64_t offset = allocate(sizeof(struct table));
        struct table *t = (struct table *)(pool + offset);
        t->capacity = capacity, t->upper = upper, t->lower = lower;
        persist(t, sizeof *t);
        SET(root()->table, offset);
        persist(&root()->table, sizeof root()->table);
    }
}

/* The lower array's entries go to a new array twice as long as the upper one, which becomes the lower. */
static void expand(void)
{
    const uint64_t capacity = table()->capacity, upper = table()->upper, lower = table()->lower;
    uint64_t longer;
    if (variant == EXPAND_CAPACITY) {
        SET(table()->capacity, 2 * capacity);
        persist(&table()->capacity, sizeof capacity);
    }
    longer = make_array(2 * capacity);
    copy(lower, longer, longer);
    fence();
    switch_table(2 * capacity, longer, upper);
}

/* Both arrays are replaced by ones half as long. */
static void shrink(void)
{
    const uint64_t capacity = table()->capacity / 2;
    const uint64_t upper = make_array(capacity), lower = make_array(capacity / 2);
    copy(table()->lower, upper, lower);
    copy(table()->upper, upper, lower);
    fence();
    switch_table(capacity, upper, lower);
}

static void insert(uint64_t key, uint64_t value)
{
    uint64_t arrays[2] = {table()->upper, table()->lower};
    int i, slot;
    for (i = 0; i < 4; i++) {
        struct bucket *b = bucket(array(arrays[i / 2]), key, i % 2);
        if ((slot = free_slot(b)) < SLOTS) {
            put(b, slot, key, value, b->tokens);
            return;
        }
    }
    for (i = 0; i < 4; i++) {
        struct bucket *b = bucket(array(arrays[i / 2]), key, i % 2);
        if ((slot = move(array(arrays[i / 2]), b)) < SLOTS) {
            put(b, slot, key, value, b->tokens);
            return;
        }
    }
    expand();
    insert(key, value);
}

static void update(uint64_t key, uint64_t value)
{
    int old, slot;
    struct bucket *b = find(key, &old);
    if ((slot = free_slot(b)) < SLOTS) {
        put(b, slot, key, value, b->tokens & ~(1ull << old));
    } else {
        SET(b->slot[old].value, value);
        persist(&b->slot[old].value, sizeof value);
    }
}

static void delete(uint64_t key)
{
    int slot;
    struct bucket *b = find(key, &slot);
    set_tokens(b, b->tokens & ~(1ull << slot));
}

static void run(void)
{
    size_t i;
    pool_create(sizeof(struct root));
    const uint64_t offset = allocate(sizeof(struct table));
    struct table *t = (struct table *)(pool + offset);
    t->capacity = 4;
    t->upper = make_array(4);
    t->lower = make_array(2);
    persist(t, sizeof *t);
    SET(root()->table, offset);
    persist(&root()->table, sizeof root()->table);
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        sl_region_begin(i + 1);
        switch (OPERATIONS[i].kind) {
        case 'i': insert(OPERATIONS[i].key, value_of(OPERATIONS[i].key, i + 1)); break;
        case 'u': update(OPERATIONS[i].key, value_of(OPERATIONS[i].key, i + 1)); break;
        default: delete(OPERATIONS[i].key);
        }
        sl_region_end(i + 1);
    }
    sl_region_begin(i + 1);
    shrink();
    sl_region_end(i + 1);
}

static void check(void)
{
    uint64_t arrays[2], i, key;
    int a, slot, place;
    finish_move();
    arrays[0] = table()->upper, arrays[1] = table()->lower;
    for (a = 0; a < 2; a++) {
        struct array *level = array(arrays[a]);
        if (level->buckets != table()->capacity >> a || !level->buckets)
            wrong("an array has %llu buckets where the capacity says %llu", (unsigned long long)level->buckets,
                  (unsigned long long)table()->capacity >> a);
        for (i = 0; i < level->buckets; i++)
            for (slot = 0; slot < SLOTS; slot++) {
                key = level->bucket[i].slot[slot].key;
                if (!(level->bucket[i].tokens >> slot & 1))
                    continue;
                if (!is_known(OPERATIONS, COUNT(OPERATIONS), key))
                    wrong("a token is set for the key %llu, which nobody inserted", (unsigned long long)key);
                if (find(key, &place) != &level->bucket[i] || place != slot)
                    wrong("key %llu is there twice, or in a bucket that is not its own", (unsigned long long)key);
            }
    }
    for (key = 1; key <= 12; key++) {
        const struct bucket *b = find(key, &slot);
        if (b && !b->slot[slot].value)
            wrong("key %llu has no value", (unsigned long long)key);
        check_key(OPERATIONS, COUNT(OPERATIONS), key, b ? b->slot[slot].value : 0);
    }
}

MAIN(run, check)
