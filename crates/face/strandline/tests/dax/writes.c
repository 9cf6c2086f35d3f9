/* Adds to words of 64 pages for some seconds, seven times out of eight in six of them, and looks at the end whether all is there, and
   on which nodes the six lie. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGES = 64, WORDS = PAGES * 512 };
static uint64_t wanted[WORDS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **arguments) {
    double end = now() + (count > 1 ? atof(arguments[1]) : 10);
    uint64_t *words = malloc(WORDS * sizeof *words);
    if (!words) return 2;
    memset(words, 0, WORDS * sizeof *words);
    uint64_t random = 88172645463325252u;
    while (now() < end) {
        for (int i = 0; i < 1000; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t page = (random & 7) ? (random >> 8) % 6 : (random >> 8) % PAGES;
            size_t at = page * 512 + ((random >> 20) % 512);
            words[at] += random;
            wanted[at] += random;
        }
    }
    for (size_t i = 0; i < WORDS; i++)
        if (words[i] != wanted[i]) {
            fprintf(stderr, "word %zu is %" PRIu64 ", not %" PRIu64 "\n", i, words[i], wanted[i]);
            return 1;
        }
    void *hot[6];
    int nodes[6], away = 0;
    for (int i = 0; i < 6; i++) hot[i] = (char *)words + 4096 * i;
    if (syscall(SYS_move_pages, 0, 6ul, hot, NULL, nodes, 0) == 0)
        for (int i = 0; i < 6; i++) away += nodes[i] == 0;
    fprintf(stderr, "%d of the 6 hottest pages lie on node 0\n", away);
    fprintf(stderr, "all words are as they were written\n");
    return 0;
}
