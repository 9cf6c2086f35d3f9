/* Fault: allocation-churn. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 20000
#endif
/* A small block per step; mended, one for all. */
int main(void) {
    uint64_t sum = 0;
#ifdef MENDED
    uint64_t *scratch = malloc(256);
#endif
    for (int i = 0; i < ROUNDS; i++) {
#ifndef MENDED
        uint64_t *volatile scratch = malloc(256);
#endif
        for (int k = 0; k < 8; k++) ((volatile uint64_t *)scratch)[k] = i + k;
        sum += scratch[i & 7];
#ifndef MENDED
        free(scratch);
#endif
    }
    printf("%llu\n", (unsigned long long)sum);
}
