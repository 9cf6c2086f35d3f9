/*
 * CQ: a queue under one lock. An operation inserts an element, a block with a payload, or deletes the
 * oldest. Nothing is concurrent, so each nanosecond in the critical section counts once per thread.
 */
#include "sfr.h"

struct node {
    struct node *next;
    uint64_t serial;
    uint64_t words[];
};

/* `head` is the element that was deleted last, or a first one that never was in. */
struct queue {
    struct node *head, *tail;
    uint64_t inserted, deleted;
};

static struct lock *locks;

static uint64_t node_bytes(void)
{
    return sizeof(struct node) + options.stores * 8;
}

static uint64_t bytes(void)
{
    return (64u << 20) + 2 * (options.size + 4096) * (node_bytes() + 64);
}

static struct queue *queue(void)
{
    return root->data;
}

static void insert(void)
{
    struct queue *q = queue();
    struct node *node = block_new(node_bytes());
    node->next = NULL;
    node->serial = q->inserted + 1;
    payload_store(node->words, node->serial, mix(node->serial));
    q->tail->next = node;
    q->tail = node;
    q->inserted++;
}

static void setup(void)
{
    struct queue *q = block_zeros(sizeof *q);
    q->head = q->tail = block_zeros(node_bytes());
    root->data = q;
    for (uint64_t i = 0; i < options.size / 2; i++) {
        insert();
        if (i % 16 == 0)
            step();
    }
}

static void start(void)
{
    locks = locks_new(1);
}

static void operate(struct worker *worker)
{
    struct queue *q = queue();
    bool in = random_below(worker, 2);
    lock(locks);
    uint64_t length = q->inserted - q->deleted;
    if (length == 0 || (in && length < options.size)) {
        insert();
    } else {
        struct node *old = q->head;
        q->head = old->next;
        q->deleted++;
        block_free(old);
    }
    counted(worker);
    unlock(locks);
}

static const char *verify(void)
{
    const struct queue *q = queue();
    uint64_t serial = q->deleted;
    const struct node *node = q->head;
    if (q->deleted > q->inserted)
        return wrong("%" PRIu64 " elements inserted, %" PRIu64 " deleted", q->inserted, q->deleted);
    for (;;) {
        if (!in_pool(node, node_bytes()))
            return wrong("the element after %" PRIu64 " is at %p", serial, (const void *)node);
        if (node->serial != serial)
            return wrong("element %" PRIu64 " has the number %" PRIu64, serial, node->serial);
        unsigned torn = serial ? payload_torn(node->words, serial) : options.stores;
        if (torn < options.stores || (serial && node->words[0] != mix(serial)))
            return wrong("element %" PRIu64 ": word %u is of another", serial, torn % options.stores);
        if (!node->next)
            break;
        node = node->next;
        serial++;
    }
    if (serial != q->inserted)
        return wrong("%" PRIu64 " elements inserted, and the list ends with %" PRIu64, q->inserted, serial);
    if (node != q->tail)
        return wrong("the tail is not the last element");
    if (root->counted && counted_in_all() != q->inserted + q->deleted - options.size / 2)
        return wrong("%" PRIu64 " operations counted, %" PRIu64 " done", counted_in_all(),
                     q->inserted + q->deleted - options.size / 2);
    return NULL;
}

int main(int count, char **arguments)
{
    static const struct benchmark cq = {"cq", "elements at most", 1024, bytes, setup, start, operate, verify};
    return sfr_main(&cq, count, arguments);
}
