// Writes, gives back, maps anew and moves memory at random, and holds every page against what it has to be.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { PAGES = 4096, SIZE = 4096 };
static long wanted[PAGES];
int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    FILE *out = fopen(argv[1], "w");
    char *memory = mmap(0, (long)PAGES * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long state = 88172645463325252UL;
    long wrong = 0;
    for (long i = 0; i < PAGES; i++) *(long *)(memory + i * SIZE + 8) = wanted[i] = i + 1;
    for (long step = 0; step < 150000; step++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        long page = state % PAGES, length = 1 + state / PAGES % 16;
        if (page + length > PAGES) length = PAGES - page;
        char *at = memory + page * SIZE;
        switch (state >> 40 & 15) {
        case 0: madvise(at, length * SIZE, MADV_DONTNEED); memset(wanted + page, 0, length * sizeof(long)); break;
        case 1:
            if (state >> 50 & 15) break;
            mmap(at, length * SIZE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(wanted + page, 0, length * sizeof(long));
            break;
        case 2: case 3: case 4: *(long *)(at + 8) = wanted[page] = step + 1; break;
        default: wrong += *(long *)(at + 8) != wanted[page];
        }
        if (step % 100 == 0) usleep(1000);
    }
    for (long i = 0; i < PAGES; i++) wrong += *(long *)(memory + i * SIZE + 8) != wanted[i];
    fprintf(out, "wrong %ld\n", wrong);
    fclose(out);
    return wrong != 0;
}
