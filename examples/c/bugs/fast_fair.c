/*
 * FAST & FAIR (DICL, commit c86f5fb): a B+-tree whose nodes are shifted entry by entry, and split by a link to a sibling
 * before the level above knows. While a node is shifted, an entry whose pointer equals its left neighbour's does not
 * count; each line is durable before the next one is touched.
 *
 * A leaf that has lost its last entry is taken out of the chain of leaves, and then out of the level above.
 *
 * Recovery drops entries that do not count and children that are no longer in their chain, and enters siblings in the level above,
 * making a new root if need be.
 */
#include "bugs.h"

enum { FIXED, DELETE_DUPLICATE, ROOT_SPLIT, MERGE, CONSTRUCTOR };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"delete-duplicate", "FAST&FAIR W4: an unfinished entry stays, and a deletion takes it for the key's only one"},
    {"root-split", "FAST&FAIR W5: a root that was split and not yet replaced stays a chain of two nodes"},
    {"merge", "FAST&FAIR W6: a node was taken out of its level and not yet out of the one above"},
    {"constructor", "FAST&FAIR issue 13: the constructor flushes neither root page nor tree object"},
};

enum { ENTRIES = 8, ROOM = ENTRIES + 4, SELF = 1 };

struct entry {
    uint64_t key, pointer;
};

/* A leaf's pointers are values, an inner node's are children; `leftmost` is the child left of all keys, or SELF. */
struct node {
    uint64_t level, low, leftmost, sibling;
    char rest[LINE - 32];
    struct entry entry[ROOM]; /* up to the first whose pointer is 0 */
};

struct root {
    uint64_t tree; /* the tree object: where the root is */
};

struct tree {
    uint64_t root;
};

static const struct operation OPERATIONS[] = {
    {'i', 50}, {'i', 20}, {'i', 80}, {'i', 10}, {'i', 40}, {'d', 20}, {'i', 30}, {'i', 70}, {'i', 60}, {'i', 90},
    {'i', 15}, {'u', 40}, {'i', 45}, {'i', 5},  {'i', 25}, {'d', 10}, {'i', 35}, {'i', 42}, {'i', 41}, {'i', 20},
    {'d', 90}, {'d', 80}, {'d', 70}, {'d', 60}, {'d', 50}, {'i', 85},
};

static struct tree *tree(void)
{
    return (struct tree *)at(((struct root *)at(ROOT, sizeof(struct root)))->tree, sizeof(struct tree));
}

static struct node *node(uint64_t offset)
{
    return (struct node *)at(offset, sizeof(struct node));
}

static uint64_t left_of(const struct node *n, int i)
{
    return i ? n->entry[i - 1].pointer : n->leftmost;
}

static int counts(const struct node *n, int i)
{
    return n->entry[i].pointer != left_of(n, i);
}

static int length(const struct node *n)
{
    int i = 0;
    while (n->entry[i].pointer)
        if (++i == ROOM)
            wrong("a node has no end");
    return i;
}

/* Whether entry `i` shares its line with the one before it. */
static int same_line(const struct node *n, int i)
{
    return offset_of(&n->entry[i]) / LINE == offset_of(&n->entry[i - 1]) / LINE;
}

/* FAST: shifts entries to the right, from the end, and puts the new one in the gap. */
static void insert_here(struct node *n, uint64_t key, uint64_t pointer)
{
    const int end = length(n);
    int i;
    if (n->entry[end + 1].pointer) {
        SET(n->entry[end + 1].pointer, 0);
        if (!same_line(n, end + 1))
            persist(&n->entry[end + 1].pointer, 8);
    }
    for (i = end; i > 0 && n->entry[i - 1].key > key; i--) {
        SET(n->entry[i].pointer, n->entry[i - 1].pointer);
        SET(n->entry[i].key, n->entry[i - 1].key);
        if (!same_line(n, i))
            persist(&n->entry[i], sizeof n->entry[i]);
    }
    SET(n->entry[i].pointer, left_of(n, i));
    SET(n->entry[i].key, key);
    SET(n->entry[i].pointer, pointer);
    persist(&n->entry[i], sizeof n->entry[i]);
}

/* Shifts what is right of entry `i` over it. From the first store on it does not count. */
static void remove_here(struct node *n, int i)
{
    SET(n->entry[i].pointer, left_of(n, i));
    for (; n->entry[i + 1].pointer; i++) {
        SET(n->entry[i].key, n->entry[i + 1].key);
        SET(n->entry[i].pointer, n->entry[i + 1].pointer);
        if (!same_line(n, i + 1))
            persist(&n->entry[i], sizeof n->entry[i]);
    }
    SET(n->entry[i].pointer, 0);
    persist(&n->entry[i], sizeof n->entry[i]);
}

/* The node of `level` where a key belongs. */
static struct node *descend(uint64_t key, uint64_t level)
{
    struct node *n = node(tree()->root);
    int i;
    for (;;) {
        uint64_t child = n->leftmost;
        if (n->sibling && key >= node(n->sibling)->low) {
            n = node(n->sibling);
            continue;
        }
        if (n->level <= level)
            return n;
        for (i = 0; n->entry[i].pointer && i < ROOM; i++)
            if (counts(n, i) && n->entry[i].key <= key)
                child = n->entry[i].pointer;
        n = node(child);
    }
}

static uint64_t find(uint64_t key)
{
    const struct node *n = descend(key, 0);
    int i;
    for (i = 0; i < length(n); i++)
        if (counts(n, i) && n->entry[i].key == key)
            return n->entry[i].pointer;
    return 0;
}

static void set_root(uint64_t root)
{
    SET(tree()->root, root);
    persist(&tree()->root, sizeof root);
}

static void insert(uint64_t key, uint64_t pointer, uint64_t level);

/* Tells the level above of a sibling that was split off. */
static void enter(struct node *n, struct node *sibling)
{
    if (tree()->root == offset_of(n)) {
        struct node *above = node(allocate(sizeof *above));
        above->level = n->level + 1;
        above->leftmost = offset_of(n);
        above->entry[0].key = sibling->low;
        above->entry[0].pointer = offset_of(sibling);
        flush(&above->level, 32);
        flush(&above->entry[0], sizeof above->entry[0]);
        fence();
        set_root(offset_of(above));
    } else {
        insert(sibling->low, offset_of(sibling), n->level + 1);
    }
}

/* FAIR: the upper half is copied into a sibling, linked, and then cut off here. */
static void split(struct node *n)
{
    const int end = length(n), middle = end / 2;
    struct node *sibling = node(allocate(sizeof *sibling));
    const int first = n->level ? middle + 1 : middle;
    int i;
    sibling->level = n->level;
    sibling->low = n->entry[middle].key;
    sibling->leftmost = n->level ? n->entry[middle].pointer : SELF;
    sibling->sibling = n->sibling;
    for (i = first; i < end; i++)
        sibling->entry[i - first] = n->entry[i];
    flush(&sibling->level, 32);
    flush(sibling->entry, sizeof sibling->entry[0] * (size_t)(end - first));
    fence();
    SET(n->sibling, offset_of(sibling));
    persist(&n->sibling, sizeof n->sibling);
    SET(n->entry[middle].pointer, 0);
    persist(&n->entry[middle].pointer, 8);
    enter(n, sibling);
}

static void insert(uint64_t key, uint64_t pointer, uint64_t level)
{
    struct node *n = descend(key, level);
    if (length(n) >= ENTRIES) {
        split(n);
        n = descend(key, level);
    }
    insert_here(n, key, pointer);
}

static void update(uint64_t key, uint64_t value)
{
    struct node *n = descend(key, 0);
    int i;
    for (i = 0; i < length(n); i++)
        if (n->entry[i].key == key) {
            SET(n->entry[i].pointer, value);
            persist(&n->entry[i].pointer, 8);
        }
}

/* The first entry of the key goes. */
static int delete(uint64_t key)
{
    struct node *n = descend(key, 0);
    int i;
    for (i = 0; i < length(n); i++)
        if (n->entry[i].key == key) {
            remove_here(n, i);
            return 1;
        }
    return 0;
}

/* Whether the node is in the chain of its level. */
static int is_linked(uint64_t offset, uint64_t level)
{
    const struct node *n = descend(0, level);
    while (offset_of(n) != offset && n->sibling)
        n = node(n->sibling);
    return offset_of(n) == offset;
}

/* Takes the key's leaf out if it is empty and neither the first one nor its parent's first child. */
static void merge(uint64_t key)
{
    struct node *n = descend(key, 0), *above, *left = descend(0, 0);
    int i;
    if (n->entry[0].pointer || n == left || tree()->root == offset_of(n))
        return;
    above = descend(n->low, 1);
    for (i = 0; above->entry[i].pointer && above->entry[i].pointer != offset_of(n);)
        i++;
    if (!above->entry[i].pointer)
        return;
    while (left->sibling != offset_of(n))
        left = node(left->sibling);
    SET(left->sibling, n->sibling);
    persist(&left->sibling, sizeof left->sibling);
    remove_here(above, i);
}

static void run(void)
{
    struct root *root;
    struct node *first;
    size_t i;
    pool_create(sizeof *root);
    root = (struct root *)at(ROOT, sizeof *root);
    SET(root->tree, allocate(sizeof(struct tree)));
    persist(&root->tree, sizeof root->tree);
    first = node(allocate(sizeof *first));
    first->leftmost = SELF;
    SET(tree()->root, offset_of(first));
    if (variant != CONSTRUCTOR) {
        flush(&first->leftmost, sizeof first->leftmost);
        persist(&tree()->root, sizeof tree()->root);
    }
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key;
        sl_region_begin(i + 1);
        switch (OPERATIONS[i].kind) {
        case 'i': insert(key, value_of(key, i + 1), 0); break;
        case 'u': update(key, value_of(key, i + 1)); break;
        default:
            delete(key);
            merge(key);
        }
        sl_region_end(i + 1);
    }
}

/* Finishes what a crash cut short in one node and its sibling. */
static void repair(struct node *n)
{
    int i;
    for (i = 0; n->level && i < length(n) && variant != MERGE;)
        if (is_linked(n->entry[i].pointer, n->level - 1))
            i++;
        else
            remove_here(n, i);
    for (i = 0; n->sibling && i < length(n); i++)
        if (n->entry[i].key >= node(n->sibling)->low) {
            SET(n->entry[i].pointer, 0);
            persist(&n->entry[i].pointer, 8);
        }
    for (i = 0; i < length(n) && variant != DELETE_DUPLICATE;)
        if (counts(n, i))
            i++;
        else
            remove_here(n, i);
}

/* Whether the level above has a pointer to the node. */
static int is_entered(const struct node *n)
{
    const struct node *above = descend(n->low, n->level + 1);
    int i;
    for (i = 0; i < length(above); i++)
        if (counts(above, i) && above->entry[i].pointer == offset_of(n))
            return 1;
    return above->leftmost == offset_of(n);
}

/* From the root downwards, so that the level above is whole. */
static void recover(void)
{
    uint64_t level = node(tree()->root)->level + 1;
    if (level > 8)
        wrong("a tree of %llu levels", (unsigned long long)level);
    while (level--) {
        struct node *n = descend(0, level);
        for (;;) {
            repair(n);
            if (!n->sibling)
                break;
            if (tree()->root == offset_of(n) ? variant != ROOT_SPLIT : !is_entered(node(n->sibling)))
                enter(n, node(n->sibling));
            n = node(n->sibling);
        }
    }
}

static void check(void)
{
    const struct node *n;
    uint64_t level, last, key;
    int i;
    recover();
    if (node(tree()->root)->sibling)
        wrong("the root is a chain of two nodes; no later split will find a level above");
    for (level = 1; level <= node(tree()->root)->level; level++)
        for (n = descend(0, level);; n = node(n->sibling)) {
            for (i = 0; i < length(n); i++)
                if (!is_linked(n->entry[i].pointer, level - 1))
                    wrong("a node leads to one that is no longer in the chain below, where a scan will not find it");
            if (!n->sibling)
                break;
        }
    for (level = 0; level < node(tree()->root)->level; level++) {
        n = descend(0, level);
        for (last = 0;; n = node(n->sibling)) {
            if (!is_entered(n))
                wrong("no node of the level above leads to the node from %llu on", (unsigned long long)n->low);
            for (i = 0; i < length(n); i++) {
                if (counts(n, i) && (n->entry[i].key <= last || n->entry[i].key < n->low))
                    wrong("key %llu is out of order", (unsigned long long)n->entry[i].key);
                last = counts(n, i) ? n->entry[i].key : last;
            }
            if (!n->sibling)
                break;
        }
    }
    for (key = 1; key <= 90; key++)
        if (is_known(OPERATIONS, COUNT(OPERATIONS), key))
            check_key(OPERATIONS, COUNT(OPERATIONS), key, find(key));
        else if (find(key))
            wrong("key %llu, which nobody inserted, is there", (unsigned long long)key);
    for (key = 1; key <= 90; key++)
        if (find(key) && (!delete(key) || find(key)))
            wrong("key %llu is still there after its deletion", (unsigned long long)key);
}

MAIN(run, check)
