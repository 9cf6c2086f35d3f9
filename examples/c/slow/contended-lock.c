/* Fault: contended-lock. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 50000
#endif
#include <pthread.h>
#include <stdatomic.h>
/* An atomic that every thread takes for every item; mended, for every thousandth. */
#ifdef MENDED
#define BATCH 1000
#else
#define BATCH 1
#endif
static atomic_ulong next;
static void *work(void *sum) {
    uint64_t *own = sum;
    for (int i = 0; i < ROUNDS; i += BATCH) {
        uint64_t from = atomic_fetch_add(&next, BATCH);
        for (int k = 0; k < BATCH; k++) own[k & 7] += from + k;
    }
    return 0;
}
int main(void) {
    pthread_t threads[4];
    static uint64_t sums[4][64] __attribute__((aligned(64)));
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, sums[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%llu\n", (unsigned long long)sums[0][0]);
}
