/*
 * P-ART (RECIPE, commit 5b4cf3e): nodes of an adaptive radix tree, here one node over keys of one byte that grows from 4
 * to 16 children. A lookup looks at keys and children, a scan at the counts, too.
 *
 * Right is: the child first, and then key and counts with one store (4 children), or the counts and then the key in one
 * line (16), so that nobody sees a key that the counts leave out.
 */
#include "bugs.h"

enum { FIXED, N4_FIELDS, N16_COUNT };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"n4-fields", "P-ART W27: key, child and the two counts of an N4 are four stores in one line"},
    {"n16-count", "P-ART W26: an N16's child is made durable, its compactCount is not"},
};

/* The counts are equal as long as nothing is removed; `compact` is where the next child goes, `count` how many there are. */
struct n4 {
    uint64_t capacity;
    union {
        uint64_t word;
        struct {
            uint8_t compact, count, keys[4];
        } field;
    } head;
    uint64_t children[4];
};

struct n16 {
    uint64_t capacity;
    union {
        uint64_t word;
        struct {
            uint8_t compact, count;
        } field;
    } head;
    uint8_t keys[16];
    char rest[LINE - 32];
    uint64_t children[16];
};

struct root {
    uint64_t node;
};

static const struct operation OPERATIONS[] = {
    {'i', 7}, {'i', 3}, {'u', 7}, {'i', 9}, {'i', 1}, {'i', 8}, {'i', 2},
    {'u', 3}, {'i', 6}, {'i', 4}, {'i', 5}, {'u', 8}, {'i', 10},
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static uint64_t capacity(void)
{
    const uint64_t found = *(uint64_t *)at(root()->node, 8);
    if (found != 4 && found != 16)
        wrong("a node for %llu children", (unsigned long long)found);
    return found;
}

static struct n4 *n4(void)
{
    return (struct n4 *)at(root()->node, sizeof(struct n4));
}

static struct n16 *n16(void)
{
    return (struct n16 *)at(root()->node, sizeof(struct n16));
}

static uint64_t *find(uint64_t key)
{
    uint64_t i;
    const uint8_t *keys = capacity() == 4 ? n4()->head.field.keys : n16()->keys;
    uint64_t *children = capacity() == 4 ? n4()->children : n16()->children;
    for (i = 0; i < capacity(); i++)
        if (children[i] && keys[i] == key)
            return &children[i];
    return NULL;
}

static unsigned compact_count(void)
{
    return capacity() == 4 ? n4()->head.field.compact : n16()->head.field.compact;
}

/* Whether a scan comes across the key. */
static int scan_finds(uint64_t key)
{
    const uint64_t *children = capacity() == 4 ? n4()->children : n16()->children, *found = find(key);
    return found && found < children + compact_count();
}

/* Copies the full N4 into an N16. */
static void grow(void)
{
    const struct n4 *old = n4();
    const uint64_t offset = allocate(sizeof(struct n16));
    struct n16 *new = (struct n16 *)at(offset, sizeof *new);
    int i;
    new->capacity = 16;
    new->head.field.compact = old->head.field.compact;
    new->head.field.count = old->head.field.count;
    for (i = 0; i < 4; i++) {
        new->keys[i] = old->head.field.keys[i];
        new->children[i] = old->children[i];
    }
    flush(new, LINE);
    flush(new->children, 4 * sizeof new->children[0]);
    fence();
    SET(root()->node, offset);
    persist(&root()->node, sizeof root()->node);
}

static void insert_n4(uint8_t key, uint64_t child)
{
    struct n4 *n = n4(), after = *n;
    const unsigned i = n->head.field.compact;
    if (variant == N4_FIELDS) {
        SET(n->head.field.keys[i], key);
        SET(n->children[i], child);
        SET(n->head.field.compact, (uint8_t)(i + 1));
        SET(n->head.field.count, (uint8_t)(n->head.field.count + 1));
    } else {
        after.head.field.keys[i] = key;
        after.head.field.compact++;
        after.head.field.count++;
        SET(n->children[i], child);
        SET(n->head.word, after.head.word);
    }
    persist(n, sizeof *n);
}

static void insert_n16(uint8_t key, uint64_t child)
{
    struct n16 *n = n16(), after = *n;
    const unsigned i = n->head.field.compact;
    after.head.field.compact++;
    after.head.field.count++;
    if (variant == N16_COUNT) {
        SET(n->keys[i], key);
        persist(&n->keys[i], 1);
        SET(n->children[i], child);
        persist(&n->children[i], sizeof child);
        SET(n->head.word, after.head.word);
        return;
    }
    SET(n->children[i], child);
    persist(&n->children[i], sizeof child);
    SET(n->head.word, after.head.word);
    SET(n->keys[i], key);
    persist(&n->head.word, sizeof n->head.word);
}

static void insert(uint8_t key, uint64_t child)
{
    if (compact_count() == capacity())
        grow();
    if (capacity() == 4)
        insert_n4(key, child);
    else
        insert_n16(key, child);
}

static void run(void)
{
    uint64_t offset;
    size_t i;
    pool_create(sizeof(struct root));
    offset = allocate(sizeof(struct n4));
    SET(root()->node, offset);
    n4()->capacity = 4;
    flush(&root()->node, 8);
    persist(&n4()->capacity, 8);
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key;
        sl_region_begin(i + 1);
        if (OPERATIONS[i].kind == 'i') {
            insert((uint8_t)key, value_of(key, i + 1));
        } else {
            uint64_t *child = find(key);
            SET(*child, value_of(key, i + 1));
            persist(child, sizeof *child);
        }
        sl_region_end(i + 1);
    }
}

static void check(void)
{
    const unsigned compact = compact_count();
    const unsigned count = capacity() == 4 ? n4()->head.field.count : n16()->head.field.count;
    uint64_t key;
    if (compact > capacity() || compact != count)
        wrong("compactCount is %u, count %u: the next insertion goes wrong", compact, count);
    for (key = 1; key <= 10; key++) {
        const uint64_t *child = find(key);
        check_key(OPERATIONS, COUNT(OPERATIONS), key, child ? *child : 0);
        if (child && !scan_finds(key))
            wrong("a scan does not come across key %llu, which a lookup finds", (unsigned long long)key);
    }
}

MAIN(run, check)
