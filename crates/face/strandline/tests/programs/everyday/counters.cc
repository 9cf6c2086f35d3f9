// Fault: false-sharing. Each worker counts its requests in a slot of one array; mended, slots have lines of their own.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>
#ifdef MENDED
struct alignas(64) Slot { long served = 0; long failed = 0; };
#else
struct Slot { long served = 0; long failed = 0; };
#endif
static Slot slots[4];

static void serve(int worker, int requests) {
    unsigned state = worker + 1;
    for (int i = 0; i < requests; i++) {
        state = state * 1664525u + 1013904223u;
        if (state >> 28 == 0)
            slots[worker].failed++;
        else
            slots[worker].served++;
    }
}

int main() {
    std::vector<std::thread> workers;
    for (int worker = 0; worker < 4; worker++)
        workers.emplace_back(serve, worker, 50000);
    for (auto &worker : workers)
        worker.join();
    long all = 0;
    for (auto &slot : slots)
        all += slot.served + slot.failed;
    std::printf("%ld\n", all);
}
