/*
 * A hash table like CLHT's lock-based one: a bucket is one cache line, with a lock, three keys, three values and a link.
 *
 * Readers take no lock. A writer takes the bucket's, by an atomic exchange, which is also a fence: it waits until the
 * value that was just crafted is visible.
 */
struct worker;
#include "ycsb.h"

enum { ENTRIES = 3, FREE = 0, TAKEN = 1 };

typedef struct bucket {
    uint8_t lock;
    uint32_t hops;
    uint64_t key[ENTRIES];
    void *value[ENTRIES];
    struct bucket *next;
} __attribute__((aligned(64))) bucket_t;

_Static_assert(sizeof(bucket_t) == 64, "a bucket is a line");

static struct {
    bucket_t *table;
    uint64_t mask;
} clht;

static void store_create(uint64_t keys)
{
    uint64_t buckets = 64;
    while (buckets * 2 < keys)
        buckets *= 2;
    clht.table = (bucket_t *)allocate_zeros(buckets * sizeof(bucket_t));
    clht.mask = buckets - 1;
}

static bucket_t *bucket_of(uint64_t key)
{
    return &clht.table[mix(key) & clht.mask];
}

static void lock_acquire(uint8_t *lock)
{
    uint8_t expected = FREE;
    while (!__atomic_compare_exchange_n(lock, &expected, TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        expected = FREE;
        sched_yield();
    }
}

static void lock_release(uint8_t *lock)
{
    __atomic_store_n(lock, FREE, __ATOMIC_RELEASE);
}

static const void *clht_get(uint64_t key)
{
    const bucket_t *bucket;
    int j;
    for (bucket = bucket_of(key); bucket; bucket = __atomic_load_n(&bucket->next, __ATOMIC_ACQUIRE))
        for (j = 0; j < ENTRIES; j++)
            if (__atomic_load_n(&bucket->key[j], __ATOMIC_ACQUIRE) == key)
                return __atomic_load_n(&bucket->value[j], __ATOMIC_ACQUIRE);
    return NULL;
}

/* Puts in a free entry, or in the one of the key. */
static void clht_put(struct arena *arena, uint64_t key, void *value)
{
    bucket_t *bucket = bucket_of(key), *empty_in = NULL;
    uint8_t *lock = &bucket->lock;
    int j, empty = 0;
    lock_acquire(lock);
    for (;;) {
        for (j = 0; j < ENTRIES; j++) {
            if (bucket->key[j] == key) {
                __atomic_store_n(&bucket->value[j], value, __ATOMIC_RELEASE);
                lock_release(lock);
                return;
            }
            if (!empty_in && !bucket->key[j]) {
                empty_in = bucket;
                empty = j;
            }
        }
        if (!bucket->next)
            break;
        bucket = bucket->next;
    }
    if (empty_in) {
        __atomic_store_n(&empty_in->value[empty], value, __ATOMIC_RELAXED);
        __atomic_store_n(&empty_in->key[empty], key, __ATOMIC_RELEASE);
    } else {
        bucket_t *more = (bucket_t *)memset(arena_allocate(arena, sizeof *more), 0, sizeof *more);
        more->value[0] = value;
        more->key[0] = key;
        __atomic_store_n(&bucket->next, more, __ATOMIC_RELEASE);
        bucket->hops++;
    }
    lock_release(lock);
}

static const uint64_t *store_get(uint64_t key)
{
    return (const uint64_t *)clht_get(key);
}

static void ycsb_put(struct worker *worker, uint64_t key)
{
    uint64_t *value = craftValue(worker, key);
#if defined(CLEAN)
    sl_prestore(value, worker->size, SL_CLEAN);
#endif
    clht_put(&worker->nodes, key, value);
}

int main(int argc, char **argv)
{
    return ycsb_main(argc, argv, "clht");
}
