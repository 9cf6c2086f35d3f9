/*
 * Parts of a log-structured file system in the manner of NOVA: a table of inodes, each with a log of entries from `head` to
 * `tail`. The first inode is the directory; its entries give names to inodes or take them away. Entries are written past
 * the caches and count from the moment at which the tail moves behind them.
 */
#include "bugs.h"

enum { FIXED, TAIL_BEFORE_HEAD, INODE_UNFLUSHED, RENAME_IN_PLACE, ENTRY_UNFENCED };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"tail-before-head", "NOVA issue 94: a new log's tail is durable before its head"},
    {"inode-unflushed", "NOVA issue 91 (Chipmunk's NOVA_BUG2): a new inode is not flushed"},
    {"rename-in-place", "NOVA issue 116 (Chipmunk's BUG4): rename takes the old name away before the new one is there"},
    {"entry-unfenced", "WineFS issue 1: no fence between an entry and the tail behind it"},
};

enum { INODES = 16, ENTRIES = 30, NAME = 1, WRITE = 2 };

struct inode {
    uint64_t valid, number, head, tail;
    char rest[LINE - 32];
};

/* NAME: `name` is `inode`, or is no longer there if that is 0. WRITE: the file's only word is `value`. */
struct entry {
    uint64_t kind, name, inode, value, rest[4];
};

struct root {
    struct inode inode[INODES];
};

/* In order; a name is its own number, a value what the file holds afterwards. */
static const struct {
    char kind; /* 'c' create, 'w' write, 'r' rename, 'u' unlink */
    uint64_t name, other;
} WORK[] = {
    {'c', 1, 0}, {'c', 2, 0}, {'w', 1, 71}, {'r', 1, 3}, {'c', 1, 0}, {'w', 2, 72}, {'w', 3, 73}, {'u', 2, 0},
    {'r', 3, 4}, {'w', 1, 74}, {'c', 5, 0}, {'w', 5, 75}, {'r', 5, 2}, {'w', 4, 76},
};
enum { NAMES = 6 };

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct inode *directory(void)
{
    return &root()->inode[0];
}

static void persist_inode(const struct inode *inode)
{
    persist(inode, sizeof *inode);
}

/* Writes an entry behind the log's end, by non-temporal stores. The caller moves the tail. */
static uint64_t append(uint64_t tail, struct entry entry)
{
    long long *to = (long long *)at(tail, sizeof entry);
    const uint64_t *from = &entry.kind;
    int i;
    for (i = 0; i < 8; i++)
        _mm_stream_si64(to + i, (long long)from[i]);
    if (variant != ENTRY_UNFENCED)
        fence();
    return tail + sizeof entry;
}

static void set_tail(struct inode *inode, uint64_t tail)
{
    SET(inode->tail, tail);
    persist_inode(inode);
}

/* Where the log's next entry goes. Gives a log to an inode that has none. */
static uint64_t log_end(struct inode *inode)
{
    uint64_t offset;
    if (inode->tail)
        return inode->tail;
    offset = allocate(ENTRIES * sizeof(struct entry));
    if (variant == TAIL_BEFORE_HEAD) {
        set_tail(inode, offset);
        SET(inode->head, offset);
        persist_inode(inode);
    } else {
        SET(inode->head, offset);
        set_tail(inode, offset);
    }
    return offset;
}

/* Number of the inode that a name stands for, 0 if there is none; of `NAME` entries the last one counts. */
static uint64_t lookup(uint64_t name)
{
    uint64_t place, found = 0;
    for (place = directory()->head; place != directory()->tail; place += sizeof(struct entry)) {
        const struct entry *entry = (const struct entry *)at(place, sizeof *entry);
        if (entry->kind != NAME)
            wrong("an entry of the directory is none");
        if (entry->name == name)
            found = entry->inode;
    }
    return found;
}

static void create(uint64_t name, uint64_t number)
{
    struct inode *inode = &root()->inode[number];
    struct entry entry = {NAME, name, number, 0, {0}};
    inode->number = number;
    inode->valid = 1;
    if (variant != INODE_UNFLUSHED)
        persist_inode(inode);
    set_tail(directory(), append(log_end(directory()), entry));
}

static void write_word(uint64_t name, uint64_t value)
{
    struct inode *inode = &root()->inode[lookup(name)];
    struct entry entry = {WRITE, 0, inode->number, value, {0}};
    set_tail(inode, append(log_end(inode), entry));
}

static void rename_file(uint64_t from, uint64_t to)
{
    struct entry gone = {NAME, from, 0, 0, {0}}, here = {NAME, to, lookup(from), 0, {0}};
    uint64_t place = log_end(directory());
    if (variant == RENAME_IN_PLACE) {
        for (place = directory()->head; place != directory()->tail; place += sizeof(struct entry)) {
            struct entry *entry = (struct entry *)at(place, sizeof *entry);
            if (entry->name == from && entry->inode) {
                SET(entry->inode, 0);
                persist(&entry->inode, sizeof entry->inode);
            }
        }
    } else {
        place = append(place, gone);
    }
    set_tail(directory(), append(place, here));
}

static void unlink_file(uint64_t name)
{
    struct entry gone = {NAME, name, 0, 0, {0}};
    set_tail(directory(), append(log_end(directory()), gone));
}

static void run(void)
{
    uint64_t inodes = 0;
    size_t i;
    pool_create(sizeof(struct root));
    directory()->valid = 1;
    log_end(directory());
    pool_ready();
    for (i = 0; i < COUNT(WORK); i++) {
        sl_region_begin(i + 1);
        switch (WORK[i].kind) {
        case 'c': create(WORK[i].name, ++inodes); break;
        case 'w': write_word(WORK[i].name, WORK[i].other); break;
        case 'r': rename_file(WORK[i].name, WORK[i].other); break;
        default: unlink_file(WORK[i].name);
        }
        sl_region_end(i + 1);
    }
}

/* What is in a file. */
static uint64_t content(uint64_t number)
{
    const struct inode *inode = number < INODES ? &root()->inode[number] : NULL;
    const struct entry *last;
    if (!inode || inode->valid != 1 || inode->number != number)
        wrong("a name leads to inode %llu, which is not valid", (unsigned long long)number);
    if (inode->tail && !inode->head)
        wrong("the log of inode %llu has a tail and no head", (unsigned long long)number);
    if (!inode->tail || inode->head == inode->tail)
        return 0;
    last = (const struct entry *)at(inode->tail - sizeof *last, sizeof *last);
    if (inode->head > inode->tail || last->kind != WRITE || last->inode != number)
        wrong("the last entry of inode %llu is none", (unsigned long long)number);
    return last->value;
}

/* Whether names and contents are those after the first `count` operations. */
static int matches(size_t count, const uint64_t *found)
{
    uint64_t names[NAMES] = {0}, name;
    size_t i;
    for (i = 0; i < count; i++) {
        uint64_t *file = &names[WORK[i].name];
        switch (WORK[i].kind) {
        case 'c': *file = 1; break;
        case 'w': *file = 1 + WORK[i].other; break;
        case 'r': names[WORK[i].other] = *file; /* falls through */
        default: *file = 0;
        }
    }
    for (name = 1; name < NAMES; name++)
        if (names[name] != found[name])
            return 0;
    return 1;
}

static void check(void)
{
    uint64_t found[NAMES] = {0}, name;
    size_t count;
    for (name = 1; name < NAMES; name++)
        if (lookup(name))
            found[name] = 1 + content(lookup(name));
    /* Operations come one after the other, so the files are as after some number of them. */
    for (count = done_operations(); count <= COUNT(WORK); count++)
        if (matches(count, found))
            return;
    wrong("names or contents are those of no moment after %zu operations", done_operations());
}

MAIN(run, check)
