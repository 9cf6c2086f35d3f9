// Threads that wait for each other: by the library, by the system, by their ends.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <stdexcept>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shapes.h"

// Threads meet; in each phase everybody writes its place, and reads its neighbour's of the phase before.
static pthread_barrier_t barrier;
static void phases()
{
    pthread_barrier_init(&barrier, nullptr, THREADS);
    long start = 0;
    for (int i = 0; i < THREADS; i++)
        start = std::max({start, root->lines[i].a, root->lines[i].b});
    threads([start](int thread, unsigned round) {
        root->lines[thread].a = start + round;
        pthread_barrier_wait(&barrier);
        root->lines[thread].b = root->lines[(thread + 1) % THREADS].a;
        pthread_barrier_wait(&barrier);
    });
}
static bool phases_hold()
{
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < THREADS; j++)
            if (root->lines[i].b > root->lines[j].a)
                return wrong("thread %d passed %ld while %d is in %ld", i, root->lines[i].b, j, root->lines[j].a);
    return true;
}
static Kind of_phases("phases", phases, phases_hold);

// Bytes or numbers through a descriptor, one way and the other.
template <class Number> static void post(int fd)
{
    Number one = 1;
    if (write(fd, &one, sizeof one) != sizeof one)
        abort();
}
template <class Number> static void await(int fd)
{
    Number one;
    if (read(fd, &one, sizeof one) != sizeof one)
        abort();
}
static void pipes()
{
    static int there[2], back[2];
    if (pipe(there) || pipe(back))
        abort();
    messages([](unsigned long) { post<char>(there[1]); }, [](unsigned long) { await<char>(back[0]); },
             [](unsigned long) { await<char>(there[0]); }, [](unsigned long) { post<char>(back[1]); });
}
static Kind of_pipes("pipes", pipes, messages_hold);

static void events()
{
    static int there = eventfd(0, EFD_SEMAPHORE), back = eventfd(0, EFD_SEMAPHORE);
    messages([](unsigned long) { post<uint64_t>(there); }, [](unsigned long) { await<uint64_t>(back); },
             [](unsigned long) { await<uint64_t>(there); }, [](unsigned long) { post<uint64_t>(back); });
}
static Kind of_events("events", events, messages_hold);

static void semaphores()
{
    static sem_t there, back;
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    messages([](unsigned long) { sem_post(&there); }, [](unsigned long) { sem_wait(&back); },
             [](unsigned long) { sem_wait(&there); }, [](unsigned long) { sem_post(&back); });
}
static Kind of_semaphores("semaphores", semaphores, messages_hold);

// Threads that live for one step: what a thread leaves at its end, by a destructor too, its parent sees at the join.
static pthread_key_t key;
static void generations()
{
    pthread_key_create(&key, [](void *) { root->lines[0].b++; });
    for (unsigned long round = 1; round <= rounds; round++) {
        pthread_t thread;
        auto step = [](void *) -> void * {
            pthread_setspecific(key, root);
            root->lines[0].a++;
            return nullptr;
        };
        if (pthread_create(&thread, nullptr, step, nullptr))
            abort();
        pthread_join(thread, nullptr);
        root->lines[1].a = root->lines[0].b;
    }
}
static bool generations_hold()
{
    long steps = root->lines[0].a, ends = root->lines[0].b, joined = root->lines[1].a;
    return (ends <= steps && joined <= ends) || wrong("%ld steps, %ld ends, %ld joined", steps, ends, joined);
}
// A killed thread has a step without its end.
static void mend_generations()
{
    root->lines[0].b = root->lines[0].a;
}
static Kind of_generations("generations", generations, generations_hold, mend_generations);

// The same with a thread's own object, whose destructor stores.
struct Own {
    long steps = 0;
    ~Own() { root->lines[0].b += steps; }
};
static thread_local Own own;
static void destructors()
{
    for (unsigned long round = 1; round <= rounds; round++) {
        std::thread([] {
            root->lines[0].a++;
            own.steps++;
        }).join();
        root->lines[1].a = root->lines[0].b;
    }
}
static Kind of_destructors("destructors", destructors, generations_hold, mend_generations);

// Promises: each result is computed from the one before, by another thread.
static void promises()
{
    for (unsigned long round = 1; round <= rounds; round++) {
        std::promise<long> promise;
        auto future = promise.get_future();
        std::thread worker([&] {
            root->lines[0].a++;
            promise.set_value(root->lines[0].a);
        });
        root->lines[1].a = future.get();
        worker.join();
    }
}
static bool promises_hold()
{
    return root->lines[1].a <= root->lines[0].a || wrong("%ld of %ld", root->lines[1].a, root->lines[0].a);
}
static Kind of_promises("promises", promises, promises_hold);

// Each round is begun by whoever comes first, at times not at once; all others see what it did.
static std::once_flag flags[1 << 14];
static std::atomic<bool> failed[1 << 14];
static void once()
{
    pthread_barrier_init(&barrier, nullptr, THREADS);
    threads([](int thread, unsigned round) {
        unsigned at = round % (1 << 14);
        auto begin = [at] {
            if (at % 3 == 0 && !failed[at].exchange(true))
                throw std::runtime_error("not yet");
            root->lines[0].a++;
            root->lines[0].b++;
        };
        for (bool begun = false; !begun;) {
            try {
                std::call_once(flags[at], begin);
                begun = true;
            } catch (std::runtime_error &) {
            }
        }
        root->lines[16 + thread].a = root->lines[0].a;
        pthread_barrier_wait(&barrier);
    });
}
static bool once_holds()
{
    Line &begun = root->lines[0];
    for (int i = 0; i < THREADS; i++)
        if (root->lines[16 + i].a > begun.a)
            return wrong("thread %d saw %ld of %ld", i, root->lines[16 + i].a, begun.a);
    return begun.a == begun.b || wrong("%ld and %ld", begun.a, begun.b);
}
static Kind of_once("once", once, once_holds);

// A thread is cancelled while it waits; what cleans up behind it stores.
static void cancelled()
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    auto work = [](void *) -> void * {
        pthread_mutex_lock(&lock);
        auto clean = [](void *) {
            root->lines[1].a = root->lines[0].a;
            pthread_mutex_unlock(&lock);
        };
        pthread_cleanup_push(clean, nullptr);
        for (;;)
            pthread_cond_wait(&never, &lock);
        pthread_cleanup_pop(1);
        return nullptr;
    };
    for (unsigned long round = 1; round <= rounds; round++) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, work, nullptr))
            abort();
        pthread_mutex_lock(&lock);
        root->lines[0].a++;
        root->lines[0].b++;
        pthread_mutex_unlock(&lock);
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
    }
}
static Kind of_cancelled("cancelled", cancelled, messages_hold);

// A signal's handler takes the message.
static std::atomic<unsigned long> handled;
static void signalled()
{
    std::signal(SIGUSR1, [](int) {
        root->lines[1].a = root->lines[0].a;
        handled.fetch_add(1);
    });
    std::atomic<bool> stop{false};
    std::thread reader([&] {
        while (!stop)
            std::this_thread::yield();
    });
    for (unsigned long round = 1; round <= rounds; round++) {
        root->lines[0].a++;
        root->lines[0].b++;
        pthread_kill(reader.native_handle(), SIGUSR1);
        while (handled != round)
            std::this_thread::yield();
    }
    stop = true;
    reader.join();
}
static Kind of_signalled("signalled", signalled, messages_hold);

// The lock of a stream.
static void stream()
{
    pairs([](int) { flockfile(stderr); }, [](int) { funlockfile(stderr); });
}
static Kind of_stream("stream", stream, pairs_agree);
