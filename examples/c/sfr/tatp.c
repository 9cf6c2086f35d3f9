/*
 * TATP's transaction Update Location: a subscriber is found by the 15 digits of its number, and its
 * location changes. The benchmark's row has one location; here it has as many words as an SFR has stores.
 * The index never changes.
 */
#include "sfr.h"

#define LOCKS 1024
#define DIGITS 15

struct subscriber {
    char number[DIGITS + 1];
    uint64_t id;
    uint8_t bits[10], hexes[10], bytes[10], pad[2];
    uint64_t msc_location;
    uint64_t vlr_location[];
};

static struct lock *locks;

static uint64_t row_bytes(void)
{
    return sizeof(struct subscriber) + options.stores * 8;
}

/* Slots of the index: twice as many as subscribers. */
static uint64_t slots(void)
{
    return 2 * options.size;
}

static uint64_t bytes(void)
{
    return (64u << 20) + 2 * (slots() * 8 + options.size * (row_bytes() + 64));
}

static struct subscriber **slot(uint64_t at)
{
    return (struct subscriber **)root->data + at % slots();
}

static void digits(char number[DIGITS + 1], uint64_t id)
{
    for (int i = DIGITS - 1; i >= 0; i--, id /= 10)
        number[i] = (char)('0' + id % 10);
    number[DIGITS] = 0;
}

static uint64_t hashed(const char *number)
{
    uint64_t hash = 0;
    for (int i = 0; i < DIGITS; i++)
        hash = mix(hash ^ (uint64_t)number[i]);
    return hash;
}

/* The slot with the subscriber of that number, or the empty one where it belongs. */
static uint64_t find(const char *number)
{
    uint64_t at = hashed(number);
    while (*slot(at) && memcmp((*slot(at))->number, number, DIGITS))
        at++;
    return at;
}

static void setup(void)
{
    root->data = block_zeros(slots() * 8);
    for (uint64_t id = 0; id < options.size; id++) {
        struct subscriber *row = block_zeros(row_bytes());
        digits(row->number, id);
        row->id = id;
        for (unsigned i = 0; i < 10; i++)
            row->bits[i] = id >> i & 1, row->hexes[i] = mix(id + i) & 15,
                    row->bytes[i] = (uint8_t)mix(id ^ i);
        row->msc_location = mix(id);
        payload_store(row->vlr_location, id, 1);
        *slot(find(row->number)) = row;
        step();
    }
}

static void start(void)
{
    locks = locks_new(LOCKS);
}

static void operate(struct worker *worker)
{
    char number[DIGITS + 1];
    digits(number, random_below(worker, options.size));
    struct subscriber *row = *slot(find(number));
    struct lock *of = &locks[row->id % LOCKS];
    lock(of);
    payload_store(row->vlr_location, row->id, row->vlr_location[0] + 1);
    counted(worker);
    unlock(of);
}

static const char *verify(void)
{
    uint64_t rows = 0, updates = 0;
    if (!in_pool(root->data, slots() * 8))
        return wrong("there is no index");
    for (uint64_t at = 0; at < slots(); at++) {
        char number[DIGITS + 1];
        const struct subscriber *row = *slot(at);
        if (!row)
            continue;
        if (!in_pool(row, row_bytes()))
            return wrong("slot %" PRIu64 " leads to %p", at, (const void *)row);
        digits(number, row->id);
        if (memcmp(number, row->number, sizeof number) || slot(find(number)) != slot(at))
            return wrong("subscriber %" PRIu64 " can't be found by its number", row->id);
        if (row->msc_location != mix(row->id))
            return wrong("subscriber %" PRIu64 " was written over", row->id);
        unsigned torn = payload_torn(row->vlr_location, row->id);
        if (torn < options.stores)
            return wrong("subscriber %" PRIu64 " is at location %" PRIu64 ", and by word %u elsewhere",
                         row->id,
                         row->vlr_location[0], torn);
        updates += row->vlr_location[0] - 1;
        rows++;
    }
    if (rows != options.size)
        return wrong("%" PRIu64 " subscribers of %" PRIu64 " are left", rows, options.size);
    if (root->counted && updates != counted_in_all())
        return wrong("%" PRIu64 " operations counted, %" PRIu64 " done", counted_in_all(), updates);
    return NULL;
}

int main(int count, char **arguments)
{
    static const struct benchmark tatp = {"tatp", "subscribers", 10000, bytes, setup, start, operate, verify};
    return sfr_main(&tatp, count, arguments);
}
