/* Structures that several threads or processes use, right, and each wrong in one place.
 *
 *   structures POOL KIND [wrong]      structures --recover POOL KIND */
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

static bool wrong;

__attribute__((target("clwb"))) static void persist(const void *from, size_t bytes = 8) {
    auto at = reinterpret_cast<uintptr_t>(from) & ~uintptr_t{63};
    for (; at < reinterpret_cast<uintptr_t>(from) + bytes; at += 64) _mm_clwb(reinterpret_cast<void *>(at));
    _mm_sfence();
}

#define LINE alignas(64)

/* ---- a queue of one producer and one consumer, who keeps what was in it */

struct Queue {
    LINE std::atomic<uint64_t> head;
    LINE std::atomic<uint64_t> tail;
    struct LINE Entry {
        uint64_t value, check;
    } ring[4], kept[16];
};

static std::atomic<uint64_t> durable_head, durable_tail;

static void queue(Queue *queue) {
    std::thread producer([=] {
        for (uint64_t at = 0; at < 10; at++) {
            while (at - durable_tail.load(std::memory_order_acquire) == 4) sched_yield();
            queue->ring[at % 4].value = at + 1;
            queue->ring[at % 4].check = ~(at + 1);
            persist(&queue->ring[at % 4], 16);
            queue->head.store(at + 1, std::memory_order_relaxed);
            persist(&queue->head);
            durable_head.store(at + 1, std::memory_order_release);
        }
    });
    std::thread consumer([=] {
        for (uint64_t at = 0; at < 10; at++) {
            while (durable_head.load(std::memory_order_acquire) == at) sched_yield();
            queue->kept[at].value = queue->ring[at % 4].value; /* lost: queue */
            queue->kept[at].check = queue->ring[at % 4].check; /* lost: queue */
            if (!wrong) persist(&queue->kept[at], 16);
            queue->tail.store(at + 1, std::memory_order_relaxed); /* survives: queue */
            persist(&queue->tail);
            if (wrong) persist(&queue->kept[at], 16);
            durable_tail.store(at + 1, std::memory_order_release);
        }
    });
    producer.join();
    consumer.join();
}

static bool is_whole(const Queue *queue) {
    auto holds = [](const Queue::Entry &entry, uint64_t at) {
        return entry.value == at + 1 && entry.check == ~(at + 1);
    };
    uint64_t head = queue->head, tail = queue->tail;
    for (uint64_t at = 0; at < tail; at++)
        if (!holds(queue->kept[at], at)) return false;
    for (uint64_t at = tail; at < head; at++)
        if (!holds(queue->ring[at % 4], at)) return false;
    return true;
}

/* ---- a list that grows at its head, and readers who record the largest key that they saw */

struct List {
    LINE std::atomic<uint64_t> head;
    LINE uint64_t seen;
    struct LINE Node {
        uint64_t key, value;
        std::atomic<uint64_t> next;
    } nodes[16];
};

static void list(List *list) {
    std::thread writer([&] {
        for (uint64_t key = 1; key < 8; key++) {
            List::Node &node = list->nodes[key];
            node.key = key;
            node.value = key * key;
            node.next.store(key - 1, std::memory_order_relaxed);
            persist(&node, 24);
            list->head.store(key, std::memory_order_release); /* lost: list */
            sched_yield();
            persist(&list->head);
        }
    });
    std::thread reader([&] {
        while (!list->head.load(std::memory_order_acquire)) sched_yield();
        for (int turn = 0; turn < 4; turn++) {
            uint64_t largest = 0;
            for (uint64_t at = list->head.load(std::memory_order_acquire); at; at = list->nodes[at].next)
                if (list->nodes[at].key > largest) largest = list->nodes[at].key;
            /* The head that led there may not be durable yet. */
            if (!wrong) persist(&list->head);
            list->seen = largest; /* survives: list */
            persist(&list->seen);
        }
    });
    writer.join();
    reader.join();
}

static bool is_whole(const List *list) {
    uint64_t largest = 0;
    for (uint64_t at = list->head; at; at = list->nodes[at].next) {
        if (at > 15 || list->nodes[at].key != at || list->nodes[at].value != at * at) return false;
        if (at > largest) largest = at;
    }
    return list->seen <= largest;
}

/* ---- a stack behind a ticket lock that lies in the pool itself */

struct Stack {
    volatile uint32_t next, serving;
    LINE uint64_t top;
    struct {
        LINE uint64_t value;
    } slots[16];
};

static void stack(Stack *stack) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; thread++)
        threads.emplace_back([=] {
            for (int turn = 0; turn < 4; turn++) {
                uint32_t ticket = __sync_fetch_and_add(&stack->next, 1);
                while (stack->serving != ticket) sched_yield();
                uint64_t top = stack->top;
                stack->slots[top].value = top + 1; /* lost: stack */
                if (!wrong) persist(&stack->slots[top]);
                stack->top = top + 1; /* survives: stack */
                persist(&stack->top);
                if (wrong) persist(&stack->slots[top]);
                __asm__ volatile("" ::: "memory");
                stack->serving = ticket + 1;
            }
        });
    for (auto &thread : threads) thread.join();
}

static bool is_whole(const Stack *stack) {
    for (uint64_t at = 0; at < stack->top; at++)
        if (stack->slots[at].value != at + 1) return false;
    return true;
}

/* ---- work for several processes, handed out under a lock that they share */

struct Work {
    LINE uint64_t done;
    LINE uint64_t total;
    struct {
        LINE uint64_t result;
    } parts[16];
};

struct Shared {
    pthread_mutex_t mutex;
    int next;
};

static void work(Work *work) {
    auto shared = static_cast<Shared *>(
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pthread_mutexattr_t of_all;
    pthread_mutexattr_init(&of_all);
    pthread_mutexattr_setpshared(&of_all, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &of_all);
    for (int worker = 0; worker < 3; worker++) {
        if (fork() != 0) continue;
        for (int turn = 0; turn < 3; turn++) {
            pthread_mutex_lock(&shared->mutex);
            int part = shared->next++;
            work->parts[part].result = part + 1; /* lost: work */
            if (!wrong) persist(&work->parts[part]);
            work->total = part + 1; /* survives: work */
            persist(&work->total);
            pthread_mutex_unlock(&shared->mutex);
        }
        munmap(work, sizeof(Work));
        _exit(0);
    }
    for (int worker = 0; worker < 3; worker++) wait(nullptr);
    work->done = 1;
    persist(&work->done);
}

static bool is_whole(const Work *work) {
    for (uint64_t at = 0; at < work->total; at++)
        if (work->parts[at].result != at + 1) return false;
    return !work->done || work->total == 9;
}

int main(int count, char **words) {
    bool recovers = count > 1 && std::string(words[1]) == "--recover";
    if (count < 3 + recovers) return 2;
    const char *path = words[1 + recovers];
    std::string kind = words[2 + recovers];
    wrong = count > 3 + recovers;
    int file = open(path, recovers ? O_RDWR : O_RDWR | O_CREAT, 0600);
    const size_t bytes = 8192;
    if (file < 0 || (!recovers && ftruncate(file, bytes) != 0)) return 3;
    void *pool = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pool == MAP_FAILED) return 3;
    bool whole = true;
    auto use = [&](auto *structure, auto run) {
        if (recovers)
            whole = is_whole(structure);
        else
            run(structure);
    };
    if (kind == "queue")
        use(static_cast<Queue *>(pool), queue);
    else if (kind == "list")
        use(static_cast<List *>(pool), list);
    else if (kind == "stack")
        use(static_cast<Stack *>(pool), stack);
    else
        use(static_cast<Work *>(pool), work);
    if (!whole) puts("the structure is not whole");
    return !whole;
}
