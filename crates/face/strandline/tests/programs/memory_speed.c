/* For x86-64. Memory measured by other means than ours: kernels after STREAM (read, copy) and a pointer chase after multichase.
 *
 *   memory_speed read|copy THREADS MIB      GB/s (10^9 bytes), the best of the passes of one second, each thread on MIB
 *   memory_speed chase MIB                  ns per dependent load, the best of some passes
 *
 * Threads stay on the first THREADS CPUs. Arrays are in huge pages where the kernel gives them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *huge(size_t bytes) {
    char *p = mmap(NULL, bytes + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) { perror("mmap"); exit(1); }
    p = (char *)(((uintptr_t)p + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 1, bytes);
    return p;
}

static int threads;
static size_t bytes;
static int copies;
static pthread_barrier_t together;
static volatile uint64_t sink;
/* Rates of each thread in each pass: the passes of all threads run side by side. */
#define PASSES 200
static double rates[64][PASSES];
static int passes;

static void *work(void *argument) {
    int me = (int)(intptr_t)argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(me, &set);
    sched_setaffinity(0, sizeof set, &set);
    uint64_t *a = huge(bytes);
    size_t n = bytes / sizeof *a;
    pthread_barrier_wait(&together);
    for (int pass = 0; pass < passes; pass++) {
        pthread_barrier_wait(&together);
        double start = now();
        if (copies) {
            uint64_t *restrict to = a + n / 2, *restrict from = a;
            for (size_t i = 0; i < n / 2; i++) to[i] = from[i];
            __asm__ volatile("" ::: "memory");
        } else {
            uint64_t sums[8] = {0};
            for (size_t i = 0; i < n; i += 8)
                for (int k = 0; k < 8; k++) sums[k] += a[i + k];
            for (int k = 0; k < 8; k++) sink += sums[k];
        }
        rates[me][pass] = bytes / (now() - start) / 1e9;
    }
    return NULL;
}

static uint64_t state = 88172645463325252ull;
static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double chase(void) {
    char *memory = huge(bytes);
    size_t lines = bytes / 64;
    uint32_t *order = malloc(lines * sizeof *order);
    for (size_t i = 0; i < lines; i++) order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = draw() % (i + 1);
        uint32_t other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (size_t i = 0; i < lines; i++)
        *(void **)(memory + 64 * (size_t)order[i]) = memory + 64 * (size_t)order[(i + 1) % lines];
    double best = 1e9;
    void **at = (void **)memory;
    /* Throws the lines out of the caches, as the other side does. */
    for (size_t i = 0; i < lines; i++) __builtin_ia32_clflush(memory + 64 * i);
    for (int pass = 0; pass < 20; pass++) {
        const long steps = 20000;
        double start = now();
        for (long i = 0; i < steps; i++) at = *at;
        double took = (now() - start) / steps * 1e9;
        if (took < best) best = took;
    }
    sink = (uint64_t)at;
    return best;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "chase")) {
        bytes = (size_t)atol(argv[2]) << 20;
        printf("%.2f\n", chase());
        return 0;
    }
    if (argc != 4) return 2;
    copies = !strcmp(argv[1], "copy");
    threads = atoi(argv[2]);
    bytes = (size_t)atol(argv[3]) << 20;
    passes = PASSES;
    if (threads < 1 || threads > 64) return 2;
    /* About a second of passes, if memory does 8 GB/s. */
    while (passes > 5 && (double)passes * bytes > 8e9) passes /= 2;
    pthread_barrier_init(&together, NULL, threads);
    pthread_t ids[64];
    for (int t = 0; t < threads; t++) pthread_create(&ids[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    double best = 0;
    for (int pass = 0; pass < passes; pass++) {
        double sum = 0;
        for (int t = 0; t < threads; t++) sum += rates[t][pass];
        if (sum > best) best = sum;
    }
    printf("%.2f\n", best);
    return 0;
}
