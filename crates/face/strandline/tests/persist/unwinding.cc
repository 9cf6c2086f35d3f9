// Exceptions, cancellation and ends of threads pass through the calls that the runtime stands in front of.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cstdio>
#include <cstdlib>
#include <err.h>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include <strandline_pool.h>

struct Root {
    long destroyed, caught, done, tries;
};

static Root *root;
static std::once_flag once;
static std::mutex lock;

// Its end is a store to the pool.
struct Guard {
    ~Guard()
    {
        std::lock_guard<std::mutex> locked(lock);
        root->destroyed++;
    }
};

static void *sleeps(void *)
{
    Guard guard;
    for (;;)
        sleep(1);
}

static void *waits(void *semaphore)
{
    Guard guard;
    sem_wait(static_cast<sem_t *>(semaphore));
    return nullptr;
}

static void *reads(void *file)
{
    Guard guard;
    char byte;
    if (read(*static_cast<int *>(file), &byte, 1) < 0)
        err(3, "read");
    return nullptr;
}

static void *leaves(void *)
{
    Guard guard;
    pthread_exit(reinterpret_cast<void *>(7));
}

static int compare(const void *, const void *) { throw 3; }

static int value()
{
    static int once_made = [] {
        if (root->tries++ < 2)
            throw std::runtime_error("not yet");
        return 5;
    }();
    return once_made;
}

static void cancel(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, nullptr, function, argument);
    usleep(1000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED)
        errx(1, "a thread was not cancelled");
}

int main(int count, char **arguments)
{
    sl_pool_options options = {nullptr, SL_FORCE};
    if (count != 2)
        errx(2, "usage: unwinding POOL");
    sl_pool *pool = sl_pool_create(arguments[1], "unwinding", 1 << 20, sizeof(Root), &options);
    if (!pool)
        errx(3, "%s", sl_error());
    root = static_cast<Root *>(sl_at(pool, sl_root(pool)));
    for (int i = 0; i < 2; i++)
        try {
            std::call_once(once, [] {
                if (root->tries++ == 0)
                    throw std::runtime_error("not yet");
                root->done++;
            });
        } catch (std::exception &) {
            root->caught++;
        }
    root->tries = 0;
    for (int i = 0; i < 3; i++)
        try {
            root->done += value();
        } catch (std::exception &) {
            root->caught++;
        }
    try {
        int numbers[3] = {1, 2, 3};
        qsort(numbers, 3, sizeof numbers[0], compare);
    } catch (int) {
        root->caught++;
    }
    sem_t semaphore;
    int ends[2];
    sem_init(&semaphore, 0, 0);
    if (pipe(ends))
        err(3, "pipe");
    cancel(sleeps, nullptr);
    cancel(waits, &semaphore);
    cancel(reads, ends);
    pthread_t thread;
    void *result;
    pthread_create(&thread, nullptr, leaves, nullptr);
    pthread_join(thread, &result);
    if (result != reinterpret_cast<void *>(7))
        errx(1, "pthread_exit's value is lost");
    std::thread([] { root->done++; }).join();
    printf("%ld destroyed, %ld caught, %ld done\n", root->destroyed, root->caught, root->done);
    return sl_pool_close(pool);
}
