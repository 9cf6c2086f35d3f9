/* Two words on two lines. ROUNDS times: both get the round's number; both are flushed; a fence. With 0 rounds:
 * both get 1, and nothing is flushed. Recovery refuses an image in which the second is ahead of the first and
 * the first is 0 or 4. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
    uint64_t first;
    char rest[56];
    uint64_t second;
};

int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 128))
        return 2;
    volatile struct pool *pool = mmap(0, 128, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED)
        return 2;
    if (argc < 3)
        return pool->second > pool->first && (pool->first == 0 || pool->first == 4);
    uint64_t rounds = strtoul(argv[2], 0, 10);
    if (rounds == 0)
        pool->first = 1, pool->second = 1;
    for (uint64_t round = 1; round <= rounds; round++) {
        pool->first = round;
        pool->second = round;
        _mm_clwb((void *)&pool->first);
        _mm_clwb((void *)&pool->second);
        _mm_sfence();
    }
    return 0;
}
