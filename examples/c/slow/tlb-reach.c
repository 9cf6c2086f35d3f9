/* Fault: tlb-reach. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 200000
#endif
/* Words on many pages, in no order; mended, on few. */
#ifdef MENDED
enum { SPREAD = 64 };
#else
enum { SPREAD = 4096 + 64 };
#endif
enum { WORDS = 1 << 13 };
int main(void) {
    volatile char *data = malloc((size_t)WORDS * SPREAD);
    uint64_t state = 1, sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        sum += ++*(volatile uint32_t *)(data + (size_t)((state >> 33) % WORDS) * SPREAD);
    }
    printf("%llu\n", (unsigned long long)sum);
}
