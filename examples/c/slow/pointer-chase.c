/* Fault: pointer-chase. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 4
#endif
/* A list whose nodes lie anywhere; mended, an array. */
struct node { struct node *next; uint64_t value[7]; };
enum { NODES = 1 << 17 };
int main(void) {
    struct node **all = malloc(NODES * sizeof *all);
    uint64_t state = 1, sum = 0;
    for (int i = 0; i < NODES; i++) { all[i] = malloc(sizeof **all); all[i]->value[0] = i; }
    for (int i = NODES - 1; i > 0; i--) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        int other = (state >> 33) % (i + 1);
        struct node *node = all[i];
        all[i] = all[other];
        all[other] = node;
    }
    for (int i = 0; i < NODES; i++) all[i]->next = i + 1 < NODES ? all[i + 1] : 0;
#ifdef MENDED
    uint64_t *flat = malloc(NODES * sizeof *flat);
    for (int i = 0; i < NODES; i++) flat[i] = all[i]->value[0];
#endif
    for (int round = 0; round < ROUNDS; round++) {
#ifdef MENDED
        for (int i = 0; i < NODES; i++) sum += flat[i];
#else
        for (struct node *node = all[0]; node; node = *(struct node *volatile *)&node->next) sum++;
#endif
    }
    printf("%llu\n", (unsigned long long)sum);
}
