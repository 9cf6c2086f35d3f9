/*
 * A heap of 64-byte blocks, whose chunks (free or used, so many blocks long) stand in a table of headers, one at each
 * chunk's first block. An allocation cuts its chunk off a free one and publishes it with a redo log: header and the
 * caller's pointer, or neither.
 *
 * In PMDK (issue 4945; the reproducer is one pmemobj_tx_zalloc) the header of what remains free was written behind the log,
 * so that a crash leaves a chunk whose end no header follows. The other bug is the one that every redo log can have.
 */
#include "bugs.h"

enum { FIXED, REMAINDER_LATE, MARK_EARLY };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"remainder-late", "PMDK issue 4945 (W1): the free remainder's header is written after the used chunk's"},
    {"mark-early", "a redo log's mark is stored before its entries are durable (PMDK pull request 4947, in kind)"},
};

enum { BLOCKS = 256, OBJECTS = 8, USED = 1, UNUSED = 2, REDO = 2 };

struct root {
    uint64_t redo_count; /* entries to be applied */
    char rest[LINE - 8];
    struct {
        uint64_t offset, word;
    } redo[REDO];
    char rest2[LINE - 16 * REDO];
    uint64_t header[BLOCKS]; /* kind, and from bit 8 on the number of blocks */
    uint64_t object[OBJECTS]; /* number of its first block, plus 1 */
    unsigned char block[BLOCKS][LINE];
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static uint64_t make_header(uint64_t kind, uint64_t blocks)
{
    return kind | blocks << 8;
}

/* The blocks of the chunk that starts at `block`. */
static uint64_t chunk(uint64_t block, uint64_t *kind)
{
    const uint64_t header = block < BLOCKS ? root()->header[block] : 0, blocks = header >> 8;
    *kind = header & 255;
    if ((*kind != USED && *kind != UNUSED) || !blocks || blocks > BLOCKS - block)
        wrong("no chunk begins at block %llu", (unsigned long long)block);
    return blocks;
}

static void set_redo(uint64_t count)
{
    SET(root()->redo_count, count);
    persist(&root()->redo_count, sizeof count);
}

static void apply_redo(void)
{
    uint64_t i;
    if (root()->redo_count > REDO)
        wrong("the redo log has %llu entries", (unsigned long long)root()->redo_count);
    for (i = 0; i < root()->redo_count; i++) {
        uint64_t *word = (uint64_t *)at(root()->redo[i].offset, 8);
        SET(*word, root()->redo[i].word);
        flush(word, 8);
    }
    fence();
    set_redo(0);
}

/* An object of so many zeroed blocks. */
static void zalloc(unsigned object, uint64_t blocks)
{
    uint64_t first, kind, length;
    for (first = 0;; first += length) {
        length = chunk(first, &kind);
        if (kind == UNUSED && length > blocks)
            break;
    }
    memset(root()->block[first], 0, blocks * LINE);
    flush(root()->block[first], blocks * LINE);
    if (variant != REMAINDER_LATE) {
        SET(root()->header[first + blocks], make_header(UNUSED, length - blocks));
        flush(&root()->header[first + blocks], 8);
    }
    if (variant == MARK_EARLY)
        SET(root()->redo_count, 2);
    root()->redo[0].offset = offset_of(&root()->header[first]);
    root()->redo[0].word = make_header(USED, blocks);
    root()->redo[1].offset = offset_of(&root()->object[object]);
    root()->redo[1].word = first + 1;
    persist(root()->redo, sizeof root()->redo);
    if (variant == MARK_EARLY)
        persist(&root()->redo_count, 8);
    else
        set_redo(2);
    apply_redo();
    if (variant == REMAINDER_LATE) {
        SET(root()->header[first + blocks], make_header(UNUSED, length - blocks));
        persist(&root()->header[first + blocks], 8);
    }
}

/* Blocks of the object with this number; the third is of 304 bytes. */
static uint64_t blocks_of(unsigned object)
{
    return 3 + object % 4;
}

static void run(void)
{
    size_t i;
    pool_create(sizeof(struct root));
    SET(root()->header[0], make_header(UNUSED, BLOCKS));
    persist(&root()->header[0], 8);
    pool_ready();
    for (i = 0; i < OBJECTS; i++) {
        sl_region_begin(i + 1);
        zalloc((unsigned)i, blocks_of((unsigned)i));
        sl_region_end(i + 1);
    }
}

static void check(void)
{
    uint64_t first, kind, length, used = 0, i;
    apply_redo();
    for (first = 0; first < BLOCKS; first += length) {
        length = chunk(first, &kind);
        for (i = 0; i < OBJECTS && root()->object[i] != first + 1; i++)
            ;
        if (kind == USED && (i == OBJECTS || length != blocks_of((unsigned)i)))
            wrong("block %llu is in use for no object", (unsigned long long)first);
        used += kind == USED;
    }
    for (i = 0; i < OBJECTS; i++)
        if (root()->object[i])
            used--;
        else if (i < done_operations())
            wrong("object %llu is lost", (unsigned long long)i);
    if (used)
        wrong("an object has no chunk");
}

MAIN(run, check)
