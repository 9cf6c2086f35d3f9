/* On which node memory lies: `tiers sl_tier`, or `tiers SECONDS` with a hot and a cold array. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "strandline_tier.h"

enum { PAGE = 4096, MANY = 256 };

/* Pages that the kernel says are on node 1. */
static size_t far(char *memory, size_t bytes) {
    size_t found = 0, first = (PAGE - (uintptr_t)memory % PAGE) % PAGE;
    for (size_t at = first; at + PAGE <= bytes; at += MANY * PAGE) {
        void *pages[MANY];
        int nodes[MANY];
        unsigned long count = 0;
        for (size_t page = at; page + PAGE <= bytes && count < MANY; page += PAGE) pages[count++] = memory + page;
        if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0)) return 0;
        for (unsigned long page = 0; page < count; page++) found += nodes[page] == 1;
    }
    return found;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count < 2) return 2;
    if (!strcmp(words[1], "sl_tier")) {
        size_t bytes = 4096 * PAGE;
        char *memory = aligned_alloc(PAGE, bytes);
        int done = sl_tier(memory, bytes, SL_TIER_SLOW);
        memset(memory, 1, bytes);
        printf("sl_tier: %d, %zu of 4096 pages on node 1\n", done, far(memory, bytes));
        return 0;
    }
    size_t hot_bytes = 1 << 20, cold_bytes = 16384 * PAGE;
    char *hot = malloc(hot_bytes);
    char *cold = aligned_alloc(PAGE, cold_bytes);
    memset(hot, 1, hot_bytes);
    memset(cold, 1, cold_bytes);
    double until = now() + atof(words[1]);
    while (now() < until)
        for (size_t at = 0; at < hot_bytes; at += 64) hot[at]++;
    /* To where the emulator's console shows it, whatever becomes of the output. */
    fprintf(stderr, "cold lies on node 1: %zu of 16384 pages\n", far(cold, cold_bytes));
    return hot[7] == cold[9];
}
