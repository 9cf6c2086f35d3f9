/*
 * P-HOT (RECIPE, commit 5b4cf3e): a trie without locks for its readers. Here a binary one: an inner node tells which bit of
 * a key decides, its two children are inner nodes or, with the lowest bit set, leaves. An insertion makes a leaf and one
 * inner node, and publishes them by one pointer: the root by compare-and-swap, a child by a release store.
 */
#include <atomic>

#include "bugs.h"

enum { FIXED, ROOT_FENCE, CHILD_FENCE };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"root-fence", "P-HOT W36: the new root is flushed, and no fence comes before the operation ends"},
    {"child-fence", "P-HOT W37: a node is flushed, and no fence comes before the pointer to it is stored"},
};

struct Leaf {
    uint64_t key, value;
};

struct Inner {
    uint64_t bit;
    std::atomic<uint64_t> child[2];
};

struct Root {
    std::atomic<uint64_t> trie;
};

static const struct operation OPERATIONS[] = {
    {'i', 40}, {'i', 8},   {'i', 33}, {'i', 100}, {'u', 8},  {'i', 9},
    {'i', 7},  {'i', 101}, {'i', 64}, {'u', 33},  {'i', 35}, {'i', 200},
};

static bool is_leaf(uint64_t child)
{
    return child & 1;
}

static Leaf &leaf(uint64_t child)
{
    return *static_cast<Leaf *>(at(child & ~(uint64_t)1, sizeof(Leaf)));
}

static Inner &inner(uint64_t child)
{
    Inner &found = *static_cast<Inner *>(at(child, sizeof(Inner)));
    if (found.bit > 63)
        wrong("an inner node asks for bit %llu", (unsigned long long)found.bit);
    return found;
}

static Root &root()
{
    return *static_cast<Root *>(at(ROOT, sizeof(Root)));
}

static uint64_t side(const Inner &node, uint64_t key)
{
    return key >> node.bit & 1;
}

/* The leaf where a search for the key ends, or null. */
static Leaf *descend(uint64_t key)
{
    uint64_t child = root().trie;
    while (child && !is_leaf(child))
        child = inner(child).child[side(inner(child), key)];
    return child ? &leaf(child) : nullptr;
}

static uint64_t find(uint64_t key)
{
    const Leaf *found = descend(key);
    return found && found->key == key ? found->value : 0;
}

static void publish(std::atomic<uint64_t> &place, uint64_t old, uint64_t child)
{
    if (&place != &root().trie) {
        if (variant != CHILD_FENCE)
            fence();
        place.store(child, std::memory_order_release);
        persist(&place, 8);
    } else {
        fence();
        place.compare_exchange_strong(old, child);
        flush(&place, 8);
        if (variant != ROOT_FENCE)
            fence();
    }
}

static void insert(uint64_t key, uint64_t value)
{
    const uint64_t added = allocate(sizeof(Leaf)) | 1;
    leaf(added).key = key;
    leaf(added).value = value;
    flush(&leaf(added), sizeof(Leaf));
    const Leaf *other = descend(key);
    if (!other) {
        publish(root().trie, 0, added);
        return;
    }
    const uint64_t bit = 63 - (uint64_t)__builtin_clzll(key ^ other->key);
    std::atomic<uint64_t> *place = &root().trie;
    while (!is_leaf(*place) && inner(*place).bit > bit)
        place = &inner(*place).child[side(inner(*place), key)];
    const uint64_t offset = allocate(sizeof(Inner)), old = *place;
    Inner &node = inner(offset);
    node.bit = bit;
    node.child[key >> bit & 1] = added;
    node.child[~key >> bit & 1] = old;
    flush(&node, sizeof node);
    publish(*place, old, offset);
}

static void run()
{
    pool_create(sizeof(Root));
    pool_ready();
    for (size_t i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key;
        sl_region_begin(i + 1);
        if (OPERATIONS[i].kind == 'i') {
            insert(key, value_of(key, i + 1));
        } else {
            Leaf *found = descend(key);
            SET(found->value, value_of(key, i + 1));
            persist(&found->value, 8);
        }
        sl_region_end(i + 1);
    }
}

/* Walks over all that can be reached; a bit decides only below a higher one. */
static void walk(uint64_t child, uint64_t below)
{
    if (is_leaf(child)) {
        if (!is_known(OPERATIONS, COUNT(OPERATIONS), leaf(child).key) || descend(leaf(child).key) != &leaf(child))
            wrong("key %llu is in a wrong place, or was never inserted", (unsigned long long)leaf(child).key);
    } else if (child) {
        if (inner(child).bit >= below || !inner(child).child[0] || !inner(child).child[1])
            wrong("an inner node has no two children below it");
        walk(inner(child).child[0], inner(child).bit);
        walk(inner(child).child[1], inner(child).bit);
    }
}

static void check()
{
    walk(root().trie, 64);
    for (uint64_t key = 1; key <= 200; key++)
        if (is_known(OPERATIONS, COUNT(OPERATIONS), key))
            check_key(OPERATIONS, COUNT(OPERATIONS), key, find(key));
}

MAIN(run, check)
