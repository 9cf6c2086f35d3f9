/*
 * WOART: a radix tree, here over keys of four hexadecimal digits. A node stands for the digits that all keys below it
 * share; they are in one word, its path, with the depth at which they begin.
 *
 * If a new key differs within the path, a new node takes the place of the old one, whose path loses its first digits: two
 * stores. Recovery sees from the depth in the path that the second is missing, and makes up for it.
 */
#include "bugs.h"

enum { FIXED, PATH };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"path", "WOART W2: the reference to the new node and the old node's path are two stores"},
};

enum { DIGITS = 4 };

struct path {
    uint8_t depth, length, digit[DIGITS], unused[2];
};

struct node {
    union {
        struct path path;
        uint64_t word;
    } head;
    uint64_t child[16]; /* nodes, or with the lowest bit set leaves */
};

struct leaf {
    uint64_t key, value;
};

struct root {
    uint64_t node;
};

static const struct operation OPERATIONS[] = {
    {'i', 0x1234}, {'i', 0x1235}, {'i', 0x1236}, {'i', 0x1334}, {'u', 0x1235}, {'i', 0x5234}, {'i', 0x5236}, {'i', 0x5111},
    {'u', 0x1334}, {'i', 0x5112}, {'i', 0x5121}, {'i', 0x1434}, {'i', 0x1244},
};

static unsigned digit(uint64_t key, unsigned depth)
{
    return (unsigned)(key >> 4 * (DIGITS - 1 - depth) & 15);
}

static int is_leaf(uint64_t child)
{
    return child & 1;
}

static struct leaf *leaf(uint64_t child)
{
    return (struct leaf *)at(child & ~1ull, sizeof(struct leaf));
}

static struct node *node(uint64_t child)
{
    struct node *n = (struct node *)at(child, sizeof *n);
    if (n->head.path.depth + n->head.path.length >= DIGITS)
        wrong("a node's path is too long");
    return n;
}

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

/* How many digits of the node's path the key has from `depth` on. */
static unsigned common(const struct node *n, uint64_t key, unsigned depth)
{
    unsigned i = 0;
    while (i < n->head.path.length && n->head.path.digit[i] == digit(key, depth + i))
        i++;
    return i;
}

/* Where the search for a key ends, and at which digit: at a node whose path it has not, a leaf, or nothing. */
static uint64_t *descend(uint64_t key, unsigned *depth)
{
    uint64_t *place = &root()->node;
    for (*depth = 0; *place && !is_leaf(*place); ++*depth) {
        struct node *n = node(*place);
        if (common(n, key, *depth) < n->head.path.length)
            break;
        *depth += n->head.path.length;
        if (*depth >= DIGITS)
            wrong("a search goes on behind the last digit");
        place = &n->child[digit(key, *depth)];
    }
    return place;
}

static uint64_t find(uint64_t key)
{
    unsigned depth;
    const uint64_t place = *descend(key, &depth);
    return is_leaf(place) && leaf(place)->key == key ? leaf(place)->value : 0;
}

/* The path without its first digits. */
static uint64_t shortened(const struct node *n, unsigned by)
{
    struct node after = *n;
    unsigned i;
    after.head.path.depth = (uint8_t)(n->head.path.depth + by);
    after.head.path.length = (uint8_t)(n->head.path.length - by);
    for (i = 0; i < DIGITS; i++)
        after.head.path.digit[i] = i + by < DIGITS ? n->head.path.digit[i + by] : 0;
    return after.head.word;
}

/* A node for `length` digits of `key` from `depth` on. The key's next digit leads to `one`, `digit_of_other` to `other`. */
static uint64_t make_node(uint64_t key, unsigned depth, unsigned length, uint64_t one, unsigned digit_of_other,
                          uint64_t other)
{
    const uint64_t offset = allocate(sizeof(struct node));
    struct node *n = (struct node *)(pool + offset);
    uint64_t *child = &n->child[digit(key, depth + length)];
    unsigned i;
    n->head.path.depth = (uint8_t)depth;
    n->head.path.length = (uint8_t)length;
    for (i = 0; i < length; i++)
        n->head.path.digit[i] = (uint8_t)digit(key, depth + i);
    flush(&n->head, sizeof n->head);
    *child = one;
    flush(child, sizeof *child);
    n->child[digit_of_other] = other;
    flush(&n->child[digit_of_other], sizeof *child);
    fence();
    return offset;
}

static void set(uint64_t *place, uint64_t child)
{
    SET(*place, child);
    persist(place, sizeof *place);
}

static void insert(uint64_t key, uint64_t value)
{
    unsigned depth, same = 0;
    uint64_t *place = descend(key, &depth), old = *place;
    const uint64_t added = allocate(sizeof(struct leaf)) | 1;
    leaf(added)->key = key;
    leaf(added)->value = value;
    persist(leaf(added), sizeof(struct leaf));
    if (!old) {
        set(place, added);
    } else if (is_leaf(old)) {
        const uint64_t other = leaf(old)->key;
        while (digit(key, depth + same) == digit(other, depth + same))
            same++;
        set(place, make_node(key, depth, same, added, digit(other, depth + same), old));
    } else {
        struct node *n = node(old);
        same = common(n, key, depth);
        set(place, make_node(key, depth, same, added, n->head.path.digit[same], old));
        SET(n->head.word, shortened(n, same + 1));
        persist(&n->head.word, sizeof n->head.word);
    }
}

static void run(void)
{
    size_t i;
    pool_create(sizeof(struct root));
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key;
        unsigned depth;
        sl_region_begin(i + 1);
        if (OPERATIONS[i].kind == 'i')
            insert(key, value_of(key, i + 1));
        else
            set(&leaf(*descend(key, &depth))->value, value_of(key, i + 1));
        sl_region_end(i + 1);
    }
}

/* Shortens the paths of nodes that do not begin where their parent's digit ends. */
static void repair(uint64_t child, unsigned depth)
{
    struct node *n;
    unsigned i;
    if (!child || is_leaf(child))
        return;
    n = node(child);
    if (n->head.path.depth > depth || depth > n->head.path.depth + n->head.path.length)
        wrong("a node's path begins at digit %u, not %u", n->head.path.depth, depth);
    if (n->head.path.depth < depth && variant != PATH) {
        SET(n->head.word, shortened(n, depth - n->head.path.depth));
        persist(&n->head.word, sizeof n->head.word);
    }
    for (i = 0; i < 16; i++)
        repair(n->child[i], n->head.path.depth + n->head.path.length + 1);
}

/* Every leaf can be found. */
static void walk(uint64_t child)
{
    unsigned i, depth;
    if (is_leaf(child)) {
        if (*descend(leaf(child)->key, &depth) != child || !is_known(OPERATIONS, COUNT(OPERATIONS), leaf(child)->key))
            wrong("key %#llx is where no search finds it, or was never inserted", (unsigned long long)leaf(child)->key);
    } else if (child) {
        for (i = 0; i < 16; i++)
            walk(node(child)->child[i]);
    }
}

static void check(void)
{
    size_t i;
    repair(root()->node, 0);
    walk(root()->node);
    for (i = 0; i < COUNT(OPERATIONS); i++)
        check_key(OPERATIONS, COUNT(OPERATIONS), OPERATIONS[i].key, find(OPERATIONS[i].key));
}

MAIN(run, check)
