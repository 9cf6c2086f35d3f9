/* No fault: a chained hash table whose chains are short, all of it on few lines of source. ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#ifndef ROUNDS
#define ROUNDS 200000
#endif
struct node { struct node *next; uint64_t key; };
enum { NODES = 1 << 15, BUCKETS = 1 << 15 };
static void *get(size_t bytes) { return calloc(1, bytes); }
int main(void) {
    struct node **table = get(BUCKETS * sizeof *table), *node;
    uint64_t state = 1, sum = 0, key;
    for (int i = 0; i < NODES; i++) {
        node = get(sizeof *node), node->key = i * 2654435761u % (1u << 31), node->next = table[node->key % BUCKETS], table[node->key % BUCKETS] = node;
    }
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        key = (state >> 33) % NODES * 2654435761u % (1u << 31);
        for (node = table[key % BUCKETS]; node && node->key != key; node = node->next) sum++;
        sum += node != 0;
    }
    printf("%llu\n", (unsigned long long)sum);
}
