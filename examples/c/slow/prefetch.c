/* Fault: missing-prefetch. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 1
#endif
/* Records are visited by an array of their numbers, with work that fills the core's window; mended, they are asked for before
 * (with -DSOON, too late). */
struct record { uint64_t words[8]; };
#ifdef SOON
enum { AHEAD = 1 };
#else
enum { AHEAD = 8 };
#endif
enum { RECORDS = 1 << 18, VISITS = 1 << 16 };
int main(void) {
    struct record *records = calloc(RECORDS, sizeof *records);
    uint32_t *which = malloc((VISITS + AHEAD) * sizeof *which);
    static volatile uint64_t small[24] = {1, 2, 3};
    uint64_t state = 1, sum = 0;
    for (int i = 0; i < VISITS + AHEAD; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        which[i] = (state >> 33) % RECORDS;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < VISITS; i++) {
#ifdef MENDED
            __builtin_prefetch(&records[which[i + AHEAD]]);
#endif
            uint64_t value = records[which[i]].words[0];
            for (int k = 0; k < 24; k++)
                value = value * 3 + small[k];
            sum += value;
        }
    printf("%llu\n", (unsigned long long)sum);
}
