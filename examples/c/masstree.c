/*
 * A tree like one layer of Masstree: a B+-tree on keys of 8 bytes whose nodes carry versions.
 *
 * Whoever reads or changes a node first reads its version, starts over if it is locked, and looks at the version again
 * afterwards, with a fence after the first and before the second look. A leaf keeps its keys unsorted; a permutation, one
 * word, gives their order, and storing it is what makes an insertion visible. Full nodes are split on the way down.
 */
struct worker;
#include "ycsb.h"

enum { WIDTH = 15 };
enum { LOCKED = 1, CHANGE = 2 };

struct node {
    uint64_t version; /* LOCKED, and a count of changes */
    uint32_t is_leaf;
    uint32_t count; /* keys of an inner node */
    uint64_t key[WIDTH];
};

struct inner {
    struct node node;
    struct node *child[WIDTH + 1];
};

struct leaf {
    struct node node;
    uint64_t permutation; /* 4 bits count, then 4 bits per key: its place */
    void *value[WIDTH];
};

static struct {
    struct node *root;
} tree;

#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)

/* Loads before it come before what follows it. On x86-64 that only concerns the compiler. */
static void fence(void)
{
#if defined(__x86_64__)
    __asm__ volatile("" : : : "memory");
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

static uint64_t readVersion(const struct node *node)
{
    return __atomic_load_n(&node->version, __ATOMIC_ACQUIRE);
}

static int versionChanged(const struct node *node, uint64_t version)
{
    return readVersion(node) != version;
}

/* Takes the lock of a node that is still as it was at `version`. */
static int lock_node(struct node *node, uint64_t version)
{
    return __atomic_compare_exchange_n(&node->version, &version, version | LOCKED, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Gives it back; `change` is CHANGE if readers must look again. */
static void unlock_node(struct node *node, uint64_t change)
{
    __atomic_store_n(&node->version, (LOAD(node->version) & ~(uint64_t)LOCKED) + change, __ATOMIC_RELEASE);
}

static unsigned leaf_count(uint64_t permutation)
{
    return (unsigned)(permutation & 15);
}

static unsigned leaf_place(uint64_t permutation, unsigned rank)
{
    return (unsigned)(permutation >> (4 * rank + 4) & 15);
}

/* How many of an inner node's keys are at most `key`: the number of the child. */
static unsigned child_of(const struct node *node, uint64_t key)
{
    const unsigned count = LOAD(node->count) < WIDTH ? LOAD(node->count) : WIDTH;
    unsigned i = 0;
    while (i < count && LOAD(node->key[i]) <= key)
        i++;
    return i;
}

/* The rank of the first key of a leaf that is at least `key`. */
static unsigned lower_bound(const struct leaf *leaf, uint64_t permutation, uint64_t key)
{
    unsigned rank = 0;
    while (rank < leaf_count(permutation) && LOAD(leaf->node.key[leaf_place(permutation, rank)]) < key)
        rank++;
    return rank;
}

static struct leaf *new_leaf(struct arena *arena)
{
    struct leaf *leaf = (struct leaf *)memset(arena_allocate(arena, sizeof *leaf), 0, sizeof *leaf);
    leaf->node.is_leaf = 1;
    return leaf;
}

/* Moves the upper half of a full leaf to a new one, whose first key is the separator. */
static struct node *split_leaf(struct arena *arena, struct leaf *leaf, uint64_t *separator)
{
    struct leaf *right = new_leaf(arena);
    const uint64_t old = leaf->permutation;
    const unsigned half = WIDTH / 2;
    unsigned rank;
    right->permutation = WIDTH - half;
    for (rank = half; rank < WIDTH; rank++) {
        const unsigned from = leaf_place(old, rank), to = rank - half;
        right->node.key[to] = leaf->node.key[from];
        right->value[to] = leaf->value[from];
        right->permutation |= (uint64_t)to << (4 * to + 4);
    }
    STORE(leaf->permutation, (old & (((uint64_t)1 << (4 * half + 4)) - 16)) | half);
    *separator = right->node.key[0];
    return &right->node;
}

/* The same for an inner node; the separator goes up. */
static struct node *split_inner(struct arena *arena, struct inner *inner, uint64_t *separator)
{
    struct inner *right = (struct inner *)memset(arena_allocate(arena, sizeof *right), 0, sizeof *right);
    const unsigned half = WIDTH / 2;
    unsigned i;
    for (i = half + 1; i < WIDTH; i++)
        right->node.key[i - half - 1] = inner->node.key[i];
    for (i = half + 1; i <= WIDTH; i++)
        right->child[i - half - 1] = inner->child[i];
    right->node.count = WIDTH - half - 1;
    *separator = inner->node.key[half];
    STORE(inner->node.count, half);
    return &right->node;
}

/* Puts a new child to the right of the one that `separator` fell to, in a node that is locked and not full. */
static void insert_child(struct inner *parent, uint64_t separator, struct node *right)
{
    const unsigned at = child_of(&parent->node, separator);
    unsigned i;
    for (i = parent->node.count; i > at; i--) {
        STORE(parent->node.key[i], parent->node.key[i - 1]);
        STORE(parent->child[i + 1], parent->child[i]);
    }
    STORE(parent->node.key[at], separator);
    STORE(parent->child[at + 1], right);
    STORE(parent->node.count, parent->node.count + 1);
}

/* Splits `node`, if it and its parent are still as they were seen. The parent has room. */
static void split(struct arena *arena, struct node *parent, uint64_t parent_version, struct node *node, uint64_t version)
{
    uint64_t separator;
    struct node *right;
    if (parent && !lock_node(parent, parent_version))
        return;
    if (!lock_node(node, version)) {
        if (parent)
            unlock_node(parent, 0);
        return;
    }
    if (!parent && __atomic_load_n(&tree.root, __ATOMIC_ACQUIRE) != node) {
        unlock_node(node, 0);
        return;
    }
    right = node->is_leaf ? split_leaf(arena, (struct leaf *)node, &separator) : split_inner(arena, (struct inner *)node, &separator);
    if (parent) {
        insert_child((struct inner *)parent, separator, right);
    } else {
        struct inner *root = (struct inner *)memset(arena_allocate(arena, sizeof *root), 0, sizeof *root);
        root->node.count = 1;
        root->node.key[0] = separator;
        root->child[0] = node;
        root->child[1] = right;
        __atomic_store_n(&tree.root, &root->node, __ATOMIC_RELEASE);
    }
    unlock_node(node, CHANGE);
    if (parent)
        unlock_node(parent, CHANGE);
}

static int is_full(const struct node *node)
{
    return node->is_leaf ? leaf_count(LOAD(((const struct leaf *)node)->permutation)) == WIDTH : LOAD(node->count) == WIDTH;
}

/* The leaf for `key`, with the version at which it was found. With an arena, full nodes on the way are split. */
static struct leaf *find_leaf(struct arena *arena, uint64_t key, uint64_t *version)
{
    struct node *parent, *node, *child;
    uint64_t parent_version, v;
restart:
    parent = NULL;
    parent_version = 0;
    node = __atomic_load_n(&tree.root, __ATOMIC_ACQUIRE);
    v = readVersion(node);
    if (v & LOCKED) {
        sched_yield();
        goto restart;
    }
    fence();
    if (__atomic_load_n(&tree.root, __ATOMIC_ACQUIRE) != node)
        goto restart;
    for (;;) {
        if (arena && is_full(node)) {
            split(arena, parent, parent_version, node, v);
            goto restart;
        }
        if (node->is_leaf) {
            *version = v;
            return (struct leaf *)node;
        }
        child = LOAD(((struct inner *)node)->child[child_of(node, key)]);
        fence();
        if (versionChanged(node, v))
            goto restart;
        parent = node;
        parent_version = v;
        node = child;
        v = readVersion(node);
        if (v & LOCKED) {
            sched_yield();
            goto restart;
        }
        fence();
        if (versionChanged(parent, parent_version))
            goto restart;
    }
}

static const void *masstree_get(uint64_t key)
{
    for (;;) {
        uint64_t version;
        const struct leaf *leaf = find_leaf(NULL, key, &version);
        const uint64_t permutation = __atomic_load_n(&leaf->permutation, __ATOMIC_ACQUIRE);
        const unsigned rank = lower_bound(leaf, permutation, key);
        const void *value = NULL;
        if (rank < leaf_count(permutation)) {
            const unsigned place = leaf_place(permutation, rank);
            if (LOAD(leaf->node.key[place]) == key)
                value = __atomic_load_n(&leaf->value[place], __ATOMIC_ACQUIRE);
        }
        fence();
        if (!versionChanged(&leaf->node, version))
            return value;
    }
}

/* A place that the permutation does not use. */
static unsigned free_place(uint64_t permutation)
{
    unsigned used = 0, rank, place = 0;
    for (rank = 0; rank < leaf_count(permutation); rank++)
        used |= 1u << leaf_place(permutation, rank);
    while (used >> place & 1)
        place++;
    return place;
}

static void masstree_put(struct arena *arena, uint64_t key, void *value)
{
    for (;;) {
        uint64_t version, permutation, above;
        unsigned rank, place;
        struct leaf *leaf = find_leaf(arena, key, &version);
        if (!lock_node(&leaf->node, version)) {
            sched_yield();
            continue;
        }
        permutation = leaf->permutation;
        rank = lower_bound(leaf, permutation, key);
        if (rank < leaf_count(permutation) && leaf->node.key[leaf_place(permutation, rank)] == key) {
            __atomic_store_n(&leaf->value[leaf_place(permutation, rank)], value, __ATOMIC_RELEASE);
            unlock_node(&leaf->node, 0);
            return;
        }
        if (leaf_count(permutation) == WIDTH) { /* Another thread was faster. */
            unlock_node(&leaf->node, 0);
            continue;
        }
        place = free_place(permutation);
        STORE(leaf->node.key[place], key);
        STORE(leaf->value[place], value);
        above = permutation >> (4 * rank + 4) << (4 * rank + 4);
        __atomic_store_n(&leaf->permutation,
                         above << 4 | (uint64_t)place << (4 * rank + 4) | ((permutation ^ above) + 1), __ATOMIC_RELEASE);
        unlock_node(&leaf->node, CHANGE);
        return;
    }
}

static void store_create(uint64_t keys)
{
    (void)keys;
    tree.root = &new_leaf(&ycsb.workers[0].nodes)->node;
}

static const uint64_t *store_get(uint64_t key)
{
    return (const uint64_t *)masstree_get(key);
}

static void ycsb_put(struct worker *worker, uint64_t key)
{
    uint64_t *value = craftValue(worker, key);
#if defined(CLEAN)
    sl_prestore(value, worker->size, SL_CLEAN);
#endif
    masstree_put(&worker->nodes, key, value);
}

int main(int argc, char **argv)
{
    return ycsb_main(argc, argv, "masstree");
}
