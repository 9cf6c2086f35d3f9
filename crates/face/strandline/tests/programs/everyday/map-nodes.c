// Fault: straddled-lines. A chained hash map whose nodes of 48 B begin anywhere; mended, where lines do.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { uint64_t key; struct node *next; uint64_t hash, stamp; uint64_t value; };
enum { KEYS = 1 << 16, LOOKUPS = 200000 };
static struct node *buckets[KEYS * 4];

static struct node *make(void) {
#ifdef MENDED
    return aligned_alloc(64, 64);
#else
    return malloc(sizeof(struct node));
#endif
}

static struct node *find(uint64_t key) {
    uint64_t hash = key * 0x9e3779b97f4a7c15ull;
    for (struct node *at = buckets[hash >> 46]; at; at = at->next)
        if (at->key == key)
            return at;
    return 0;
}

int main(void) {
    uint64_t sum = 0, state = 1;
    for (uint64_t key = 0; key < KEYS; key++) {
        struct node *node = make();
        uint64_t hash = key * 0x9e3779b97f4a7c15ull;
        *node = (struct node){key, buckets[hash >> 46], hash, 0, key * 3};
        buckets[hash >> 46] = node;
    }
    for (int i = 0; i < LOOKUPS; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        struct node *node = find((state >> 33) % KEYS);
        sum += node->value;
    }
    printf("%llu\n", (unsigned long long)sum);
}
