/*
 * Two threads append to one list under a lock: `tail->next = n; tail = n`. This is the counter-example against
 * acquire-release persistency, which orders nothing within a critical section: `tail` may survive without the link. On x86
 * the same happens if both are flushed and one fence comes behind them.
 *
 * The lock is not in the pool. The threads take turns, so that each run appends the same.
 */
#include <pthread.h>

#define BY_ASSEMBLY
#include "bugs.h"

enum { FIXED, ONE_FENCE, OUTSIDE };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"one-fence", "acquire-release persistency, its counter-example: the tail may survive without the link to it"},
    {"outside", "the link is made durable after the lock was given up, when others have built on it"},
};

enum { THREADS = 2, APPENDS = 12 };

struct node {
    uint64_t value, next;
};

/* Each on its line, as lists do that are used by many threads. */
struct root {
    uint64_t head; /* a node without a value */
    char rest[LINE - 8];
    uint64_t tail;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static unsigned turn;

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct node *node(uint64_t offset)
{
    return (struct node *)at(offset, sizeof(struct node));
}

/* The lock is held. Returns the link that the caller has to make durable when it has given up the lock, or null. */
static uint64_t *append(uint64_t value)
{
    const uint64_t offset = allocate(sizeof(struct node));
    uint64_t *link = &node(root()->tail)->next;
    node(offset)->value = value;
    persist(node(offset), sizeof(struct node));

    SET(*link, offset);
    if (variant == FIXED)
        persist(link, sizeof *link);
    else if (variant == ONE_FENCE)
        flush(link, sizeof *link);
    SET(root()->tail, offset);
    persist(&root()->tail, sizeof root()->tail);
    return variant == OUTSIDE ? link : NULL;
}

static void *worker(void *argument)
{
    const unsigned me = *(const unsigned *)argument;
    uint64_t *late = NULL;
    for (;;) {
        unsigned mine;
        pthread_mutex_lock(&lock);
        while (turn < APPENDS && turn % THREADS != me)
            pthread_cond_wait(&turn_changed, &lock);
        mine = turn;
        if (late)
            persist(late, sizeof *late);
        late = NULL;
        if (mine < APPENDS) {
            sl_region_begin(mine + 1);
            late = append(mine + 1);
            sl_region_end(mine + 1);
            turn++;
        }
        pthread_cond_broadcast(&turn_changed);
        pthread_mutex_unlock(&lock);
        if (mine >= APPENDS)
            return NULL;
    }
}

static void run(void)
{
    unsigned number[THREADS], i;
    pthread_t thread[THREADS];
    pool_create(sizeof(struct root));
    SET(root()->head, allocate(sizeof(struct node)));
    SET(root()->tail, root()->head);
    flush(&root()->head, 8);
    flush(&root()->tail, 8);
    fence();
    pool_ready();
    for (i = 0; i < THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, worker, &number[i]))
            fatal("no thread");
    }
    for (i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void check(void)
{
    uint64_t offset = root()->head, count = 0;
    int tail_seen = 0;
    for (;;) {
        tail_seen |= offset == root()->tail;
        if (node(offset)->value != count)
            wrong("the list's entry %llu has the value %llu", (unsigned long long)count,
                  (unsigned long long)node(offset)->value);
        if (!node(offset)->next)
            break;
        offset = node(offset)->next;
        count++;
    }
    if (!tail_seen)
        wrong("the list ends after %llu entries and does not reach its tail", (unsigned long long)count);
    if (count < done_operations())
        wrong("the list has %llu entries after %zu operations", (unsigned long long)count, done_operations());
    /* Recovery: the tail is the last one. */
    SET(root()->tail, offset);
    persist(&root()->tail, sizeof root()->tail);
}

MAIN(run, check)
