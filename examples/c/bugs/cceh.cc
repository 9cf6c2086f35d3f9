/*
 * CCEH (DICL, commit d53b336): extendible hashing. A directory of 2^global pointers leads, by the first bits of a key's
 * hash, to segments. A segment has a pattern of `local` bits; what does not begin with it is stale and counts as free.
 *
 * A split copies one half into a new segment, makes the directory lead there (atomically, by a new directory, if that has
 * to be doubled), and lets the old segment's pattern follow last. Recovery finishes a split whose segment is in the
 * directory, and frees slots that were locked when the crash came.
 */
#include <atomic>

#include "bugs.h"

enum { FIXED, DEPTH_FIRST, PATTERN_FIRST, SENTINEL_STAYS };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"depth-first", "CCEH W24 (i): the old segment's depth is durable before the directory is doubled"},
    {"pattern-first", "CCEH W24 (ii): the patterns are rewritten before the directory leads to the new segment"},
    {"sentinel-stays", "CCEH W25: a slot that was locked when the crash came is never free again"},
};

enum { SLOTS = 4, DEPTH_MAX = 10 };
static const uint64_t FREE = 0, SENTINEL = ~(uint64_t)0;

struct Pair {
    std::atomic<uint64_t> key;
    uint64_t value;
};

struct Segment {
    std::atomic<uint64_t> pattern; /* the bits, and from bit 32 on how many they are: the local depth */
    char rest[LINE - 8];
    Pair pair[SLOTS];

    uint64_t local() const { return pattern >> 32; }
    uint64_t bits() const { return pattern & 0xffffffff; }
};

struct Directory {
    uint64_t global;
    std::atomic<uint64_t> segment[1];

    static size_t bytes(uint64_t global) { return sizeof(Directory) + ((size_t)8 << global); }
};

struct Root {
    std::atomic<uint64_t> directory;
};

static const struct operation OPERATIONS[] = {
    {'i', 1}, {'i', 2}, {'i', 3}, {'i', 4}, {'i', 5}, {'i', 6}, {'d', 3}, {'i', 7}, {'i', 8}, {'i', 9}, {'i', 10}, {'i', 11},
    {'d', 8}, {'i', 12}, {'i', 13}, {'i', 14}, {'i', 15}, {'i', 16}, {'i', 3}, {'i', 17}, {'i', 18}, {'i', 19}, {'i', 20},
};

/* Stores one word and makes it durable. */
#define STORE(place, value)                              \
    do {                                                 \
        (place).store(value, std::memory_order_release); \
        persist(&(place), 8);                            \
    } while (0)

static uint64_t make_pattern(uint64_t local, uint64_t bits)
{
    return local << 32 | bits;
}

/* The first `depth` bits of a key's hash. */
static uint64_t prefix(uint64_t key, uint64_t depth)
{
    return depth ? mix(key) >> (64 - depth) : 0;
}

static Root &root()
{
    return *static_cast<Root *>(at(ROOT, sizeof(Root)));
}

static Directory &directory()
{
    Directory &found = *static_cast<Directory *>(at(root().directory, sizeof(Directory)));
    if (found.global > DEPTH_MAX)
        wrong("a directory of 2^%llu pointers", (unsigned long long)found.global);
    return *static_cast<Directory *>(at(root().directory, Directory::bytes(found.global)));
}

static Segment &segment(uint64_t place)
{
    Segment &found = *static_cast<Segment *>(at(directory().segment[place], sizeof(Segment)));
    if (found.local() > directory().global)
        wrong("a segment's depth of %llu is more than the directory's", (unsigned long long)found.local());
    return found;
}

static bool is_stale(const Segment &s, uint64_t key)
{
    return key != FREE && key != SENTINEL && prefix(key, s.local()) != s.bits();
}

static Pair *find(uint64_t key)
{
    Segment &s = segment(prefix(key, directory().global));
    for (Pair &pair : s.pair)
        if (pair.key == key && !is_stale(s, key))
            return &pair;
    return nullptr;
}

/* A directory twice as long, in which the upper half of the segment at `place` is `added`. */
static void double_directory(uint64_t place, uint64_t added)
{
    const Directory &old = directory();
    const uint64_t offset = allocate(Directory::bytes(old.global + 1)), count = (uint64_t)1 << (old.global + 1);
    Directory &doubled = *static_cast<Directory *>(at(offset, Directory::bytes(old.global + 1)));
    doubled.global = old.global + 1;
    for (uint64_t i = 0; i < count; i++)
        doubled.segment[i] = i == 2 * place + 1 ? added : old.segment[i / 2].load();
    flush(&doubled, 8 + 8 * count);
    fence();
    STORE(root().directory, offset);
}

/* Whether the segment that a place of the directory leads to has that place's bits. */
static bool belongs(uint64_t place)
{
    return segment(place).bits() == place >> (directory().global - segment(place).local());
}

/* Makes all places of a segment lead to it, except those that a further split took. */
static void enter(uint64_t offset)
{
    const Segment &s = *static_cast<Segment *>(at(offset, sizeof(Segment)));
    const uint64_t shift = directory().global - s.local(), first = s.bits() << shift, count = (uint64_t)1 << shift;
    for (uint64_t i = first; i < first + count; i++)
        if (segment(i).local() < s.local() || !belongs(i))
            STORE(directory().segment[i], offset);
}

static void split(uint64_t place)
{
    Segment &old = segment(place);
    const uint64_t local = old.local(), bits = old.bits();
    const bool doubles = local == directory().global;
    const uint64_t offset = allocate(sizeof(Segment));
    Segment &added = *static_cast<Segment *>(at(offset, sizeof(Segment)));
    int used = 0;

    added.pattern = make_pattern(local + 1, bits * 2 + 1);
    for (const Pair &pair : old.pair)
        if (pair.key != FREE && !is_stale(old, pair.key) && prefix(pair.key, local + 1) == bits * 2 + 1) {
            added.pair[used].key = pair.key.load();
            added.pair[used++].value = pair.value;
        }
    flush(&added.pattern, 8);
    flush(added.pair, sizeof(Pair) * (size_t)used);
    fence();

    const bool first = variant == DEPTH_FIRST ? doubles : variant == PATTERN_FIRST && !doubles;
    if (first)
        STORE(old.pattern, make_pattern(local + 1, bits * 2));
    if (doubles)
        double_directory(place, offset);
    else
        enter(offset);
    if (!first)
        STORE(old.pattern, make_pattern(local + 1, bits * 2));
}

static void insert(uint64_t key, uint64_t value)
{
    for (;;) {
        const uint64_t place = prefix(key, directory().global);
        Segment &s = segment(place);
        for (Pair &pair : s.pair) {
            uint64_t old = pair.key;
            if ((old != FREE && !is_stale(s, old)) || !pair.key.compare_exchange_strong(old, SENTINEL))
                continue;
            SET(pair.value, value);
            pair.key.store(key, std::memory_order_release); /* the pair is in one line, so it can't overtake the value */
            persist(&pair, sizeof pair);
            return;
        }
        split(place);
    }
}

static void run()
{
    pool_create(sizeof(Root));
    const uint64_t offset = allocate(Directory::bytes(1));
    Directory &first = *static_cast<Directory *>(at(offset, Directory::bytes(1)));
    first.global = 1;
    for (uint64_t i = 0; i < 2; i++) {
        first.segment[i] = allocate(sizeof(Segment));
        Segment &s = *static_cast<Segment *>(at(first.segment[i], sizeof(Segment)));
        STORE(s.pattern, make_pattern(1, i));
    }
    persist(&first, sizeof first);
    STORE(root().directory, offset);
    pool_ready();
    for (size_t i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key;
        sl_region_begin(i + 1);
        if (OPERATIONS[i].kind == 'd') {
            Pair *pair = find(key);
            STORE(pair->key, FREE);
        } else {
            insert(key, value_of(key, i + 1));
        }
        sl_region_end(i + 1);
    }
}

static void recover()
{
    for (uint64_t i = 0; i < (uint64_t)1 << directory().global; i++) {
        Segment &s = segment(i);
        if (s.local() && s.bits() & 1) {
            enter(directory().segment[i]);
            Segment &half = segment((s.bits() - 1) << (directory().global - s.local()));
            if (half.local() < s.local())
                STORE(half.pattern, make_pattern(s.local(), s.bits() - 1));
        }
        for (Pair &pair : s.pair)
            if (pair.key == SENTINEL && variant != SENTINEL_STAYS)
                STORE(pair.key, FREE);
    }
}

static void check()
{
    recover();
    for (uint64_t i = 0; i < (uint64_t)1 << directory().global; i++) {
        Segment &s = segment(i);
        if (!belongs(i))
            wrong("place %llu of the directory leads to another place's segment", (unsigned long long)i);
        for (Pair &pair : s.pair) {
            if (pair.key == SENTINEL)
                wrong("a slot is locked for ever");
            if (pair.key != FREE && !is_stale(s, pair.key) &&
                (!is_known(OPERATIONS, COUNT(OPERATIONS), pair.key) || find(pair.key) != &pair))
                wrong("key %llu is there twice, or was never inserted", (unsigned long long)pair.key);
        }
    }
    for (uint64_t key = 1; key <= 20; key++) {
        const Pair *pair = find(key);
        if (pair && !pair->value)
            wrong("key %llu has no value", (unsigned long long)key);
        check_key(OPERATIONS, COUNT(OPERATIONS), key, pair ? pair->value : 0);
    }
}

MAIN(run, check)
