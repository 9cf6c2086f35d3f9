/*
 * PC: a hash table with chains, and a lock for some of the buckets each. An operation updates the payload
 * of one entry.
 */
#include "sfr.h"

#define LOCKS 1024
#define PER_BUCKET 4

struct entry {
    struct entry *next;
    uint64_t key;
    uint64_t words[];
};

static struct lock *locks;

static uint64_t buckets(void)
{
    return options.size / PER_BUCKET + 1;
}

static uint64_t entry_bytes(void)
{
    return sizeof(struct entry) + options.stores * 8;
}

static uint64_t bytes(void)
{
    return (64u << 20) + 2 * (options.size * (entry_bytes() + 64) + buckets() * 8);
}

static struct entry **bucket(uint64_t number)
{
    return (struct entry **)root->data + number;
}

static void setup(void)
{
    root->data = block_zeros(buckets() * 8);
    for (uint64_t key = 0; key < options.size; key++) {
        struct entry **at = bucket(mix(key) % buckets()), *entry = block_new(entry_bytes());
        entry->next = *at;
        entry->key = key;
        payload_store(entry->words, key, 1);
        *at = entry;
        if (key % 16 == 0)
            step();
    }
}

static void start(void)
{
    locks = locks_new(LOCKS);
}

static void operate(struct worker *worker)
{
    uint64_t key = random_below(worker, options.size), number = mix(key) % buckets();
    struct lock *of = &locks[number % LOCKS];
    lock(of);
    struct entry *entry = *bucket(number);
    while (entry->key != key)
        entry = entry->next;
    payload_store(entry->words, key, entry->words[0] + 1);
    counted(worker);
    unlock(of);
}

static const char *verify(void)
{
    uint64_t entries = 0, updates = 0;
    if (!in_pool(root->data, buckets() * 8))
        return wrong("there are no buckets");
    for (uint64_t number = 0; number < buckets(); number++)
        for (const struct entry *entry = *bucket(number); entry; entry = entry->next) {
            if (!in_pool(entry, entry_bytes()) || ++entries > options.size)
                return wrong("the chain of bucket %" PRIu64 " is broken", number);
            if (mix(entry->key) % buckets() != number)
                return wrong("key %" PRIu64 " is in bucket %" PRIu64, entry->key, number);
            unsigned torn = payload_torn(entry->words, entry->key);
            if (torn < options.stores)
                return wrong("key %" PRIu64 " has version %" PRIu64 ", and its word %u has another",
                             entry->key,
                             entry->words[0], torn);
            updates += entry->words[0] - 1;
        }
    if (entries != options.size)
        return wrong("%" PRIu64 " entries of %" PRIu64 " are left", entries, options.size);
    if (root->counted && updates != counted_in_all())
        return wrong("%" PRIu64 " operations counted, %" PRIu64 " done", counted_in_all(), updates);
    return NULL;
}

int main(int count, char **arguments)
{
    static const struct benchmark pc = {"pc", "entries", 16384, bytes, setup, start, operate, verify};
    return sfr_main(&pc, count, arguments);
}
