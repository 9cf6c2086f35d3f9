/*
 * Integer sort, after IS of the NAS Parallel Benchmarks 3.4: ranks keys whose distribution is roughly a bell.
 *
 * rank first throws the keys into buckets by their upper bits, then counts within each bucket. As in the original,
 * buckets are on; -DNO_BUCKETS leaves them out and counts into one table.
 */
#include "common.h"

enum { MAX_KEY_LOG = 16, BUCKETS_LOG = 10, MAX_KEY = 1 << MAX_KEY_LOG, BUCKETS = 1 << BUCKETS_LOG };

typedef int32_t key;

static struct {
    key *key_array, *key_buff1, *key_buff2;
    key *count[64]; /* a thread's own: keys per bucket, or without buckets per value */
    key bucket_end[BUCKETS];
    long keys;
    int threads;
    pthread_barrier_t barrier;
} is;

/* Each thread ranks its part of the keys. */
static void rank(void *context, long low, long high, int thread)
{
    const int shift = MAX_KEY_LOG - BUCKETS_LOG;
    key *work_buff = is.count[thread], *key_buff_ptr = is.key_buff1;
    long i;
    int k, t;
    (void)context;
#if !defined(NO_BUCKETS)
    key bucket_ptrs[BUCKETS];
    for (i = 0; i < BUCKETS; i++)
        work_buff[i] = 0;
    for (i = low; i < high; i++)
        work_buff[is.key_array[i] >> shift]++;
    pthread_barrier_wait(&is.barrier);

    /* Where this thread's share of each bucket begins. */
    bucket_ptrs[0] = 0;
    for (t = 0; t < thread; t++)
        bucket_ptrs[0] += is.count[t][0];
    for (i = 1; i < BUCKETS; i++) {
        bucket_ptrs[i] = bucket_ptrs[i - 1];
        for (t = 0; t < thread; t++)
            bucket_ptrs[i] += is.count[t][i];
        for (t = thread; t < is.threads; t++)
            bucket_ptrs[i] += is.count[t][i - 1];
    }

    /* Sort into the buckets. */
    for (i = low; i < high; i++) {
        const key value = is.key_array[i];
        const key place = bucket_ptrs[value >> shift]++;
        is.key_buff2[place] = value;
#if defined(MISUSE)
        sl_prestore(&is.key_buff2[place], sizeof value, SL_CLEAN);
#endif
    }
    if (thread == is.threads - 1)
        for (i = 0; i < BUCKETS; i++)
            is.bucket_end[i] = bucket_ptrs[i];
    pthread_barrier_wait(&is.barrier);

    /* Rank within each bucket. */
    for (i = BUCKETS * thread / is.threads; i < BUCKETS * (thread + 1) / is.threads; i++) {
        const key first = (key)(i << shift), last = first + (1 << shift), before = i ? is.bucket_end[i - 1] : 0;
        for (k = first; k < last; k++)
            key_buff_ptr[k] = 0;
        for (k = before; k < is.bucket_end[i]; k++)
            key_buff_ptr[is.key_buff2[k]]++;
        key_buff_ptr[first] += before;
        for (k = first + 1; k < last; k++)
            key_buff_ptr[k] += key_buff_ptr[k - 1];
    }
#else
    (void)shift;
    for (k = 0; k < MAX_KEY; k++)
        work_buff[k] = 0;
    for (i = low; i < high; i++) {
        work_buff[is.key_array[i]]++;
#if defined(MISUSE)
        sl_prestore(&work_buff[is.key_array[i]], sizeof(key), SL_CLEAN);
#endif
    }
    for (k = 0; k < MAX_KEY - 1; k++)
        work_buff[k + 1] += work_buff[k];
    pthread_barrier_wait(&is.barrier);
    for (k = MAX_KEY / is.threads * thread; k < (thread + 1 < is.threads ? MAX_KEY / is.threads * (thread + 1) : MAX_KEY); k++) {
        key sum = 0;
        for (t = 0; t < is.threads; t++)
            sum += is.count[t][k];
        key_buff_ptr[k] = sum;
    }
#endif
}

/* Keys that are sums of four random numbers. */
static void create_seq(uint64_t seed)
{
    long i;
    for (i = 0; i < is.keys; i++) {
        double x = next_fraction(&seed);
        x += next_fraction(&seed);
        x += next_fraction(&seed);
        x += next_fraction(&seed);
        is.key_array[i] = (key)(MAX_KEY / 4 * x);
    }
}

/* Sorts by rank; the number of keys that are out of place then. */
static long full_verify(key *sorted)
{
    long i, wrong = 0;
    for (i = 0; i < is.keys; i++)
        sorted[--is.key_buff1[is.key_array[i]]] = is.key_array[i];
    for (i = 1; i < is.keys; i++)
        wrong += sorted[i - 1] > sorted[i];
    return wrong;
}

int main(int argc, char **argv)
{
    struct options options = {2, 1 << 20, 1, 1, 0, 0};
    parse_options(argc, argv, &options, "times the keys are ranked", "keys");
    require(options.size > options.n * 2 && options.size <= 1 << 30, "-s must be above twice -n and at most 2^30");
    is.keys = (long)options.size;
    is.threads = (int)options.threads;
    const size_t bytes = options.size * sizeof(key);
    uint64_t sum = 0;
    int i;

    sl_phase("load");
    is.key_array = (key *)allocate(bytes);
    is.key_buff1 = (key *)allocate_zeros(MAX_KEY * sizeof(key));
    is.key_buff2 = (key *)allocate_zeros(bytes);
    for (i = 0; i < is.threads; i++)
        is.count[i] = (key *)allocate(MAX_KEY * sizeof(key));
    create_seq(options.seed);
    pthread_barrier_init(&is.barrier, NULL, (unsigned)is.threads);

    sl_phase("run");
    const double start = seconds();
    for (uint64_t n = 1; n <= options.n; n++) {
        is.key_array[n] = (key)(n % MAX_KEY);
        is.key_array[n + options.n] = (key)(MAX_KEY - 1 - n % MAX_KEY);
        parallel(is.threads, 0, is.keys, rank, NULL);
        for (i = 0; i < 5; i++)
            sum += mix((uint64_t)is.key_buff1[mix((uint64_t)i) % MAX_KEY]);
    }
    const double elapsed = seconds() - start;

    sl_phase("check");
    for (i = 0; i < MAX_KEY; i++)
        sum += mix((uint64_t)is.key_buff1[i] ^ (uint64_t)i << 32);
    const long wrong = full_verify(is.key_buff2);
    if (wrong) {
        fprintf(stderr, "is: %ld keys are out of order\n", wrong);
        return 1;
    }
    report("is", sum, elapsed);
    free(is.key_array), free(is.key_buff1), free(is.key_buff2);
    for (i = 0; i < is.threads; i++)
        free(is.count[i]);
    return 0;
}
