/* Fault: true-sharing. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 300000
#endif
#include <pthread.h>
/* All threads add to one total; mended, each adds to its own and hands over once. */
static volatile uint64_t total;
static void *add(void *unused) {
    (void)unused;
#ifdef MENDED
    uint64_t own = 0;
    for (int i = 0; i < ROUNDS; i++) { own += i; __asm__ volatile("" : "+r"(own)); }
    total += own;
#else
    for (int i = 0; i < ROUNDS; i++) total += i;
#endif
    return 0;
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    puts("done");
}
