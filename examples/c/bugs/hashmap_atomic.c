/*
 * A hash map in the manner of PMDK's example hashmap_atomic: no transactions, but a mark, count_dirty, around each change.
 * Recovery counts anew if the mark is set. It flushes by libpmem (see pmem.h).
 *
 * The bugs are patches of XFDetector and PMTest to that example. Two of PMTest's patches move persists about and are
 * correct all the same; a checker must not report them.
 */
#include "bugs.h"
#include "pmem.h"

enum {
    FIXED,
    REORDERED_ENTRY,
    REORDERED_COUNT,
    DIRTY_INVERTED,
    DIRTY_ZERO,
    DIRTY_UNPERSISTED,
    COUNT_UNPERSISTED,
    ENTRY_UNPERSISTED,
    DIRTY_LATE,
    DIRTY_STAYS,
};
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"reordered-entry", "correct: the entry is written and durable before the mark is set"},
    {"reordered-count", "correct: the count is durable before the entry is linked"},
    {"dirty-inverted", "XFDetector hashmap_atomic sem2: recovery tests count_dirty the wrong way round"},
    {"dirty-zero", "XFDetector hashmap_atomic sem3: count_dirty is written 0 instead of 1"},
    {"dirty-unpersisted", "PMTest hashmap_atomic writeback: the persist of count_dirty is dropped"},
    {"count-unpersisted", "PMTest hashmap_atomic writeback: the persist of count is dropped"},
    {"entry-unpersisted", "PMTest hashmap_atomic writeback: the persist of the entry is dropped"},
    {"dirty-late", "PMTest hashmap_atomic ordering: the mark becomes durable behind the change"},
    {"dirty-stays", "XFDetector hashmap_atomic sem4: count_dirty is written 1 instead of 0"},
};

enum { BUCKETS = 4 };

struct entry {
    uint64_t key, value, next;
};

struct root {
    uint64_t count_dirty;
    char rest[LINE - 8];
    uint64_t count;
    char rest2[LINE - 8];
    uint64_t bucket[BUCKETS];
};

static const struct operation OPERATIONS[] = {
    {'i', 1}, {'i', 2}, {'i', 3}, {'u', 2}, {'i', 4}, {'d', 1}, {'i', 5},
    {'i', 6}, {'d', 4}, {'i', 1}, {'i', 7}, {'u', 5}, {'i', 8},
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct entry *entry(uint64_t offset)
{
    return (struct entry *)at(offset, sizeof(struct entry));
}

/* The pointer that leads to the key's entry, or the bucket's last. */
static uint64_t *find(uint64_t key)
{
    uint64_t *place = &root()->bucket[mix(key) % BUCKETS];
    while (*place && entry(*place)->key != key)
        place = &entry(*place)->next;
    return place;
}

static void set_dirty(int dirty)
{
    SET(root()->count_dirty, variant == DIRTY_ZERO ? 0 : variant == DIRTY_STAYS ? 1 : (uint64_t)dirty);
    if (variant != DIRTY_UNPERSISTED && !(variant == DIRTY_LATE && dirty))
        pmem_persist(&root()->count_dirty, sizeof root()->count_dirty);
}

static void set_count(uint64_t count)
{
    SET(root()->count, count);
    if (variant != COUNT_UNPERSISTED)
        pmem_persist(&root()->count, sizeof count);
}

static void set_link(uint64_t *place, uint64_t offset)
{
    SET(*place, offset);
    pmem_persist(place, sizeof *place);
    if (variant == DIRTY_LATE)
        pmem_persist(&root()->count_dirty, sizeof root()->count_dirty);
}

static void insert(uint64_t key, uint64_t value)
{
    uint64_t *place = &root()->bucket[mix(key) % BUCKETS];
    const uint64_t offset = allocate(sizeof(struct entry));
    if (variant != REORDERED_ENTRY)
        set_dirty(1);
    entry(offset)->key = key;
    entry(offset)->value = value;
    entry(offset)->next = *place;
    if (variant != ENTRY_UNPERSISTED)
        pmem_persist(entry(offset), sizeof(struct entry));
    if (variant == REORDERED_ENTRY)
        set_dirty(1);
    if (variant == REORDERED_COUNT)
        set_count(root()->count + 1);
    set_link(place, offset);
    if (variant != REORDERED_COUNT)
        set_count(root()->count + 1);
    set_dirty(0);
}

static void delete(uint64_t key)
{
    uint64_t *place = find(key);
    set_dirty(1);
    if (variant == REORDERED_COUNT)
        set_count(root()->count - 1);
    set_link(place, entry(*place)->next);
    if (variant != REORDERED_COUNT)
        set_count(root()->count - 1);
    set_dirty(0);
}

static void run(void)
{
    size_t i;
    pool_create(sizeof(struct root));
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key;
        sl_region_begin(i + 1);
        switch (OPERATIONS[i].kind) {
        case 'i':
            insert(key, value_of(key, i + 1));
            break;
        case 'u':
            SET(entry(*find(key))->value, value_of(key, i + 1));
            pmem_flush(entry(*find(key)), sizeof(struct entry));
            pmem_drain();
            break;
        default:
            delete(key);
        }
        sl_region_end(i + 1);
    }
}

static uint64_t entries(void)
{
    uint64_t found = 0, offset;
    int i;
    for (i = 0; i < BUCKETS; i++)
        for (offset = root()->bucket[i]; offset; offset = entry(offset)->next) {
            const uint64_t key = entry(offset)->key;
            if (!is_known(OPERATIONS, COUNT(OPERATIONS), key) || *find(key) != offset)
                wrong("key %llu is there twice, or was never inserted", (unsigned long long)key);
            found++;
        }
    return found;
}

/* Whether the checker says that no operation was under way. */
static int is_idle(void)
{
    const char *begun = getenv("STRANDLINE_BEGUN");
    return begun && strtoull(begun, NULL, 10) == done_operations();
}

static void check(void)
{
    const uint64_t found = entries();
    uint64_t key;
    if (root()->count_dirty && is_idle())
        wrong("the count is marked as wrong, and no change is under way");
    if (!root()->count_dirty == (variant == DIRTY_INVERTED)) {
        root()->count = found;
        pmem_persist(&root()->count, sizeof found);
        root()->count_dirty = 0;
        pmem_persist(&root()->count_dirty, sizeof root()->count_dirty);
    }
    if (root()->count != found)
        wrong("the count is %llu, but there are %llu entries", (unsigned long long)root()->count, (unsigned long long)found);
    for (key = 1; key <= 8; key++) {
        const uint64_t offset = *find(key);
        check_key(OPERATIONS, COUNT(OPERATIONS), key, offset ? entry(offset)->value : 0);
    }
}

MAIN(run, check)
