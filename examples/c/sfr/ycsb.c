/*
 * YCSB on a table as N-Store has it: tuples of which a field lies in a block of its own. An update writes
 * a new block, makes the tuple lead to it and frees the old one, all in one SFR; a read goes over the
 * field. Keys follow Zipf's law. `--reads 90`, 50 and 10 are the mixes of the sources.
 */
#include <math.h>

#include "sfr.h"

#define LOCKS 1024
#define SKEW 0.99

struct field {
    uint64_t key;
    uint64_t words[];
};

struct tuple {
    uint64_t key, version;
    struct field *field;
};

static struct lock *locks;
/* The zeta functions of Gray's generator ("Quickly generating billion-record synthetic databases"). */
static double zeta_all, zeta_two;

static uint64_t field_bytes(void)
{
    return sizeof(struct field) + options.stores * 8;
}

static uint64_t bytes(void)
{
    return (64u << 20) + 4 * options.size * (sizeof(struct tuple) + field_bytes() + 64);
}

static struct tuple *tuple(uint64_t key)
{
    return (struct tuple *)root->data + key;
}

static struct field *field_new(uint64_t key, uint64_t version)
{
    struct field *field = block_new(field_bytes());
    field->key = key;
    payload_store(field->words, key, version);
    return field;
}

static void setup(void)
{
    root->data = block_zeros(options.size * sizeof(struct tuple));
    for (uint64_t key = 0; key < options.size; key++) {
        tuple(key)->key = key;
        tuple(key)->version = 1;
        tuple(key)->field = field_new(key, 1);
        if (key % 16 == 0)
            step();
    }
}

static void start(void)
{
    locks = locks_new(LOCKS);
    zeta_two = 1 + pow(0.5, SKEW);
    for (uint64_t i = 1; i <= options.size; i++)
        zeta_all += 1 / pow((double)i, SKEW);
}

static uint64_t zipfian(struct worker *worker)
{
    double n = (double)options.size, u = (double)random_below(worker, 1u << 30) / (1u << 30),
            z = u * zeta_all;
    double eta = (1 - pow(2 / n, 1 - SKEW)) / (1 - zeta_two / zeta_all);
    uint64_t rank = z < 1 ? 0 : z < zeta_two ? 1 : (uint64_t)(n * pow(eta * u - eta + 1, 1 / (1 - SKEW)));
    return mix(rank) % options.size;
}

static void operate(struct worker *worker)
{
    bool reads = random_below(worker, 100) < options.reads;
    uint64_t key = zipfian(worker);
    struct lock *of = &locks[key % LOCKS];
    struct tuple *at = tuple(key);
    lock(of);
    if (reads) {
        if (payload_torn(at->field->words, key) < options.stores)
            errx(1, "key %" PRIu64 " is read torn", key);
    } else {
        struct field *old = at->field;
        at->version++;
        at->field = field_new(key, at->version);
        block_free(old);
        counted(worker);
    }
    unlock(of);
}

static const char *verify(void)
{
    uint64_t updates = 0;
    if (!in_pool(root->data, options.size * sizeof(struct tuple)))
        return wrong("there is no table");
    for (uint64_t key = 0; key < options.size; key++) {
        const struct tuple *at = tuple(key);
        if (at->key != key)
            return wrong("tuple %" PRIu64 " has the key %" PRIu64, key, at->key);
        if (!in_pool(at->field, field_bytes()))
            return wrong("the field of key %" PRIu64 " is at %p", key, (const void *)at->field);
        if (at->field->key != key)
            return wrong("the field of key %" PRIu64 " is of key %" PRIu64, key, at->field->key);
        unsigned torn = payload_torn(at->field->words, key);
        if (torn < options.stores || at->field->words[0] != at->version)
            return wrong("key %" PRIu64 " has version %" PRIu64 ", and its field another", key, at->version);
        updates += at->version - 1;
    }
    if (root->counted && updates != counted_in_all())
        return wrong("%" PRIu64 " operations counted, %" PRIu64 " done", counted_in_all(), updates);
    return NULL;
}

int main(int count, char **arguments)
{
    static const struct benchmark ycsb = {"ycsb", "tuples", 10000, bytes, setup, start, operate, verify};
    return sfr_main(&ycsb, count, arguments);
}
