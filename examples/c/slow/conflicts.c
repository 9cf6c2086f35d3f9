/* Fault: conflict-misses. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 200000
#endif
/* Sixty-four streams that begin a power of two apart; mended, a line more. */
#ifdef MENDED
enum { APART = (1 << 14) + 64 };
#else
enum { APART = 1 << 14 };
#endif
enum { STREAMS = 64 };
int main(void) {
    char *data = calloc(STREAMS, APART);
    uint64_t sum = 0, state = 1;
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        sum += *(volatile uint32_t *)(data + (size_t)((state >> 33) % STREAMS) * APART);
    }
    printf("%llu\n", (unsigned long long)sum);
}
