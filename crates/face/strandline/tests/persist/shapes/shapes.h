// Concurrent programs in the shapes that people write, over data in a pool. Each has what must hold at every frontier.
#ifndef SHAPES_H
#define SHAPES_H

#include <atomic>
#include <cstdint>
#include <thread>
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

extern sl_pool *pool;
extern Root *root;

// Rounds of each thread.
extern unsigned long rounds;

// A shape registers itself: how it runs, what must hold, and what a program does first that goes on after a crash.
struct Kind {
    const char *name;
    void (*run)();
    bool (*holds)();
    void (*mend)();
    Kind *next;
    Kind(const char *name, void (*run)(), bool (*holds)(), void (*mend)() = [] {});
};

// Says what is wrong; false.
bool wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

// `work(thread, round)` by some threads, for all rounds.
template <class Work> void threads(Work work)
{
    std::vector<std::thread> all;
    for (int i = 0; i < THREADS; i++)
        all.emplace_back([work, i] {
            for (unsigned long round = 1; round <= rounds; round++)
                work(i, unsigned(round));
        });
    for (auto &thread : all)
        thread.join();
}

// Two words change together under a lock of any kind; one SFR, since nothing within synchronises.
template <class Lock, class Unlock> void pairs(Lock lock, Unlock unlock)
{
    threads([=](int thread, unsigned round) {
        lock(thread);
        Line &line = root->lines[round % 8], &other = root->lines[(round + 1 + thread) % 8];
        line.a++;
        other.b++;
        unlock(thread);
    });
}
bool pairs_agree();

// Messages: what the reader notes is at most what the writer has written. The writer waits for an answer.
template <class Send, class Wait, class Receive, class Answer>
void messages(Send send, Wait wait, Receive receive, Answer answer)
{
    std::thread reader([=] {
        for (unsigned long round = 1; round <= rounds; round++) {
            receive(round);
            root->lines[1].a = root->lines[0].a;
            answer(round);
        }
    });
    for (unsigned long round = 1; round <= rounds; round++) {
        root->lines[0].a++;
        root->lines[0].b++;
        send(round);
        wait(round);
    }
    reader.join();
}
bool messages_hold();

#endif
