/* Branches that end alike, and functions with the same code: each line is reported as itself.
 *
 * ./branches POOL; ./branches --recover POOL */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINE = 8 };

struct pool {
    uint64_t state[LINE];
    uint64_t value[LINE];
    uint64_t other[LINE];
    uint64_t leaves[LINE], leaf[LINE];
    uint64_t nodes[LINE], node[LINE];
};

static struct pool *pool;

__attribute__((target("clwb"))) static void persist(void *line) {
    _mm_clwb(line);
    _mm_sfence();
}

__attribute__((noinline)) static void step(uint64_t k) {
    if (k % 3 == 0) {
        pool->value[0] = k; /* lost */
        pool->state[0] = k; /* survives */
        persist(pool->state);
    } else if (k % 3 == 1) {
        pool->other[0] = k;
        persist(pool->other);
        pool->value[0] = k;
        persist(pool->value);
        pool->state[0] = k;
        persist(pool->state);
    } else {
        puts("two");
        pool->value[0] = k;
        persist(pool->value);
        pool->state[0] = k;
        persist(pool->state);
    }
}

__attribute__((noinline)) static void count(uint64_t *counter, uint64_t number) {
    *counter = number;
    persist(counter);
}

__attribute__((noinline)) static void add_node(uint64_t *entry, uint64_t *counter, uint64_t number) {
    *entry = number; /* node is lost */
    count(counter, number);
    persist(entry);
}

__attribute__((noinline)) static void add_leaf(uint64_t *entry, uint64_t *counter, uint64_t number) {
    *entry = number; /* leaf is lost */
    count(counter, number);
    persist(entry);
}

static int recover(void) {
    if (pool->value[0] < pool->state[0]) return puts("the state is ahead"), 1;
    if (pool->leaf[0] < pool->leaves[0]) return puts("no such leaf"), 1;
    if (pool->node[0] < pool->nodes[0]) return puts("no such node"), 1;
    return 0;
}

int main(int count, char **words) {
    int recovers = count > 2 && strcmp(words[1], "--recover") == 0;
    int file = open(words[recovers ? 2 : 1], O_RDWR | (recovers ? 0 : O_CREAT), 0600);
    if (file < 0 || (!recovers && ftruncate(file, sizeof *pool) != 0)) return 3;
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, recovers ? MAP_PRIVATE : MAP_SHARED, file, 0);
    if (pool == MAP_FAILED) return 3;
    if (recovers) return recover();
    for (uint64_t k = 1; k < 9; k++) step(k);
    add_node(pool->node, pool->nodes, 1);
    add_leaf(pool->leaf, pool->leaves, 1);
    return 0;
}
