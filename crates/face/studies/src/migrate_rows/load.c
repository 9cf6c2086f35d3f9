// A process to be moved: `load BYTES THREADS sweep|random READY` fills memory, makes the file READY, and then touches a page
// every three microseconds or so, for ever.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile char *memory;
static uint64_t pages, threads;
static int sweep;

static void *touch(void *argument) {
    uint64_t me = (uint64_t)argument, state = me + 1, at = pages / threads * me;
    for (;;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        at = sweep ? (at + 1) % pages : (state >> 11) % pages;
        memory[at * 4096] += 1;
        for (volatile int i = 0; i < 1500; i++);
    }
    return 0;
}

int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    uint64_t bytes = strtoull(argv[1], 0, 10);
    threads = atoi(argv[2]);
    sweep = !strcmp(argv[3], "sweep");
    pages = bytes / 4096;
    memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint64_t at = 0; at < bytes; at += 64) memory[at] = at >> 12;
    pthread_t thread;
    for (uint64_t me = 1; me < threads; me++) pthread_create(&thread, 0, touch, (void *)me);
    close(open(argv[4], O_CREAT | O_WRONLY, 0600));
    touch(0);
}
