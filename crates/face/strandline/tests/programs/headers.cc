/* What a program stores by functions of C++'s library, some of which are functions of their own at any level of optimisation.
 *
 *   headers POOL KIND      headers --recover POOL KIND */
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

enum { WORDS = 64 };

struct Pool {
    alignas(64) uint64_t data[WORDS];
    alignas(64) char memory[4096];
    alignas(64) uint64_t used;
    alignas(64) uint64_t root;
    alignas(64) std::atomic<uint64_t> flag;
};

static Pool *pool;

__attribute__((target("clwb"))) static void persist(void *start, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += 64) _mm_clwb(static_cast<char *>(start) + at);
    _mm_sfence();
}

/* Takes memory from the pool and gives none back. */
template <typename T> struct Arena {
    using value_type = T;
    Arena() = default;
    template <typename U> Arena(const Arena<U> &) {}
    T *allocate(std::size_t count) {
        char *at = pool->memory + pool->used;
        pool->used += count * sizeof(T);
        return reinterpret_cast<T *>(at);
    }
    void deallocate(T *, std::size_t) {}
    bool operator==(const Arena &) const { return true; }
    bool operator!=(const Arena &) const { return false; }
};

using Map = std::map<uint64_t, uint64_t, std::less<uint64_t>, Arena<std::pair<const uint64_t, uint64_t>>>;

template <typename T> static void fill(T *from, T *to) {
    std::fill(from, to, 7); /* fill is lost */
}

__attribute__((noinline)) static void sort() {
    for (uint64_t at = 0; at < WORDS; at++) pool->data[at] = at * 37 % WORDS;
    persist(pool->data, sizeof pool->data);
    std::sort(pool->data, pool->data + WORDS); /* sort is lost */
}

__attribute__((noinline)) static void grow() {
    std::vector<uint64_t, Arena<uint64_t>> numbers;
    numbers.push_back(7); /* grow is lost */
    pool->root = pool->used;
    persist(&pool->root, sizeof pool->root);
}

__attribute__((noinline)) static void insert(Map &map, uint64_t key) {
    map[key] = 7;
}

static bool is_sorted() {
    for (uint64_t at = 0; at < WORDS; at++)
        if (pool->data[at] != at) return false;
    return true;
}

static bool has_grown() {
    const uint64_t *numbers = reinterpret_cast<const uint64_t *>(pool->memory);
    return numbers[0] == 7;
}

static bool has_second() {
    /* A node is colour, parent, left, right, key, value; its links are stored by the library itself, unseen. */
    const uint64_t *nodes = reinterpret_cast<const uint64_t *>(pool->memory);
    return nodes[6 + 4] == 2;
}

int main(int count, char **words) {
    bool recovers = count == 4 && std::string(words[1]) == "--recover";
    std::string kind = words[count - 1];
    int file = open(words[count - 2], O_RDWR | (recovers ? 0 : O_CREAT), 0600);
    if (file < 0 || (!recovers && ftruncate(file, sizeof(Pool)) != 0)) return 3;
    void *at = mmap(nullptr, sizeof(Pool), PROT_READ | PROT_WRITE, recovers ? MAP_PRIVATE : MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return 3;
    pool = static_cast<Pool *>(at);
    if (recovers) {
        if (pool->flag != 1) return 0;
        if (kind == "fill") return pool->data[0] != 7;
        if (kind == "sort") return !is_sorted();
        if (kind == "grow") return !has_grown();
        return !has_second();
    }
    Map map;
    if (kind == "fill") fill(pool->data, pool->data + 8);
    if (kind == "sort") sort();
    if (kind == "grow") grow();
    if (kind == "map")
        for (uint64_t key = 1; key < 3; key++) insert(map, key);
    pool->flag.exchange(1); /* survives */
    persist(&pool->flag, sizeof pool->flag);
    return 0;
}
