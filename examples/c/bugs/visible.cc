/*
 * Visible before persistent: a writer publishes a value that is not durable yet, a reader without a lock sees it and makes
 * something durable that rests on it. After a crash the reader's part is there and its reason is not. APEX and SEPH have
 * this bug. Its remedy here: a reader makes durable what it has read before it acts on it.
 *
 * The threads hand over to each other at the moment that matters, so that each run does the same.
 */
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "bugs.h"

enum { FIXED, READ_UNPERSISTED, DIRECTORY };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"read-unpersisted", "APEX, SEPH issue 3: a lock-free reader acts on a value that is not yet durable"},
    {"directory", "SEPH issue 2: a new directory is visible before it is durable, and entries go through it"},
};

enum { VALUES = 6 };

/* A value and what was made of it, reached by way of the directory. */
struct Line {
    std::atomic<uint64_t> word;
    char rest[LINE - 8];
};

struct Directory {
    Line value[VALUES], derived[VALUES];
};

struct Root {
    std::atomic<uint64_t> directory;
};

static std::mutex mutex;
static std::condition_variable moved;
static int step;

static Root &root()
{
    return *static_cast<Root *>(at(ROOT, sizeof(Root)));
}

static Directory &directory()
{
    return *static_cast<Directory *>(at(root().directory, sizeof(Directory)));
}

/* Lets the other thread do its step and waits until it has. */
static void hand_over(int next)
{
    std::unique_lock<std::mutex> guard(mutex);
    step = next;
    moved.notify_all();
}

static void wait_for(int wanted)
{
    std::unique_lock<std::mutex> guard(mutex);
    while (step != wanted)
        moved.wait(guard);
}

/* Steps 3i: the writer publishes; 3i + 1: the reader acts; 3i + 2: the writer makes its value durable. */
static void writer()
{
    const uint64_t offset = allocate(sizeof(Directory));
    root().directory.store(offset, std::memory_order_release);
    if (variant != DIRECTORY)
        persist(&root().directory, 8);
    for (int i = 0; i < VALUES; i++) {
        wait_for(3 * i);
        sl_region_begin(2 * (uint64_t)i + 2);
        std::atomic<uint64_t> &place = directory().value[i].word;
        place.store(value_of((uint64_t)i + 1, 1), std::memory_order_release);
        hand_over(3 * i + 1);
        wait_for(3 * i + 2);
        if (variant == READ_UNPERSISTED)
            persist(&place, 8);
        sl_region_end(2 * (uint64_t)i + 2);
        hand_over(3 * i + 3);
    }
    if (variant == DIRECTORY)
        persist(&root().directory, 8);
}

static void reader()
{
    for (int i = 0; i < VALUES; i++) {
        wait_for(3 * i + 1);
        const std::atomic<uint64_t> &place = directory().value[i].word;
        const uint64_t seen = place.load(std::memory_order_acquire);
        sl_region_begin(2 * (uint64_t)i + 1);
        if (variant != READ_UNPERSISTED)
            persist(&place, 8);
        directory().derived[i].word.store(seen + 1, std::memory_order_release);
        persist(&directory().derived[i].word, 8);
        sl_region_end(2 * (uint64_t)i + 1);
        hand_over(3 * i + 2);
    }
}

static void run()
{
    pool_create(sizeof(Root));
    pool_ready();
    std::thread other(reader);
    writer();
    other.join();
}

static void check()
{
    if (!root().directory) {
        if (done_operations())
            wrong("what was acted on can't be reached");
        return;
    }
    for (size_t i = 0; i < VALUES; i++) {
        const uint64_t value = directory().value[i].word, derived = directory().derived[i].word;
        if (value && value != value_of(i + 1, 1))
            wrong("value %zu is %llu", i, (unsigned long long)value);
        if (derived && derived != value + 1)
            wrong("somebody acted on value %zu, which is lost", i);
        /* The reader's part of each step ends first. */
        if (2 * i < done_operations() && !derived)
            wrong("what was made of value %zu is lost", i);
        if (2 * i + 1 < done_operations() && !value)
            wrong("value %zu is lost", i);
    }
}

MAIN(run, check)
