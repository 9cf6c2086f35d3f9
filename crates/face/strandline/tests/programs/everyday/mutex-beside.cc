// Fault: false-sharing. A mutex lies beside a table's geometry that lookups read without it; mended, apart.
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>
struct Table {
    std::mutex growing;
#ifdef MENDED
    alignas(64)
#endif
    unsigned mask = 1023;
    unsigned shift = 4;
    alignas(64) unsigned cells[1024] = {};
    alignas(64) long inserted = 0;
};
static Table table;

static unsigned long lookups(unsigned seed) {
    unsigned long sum = 0;
    for (unsigned i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        volatile unsigned *mask = &table.mask, *shift = &table.shift;
        sum += table.cells[seed >> *shift & *mask];
        if (i % 8 == 0) {
            std::lock_guard<std::mutex> guard(table.growing);
            table.inserted++;
        }
    }
    return sum;
}

int main() {
    std::vector<std::thread> all;
    for (unsigned i = 0; i < 4; i++)
        all.emplace_back([i] { volatile unsigned long sink = lookups(i + 1); (void)sink; });
    for (auto &one : all)
        one.join();
    std::printf("%ld\n", table.inserted);
}
