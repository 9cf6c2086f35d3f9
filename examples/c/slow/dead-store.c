/* Fault: dead-store. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 10
#endif
/* A result is stored at every step and only the last one is read; mended, it is kept until it is final. */
enum { CELLS = 4096 };
int main(void) {
    volatile uint64_t *cells = malloc(CELLS * sizeof *cells);
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CELLS; i++) {
#ifdef MENDED
            uint64_t value = 0;
            for (int k = 0; k < 8; k++) { value ^= (uint64_t)i * k; __asm__ volatile("" : "+r"(value)); }
            cells[i] = value;
#else
            uint64_t value = 0;
            for (int k = 0; k < 8; k++) cells[i] = value ^= (uint64_t)i * k;
#endif
        }
        for (int i = 0; i < CELLS; i++) sum += cells[i];
    }
    printf("%llu\n", (unsigned long long)sum);
}
