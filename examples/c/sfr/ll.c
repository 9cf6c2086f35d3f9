/*
 * LL: a sorted list with a lock per node, which threads walk hand over hand: the next node's lock is
 * taken before the last one's is given up. Each such step is an SFR of its own, mostly an empty one; what
 * an operation changes, it changes in the last.
 *
 * Nodes come from an array in the pool, so that a node's number leads to its lock. Which of them are free
 * is not in the pool: it follows from the list, as recovery of many programs has it.
 */
#include "sfr.h"

struct node {
    struct node *next;
    uint64_t key;
    uint64_t words[];
};

struct list {
    /* Insertions less deletions of each thread, if operations are counted. */
    int64_t balance[THREADS_MAX][8];
    uint64_t nodes[];
};

static struct lock *locks, *free_lock;
static uint64_t *free_nodes, free_count;

static uint64_t node_words(void)
{
    return 2 + options.stores;
}

/* Keys are twice as many as elements at the beginning, and threads keep a node each. Node 0 is the head. */
static uint64_t nodes(void)
{
    return 1 + 2 * options.size + THREADS_MAX;
}

static uint64_t bytes(void)
{
    return (64u << 20) + 2 * nodes() * node_words() * 8;
}

static struct list *list(void)
{
    return root->data;
}

static struct node *node_at(uint64_t number)
{
    return (struct node *)(list()->nodes + number * node_words());
}

static uint64_t number_of(const struct node *node)
{
    return (uint64_t)((const uint64_t *)node - list()->nodes) / node_words();
}

static struct lock *lock_of(const struct node *node)
{
    return &locks[number_of(node)];
}

static void setup(void)
{
    root->data = block_zeros(sizeof(struct list) + nodes() * node_words() * 8);
    struct node *last = node_at(0);
    for (uint64_t i = 0; i < options.size; i++) {
        struct node *node = node_at(1 + i);
        node->key = 2 * i + 1;
        payload_store(node->words, node->key, 1);
        last->next = node;
        last = node;
        if (i % 16 == 0)
            step();
    }
}

static void start(void)
{
    bool *used = calloc(nodes(), 1);
    locks = locks_new(nodes());
    free_lock = locks_new(1);
    free_nodes = calloc(nodes(), sizeof *free_nodes);
    if (!used || !free_nodes)
        err(1, "memory");
    for (const struct node *node = node_at(0); node; node = node->next)
        used[number_of(node)] = true;
    for (uint64_t i = nodes(); i-- > 0;)
        if (!used[i])
            free_nodes[free_count++] = i;
    free(used);
}

/* So that the worker has a node for an insertion. */
static void provide(struct worker *worker)
{
    if (worker->spare)
        return;
    lock(free_lock);
    worker->spare = free_nodes[--free_count];
    unlock(free_lock);
}

static void give_back(struct worker *worker, uint64_t number)
{
    if (!worker->spare) {
        worker->spare = number;
        return;
    }
    lock(free_lock);
    free_nodes[free_count++] = number;
    unlock(free_lock);
}

static void balance(struct worker *worker, int64_t by)
{
    if (root->counted)
        list()->balance[worker->index][0] += by;
    counted(worker);
}

static void operate(struct worker *worker)
{
    uint64_t key = random_below(worker, 2 * options.size) + 1, what = random_below(worker, 3), freed = 0;
    provide(worker);
    struct node *before = node_at(0);
    lock(lock_of(before));
    struct node *node = before->next;
    if (node)
        lock(lock_of(node));
    while (node && node->key < key) {
        struct node *next = node->next;
        if (next)
            lock(lock_of(next));
        unlock(lock_of(before));
        before = node;
        node = next;
    }
    if (what == 0 && !(node && node->key == key)) {
        struct node *new = node_at(worker->spare);
        worker->spare = 0;
        new->key = key;
        payload_store(new->words, key, 1);
        new->next = node;
        before->next = new;
        balance(worker, 1);
    } else if (what == 1 && node && node->key == key) {
        before->next = node->next;
        freed = number_of(node);
        balance(worker, -1);
    } else {
        if (node && node->key == key)
            payload_store(node->words, key, node->words[0] + 1);
        balance(worker, 0);
    }
    if (node)
        unlock(lock_of(node));
    unlock(lock_of(before));
    if (freed)
        give_back(worker, freed);
}

static const char *verify(void)
{
    uint64_t last = 0;
    int64_t length = 0, sum = (int64_t)options.size;
    if (!in_pool(list(), sizeof(struct list) + nodes() * node_words() * 8))
        return wrong("there is no list");
    for (const struct node *node = node_at(0)->next; node; node = node->next, length++) {
        const uint64_t *at = (const uint64_t *)node;
        uint64_t offset = (uint64_t)(at - list()->nodes);
        if (!in_pool(node, 8) || at < list()->nodes || offset % node_words() ||
            offset / node_words() >= nodes())
            return wrong("after key %" PRIu64 " the list leads to %p", last, (const void *)node);
        if (node->key <= last || node->key > 2 * options.size)
            return wrong("key %" PRIu64 " comes after key %" PRIu64, node->key, last);
        last = node->key;
        unsigned torn = payload_torn(node->words, last);
        if (torn < options.stores)
            return wrong("key %" PRIu64 " has version %" PRIu64 ", and its word %u has another", last,
                         node->words[0],
                         torn);
    }
    for (unsigned i = 0; i < THREADS_MAX; i++)
        sum += list()->balance[i][0];
    if (root->counted && sum != length)
        return wrong("%" PRId64 " elements by the counts, %" PRId64 " in the list", sum, length);
    return NULL;
}

int main(int count, char **arguments)
{
    static const struct benchmark ll = {"ll", "elements at the beginning", 32, bytes, setup, start, operate,
                                        verify};
    return sfr_main(&ll, count, arguments);
}
