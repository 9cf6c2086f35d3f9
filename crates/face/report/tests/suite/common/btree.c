#include <immintrin.h>
#include "btree.h"

/* A leaf keeps its entries in order, so that an insert moves all that are greater. */
struct leaf {
    uint64_t count;
    struct entry entries[LEAF_ENTRIES];
    struct leaf *next;
};

static void persist(const void *at, size_t size)
{
    for (uintptr_t line = (uintptr_t)at & ~63; line < (uintptr_t)at + size; line += 64)
        _mm_clwb((void *)line);
    _mm_sfence();
}

static void leaf_insert(struct leaf *leaf, size_t slot, uint64_t key, uint64_t value)
{
    memmove(&leaf->entries[slot + 1], &leaf->entries[slot], (leaf->count - slot) * sizeof(struct entry));
    leaf->entries[slot] = (struct entry){ key, value, checksum(key, value) };
    persist(&leaf->entries[slot], sizeof(struct entry));
    leaf->count++;
    persist(&leaf->count, sizeof leaf->count);
}

static struct leaf *leaf_split(struct tree *tree, struct leaf *full)
{
    struct leaf *right = tree_alloc(tree, sizeof *right);

    right->count = full->count / 2;
    memcpy(right->entries, &full->entries[full->count - right->count],
           right->count * sizeof(struct entry));
    persist(right, sizeof *right);
    return right;
}
