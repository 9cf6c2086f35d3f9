/*
 * SPS: swaps in an array, with a lock per stripe of 64 elements. An operation takes two stripes, in
 * order, and moves as many elements as an SFR has stores around in a circle: two of them are a swap.
 */
#include "sfr.h"

#define STRIPE 64

static struct lock *locks;

static uint64_t *array(void)
{
    return root->data;
}

static uint64_t stripes(void)
{
    return (options.size + STRIPE - 1) / STRIPE;
}

static uint64_t bytes(void)
{
    return (64u << 20) + 2 * stripes() * STRIPE * 8;
}

static void setup(void)
{
    uint64_t *a = block_new(stripes() * STRIPE * 8);
    root->data = a;
    for (uint64_t i = 0; i < stripes() * STRIPE; i++) {
        a[i] = i;
        if (i % STRIPE == 0)
            step();
    }
}

static void start(void)
{
    locks = locks_new(stripes());
}

static void operate(struct worker *worker)
{
    uint64_t one = random_below(worker, stripes()), other = random_below(worker, stripes());
    uint64_t from = random_below(worker, STRIPE), to = random_below(worker, STRIPE);
    unsigned n = options.stores, first = one == other ? n : (n + 1) / 2;
    uint64_t *a = array(), *place[STORES_MAX];

    for (unsigned i = 0; i < n; i++)
        place[i] = &a[i < first ? one * STRIPE + (from + i) % STRIPE : other * STRIPE + (to + i) % STRIPE];
    lock(&locks[one < other ? one : other]);
    if (one != other)
        lock(&locks[one < other ? other : one]);

    uint64_t last = *place[n - 1];
    for (unsigned i = n - 1; i > 0; i--)
        *place[i] = *place[i - 1];
    *place[0] = last;
    counted(worker);

    if (one != other)
        unlock(&locks[other]);
    unlock(&locks[one]);
}

static const char *verify(void)
{
    uint64_t all = stripes() * STRIPE;
    const uint64_t *a = array();
    const char *bad = NULL;
    bool *seen = calloc(all, 1);
    if (!seen)
        err(1, "memory");
    for (uint64_t i = 0; i < all && !bad; i++) {
        if (a[i] >= all)
            bad = wrong("element %" PRIu64 " is %" PRIu64, i, a[i]);
        else if (seen[a[i]])
            bad = wrong("%" PRIu64 " is there twice, at %" PRIu64 " too", a[i], i);
        else
            seen[a[i]] = true;
    }
    free(seen);
    return bad;
}

int main(int count, char **arguments)
{
    static const struct benchmark sps = {"sps", "elements of the array", 65536, bytes, setup, start,
                                         operate, verify};
    return sfr_main(&sps, count, arguments);
}
