/* A pool whose path only the environment tells. It holds a magic number behind the part that is mapped, and one that a call wrote.
 *
 *   config make     config [wrong]     config --recover POOL */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAPPED = 4096, BYTES = 3 * 4096, MAGIC = 8, WRITTEN = 16, DATA = 24, FLAG = 32 };

__attribute__((target("clwb"))) static void persist(void *line) {
    _mm_clwb(line);
    _mm_sfence();
}

static int recover(const char *path) {
    int file = open(path, O_RDONLY);
    struct stat about;
    if (file < 0 || fstat(file, &about) || about.st_size != BYTES) {
        puts("the pool has another length");
        return 1;
    }
    uint64_t *pool = mmap(0, BYTES, PROT_READ, MAP_PRIVATE, file, 0);
    if (pool[MAGIC] != 42 || pool[BYTES / 8 - 1] != 43) {
        puts("the pool is none");
        return 1;
    }
    if (pool[WRITTEN] != 44 && pool[FLAG]) {
        puts("what was written is gone");
        return 1;
    }
    if (pool[FLAG] && !pool[DATA]) {
        puts("the flag is set and there are no data");
        return 1;
    }
    return 0;
}

int main(int count, char **words) {
    if (count > 2) return recover(words[2]);
    int file = open(getenv("CONFIGURED_POOL"), O_RDWR | O_CREAT, 0600);
    int make = count > 1 && !strcmp(words[1], "make");
    uint64_t numbers[] = {42, 43, 44};
    if (make) {
        return ftruncate(file, BYTES) || pwrite(file, &numbers[0], 8, 8 * MAGIC) != 8 ||
               pwrite(file, &numbers[1], 8, BYTES - 8) != 8;
    }
    if (pwrite(file, &numbers[2], 8, 8 * WRITTEN) != 8) return 3;
    uint64_t *pool = mmap(0, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pool[DATA] = 7; /* lost */
    if (count == 1) persist(pool + DATA);
    pool[FLAG] = 1; /* survives */
    persist(pool + FLAG);
    return 0;
}
