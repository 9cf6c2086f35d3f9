// A process to be moved: `load BYTES THREADS KIND READY` fills memory, makes the file READY, and then works on the memory for
// ever. `sweep` and `random` touch a page every three microseconds or so; `canneal` swaps elements of a netlist at random
// where that shortens their wires, and `streamcluster` gives points, one after the other, to the nearest of a few centres,
// as the programs of PARSEC do.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile char *memory;
static uint64_t bytes, threads;
static const char *kind;

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 11;
}

static void touch(uint64_t me) {
    uint64_t pages = bytes / 4096, state = me + 1, at = pages / threads * me;
    int sweep = !strcmp(kind, "sweep");
    for (;;) {
        at = sweep ? (at + 1) % pages : next(&state) % pages;
        memory[at * 4096] += 1;
        for (volatile int i = 0; i < 1500; i++);
    }
}

struct element { int32_t place, wires[15]; };

static void canneal(uint64_t me) {
    volatile struct element *all = (void *)memory;
    uint64_t count = bytes / sizeof *all, state = me + 5;
    for (;;) {
        uint64_t a = next(&state) % count, b = next(&state) % count;
        long before = 0, after = 0;
        for (int k = 0; k < 5; k++) {
            int wa = all[(uint32_t)all[a].wires[k] % count].place, wb = all[(uint32_t)all[b].wires[k] % count].place;
            before += labs(all[a].place - wa) + labs(all[b].place - wb);
            after += labs(all[b].place - wa) + labs(all[a].place - wb);
        }
        if (after < before) { int32_t t = all[a].place; all[a].place = all[b].place, all[b].place = t; }
    }
}

enum { CENTRES = 16, DIMENSIONS = 16 };
struct point { float at[DIMENSIONS - 1]; int32_t centre; };

static void streamcluster(uint64_t me) {
    volatile struct point *all = (void *)memory;
    uint64_t count = bytes / sizeof *all / threads, first = count * me;
    float centre[CENTRES][DIMENSIONS] = {0};
    for (;;)
        for (uint64_t at = first; at < first + count; at++) {
            int best = 0;
            float least = 1e30;
            for (int c = 0; c < CENTRES; c++) {
                float distance = 0;
                for (int d = 0; d < DIMENSIONS - 1; d++)
                    distance += (all[at].at[d] - centre[c][d]) * (all[at].at[d] - centre[c][d]);
                if (distance < least) least = distance, best = c;
            }
            for (int d = 0; d < DIMENSIONS - 1; d++) centre[best][d] += 0.05f * (all[at].at[d] - centre[best][d]);
            all[at].centre = best;
        }
}

static void *work(void *argument) {
    uint64_t me = (uint64_t)argument;
    if (!strcmp(kind, "canneal")) canneal(me);
    if (!strcmp(kind, "streamcluster")) streamcluster(me);
    touch(me);
    return 0;
}

int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    bytes = strtoull(argv[1], 0, 10);
    threads = atoi(argv[2]);
    kind = argv[3];
    memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t state = 1;
    for (uint64_t at = 0; at < bytes; at += 8) {
        if (strcmp(kind, "streamcluster")) *(volatile uint32_t *)(memory + at) = next(&state), *(volatile uint32_t *)(memory + at + 4) = state >> 13;
        else *(volatile float *)(memory + at) = next(&state) % 100, *(volatile float *)(memory + at + 4) = state % 100;
    }
    pthread_t thread;
    for (uint64_t me = 1; me < threads; me++) pthread_create(&thread, 0, work, (void *)me);
    close(open(argv[4], O_CREAT | O_WRONLY, 0600));
    work(0);
}
