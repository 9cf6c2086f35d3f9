/* Fault: lives-too-long. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 2
#endif
/* The input is kept while results are made that need it no more; mended, it is freed after its last use. */
enum { WORDS = 1 << 19 };
int main(void) {
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        volatile uint64_t *input = malloc(WORDS * sizeof *input);
        uint64_t seed = 0;
        for (int i = 0; i < WORDS; i += 8) input[i] = i + round;
        for (int i = 0; i < WORDS; i += 8) seed += input[i];
#ifdef MENDED
        free((void *)input);
#endif
        volatile uint64_t *result = malloc(WORDS * sizeof *result);
        for (int i = 0; i < WORDS; i += 8) result[i] = seed + i;
        for (int i = 0; i < WORDS; i += 8) sum += result[i];
        free((void *)result);
#ifndef MENDED
        free((void *)input);
#endif
    }
    printf("%llu\n", (unsigned long long)sum);
}
