/* Fault: false-sharing. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 300000
#endif
#include <pthread.h>
#ifdef MENDED
#define ROOM _Alignas(64)
#else
#define ROOM
#endif
/* One counter per thread; without room of its own, all four lie on one line. */
struct counter { ROOM volatile uint64_t value; };
static struct counter counters[4] __attribute__((aligned(64)));
static void *count(void *which) {
    struct counter *own = which;
    for (int i = 0; i < ROUNDS; i++) own->value++;
    return 0;
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, count, &counters[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%llu\n", (unsigned long long)counters[3].value);
}
