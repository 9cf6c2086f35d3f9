// Fault: false-sharing. A spin lock lies beside the settings that everybody reads; mended, on a line of its own.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static struct {
    atomic_int lock;
#ifdef MENDED
    _Alignas(64)
#endif
    long limit, step, base;
} shared __attribute__((aligned(64))) = {0, 100, 3, 7};
static _Alignas(64) long total;
static _Alignas(64) long results[4 * 8];

static void *work(void *number) {
    long own = (long)number, sum = 0;
    volatile long *limit = &shared.limit, *step = &shared.step, *base = &shared.base;
    for (int i = 0; i < 20000; i++) {
        sum += *base + *step * (i % *limit);
        if (i % 8 == 0) {
            while (atomic_exchange(&shared.lock, 1))
                ;
            total += 1;
            atomic_store(&shared.lock, 0);
        }
    }
    results[own * 8] = sum;
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    printf("%ld %ld\n", total, results[0]);
}
