/* What a program stores by functions of C++'s library, which are functions of their own where nothing is inlined.
 *
 *   headers POOL      headers --recover POOL */
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

struct Pool {
    alignas(64) uint64_t data[8];
    alignas(64) std::atomic<uint64_t> flag;
};

__attribute__((target("clwb"))) static void persist(void *line) {
    _mm_clwb(line);
    _mm_sfence();
}

template <typename T> static void fill(T *from, T *to) {
    std::fill(from, to, 7); /* lost */
}

int main(int count, char **words) {
    bool recovers = count == 3 && std::string(words[1]) == "--recover";
    int file = open(words[count - 1], O_RDWR | (recovers ? 0 : O_CREAT), 0600);
    if (file < 0 || (!recovers && ftruncate(file, sizeof(Pool)) != 0)) return 3;
    void *at = mmap(nullptr, sizeof(Pool), PROT_READ | PROT_WRITE, recovers ? MAP_PRIVATE : MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return 3;
    Pool *pool = static_cast<Pool *>(at);
    if (recovers) return pool->flag == 1 && pool->data[0] != 7;
    fill(pool->data, pool->data + 8);
    pool->flag.exchange(1); /* survives */
    persist(&pool->flag);
    return 0;
}
