// A table whose lock, taken to insert, shares its line with what every lookup reads.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

struct alignas(64) Table {
    std::mutex growing;
#ifdef MENDED
    alignas(64)
#endif
    unsigned long mask = 4095;
    unsigned *slots = nullptr;
};

static Table table;

static void look_up(unsigned seed, unsigned long *sum) {
    unsigned long own = 0;
    for (int i = 0; i < 40000; i++) {
        seed = seed * 1664525u + 1013904223u;
        unsigned long mask = *(volatile unsigned long *)&table.mask;
        own += table.slots[(seed >> 8) & mask];
    }
    *sum = own;
}

static void insert(unsigned seed) {
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        std::lock_guard<std::mutex> hold(table.growing);
        table.slots[4096 + (seed >> 30)]++;
    }
}

int main() {
    table.slots = (unsigned *)calloc(8192, sizeof *table.slots);
    auto *sums = (unsigned long *)aligned_alloc(64, 64 * 8);
    std::vector<std::thread> all;
    for (int thread = 0; thread < 3; thread++) all.emplace_back(look_up, thread, sums + 8 * thread);
    all.emplace_back(insert, 9);
    for (auto &thread : all) thread.join();
    printf("%lu\n", sums[0] + sums[8] + sums[16]);
}
