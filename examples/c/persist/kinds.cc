/*
 * Every kind of synchronisation that C++ has, over a pool: pairs of words that are equal at every frontier.
 *
 *     strandline c++ --persist=decoupled -O2 -std=c++20 -pthread -o kinds kinds.cc
 *     ./kinds POOL run ROUNDS; ./kinds POOL check
 */
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <semaphore.h>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

#include "strandline_pool.h"

struct Pair {
    long one, two;
    void both(long value)
    {
        one = value;
        two = value;
    }
};

struct Base {
    long kind;
    virtual ~Base() {}
};

struct Object : Base {
    Pair pair;
    explicit Object(long value) : pair{value, value} { kind = value; }
};

struct Root {
    Pair mutex, shared, condition, semaphore, atomics, exceptions, handler, copied;
    std::atomic<long> published, taken;
    Pair slots[2];
    Object *object;
};

static sl_pool *pool;
static Root *root;
static std::mutex mutex, of_condition, of_exceptions;
static std::shared_mutex shared;
static std::condition_variable condition;
static sem_t semaphore;
static long turn;

static void handle(int)
{
    /* A handler is code of the thread that it interrupts: the main one, which stores nothing else here. */
    root->handler.both(root->handler.one + 1);
}

static void throws(long value)
{
    std::lock_guard<std::mutex> held(of_exceptions);
    root->exceptions.both(value);
    if (value % 3 == 0)
        throw std::runtime_error("as planned");
}

static void work(long rounds, long me)
{
    for (long i = 1; i <= rounds; i++) {
        {
            std::lock_guard<std::mutex> held(mutex);
            root->mutex.both(root->mutex.one + 1);
            Pair pair = {i, i};
            memcpy(&root->copied, &pair, sizeof pair);
        }
        {
            std::unique_lock<std::shared_mutex> held(shared);
            root->shared.both(root->shared.one + 1);
        }
        {
            std::shared_lock<std::shared_mutex> held(shared);
            if (root->shared.one != root->shared.two)
                abort();
        }
        {
            std::unique_lock<std::mutex> held(of_condition);
            condition.wait(held, [=] { return turn % 2 == me; });
            root->condition.both(root->condition.one + 1);
            turn++;
            condition.notify_all();
        }
        sem_wait(&semaphore);
        root->semaphore.both(root->semaphore.one + 1);
        sem_post(&semaphore);
        try {
            throws(i);
        } catch (const std::exception &) {
        }
        /* Lock-free: thread 0 publishes a slot, thread 1 takes it. */
        if (me == 0) {
            long last = root->published.load(std::memory_order_relaxed), next = last + 1;
            while (root->taken.load(std::memory_order_acquire) != last)
                std::this_thread::yield();
            root->slots[0].both(next);
            root->published.store(next, std::memory_order_release);
        } else {
            long next = root->taken.load(std::memory_order_relaxed) + 1;
            while (root->published.load(std::memory_order_acquire) != next)
                std::this_thread::yield();
            root->slots[1].both(root->slots[0].one);
            root->taken.store(next, std::memory_order_release);
        }
    }
}

static int check()
{
    const Pair *pairs[] = {&root->mutex, &root->shared, &root->condition, &root->semaphore, &root->exceptions,
                           &root->handler, &root->copied, &root->slots[0], &root->slots[1]};
    for (const Pair *pair : pairs)
        if (pair->one != pair->two) {
            printf("pair %d: %ld and %ld\n", (int)(pair - &root->mutex), pair->one, pair->two);
            return 1;
        }
    long published = root->published, taken = root->taken;
    bool right = taken <= published && published <= taken + 1 && root->slots[0].one >= published &&
                 root->slots[0].one <= published + 1 && root->slots[1].one >= taken && root->slots[1].one <= root->slots[0].one;
    if (!right || (root->object && root->object->pair.one != root->object->pair.two)) {
        printf("published %ld, taken %ld, slots %ld %ld\n", published, taken, root->slots[0].one,
               root->slots[1].one);
        return 1;
    }
    printf("%ld rounds, %ld signals\n", root->mutex.one / 2, root->handler.one);
    return 0;
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    bool runs = !strcmp(arguments[2], "run");
    long rounds = count > 3 ? atol(arguments[3]) : 100;
    const char *path = arguments[1];
    pool = runs && access(path, F_OK) ? sl_pool_create(path, "kinds", 8 << 20, sizeof(Root), nullptr)
                                      : sl_pool_open(path, "kinds", nullptr);
    if (!pool) {
        fprintf(stderr, "%s\n", sl_error());
        return 2;
    }
    root = static_cast<Root *>(sl_at(pool, sl_root(pool)));
    if (!runs)
        return check();
    sem_init(&semaphore, 0, 1);
    /* What the last run left half done between two threads: a slot that nobody took. */
    root->slots[1].both(root->slots[0].one);
    root->taken.store(root->published.load());
    struct sigaction action = {};
    action.sa_handler = handle;
    sigaction(SIGUSR1, &action, nullptr);
    if (!root->object) {
        void *memory = sl_at(pool, sl_zalloc(pool, sizeof(Object)));
        root->object = new (memory) Object(7);
    }
    sl_psync();
    std::vector<std::thread> threads;
    for (long me = 0; me < 2; me++)
        threads.emplace_back([=] {
            sigset_t blocked;
            sigemptyset(&blocked);
            sigaddset(&blocked, SIGUSR1);
            pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
            work(rounds, me);
        });
    for (long i = 0; i < rounds / 4; i++) {
        raise(SIGUSR1);
        std::this_thread::yield();
    }
    for (std::thread &thread : threads)
        thread.join();
    sl_psync(pool);
    int result = check();
    return sl_pool_close(pool) ? 2 : result;
}
