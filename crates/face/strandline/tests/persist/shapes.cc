// Concurrent programs in the shapes that people write, over data in a pool, until they are killed. Each has what must hold
// at every frontier.
//
//     shapes POOL KIND           runs until it is killed
//     shapes --check POOL KIND   says what is wrong with what survived
//     shapes --kinds             lists the kinds
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <err.h>
#include <future>
#include <linux/futex.h>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <shared_mutex>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <strandline_pool.h>

constexpr int THREADS = 3, TOKENS = 24, RING = 16;

struct Node {
    Node *next;
    long value, twin;
};

struct alignas(64) Line {
    long a, b, c, d;
};

struct Root {
    Line lines[64];
    std::atomic<uint64_t> words[64];
    Node *lists[8];
    Node nodes[TOKENS];
    long ring[RING];
    std::atomic<Node *> current;
};

static sl_pool *pool;
static Root *root;

template <class Work> static void threads(Work work)
{
    std::vector<std::thread> all;
    for (int i = 0; i < THREADS; i++)
        all.emplace_back([work, i] { for (unsigned round = 1;; round++) work(i, round); });
    for (auto &thread : all)
        thread.join();
}

static bool wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool wrong(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    puts("");
    return false;
}

// Two words change together under a lock of any kind; one SFR, since nothing within synchronises.
template <class Lock, class Unlock> static void pairs(Lock lock, Unlock unlock)
{
    threads([=](int thread, unsigned round) {
        lock(thread);
        Line &line = root->lines[round % 8], &other = root->lines[(round + 1 + thread) % 8];
        line.a++;
        other.b++;
        unlock(thread);
    });
}

static bool pairs_agree()
{
    long a = 0, b = 0;
    for (int i = 0; i < 8; i++)
        a += root->lines[i].a, b += root->lines[i].b;
    return a == b || wrong("%ld and %ld", a, b);
}

// A lock after Peterson for two, from sequentially consistent atomics.
static std::atomic<int> wants[2], turn;
static void peterson()
{
    auto lock = [](int me) {
        wants[me] = 1;
        turn = 1 - me;
        while (wants[1 - me] && turn == 1 - me)
            std::this_thread::yield();
    };
    std::thread other([=] { for (;;) { lock(1); root->lines[1].a++; root->lines[2].b++; wants[1] = 0; } });
    for (;;) {
        lock(0);
        root->lines[3].a++;
        root->lines[1].b++;
        wants[0] = 0;
    }
}

// A ticket lock: relaxed tickets, acquire and release of the turn.
static std::atomic<unsigned> tickets, serving;
static void ticket()
{
    pairs([](int) {
        unsigned mine = tickets.fetch_add(1, std::memory_order_relaxed);
        while (serving.load(std::memory_order_acquire) != mine)
            std::this_thread::yield();
    }, [](int) { serving.store(serving.load(std::memory_order_relaxed) + 1, std::memory_order_release); });
}

// A queue lock: each waits for the flag of the one before it.
struct alignas(64) Flag { std::atomic<bool> busy; };
static Flag flags[THREADS + 1];
static std::atomic<Flag *> tail{&flags[THREADS]};
static thread_local Flag *mine, *before;
static void queue_lock()
{
    pairs([](int thread) {
        if (!mine)
            mine = &flags[thread];
        mine->busy.store(true, std::memory_order_relaxed);
        before = tail.exchange(mine, std::memory_order_acq_rel);
        while (before->busy.load(std::memory_order_acquire))
            std::this_thread::yield();
    }, [](int) {
        Flag *own = mine;
        mine = before;
        own->busy.store(false, std::memory_order_release);
    });
}

// A lock on a futex, by the system call.
static std::atomic<int> state;
static void futex()
{
    pairs([](int) {
        int free = 0;
        if (state.compare_exchange_strong(free, 1))
            return;
        while (state.exchange(2) != 0)
            syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, 2, nullptr);
    }, [](int) { if (state.exchange(0) == 2) syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1); });
}

// A flag that waiting threads are told of (C++20).
static std::atomic_flag flag;
static void waiting_flag()
{
    pairs([](int) { while (flag.test_and_set(std::memory_order_acquire)) flag.wait(true, std::memory_order_relaxed); },
          [](int) { flag.clear(std::memory_order_release); flag.notify_one(); });
}

// Shared and exclusive holders; those that share only look.
static std::shared_mutex shared;
static void shared_lock()
{
    threads([](int thread, unsigned round) {
        if ((round + thread) % 3) {
            std::shared_lock hold(shared);
            long a = 0, b = 0;
            for (int i = 0; i < 8; i++)
                a += root->lines[i].a, b += root->lines[i].b;
            root->lines[16 + thread].a = a;
            root->lines[16 + thread].b = b;
        } else {
            std::unique_lock hold(shared);
            root->lines[round % 8].a++;
            root->lines[(round + 3) % 8].b++;
        }
    });
}
static bool shared_lock_holds()
{
    for (int i = 0; i < THREADS; i++)
        if (root->lines[16 + i].a != root->lines[16 + i].b)
            return wrong("thread %d saw %ld and %ld", i, root->lines[16 + i].a, root->lines[16 + i].b);
    return pairs_agree();
}

// Whoever tries and fails does something else.
static std::timed_mutex timed;
static void timed_tries()
{
    threads([](int thread, unsigned round) {
        bool held = round % 2 ? timed.try_lock() : timed.try_lock_for(std::chrono::microseconds(50));
        if (!held) {
            root->lines[16 + thread].a++;
            root->lines[16 + thread].b++;
            return;
        }
        root->lines[thread].a++;
        root->lines[7 - thread].b++;
        timed.unlock();
    });
}

// An exception leaves two locks behind, and what was stored under them.
static std::mutex first, second;
static void thrown()
{
    threads([](int thread, unsigned round) {
        try {
            std::lock_guard one(first);
            std::lock_guard two(second);
            root->lines[thread].a++;
            root->lines[7].b++;
            if (round % 2)
                throw std::runtime_error("on the way");
        } catch (std::runtime_error &) {
            std::lock_guard one(first);
            root->lines[5].a++;
            root->lines[6].b++;
        }
    });
}

// A writer changes a record under an odd version; readers note what they saw under an even one.
static void sequence_lock()
{
    threads([](int thread, unsigned round) {
        auto &version = root->words[0];
        if (thread == 0) {
            version.fetch_add(1);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            for (long *word : {&root->lines[0].a, &root->lines[1].a, &root->lines[2].a})
                __atomic_store_n(word, long(round), __ATOMIC_RELAXED);
            version.fetch_add(1);
            return;
        }
        uint64_t start = version.load();
        long seen[3] = {__atomic_load_n(&root->lines[0].a, __ATOMIC_RELAXED), __atomic_load_n(&root->lines[1].a, __ATOMIC_RELAXED),
                        __atomic_load_n(&root->lines[2].a, __ATOMIC_RELAXED)};
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (start % 2 || version.load() != start)
            return;
        Line note = {seen[0], seen[1], seen[2], long(start)};
        root->lines[16 + thread] = note;
    });
}
static bool sequence_lock_holds()
{
    uint64_t version = root->words[0];
    for (int i = 1; i < THREADS; i++) {
        Line &note = root->lines[16 + i];
        if (note.a != note.b || note.b != note.c)
            return wrong("reader %d saw %ld, %ld, %ld", i, note.a, note.b, note.c);
        if (uint64_t(note.d) > version)
            return wrong("reader %d saw version %ld of %lu", i, note.d, version);
    }
    Line *lines = root->lines;
    return version % 2 || (lines[0].a == lines[1].a && lines[1].a == lines[2].a) || wrong("an even version of unequal words");
}

// Tokens go from stack to stack; the head is a number and a tag, so that no ABA happens.
static int pop(std::atomic<uint64_t> &head)
{
    uint64_t old = head.load(), next;
    do {
        if (!(old & 0xffff))
            return 0;
        next = ((old >> 16) + 1) << 16 | root->words[32 + (old & 0xffff) - 1].load();
    } while (!head.compare_exchange_weak(old, next));
    return old & 0xffff;
}
static void push(std::atomic<uint64_t> &head, int token)
{
    uint64_t old = head.load(), next;
    do {
        root->words[32 + token - 1].store(old & 0xffff);
        next = ((old >> 16) + 1) << 16 | token;
    } while (!head.compare_exchange_weak(old, next));
}
static void stacks()
{
    threads([](int thread, unsigned round) {
        int token = pop(root->words[(thread + round) % 4]);
        // What is in a hand is noted by an atomic, so a frontier may have it in the hand and nowhere, never in two places.
        if (token)
            push(root->words[(thread + round * 7) % 4], token);
    });
}
static bool stacks_hold()
{
    bool found[TOKENS + 1] = {};
    int count = 0;
    for (int stack = 0; stack < 4; stack++)
        for (uint64_t at = root->words[stack] & 0xffff; at; at = root->words[32 + at - 1]) {
            if (at > TOKENS || found[at])
                return wrong("token %lu twice, or none", at);
            found[at] = true;
            count++;
        }
    return count + THREADS >= TOKENS || wrong("%d of %d tokens", count, TOKENS);
}

// A ring from one producer to one consumer, with indices in the pool.
static void ring()
{
    std::thread consumer([] {
        for (;;) {
            uint64_t at = root->words[1].load(std::memory_order_relaxed);
            if (root->words[0].load(std::memory_order_acquire) == at)
                continue;
            long value = root->ring[at % RING];
            root->lines[1].a = value;
            root->lines[1].b += value;
            root->words[1].store(at + 1, std::memory_order_release);
        }
    });
    for (;;) {
        uint64_t at = root->words[0].load(std::memory_order_relaxed);
        if (at - root->words[1].load(std::memory_order_acquire) >= RING)
            continue;
        root->ring[at % RING] = long(at) * 3 + 1;
        root->words[0].store(at + 1, std::memory_order_release);
    }
}
static bool ring_holds()
{
    uint64_t in = root->words[0], out = root->words[1];
    if (out > in || in - out > RING)
        return wrong("%lu in, %lu out", in, out);
    for (uint64_t at = out; at < in; at++)
        if (root->ring[at % RING] != long(at) * 3 + 1)
            return wrong("entry %lu is %ld", at, root->ring[at % RING]);
    // What was taken out was noted with the index or, at a frontier between, one before it.
    auto sum = [](uint64_t n) { return long(n) * 3 * (long(n) - 1) / 2 + long(n); };
    long noted = root->lines[1].b;
    return noted == sum(out) || noted == sum(out + 1) || wrong("%ld noted of %lu", noted, out);
}

// A version is published, and the one before it is given back when no reader holds it.
static std::atomic<unsigned> epoch{1}, readers[THREADS];
static void published()
{
    threads([](int thread, unsigned round) {
        if (thread == 0) {
            Node *fresh = static_cast<Node *>(sl_at(pool, sl_alloc(pool, sizeof(Node)))), *old = root->current.load();
            *fresh = {nullptr, (old ? old->value : 0) + 1, (old ? old->twin : 0) + 1};
            root->current.store(fresh, std::memory_order_release);
            unsigned now = epoch.fetch_add(1) + 1;
            for (int i = 1; i < THREADS; i++)
                while (readers[i] && readers[i] < now)
                    std::this_thread::yield();
            if (old)
                sl_free(pool, sl_ref_of(pool, old));
            return;
        }
        readers[thread] = epoch.load();
        Node *node = root->current.load(std::memory_order_acquire);
        if (node) {
            Line note = {node->value, node->twin, long(round), 0};
            root->lines[16 + thread] = note;
        }
        readers[thread] = 0;
    });
}
static bool published_holds()
{
    Node *node = root->current.load();
    if (node && node->value != node->twin)
        return wrong("%ld and %ld are published", node->value, node->twin);
    for (int i = 1; i < THREADS; i++) {
        Line &note = root->lines[16 + i];
        if (note.a != note.b || note.a > (node ? node->value : 0))
            return wrong("reader %d saw %ld and %ld of %ld", i, note.a, note.b, node ? node->value : 0);
    }
    return true;
}

// Values move along a list whose nodes are locked hand over hand: one word down, the next one up.
static pthread_mutex_t hands[TOKENS];
static void hand_over_hand()
{
    threads([](int, unsigned) {
        pthread_mutex_lock(&hands[0]);
        for (int i = 0; i + 1 < TOKENS; i++) {
            pthread_mutex_lock(&hands[i + 1]);
            root->nodes[i].value--;
            root->nodes[i + 1].value++;
            pthread_mutex_unlock(&hands[i]);
        }
        pthread_mutex_unlock(&hands[TOKENS - 1]);
    });
}
static bool hand_over_hand_holds()
{
    long sum = 0;
    for (Node &node : root->nodes)
        sum += node.value;
    return sum == 0 || wrong("%ld came from nowhere", sum);
}

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

// Messages through the kernel: what the reader notes is at most what the writer has written.
template <class Send, class Receive> static void messages(Send send, Receive receive)
{
    std::thread reader([receive] { for (;;) { receive(); root->lines[1].a = root->lines[0].a; } });
    for (;;) {
        root->lines[0].a++;
        root->lines[0].b++;
        send();
    }
}
static bool messages_hold()
{
    Line &from = root->lines[0], &to = root->lines[1];
    return (from.a == from.b && to.a <= from.a) || wrong("%ld, %ld written, %ld read", from.a, from.b, to.a);
}
static int ends[2];
static void pipes()
{
    if (pipe(ends))
        err(2, "pipe");
    // The reader answers, so that the next message is not written while it looks.
    static int back[2];
    if (pipe(back))
        err(2, "pipe");
    char byte = 0;
    std::thread reader([] {
        for (char byte;;) {
            if (read(ends[0], &byte, 1) != 1) abort();
            root->lines[1].a = root->lines[0].a;
            if (write(back[1], &byte, 1) != 1) abort();
        }
    });
    for (;;) {
        root->lines[0].a++;
        root->lines[0].b++;
        if (write(ends[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) abort();
    }
}
static void events()
{
    static int there = eventfd(0, EFD_SEMAPHORE), back = eventfd(0, EFD_SEMAPHORE);
    static auto post = [](int fd) { uint64_t one = 1; if (write(fd, &one, 8) != 8) abort(); };
    static auto wait = [](int fd) { uint64_t one; if (read(fd, &one, 8) != 8) abort(); };
    messages([] { post(there); wait(back); }, [] { static bool begun; if (begun) post(back); begun = true; wait(there); });
}
static void semaphores()
{
    static sem_t there, back;
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    messages([] { sem_post(&there); sem_wait(&back); }, [] { static bool begun; if (begun) sem_post(&back); begun = true; sem_wait(&there); });
}

// Threads that live for one step: what a thread leaves at its end, by a destructor too, its parent sees at the join.
static pthread_key_t key;
static void generations()
{
    pthread_key_create(&key, [](void *) { root->lines[0].b++; });
    for (;;) {
        pthread_t thread;
        auto step = [](void *) -> void * { pthread_setspecific(key, root); root->lines[0].a++; return nullptr; };
        if (pthread_create(&thread, nullptr, step, nullptr)) abort();
        pthread_join(thread, nullptr);
        root->lines[1].a = root->lines[0].b;
    }
}
static bool generations_hold()
{
    long steps = root->lines[0].a, ends = root->lines[0].b, joined = root->lines[1].a;
    // A killed thread has a step without its end.
    static_assert(sizeof(long) == 8);
    return (ends <= steps && joined <= ends) || wrong("%ld steps, %ld ends, %ld joined", steps, ends, joined);
}

// Promises: each result is computed from the one before, by another thread.
static void promises()
{
    for (;;) {
        std::promise<long> promise;
        auto future = promise.get_future();
        std::thread worker([&] { root->lines[0].a++; promise.set_value(root->lines[0].a); });
        root->lines[1].a = future.get();
        worker.join();
    }
}
static bool promises_hold()
{
    return root->lines[1].a <= root->lines[0].a || wrong("%ld of %ld", root->lines[1].a, root->lines[0].a);
}

// Work handed over by a condition; producers and consumers count within their sections.
static std::mutex of_queue;
static std::condition_variable_any changed;
static void conditions()
{
    threads([](int thread, unsigned) {
        std::unique_lock hold(of_queue);
        Line &queue = root->lines[0];
        if (thread == 0) {
            changed.wait(hold, [&] { return queue.a - queue.b < RING; });
            root->ring[queue.a % RING] = queue.a;
            queue.a++;
        } else {
            changed.wait(hold, [&] { return queue.a > queue.b; });
            queue.c += root->ring[queue.b % RING];
            queue.b++;
        }
        changed.notify_all();
    });
}
static bool conditions_hold()
{
    Line &queue = root->lines[0];
    if (queue.b > queue.a || queue.a - queue.b > RING || queue.c != queue.b * (queue.b - 1) / 2)
        return wrong("%ld in, %ld out, sum %ld", queue.a, queue.b, queue.c);
    for (long at = queue.b; at < queue.a; at++)
        if (root->ring[at % RING] != at)
            return wrong("entry %ld is %ld", at, root->ring[at % RING]);
    return true;
}

// Nodes of two lists, each with its lock, move with both held, through std::scoped_lock.
static std::mutex of_lists[2];
static void two_lists()
{
    threads([](int thread, unsigned round) {
        int from = (round + thread) % 2;
        std::scoped_lock hold(of_lists[from], of_lists[1 - from]);
        Node *node = root->lists[from];
        if (!node) {
            node = static_cast<Node *>(sl_at(pool, sl_zalloc(pool, sizeof(Node))));
            root->lines[0].a++;
        } else
            root->lists[from] = node->next;
        node->value++;
        node->next = root->lists[1 - from];
        root->lists[1 - from] = node;
        if (root->lines[0].a > 40) {
            Node *last = root->lists[1 - from];
            root->lists[1 - from] = last->next;
            root->lines[0].a--;
            sl_free(pool, sl_ref_of(pool, last));
        }
    });
}
static bool two_lists_hold()
{
    long count = 0;
    for (Node *list : {root->lists[0], root->lists[1]})
        for (; list; list = list->next)
            if (++count > 100)
                return wrong("a circle");
    return count == root->lines[0].a || wrong("%ld of %ld nodes", count, root->lines[0].a);
}

static const struct {
    const char *name;
    void (*run)();
    bool (*holds)();
} KINDS[] = {
    {"peterson", peterson, pairs_agree}, {"ticket", ticket, pairs_agree}, {"queue-lock", queue_lock, pairs_agree},
    {"futex", futex, pairs_agree}, {"waiting-flag", waiting_flag, pairs_agree}, {"shared", shared_lock, shared_lock_holds},
    {"timed", timed_tries, [] { for (int i = 0; i < THREADS; i++) if (root->lines[16 + i].a != root->lines[16 + i].b) return wrong("failed tries"); return pairs_agree(); }},
    {"thrown", thrown, pairs_agree}, {"sequence-lock", sequence_lock, sequence_lock_holds}, {"stacks", stacks, stacks_hold},
    {"ring", ring, ring_holds}, {"published", published, published_holds}, {"hand-over-hand", hand_over_hand, hand_over_hand_holds},
    {"phases", phases, phases_hold}, {"pipes", pipes, messages_hold}, {"events", events, messages_hold},
    {"semaphores", semaphores, messages_hold}, {"generations", generations, generations_hold}, {"promises", promises, promises_hold},
    {"conditions", conditions, conditions_hold}, {"two-lists", two_lists, two_lists_hold},
};

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "--kinds")) {
        for (auto &kind : KINDS)
            puts(kind.name);
        return 0;
    }
    bool checks = count == 4 && !strcmp(arguments[1], "--check");
    if (count != 3 + checks)
        errx(2, "usage: shapes [--check] POOL KIND");
    sl_pool_options options = {nullptr, SL_FORCE};
    pool = sl_pool_open(arguments[1 + checks], "shapes", &options);
    bool fresh = !pool && !checks;
    if (fresh)
        pool = sl_pool_create(arguments[1], "shapes", 8 << 20, sizeof(Root), &options);
    if (!pool) {
        printf("%s\n", sl_error());
        return 1;
    }
    root = static_cast<Root *>(sl_at(pool, sl_root(pool)));
    for (auto &kind : KINDS) {
        if (strcmp(kind.name, arguments[2 + checks]))
            continue;
        if (checks)
            return !kind.holds();
        for (auto &mutex : hands)
            pthread_mutex_init(&mutex, nullptr);
        if (!strcmp(kind.name, "sequence-lock") && root->words[0] % 2) {
            for (int i : {1, 2})
                root->lines[i].a = root->lines[0].a;
            root->words[0].fetch_add(1);
        }
        if (!strcmp(kind.name, "stacks")) {
            // Tokens that were in somebody's hand come back.
            bool found[TOKENS + 1] = {};
            for (int stack = 0; stack < 4; stack++)
                for (uint64_t at = root->words[stack] & 0xffff; at; at = root->words[32 + at - 1])
                    found[at] = true;
            for (int token = 1; token <= TOKENS; token++)
                if (!found[token])
                    push(root->words[token % 4], token);
        }
        if (!strcmp(kind.name, "generations"))
            root->lines[0].b = root->lines[0].a;
        if (!strcmp(kind.name, "ring")) {
            // A note may be one ahead of its index.
            uint64_t out = root->words[1];
            if (root->lines[1].b != long(out) * 3 * (long(out) - 1) / 2 + long(out))
                root->words[1] = out + 1;
        }
        printf("begins\n");
        fflush(stdout);
        kind.run();
    }
    errx(2, "no kind %s", arguments[2 + checks]);
}
