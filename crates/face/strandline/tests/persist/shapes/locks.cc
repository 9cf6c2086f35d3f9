// Locks, of the library and of the program's own making.
#include <condition_variable>
#include <linux/futex.h>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <stdexcept>
#include <sys/syscall.h>
#include <unistd.h>

#include "shapes.h"

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
    auto work = [=](int me) {
        for (unsigned long round = 1; round <= rounds; round++) {
            lock(me);
            root->lines[me ? 1 : 3].a++;
            root->lines[me ? 2 : 1].b++;
            wants[me] = 0;
        }
    };
    std::thread other([=] { work(1); });
    work(0);
    other.join();
}
static Kind of_peterson("peterson", peterson, pairs_agree);

// The same with relaxed atomics and fences.
static std::atomic<int> weak_wants[2], weak_turn;
static void fenced_peterson()
{
    constexpr auto RELAXED = std::memory_order_relaxed;
    auto work = [](int me) {
        for (unsigned long round = 1; round <= rounds; round++) {
            weak_wants[me].store(1, RELAXED);
            weak_turn.store(1 - me, RELAXED);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            while (weak_wants[1 - me].load(RELAXED) && weak_turn.load(RELAXED) == 1 - me)
                std::this_thread::yield();
            std::atomic_thread_fence(std::memory_order_acquire);
            root->lines[me ? 1 : 3].a++;
            root->lines[me ? 2 : 1].b++;
            std::atomic_thread_fence(std::memory_order_release);
            weak_wants[me].store(0, RELAXED);
        }
    };
    std::thread other([=] { work(1); });
    work(0);
    other.join();
}
static Kind of_fenced_peterson("fenced-peterson", fenced_peterson, pairs_agree);

// A ticket lock: relaxed tickets, acquire and release of the turn.
static std::atomic<unsigned> tickets, serving;
static void ticket()
{
    auto lock = [](int) {
        unsigned mine = tickets.fetch_add(1, std::memory_order_relaxed);
        while (serving.load(std::memory_order_acquire) != mine)
            std::this_thread::yield();
    };
    auto unlock = [](int) {
        serving.store(serving.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    };
    pairs(lock, unlock);
}
static Kind of_ticket("ticket", ticket, pairs_agree);

// A queue lock: each waits for the flag of the one before it.
struct alignas(64) Flag {
    std::atomic<bool> busy;
};
static Flag flags[THREADS + 1];
static std::atomic<Flag *> tail{&flags[THREADS]};
static thread_local Flag *mine, *before;
static void queue_lock()
{
    auto lock = [](int thread) {
        if (!mine)
            mine = &flags[thread];
        mine->busy.store(true, std::memory_order_relaxed);
        before = tail.exchange(mine, std::memory_order_acq_rel);
        while (before->busy.load(std::memory_order_acquire))
            std::this_thread::yield();
    };
    auto unlock = [](int) {
        Flag *own = mine;
        mine = before;
        own->busy.store(false, std::memory_order_release);
    };
    pairs(lock, unlock);
}
static Kind of_queue_lock("queue-lock", queue_lock, pairs_agree);

// A lock on a futex, by the system call.
static std::atomic<int> state;
static void futex()
{
    auto lock = [](int) {
        int free = 0;
        if (state.compare_exchange_strong(free, 1))
            return;
        while (state.exchange(2) != 0)
            syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, 2, nullptr);
    };
    auto unlock = [](int) {
        if (state.exchange(0) == 2)
            syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1);
    };
    pairs(lock, unlock);
}
static Kind of_futex("futex", futex, pairs_agree);

// A flag that waiting threads are told of (C++20).
static std::atomic_flag flag;
static void waiting_flag()
{
    auto lock = [](int) {
        while (flag.test_and_set(std::memory_order_acquire))
            flag.wait(true, std::memory_order_relaxed);
    };
    auto unlock = [](int) {
        flag.clear(std::memory_order_release);
        flag.notify_one();
    };
    pairs(lock, unlock);
}
static Kind of_waiting_flag("waiting-flag", waiting_flag, pairs_agree);

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
static Kind of_shared_lock("shared", shared_lock, shared_lock_holds);

// Readers and writers by a word of the program's own: a bit for the writer, a count of readers.
static std::atomic<unsigned> readers_and_writer;
static void spinning_readers()
{
    constexpr unsigned WRITER = 1u << 31;
    threads([](int thread, unsigned round) {
        if ((round + thread) % 3) {
            while (readers_and_writer.fetch_add(1, std::memory_order_acquire) & WRITER) {
                readers_and_writer.fetch_sub(1, std::memory_order_relaxed);
                std::this_thread::yield();
            }
            long a = 0, b = 0;
            for (int i = 0; i < 8; i++)
                a += root->lines[i].a, b += root->lines[i].b;
            root->lines[16 + thread].a = a;
            root->lines[16 + thread].b = b;
            readers_and_writer.fetch_sub(1, std::memory_order_release);
        } else {
            unsigned free = 0;
            while (!readers_and_writer.compare_exchange_weak(free, WRITER, std::memory_order_acquire)) {
                free = 0;
                std::this_thread::yield();
            }
            root->lines[round % 8].a++;
            root->lines[(round + 3) % 8].b++;
            readers_and_writer.fetch_and(~WRITER, std::memory_order_release);
        }
    });
}
static Kind of_spinning_readers("spinning-readers", spinning_readers, shared_lock_holds);

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
static Kind of_timed_tries("timed", timed_tries, shared_lock_holds);

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
static Kind of_thrown("thrown", thrown, pairs_agree);

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
static Kind of_two_lists("two-lists", two_lists, two_lists_hold);

// Values move along a list whose nodes are locked hand over hand: one word down, the next one up.
static pthread_mutex_t hands[TOKENS];
static void hand_over_hand()
{
    for (auto &mutex : hands)
        pthread_mutex_init(&mutex, nullptr);
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
static Kind of_hand_over_hand("hand-over-hand", hand_over_hand, hand_over_hand_holds);

// Work handed over by a condition; producers and consumers count within their sections.
static std::mutex of_queue;
static std::condition_variable_any changed;
static bool finished;
static void conditions()
{
    auto consume = [] {
        for (;;) {
            std::unique_lock hold(of_queue);
            Line &queue = root->lines[0];
            changed.wait(hold, [&] { return queue.a > queue.b || finished; });
            if (queue.a == queue.b)
                return;
            queue.c += root->ring[queue.b % RING];
            queue.b++;
            changed.notify_all();
        }
    };
    std::thread one(consume), other(consume);
    for (unsigned long round = 1; round <= rounds; round++) {
        std::unique_lock hold(of_queue);
        Line &queue = root->lines[0];
        changed.wait(hold, [&] { return queue.a - queue.b < RING; });
        root->ring[queue.a % RING] = queue.a;
        queue.a++;
        changed.notify_all();
    }
    {
        std::lock_guard hold(of_queue);
        finished = true;
    }
    changed.notify_all();
    one.join();
    other.join();
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
static Kind of_conditions("conditions", conditions, conditions_hold);
