// Fault: false-sharing. The same on the heap, in C: an array of statistics, one element a thread.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef MENDED
struct stats { unsigned long hits, misses; char pad[48]; };
#else
struct stats { unsigned long hits, misses; };
#endif
enum { THREADS = 4, LOOKUPS = 50000 };

static void *lookup(void *mine) {
    struct stats *stats = mine;
    for (unsigned i = 0; i < LOOKUPS; i++) {
        if ((i * 2654435761u) >> 31)
            stats->hits++;
        else
            stats->misses++;
    }
    return 0;
}

int main(void) {
    struct stats *all = aligned_alloc(64, 64 * THREADS);
    pthread_t threads[THREADS];
    unsigned long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        all[i].hits = all[i].misses = 0;
        pthread_create(&threads[i], 0, lookup, &all[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], 0);
        sum += all[i].hits + all[i].misses;
    }
    printf("%lu\n", sum);
    free(all);
}
