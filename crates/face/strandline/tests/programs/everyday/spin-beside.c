// A spin lock with settings in the line behind its four bytes.
#include <pthread.h>
#include <stdio.h>

struct config {
    pthread_spinlock_t lock;
#ifdef MENDED
    char apart[60];
#endif
    int limit, step;
} __attribute__((aligned(64)));

static struct config shared = {.limit = 100, .step = 3};
static long totals[64] __attribute__((aligned(64)));

static void *reader(void *out) {
    volatile int *limit = &shared.limit, *step = &shared.step;
    long sum = 0;
    for (int i = 0; i < 40000; i++) sum += *limit + *step;
    *(long *)out = sum;
    return NULL;
}

static void *writer(void *out) {
    for (int i = 0; i < 20000; i++) {
        pthread_spin_lock(&shared.lock);
        ++*(long *)out;
        pthread_spin_unlock(&shared.lock);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    pthread_spin_init(&shared.lock, 0);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, i < 2 ? reader : writer, &totals[8 * i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%ld\n", totals[0] + totals[16]);
}
