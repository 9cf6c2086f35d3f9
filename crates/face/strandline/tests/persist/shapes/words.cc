// Without locks: atomics in the pool and outside.
#include <memory>
#include <pthread.h>

#include "shapes.h"

constexpr auto RELAXED = std::memory_order_relaxed;

// A writer changes a record under an odd version; readers note what they saw under an even one.
static void sequence_lock()
{
    threads([](int thread, unsigned round) {
        auto &version = root->words[0];
        Line &record = root->lines[0];
        if (thread == 0) {
            version.fetch_add(1);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            for (long *word : {&record.a, &record.b, &record.c})
                __atomic_store_n(word, long(round), __ATOMIC_RELAXED);
            version.fetch_add(1);
            return;
        }
        uint64_t start = version.load();
        Line note = {};
        note.a = __atomic_load_n(&record.a, __ATOMIC_RELAXED);
        note.b = __atomic_load_n(&record.b, __ATOMIC_RELAXED);
        note.c = __atomic_load_n(&record.c, __ATOMIC_RELAXED);
        note.d = long(start);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (start % 2 == 0 && version.load() == start)
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
    Line &now = root->lines[0];
    return version % 2 || (now.a == now.b && now.b == now.c) || wrong("an even version of unequal words");
}
// A writer was stopped: its record is made whole.
static void mend_sequence_lock()
{
    if (root->words[0] % 2 == 0)
        return;
    root->lines[0].b = root->lines[0].c = root->lines[0].a;
    root->words[0].fetch_add(1);
}
static Kind of_sequence_lock("sequence-lock", sequence_lock, sequence_lock_holds, mend_sequence_lock);

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
        // Nothing says who has a token in hand: at a frontier it is in one stack or in none, never in two.
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
    return root->words[8] == 0 || count + THREADS >= TOKENS || wrong("%d of %d tokens", count, TOKENS);
}
// Tokens that were in hand come back.
static void mend_stacks()
{
    bool found[TOKENS + 1] = {};
    root->words[8] = 0;
    for (int stack = 0; stack < 4; stack++)
        for (uint64_t at = root->words[stack] & 0xffff; at; at = root->words[32 + at - 1])
            found[at] = true;
    for (int token = 1; token <= TOKENS; token++)
        if (!found[token])
            push(root->words[token % 4], token);
    root->words[8] = 1;
}
static Kind of_stacks("stacks", stacks, stacks_hold, mend_stacks);

// A ring from one producer to one consumer, with indices in the pool.
static void ring()
{
    std::thread consumer([] {
        for (unsigned long taken = 0; taken < rounds;) {
            uint64_t at = root->words[1].load(RELAXED);
            if (root->words[0].load(std::memory_order_acquire) == at)
                continue;
            long value = root->ring[at % RING];
            root->lines[1].a = value;
            root->lines[1].b += value;
            root->words[1].store(at + 1, std::memory_order_release);
            taken++;
        }
    });
    for (unsigned long given = 0; given < rounds;) {
        uint64_t at = root->words[0].load(RELAXED);
        if (at - root->words[1].load(std::memory_order_acquire) >= RING)
            continue;
        root->ring[at % RING] = long(at) * 3 + 1;
        root->words[0].store(at + 1, std::memory_order_release);
        given++;
    }
    consumer.join();
}
static long sum_to(uint64_t n)
{
    return long(n) * 3 * (long(n) - 1) / 2 + long(n);
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
    long noted = root->lines[1].b;
    return noted == sum_to(out) || noted == sum_to(out + 1) || wrong("%ld noted of %lu", noted, out);
}
// A note may be one ahead of its index.
static void mend_ring()
{
    uint64_t out = root->words[1];
    if (root->lines[1].b != sum_to(out))
        root->words[1] = out + 1;
}
static Kind of_ring("ring", ring, ring_holds, mend_ring);

// A version is published, and the one before it is given back when no reader holds it.
static std::atomic<unsigned> epoch{1}, readers[THREADS];
static void published()
{
    threads([](int thread, unsigned round) {
        if (thread == 0) {
            Node *fresh = static_cast<Node *>(sl_at(pool, sl_alloc(pool, sizeof(Node))));
            Node *old = root->current.load();
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
static Kind of_published("published", published, published_holds);

// Relaxed atomics between a fence that releases and one that acquires.
static std::atomic<unsigned long> there, back;
static void fences()
{
    auto send = [](std::atomic<unsigned long> &word, unsigned long round) {
        std::atomic_thread_fence(std::memory_order_release);
        word.store(round, RELAXED);
    };
    auto await = [](std::atomic<unsigned long> &word, unsigned long round) {
        while (word.load(RELAXED) != round)
            std::this_thread::yield();
        std::atomic_thread_fence(std::memory_order_acquire);
    };
    messages([=](unsigned long round) { send(there, round); }, [=](unsigned long round) { await(back, round); },
             [=](unsigned long round) { await(there, round); }, [=](unsigned long round) { send(back, round); });
}
static Kind of_fences("fences", fences, messages_hold);

// A third thread goes on with a release by relaxed operations.
static void release_sequence()
{
    std::atomic<bool> stop{false};
    std::thread between([&] {
        while (!stop.load(RELAXED)) {
            unsigned long odd = there.load(RELAXED);
            if (odd % 2)
                there.compare_exchange_strong(odd, odd + 1, RELAXED, RELAXED);
        }
    });
    auto send = [](unsigned long round) { there.store(2 * round - 1, std::memory_order_release); };
    auto wait = [](unsigned long round) {
        while (back.load(std::memory_order_acquire) != round)
            std::this_thread::yield();
    };
    auto receive = [](unsigned long round) {
        while (there.load(std::memory_order_acquire) != 2 * round)
            std::this_thread::yield();
    };
    messages(send, wait, receive, [](unsigned long round) { back.store(round, std::memory_order_release); });
    stop = true;
    between.join();
}
static Kind of_release_sequence("release-sequence", release_sequence, messages_hold);

// Words of the pool that threads wait on (C++20).
static void notified()
{
    auto send = [](std::atomic<uint64_t> &word) {
        word.fetch_add(1);
        word.notify_all();
    };
    uint64_t start = root->words[0] = root->words[1] = 0;
    auto await = [=](std::atomic<uint64_t> &word, unsigned long round) {
        for (uint64_t now; (now = word.load()) != start + round;)
            word.wait(now);
    };
    messages([=](unsigned long) { send(root->words[0]); },
             [=](unsigned long round) { await(root->words[1], round); },
             [=](unsigned long round) { await(root->words[0], round); },
             [=](unsigned long) { send(root->words[1]); });
}
static Kind of_notified("notified", notified, messages_hold);

// A bounded queue of many producers and consumers, after Vyukov: sequence numbers are outside, the data is in the pool.
static std::atomic<uint64_t> sequences[RING], enqueued, dequeued;
static void many_to_many()
{
    for (int i = 0; i < RING; i++)
        sequences[i] = i;
    auto produce = [](int me) {
        for (unsigned long round = 1; round <= rounds; round++) {
            uint64_t at = enqueued.load(RELAXED);
            for (;; at = enqueued.load(RELAXED)) {
                uint64_t sequence = sequences[at % RING].load(std::memory_order_acquire);
                if (sequence == at && enqueued.compare_exchange_weak(at, at + 1, RELAXED))
                    break;
                if (sequence < at)
                    std::this_thread::yield();
            }
            Line &cell = root->lines[32 + at % RING];
            long next = ++root->lines[me].a;
            cell = {me, next, next, 0};
            sequences[at % RING].store(at + 1, std::memory_order_release);
        }
    };
    auto consume = [](int me) {
        for (unsigned long round = 1; round <= rounds; round++) {
            uint64_t at = dequeued.load(RELAXED);
            for (;; at = dequeued.load(RELAXED)) {
                uint64_t sequence = sequences[at % RING].load(std::memory_order_acquire);
                if (sequence == at + 1 && dequeued.compare_exchange_weak(at, at + 1, RELAXED))
                    break;
                if (sequence < at + 1)
                    std::this_thread::yield();
            }
            Line &cell = root->lines[32 + at % RING];
            root->lines[8 + 2 * me + cell.a].a = cell.b;
            root->lines[8 + 2 * me + cell.a].b = cell.c;
            sequences[at % RING].store(at + RING, std::memory_order_release);
        }
    };
    std::thread one(produce, 0), other(produce, 1), takes(consume, 0);
    consume(1);
    one.join();
    other.join();
    takes.join();
}
static bool many_to_many_holds()
{
    for (int i = 0; i < 4; i++) {
        Line &note = root->lines[8 + i];
        if (note.a != note.b || note.a > root->lines[i % 2].a)
            return wrong("%ld and %ld of %ld were taken", note.a, note.b, root->lines[i % 2].a);
    }
    for (int i = 0; i < RING; i++) {
        Line &cell = root->lines[32 + i];
        if (cell.b != cell.c || cell.b > root->lines[cell.a].a)
            return wrong("a cell has %ld and %ld of %ld", cell.b, cell.c, root->lines[cell.a].a);
    }
    return true;
}
static Kind of_many_to_many("many-to-many", many_to_many, many_to_many_holds);

// A queue of a worker from whose other end thieves steal (Chase and Lev, with the fences of Le et al.).
static std::atomic<long> top, bottom;
static std::atomic<int> tasks[RING];
static std::atomic<bool> busy[RING], closed;
static void carry_out(int task)
{
    Line &of = root->lines[task];
    of.b++;
    of.c = of.a;
    busy[task].store(false, std::memory_order_release);
}
static bool take()
{
    long at = bottom.load(RELAXED) - 1;
    bottom.store(at, RELAXED);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    long first = top.load(RELAXED);
    if (first > at) {
        bottom.store(at + 1, RELAXED);
        return false;
    }
    int task = tasks[at % RING].load(RELAXED);
    bool got = first < at || top.compare_exchange_strong(first, first + 1);
    if (first == at || !got)
        bottom.store(at + 1, RELAXED);
    if (got)
        carry_out(task);
    return got;
}
static void steal()
{
    long first = top.load(std::memory_order_acquire);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    long end = bottom.load(std::memory_order_acquire);
    if (first >= end)
        return std::this_thread::yield();
    int task = tasks[first % RING].load(RELAXED);
    if (top.compare_exchange_strong(first, first + 1))
        carry_out(task);
}
static void stolen()
{
    auto thief = [] {
        while (!closed)
            steal();
    };
    std::thread one(thief), other(thief);
    for (unsigned long round = 1; round <= rounds; round++) {
        int task = int(round % (RING / 2));
        while (busy[task].load(std::memory_order_acquire))
            std::this_thread::yield();
        busy[task].store(true, RELAXED);
        root->lines[task].a = root->lines[task].b + 1;
        long end = bottom.load(RELAXED);
        tasks[end % RING].store(task, RELAXED);
        std::atomic_thread_fence(std::memory_order_release);
        bottom.store(end + 1, RELAXED);
        if (round % 3 == 0)
            take();
    }
    while (take()) {
    }
    closed = true;
    one.join();
    other.join();
}
static bool stolen_holds()
{
    for (int i = 0; i < RING / 2; i++) {
        Line &task = root->lines[i];
        if (task.c != task.b || (task.a != task.b && task.a != task.b + 1))
            return wrong("task %d: %ld, done %ld and %ld", i, task.a, task.b, task.c);
    }
    return true;
}
static Kind of_stolen("stolen", stolen, stolen_holds);

// A table without locks: keys are taken by compare-and-swap, values published behind them.
static void table()
{
    threads([](int thread, unsigned round) {
        uint64_t key = 1 + (round * 7 + unsigned(thread) * 3) % 20;
        int at = int(key % 16);
        for (int tries = 0; tries < 16; tries++, at = (at + 1) % 16) {
            uint64_t found = 0;
            if (root->words[at].compare_exchange_strong(found, key)) {
                root->lines[at] = {long(key), long(round), long(key) + long(round), 0};
                root->words[16 + at].store(key, std::memory_order_release);
                return;
            }
            if (root->words[16 + at].load(std::memory_order_acquire) != found)
                continue;
            // One of those who find it takes it out.
            uint64_t there = found;
            if (root->words[16 + at].compare_exchange_strong(there, 0)) {
                root->lines[24 + thread] = root->lines[at];
                root->words[at].store(0, std::memory_order_release);
                return;
            }
        }
    });
}
static bool table_holds()
{
    for (int at = 0; at < 16; at++) {
        Line &line = root->lines[at];
        uint64_t value = root->words[16 + at];
        if (value && (root->words[at] != value || line.a != long(value) || line.a + line.b != line.c))
            return wrong("slot %d: %lu, %ld, %ld, %ld", at, value, line.a, line.b, line.c);
    }
    for (int i = 0; i < THREADS; i++)
        if (root->lines[24 + i].a + root->lines[24 + i].b != root->lines[24 + i].c)
            return wrong("thread %d took out a part", i);
    return true;
}
// Slots whose owner was stopped are free.
static void mend_table()
{
    for (int at = 0; at < 16; at++)
        if (root->words[at] != root->words[16 + at])
            root->words[at] = 0;
}
static Kind of_table("table", table, table_holds, mend_table);

// Members of the pool that are atomic for a while (C++20).
static void references()
{
    threads([](int thread, unsigned round) {
        std::atomic_ref<long> one(root->lines[0].a), other(root->lines[1].a);
        one.fetch_add(1);
        long seen = one.load();
        root->lines[16 + thread] = {seen, seen, long(round), 0};
        other.fetch_add(1);
    });
}
static bool references_hold()
{
    long one = root->lines[0].a, other = root->lines[1].a;
    for (int i = 0; i < THREADS; i++)
        if (root->lines[16 + i].a != root->lines[16 + i].b || root->lines[16 + i].a > one)
            return wrong("thread %d saw %ld of %ld", i, root->lines[16 + i].a, one);
    return other <= one || wrong("%ld and %ld", one, other);
}
static Kind of_references("references", references, references_hold);

// The last of those who share an object deletes it, and sees what all of them did.
static pthread_barrier_t meeting;
static std::shared_ptr<int> given[THREADS];
static void shared_pointer()
{
    pthread_barrier_init(&meeting, nullptr, THREADS);
    threads([](int thread, unsigned) {
        if (thread == 0) {
            std::shared_ptr<int> made(new int, [](int *object) {
                root->lines[0].a = root->lines[1].a + root->lines[2].a + root->lines[3].a;
                delete object;
            });
            for (auto &of : given)
                of = made;
        }
        pthread_barrier_wait(&meeting);
        std::shared_ptr<int> own = std::move(given[thread]);
        root->lines[1 + thread].a++;
        own.reset();
        pthread_barrier_wait(&meeting);
    });
}
static bool shared_pointer_holds()
{
    long sum = root->lines[1].a + root->lines[2].a + root->lines[3].a;
    return root->lines[0].a <= sum || wrong("%ld of %ld", root->lines[0].a, sum);
}
static Kind of_shared_pointer("shared-pointer", shared_pointer, shared_pointer_holds);
