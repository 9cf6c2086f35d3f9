/*
 * A hash table on libpmemobj: buckets of lists, a lock for some of them each. A record is put in by an
 * allocation that publishes itself in its bucket (mode `atomic`), or by a transaction (`tx`).
 */
#define _GNU_SOURCE
#include "harness.h"
#include <libpmemobj.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { LOCKS = 1024 };

struct entry {
    PMEMoid next;
    unsigned char bytes[]; /* key, value */
};

struct made {
    PMEMoid next;
    const void *key, *value;
};

static PMEMobjpool *pool;
static PMEMoid *buckets;
static uint64_t mask;
static int tx;
static pthread_mutex_t locks[LOCKS];

void store_open(void)
{
    uint64_t count = 1024;
    while (count < options.records)
        count *= 2;
    mask = count - 1;
    tx = !strcmp(options.mode, "tx");
    size_t entry = sizeof(struct entry) + options.key_bytes + options.value_bytes;
    size_t bytes = options.records * (entry + 128) * 5 / 4 + count * sizeof(PMEMoid) + (64 << 20);
    PMEMoid table;
    pool = pmemobj_create(options.path, "bench", bytes, 0600);
    if (!pool)
        fail("pmemobj_create", pmemobj_errormsg());
    if (pmemobj_zalloc(pool, &table, count * sizeof(PMEMoid), 1))
        fail("pmemobj_zalloc", pmemobj_errormsg());
    buckets = pmemobj_direct(table);
    /* As our memory is: together to huge pages (MADV_COLLAPSE), where the kernel does that. */
    madvise(pool, bytes, 25);
    for (int lock = 0; lock < LOCKS; lock++)
        pthread_mutex_init(&locks[lock], NULL);
}

void store_close(void)
{
    pmemobj_close(pool);
}

static PMEMoid *bucket_of(const void *key)
{
    uint64_t hash = 0, word;
    for (size_t at = 0; at < options.key_bytes; at += 8) {
        memcpy(&word, (const char *)key + at, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    }
    return &buckets[(hash ^ hash >> 32) & mask];
}

static pthread_mutex_t *lock_of(PMEMoid *bucket)
{
    return &locks[(size_t)(bucket - buckets) % LOCKS];
}

/* Where the reference to the key's entry is, or the one at the end of the list. */
static PMEMoid *find(PMEMoid *at, const void *key)
{
    while (!OID_IS_NULL(*at)) {
        struct entry *entry = pmemobj_direct(*at);
        if (!memcmp(entry->bytes, key, options.key_bytes))
            break;
        at = &entry->next;
    }
    return at;
}

static void fill(struct entry *entry, const struct made *made)
{
    entry->next = made->next;
    memcpy(entry->bytes, made->key, options.key_bytes);
    memcpy(entry->bytes + options.key_bytes, made->value, options.value_bytes);
}

static int construct(PMEMobjpool *in, void *memory, void *argument)
{
    fill(memory, argument);
    pmemobj_persist(in, memory, sizeof(struct entry) + options.key_bytes + options.value_bytes);
    return 0;
}

void store_put(int thread, const void *key, const void *value)
{
    (void)thread;
    PMEMoid *bucket = bucket_of(key);
    size_t bytes = sizeof(struct entry) + options.key_bytes + options.value_bytes;
    pthread_mutex_lock(lock_of(bucket));
    PMEMoid *at = find(bucket, key);
    struct made made = {*bucket, key, value};
    if (!OID_IS_NULL(*at)) {
        /* A value that changes is logged in both modes. */
        struct entry *entry = pmemobj_direct(*at);
        TX_BEGIN(pool) {
            pmemobj_tx_add_range_direct(entry->bytes + options.key_bytes, options.value_bytes);
            memcpy(entry->bytes + options.key_bytes, value, options.value_bytes);
        } TX_ONABORT {
            fail("transaction", pmemobj_errormsg());
        } TX_END
    } else if (tx) {
        TX_BEGIN(pool) {
            PMEMoid oid = pmemobj_tx_alloc(bytes, 2);
            fill(pmemobj_direct(oid), &made);
            pmemobj_tx_add_range_direct(bucket, sizeof *bucket);
            *bucket = oid;
        } TX_ONABORT {
            fail("transaction", pmemobj_errormsg());
        } TX_END
    } else if (pmemobj_alloc(pool, bucket, bytes, 2, construct, &made)) {
        fail("pmemobj_alloc", pmemobj_errormsg());
    }
    pthread_mutex_unlock(lock_of(bucket));
}

int store_get(int thread, const void *key, uint64_t *word)
{
    (void)thread;
    PMEMoid *bucket = bucket_of(key);
    pthread_mutex_lock(lock_of(bucket));
    PMEMoid *at = find(bucket, key);
    int there = !OID_IS_NULL(*at);
    if (there)
        memcpy(word, ((struct entry *)pmemobj_direct(*at))->bytes + options.key_bytes, 8);
    pthread_mutex_unlock(lock_of(bucket));
    return there;
}

uint64_t store_scan(int thread, const void *key, uint32_t count)
{
    (void)thread, (void)key, (void)count;
    fail("scan", "its keys have no order");
}

int store_delete(int thread, const void *key)
{
    (void)thread;
    PMEMoid *bucket = bucket_of(key);
    pthread_mutex_lock(lock_of(bucket));
    PMEMoid *at = find(bucket, key);
    int there = !OID_IS_NULL(*at);
    if (there) {
        TX_BEGIN(pool) {
            PMEMoid gone = *at;
            pmemobj_tx_add_range_direct(at, sizeof *at);
            *at = ((struct entry *)pmemobj_direct(gone))->next;
            pmemobj_tx_free(gone);
        } TX_ONABORT {
            fail("transaction", pmemobj_errormsg());
        } TX_END
    }
    pthread_mutex_unlock(lock_of(bucket));
    return there;
}
