/* Fault: straddled-lines. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 200000
#endif
/* A hash map's nodes are of 48 bytes and begin anywhere, so that half of them lie on two lines; mended, they begin with one. */
struct node { uint64_t key; struct node *next; uint64_t pad[3]; uint64_t value; };
#ifdef MENDED
enum { STEP = 64, SHIFT = 0 };
#else
enum { STEP = 48, SHIFT = 16 };
#endif
enum { NODES = 1 << 18, BUCKETS = 1 << 20 };
int main(void) {
    struct node **table = calloc(BUCKETS, sizeof *table);
    char *pool = (char *)aligned_alloc(64, NODES * 64 + 64) + SHIFT;
    uint64_t state = 1, sum = 0;
    for (uint64_t i = 0; i < NODES; i++) {
        struct node *node = (struct node *)(pool + i * STEP);
        node->key = i * 0x9e3779b97f4a7c15ull >> 20;
        node->value = i;
        struct node **bucket = &table[node->key % BUCKETS];
        node->next = *bucket;
        *bucket = node;
    }
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t key = (state >> 33) % NODES * 0x9e3779b97f4a7c15ull >> 20;
        struct node *node = table[key % BUCKETS];
        while (node && node->key != key)
            node = node->next;
        if (node)
            sum += node->value;
    }
    printf("%llu\n", (unsigned long long)sum);
}
