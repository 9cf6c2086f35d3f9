// Atomic operations on an object of more than 16 bytes in the pool, by threads, until they are killed: each of
// its words is the same, and the threads' own counts say how often it changed at least.
//
//     large POOL           runs until it is killed
//     large --check POOL   says what is wrong with what survived
#include <atomic>
#include <cstdio>
#include <cstring>
#include <err.h>
#include <thread>

#include <strandline_pool.h>

constexpr int THREADS = 3;

struct Words {
    long words[6];
};

struct Root {
    std::atomic<Words> object;
    // Counted after the object, each by one thread.
    struct alignas(64) Count {
        std::atomic<long> changes;
        Words seen;
    } counts[THREADS];
};

static void change(Root *root, int thread)
{
    Root::Count &own = root->counts[thread];
    for (;;) {
        // `seen` lies in the pool, too: what a failed exchange finds is written there.
        own.seen = root->object.load();
        Words next;
        do {
            next = own.seen;
            for (long &word : next.words)
                word++;
        } while (!root->object.compare_exchange_strong(own.seen, next));
        own.changes.fetch_add(1);
    }
}

int main(int count, char **arguments)
{
    bool checks = count == 3 && !strcmp(arguments[1], "--check");
    if (count != 2 + checks)
        errx(2, "usage: large [--check] POOL");
    const char *path = arguments[1 + checks];
    sl_pool_options options = {nullptr, SL_FORCE};
    sl_pool *pool = sl_pool_open(path, "large", &options);
    if (!pool && !checks)
        pool = sl_pool_create(path, "large", 8 << 20, sizeof(Root), &options);
    if (!pool) {
        printf("%s\n", sl_error());
        return 1;
    }
    Root *root = static_cast<Root *>(sl_at(pool, sl_root(pool)));
    if (!checks) {
        // What threads that were killed had not counted.
        long missing = root->object.load().words[0];
        for (Root::Count &own : root->counts)
            missing -= own.changes.load();
        root->counts[0].changes.fetch_add(missing);
        printf("begins\n");
        fflush(stdout);
        for (int i = 0; i < THREADS - 1; i++)
            std::thread(change, root, i).detach();
        change(root, THREADS - 1);
    }
    Words words = root->object.load();
    long counted = 0;
    for (Root::Count &own : root->counts)
        counted += own.changes.load();
    for (long word : words.words)
        if (word != words.words[0])
            return printf("torn: %ld and %ld\n", word, words.words[0]), 1;
    // Each thread has at most one change that it has not counted.
    if (counted > words.words[0] || counted + THREADS < words.words[0])
        return printf("%ld changes, %ld counted\n", words.words[0], counted), 1;
    return 0;
}
