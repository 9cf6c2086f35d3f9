/* Atomics: of the program's own locks, and of structures without locks. */
#include "others.h"

#include <sched.h>

/* Lamport's bakery. */
static _Atomic int choosing[THREADS];
static _Atomic unsigned long tickets[THREADS];
static void both_words(unsigned thread)
{
    struct pair *pair = &root->pairs[chance(8)];
    pair->one++;
    root->pairs[16 + chance(8)].two++;
    root->pairs[32 + thread].three++;
}
static bool both_hold(void)
{
    long one = 0, two = 0, three = 0;
    for (int i = 0; i < 64; i++)
        one += root->pairs[i].one, two += root->pairs[i].two, three += root->pairs[i].three;
    return (one == two && two == three) || wrong("%ld, %ld, %ld", one, two, three);
}
static void bakery_step(unsigned thread, unsigned long round)
{
    (void)round;
    unsigned long most = 0;
    atomic_store(&choosing[thread], 1);
    for (int i = 0; i < THREADS; i++) {
        unsigned long ticket = atomic_load(&tickets[i]);
        most = ticket > most ? ticket : most;
    }
    atomic_store(&tickets[thread], most + 1);
    atomic_store(&choosing[thread], 0);
    for (unsigned i = 0; i < THREADS; i++) {
        while (atomic_load(&choosing[i]))
            sched_yield();
        for (;;) {
            unsigned long other = atomic_load(&tickets[i]);
            if (!other || other > most + 1 || (other == most + 1 && i >= thread))
                break;
            sched_yield();
        }
    }
    both_words(thread);
    atomic_store_explicit(&tickets[thread], 0, memory_order_release);
}
static void bakery(void)
{
    threads(bakery_step);
}

/* A queue lock whose waiters spin on the flag of the one before (Craig, Landin, Hagersten). */
struct flag {
    _Alignas(64) _Atomic int taken;
};
static struct flag flags[THREADS + 1];
static _Atomic(struct flag *) last_in_line = &flags[THREADS];
static _Thread_local struct flag *own_flag;
static void line_step(unsigned thread, unsigned long round)
{
    (void)round;
    if (!own_flag)
        own_flag = &flags[thread];
    atomic_store_explicit(&own_flag->taken, 1, memory_order_relaxed);
    struct flag *before = atomic_exchange_explicit(&last_in_line, own_flag, memory_order_acq_rel);
    while (atomic_load_explicit(&before->taken, memory_order_acquire))
        sched_yield();
    both_words(thread);
    atomic_store_explicit(&own_flag->taken, 0, memory_order_release);
    own_flag = before;
}
static void line(void)
{
    threads(line_step);
}

/* Whoever holds the lock carries out what the others ask for (flat combining). */
struct request {
    _Alignas(64) _Atomic int state; /* 0 free, 1 asked, 2 answered */
    long amount, answer;
};
static struct request requests[THREADS];
static atomic_flag combining = ATOMIC_FLAG_INIT;
static void combine_step(unsigned thread, unsigned long round)
{
    struct request *mine = &requests[thread];
    mine->amount = (long)(round % 5) + 1;
    atomic_store_explicit(&mine->state, 1, memory_order_release);
    while (atomic_load_explicit(&mine->state, memory_order_acquire) != 2) {
        if (atomic_flag_test_and_set_explicit(&combining, memory_order_acquire)) {
            sched_yield();
            continue;
        }
        for (int i = 0; i < THREADS; i++)
            if (atomic_load_explicit(&requests[i].state, memory_order_acquire) == 1) {
                root->counts[0] += requests[i].amount;
                root->counts[1]++;
                root->ring[root->counts[1] % SLOTS] = root->counts[0];
                requests[i].answer = root->counts[0];
                atomic_store_explicit(&requests[i].state, 2, memory_order_release);
            }
        atomic_flag_clear_explicit(&combining, memory_order_release);
    }
    /* What a thread saw is noted: the sum must not be below it. */
    root->pairs[thread].one = mine->answer;
    root->pairs[thread].two = -mine->answer;
    atomic_store_explicit(&mine->state, 0, memory_order_release);
}
static void combine(void)
{
    threads(combine_step);
}
static bool combine_holds(void)
{
    long *counts = root->counts;
    if (counts[1] && root->ring[counts[1] % SLOTS] != counts[0])
        return wrong("sum %ld, ring %ld", counts[0], root->ring[counts[1] % SLOTS]);
    for (int i = 0; i < THREADS; i++)
        if (root->pairs[i].one > counts[0] || root->pairs[i].one != -root->pairs[i].two)
            return wrong("thread %d was told %ld, the sum is %ld", i, root->pairs[i].one, counts[0]);
    return true;
}

/* A stack of blocks whose head is a pointer and a count of 16 bytes; values are filled before the push. */
static __int128 wide(void *pointer, unsigned long count)
{
    return (__int128)count << 64 | (unsigned long)pointer;
}
static _Atomic long busy;
static void stack_step(unsigned thread, unsigned long round)
{
    __int128 *head = &root->wide[0];
    __int128 old = __atomic_load_n(head, __ATOMIC_ACQUIRE), new;
    if ((round + thread) % 2) {
        struct item *item = item_new();
        *item = (struct item){.key = thread, .value = (long)round, .twin = -(long)round};
        do {
            item->next = (struct item *)(unsigned long)old;
            new = wide(item, (unsigned long)(old >> 64) + 1);
        } while (!__atomic_compare_exchange_n(head, &old, new, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
        return;
    }
    /* Blocks are given back only when nobody else is in here. */
    atomic_fetch_add(&busy, 1);
    struct item *item;
    do {
        old = __atomic_load_n(head, __ATOMIC_ACQUIRE);
        item = (struct item *)(unsigned long)old;
        if (!item)
            break;
        new = wide(item->next, (unsigned long)(old >> 64) + 1);
    } while (!__atomic_compare_exchange_n(head, &old, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    bool alone = atomic_fetch_sub(&busy, 1) == 1;
    if (item && item->value != -item->twin)
        root->counts[0] = 1;
    if (item && alone)
        item_free(item);
}
static void stack(void)
{
    threads(stack_step);
}
static bool stack_holds(void)
{
    if (root->counts[0])
        return wrong("a half item was popped");
    long count = 0;
    for (struct item *item = (struct item *)(unsigned long)root->wide[0]; item; item = item->next)
        if (item->value != -item->twin || item->value <= 0 || ++count > 1000000)
            return wrong("item %ld is %ld and %ld", count, item->value, item->twin);
    return true;
}
static void stack_mend(void)
{
    struct item *item = (struct item *)(unsigned long)root->wide[0];
    root->wide[0] = 0;
    while (item) {
        struct item *next = item->next;
        item_free(item);
        item = next;
    }
}

/* A queue with a dummy (Michael, Scott): what comes from one thread comes in its order. */
static void queue_mend(void)
{
    struct item *dummy = item_new();
    memset(dummy, 0, sizeof *dummy);
    root->heads[0] = dummy;
    for (int i = 0; i < THREADS; i++)
        root->counts[i] = root->counts[8 + i] = 0;
    atomic_store(&root->links[0], dummy);
    atomic_store(&root->links[1], dummy);
}
#define NEXT(of) ((_Atomic(struct item *) *)&(of)->next)
static void queue_step(unsigned thread, unsigned long round)
{
    if (thread < 2) {
        struct item *item = item_new();
        *item = (struct item){.key = thread, .value = (long)round, .twin = -(long)round};
        atomic_store_explicit(NEXT(item), NULL, memory_order_relaxed);
        for (;;) {
            struct item *tail = atomic_load(&root->links[1]), *next = atomic_load(NEXT(tail));
            if (next) {
                atomic_compare_exchange_strong(&root->links[1], &tail, next);
                continue;
            }
            if (atomic_compare_exchange_strong(NEXT(tail), &next, item)) {
                atomic_compare_exchange_strong(&root->links[1], &tail, item);
                break;
            }
        }
        root->counts[thread] = (long)round;
        return;
    }
    struct item *head = atomic_load(&root->links[0]), *tail = atomic_load(&root->links[1]);
    struct item *next = atomic_load(NEXT(head));
    if (head == tail) {
        if (next)
            atomic_compare_exchange_strong(&root->links[1], &tail, next);
        else
            sched_yield();
        return;
    }
    long key = next->key, value = next->value, twin = next->twin;
    if (atomic_compare_exchange_strong(&root->links[0], &head, next)) {
        /* Popped items stay, so that no reader finds another one in their place; the pool fills slowly. */
        struct pair *noted = &root->pairs[thread * 2 + key];
        if (noted->one >= value || value != -twin)
            root->counts[16] = 1;
        noted->one = value;
        noted->two = -value;
    }
}
static void queue(void)
{
    unsigned long most = rounds;
    rounds = most < 6000 ? most : 6000;
    threads(queue_step);
    if (most > rounds)
        for (;;)
            pause();
}
static bool queue_holds(void)
{
    if (root->counts[16])
        return wrong("a queue out of order");
    struct item *head = root->links[0];
    if (!head)
        return true;
    long last[2] = {0}, count = 0;
    for (struct item *item = root->heads[0]; item; item = item->next) {
        if (count++ && (item->value <= last[item->key] || item->value != -item->twin))
            return wrong("%ld behind %ld", item->value, last[item->key]);
        last[item->key & 1] = item->value;
        /* The head's keys are the dummy's at first. */
        if (count == 1)
            last[0] = last[1] = 0;
    }
    for (int i = 0; i < 2; i++)
        if (root->counts[i] > last[i])
            return wrong("thread %d has put %ld, the queue ends at %ld", i, root->counts[i], last[i]);
    for (int i = 4; i < 8; i++)
        if (root->pairs[i].one > last[i % 2] || root->pairs[i].one != -root->pairs[i].two)
            return wrong("%ld taken of %ld", root->pairs[i].one, last[i % 2]);
    return true;
}
static void queue_clear(void)
{
    for (int i = 0; i < 64; i++)
        root->pairs[i] = (struct pair){0};
    while (root->heads[0]) {
        struct item *item = root->heads[0];
        root->heads[0] = item->next;
        item_free(item);
    }
    queue_mend();
}

/* A forest whose roots are found and joined by compare-and-swap; parents are never larger than their children. */
static long find(long at)
{
    long parent;
    while ((parent = atomic_load(&root->words[at])) != at)
        at = parent;
    return at;
}
static void forest_step(unsigned thread, unsigned long round)
{
    long one = (long)chance(64), other = (long)chance(64);
    for (;;) {
        long a = find(one), b = find(other);
        if (a == b)
            break;
        long low = a < b ? a : b, high = a < b ? b : a;
        if (atomic_compare_exchange_strong(&root->words[high], &high, low)) {
            root->pairs[thread].one = high;
            root->pairs[thread].two = low;
            root->pairs[thread].three++;
            break;
        }
    }
    (void)round;
}
static void forest_mend(void)
{
    for (long i = 0; i < 64; i++)
        atomic_store(&root->words[i], i);
    for (int i = 0; i < THREADS; i++)
        root->pairs[i] = (struct pair){0};
    root->counts[0]++;
}
static void forest(void)
{
    threads(forest_step);
}
static bool forest_holds(void)
{
    if (!root->counts[0])
        return true;
    for (long i = 0; i < 64; i++)
        if (root->words[i] > i)
            return wrong("%ld below %ld", root->words[i], i);
    for (int i = 0; i < THREADS; i++) {
        struct pair *pair = &root->pairs[i];
        if (pair->three && find(pair->one) != find(pair->two))
            return wrong("%ld and %ld were joined", pair->one, pair->two);
    }
    return true;
}

/* Bits are taken by an atomic or; who has one fills its slot, and gives it back by an atomic and. */
static void bits_step(unsigned thread, unsigned long round)
{
    int bit = (int)chance(SLOTS);
    long mask = 1l << bit;
    if (atomic_fetch_or_explicit(&root->words[0], mask, memory_order_acquire) & mask)
        return;
    struct pair *slot = &root->pairs[bit];
    slot->one += (long)round;
    slot->two -= (long)round;
    slot->three = thread;
    memset(root->texts[bit], 'a' + (int)(round % 26), TEXT);
    atomic_fetch_and_explicit(&root->words[0], ~mask, memory_order_release);
}
static void bits(void)
{
    threads(bits_step);
}
static bool bits_hold(void)
{
    for (int i = 0; i < SLOTS; i++) {
        if (root->pairs[i].one != -root->pairs[i].two)
            return wrong("slot %d: %ld and %ld", i, root->pairs[i].one, root->pairs[i].two);
        for (int j = 1; j < TEXT; j++)
            if (root->texts[i][j] != root->texts[i][0])
                return wrong("text %d is torn", i);
    }
    return true;
}
static void bits_mend(void)
{
    atomic_store(&root->words[0], 0);
}

/* A version of a block is published by a pointer; the writer frees the one before when no reader is in it. */
static struct {
    _Alignas(64) _Atomic(struct item *) at;
} hazards[THREADS];
static void versions_step(unsigned thread, unsigned long round)
{
    (void)round;
    if (thread == 0) {
        struct item *old = atomic_load(&root->links[0]), *new = item_new();
        *new = (struct item){.value = old ? old->value + 1 : 1};
        new->twin = new->value * 7;
        atomic_store_explicit(&root->links[0], new, memory_order_release);
        atomic_thread_fence(memory_order_seq_cst);
        for (int i = 1; i < THREADS; i++)
            while (old && atomic_load(&hazards[i].at) == old)
                sched_yield();
        if (old)
            item_free(old);
        return;
    }
    struct item *seen;
    do {
        seen = atomic_load(&root->links[0]);
        atomic_store(&hazards[thread].at, seen);
    } while (seen != atomic_load(&root->links[0]));
    if (seen) {
        root->pairs[thread].one = seen->value;
        root->pairs[thread].two = seen->twin;
    }
    atomic_store(&hazards[thread].at, NULL);
}
static void versions(void)
{
    threads(versions_step);
}
static bool versions_hold(void)
{
    struct item *now = root->links[0];
    if (now && now->twin != now->value * 7)
        return wrong("%ld and %ld are published", now->value, now->twin);
    for (int i = 1; i < THREADS; i++) {
        struct pair *pair = &root->pairs[i];
        if (pair->two != pair->one * 7 || (pair->one && (!now || pair->one > now->value)))
            return wrong("reader %d saw %ld and %ld of %ld", i, pair->one, pair->two, now ? now->value : 0);
    }
    return true;
}

/* A log: places are taken by a counter outside, filled, and marked; a reader notes how far all marks reach. */
static _Atomic long next_place;
static void log_mend(void)
{
    for (int i = 0; i < SLOTS; i++) {
        atomic_store(&root->words[i], 0);
        root->pairs[i] = (struct pair){0};
    }
    root->counts[0] = root->counts[1] = root->counts[2] = 0;
}
static void log_step(unsigned thread, unsigned long round)
{
    (void)round;
    if (thread == 0) {
        long from = root->counts[0], at = from;
        while (atomic_load_explicit(&root->words[(at + 1) % SLOTS], memory_order_acquire) > at)
            at++;
        if (at > from) {
            root->counts[0] = at;
            root->counts[1] = -at;
            __atomic_store_n(&root->counts[2], at, __ATOMIC_RELEASE);
        }
        return;
    }
    long place = atomic_fetch_add(&next_place, 1) + 1;
    /* Not more than half a ring in front of the reader. */
    while (place > __atomic_load_n(&root->counts[2], __ATOMIC_ACQUIRE) + SLOTS / 2)
        sched_yield();
    struct pair *slot = &root->pairs[place % SLOTS];
    __atomic_store_n(&slot->one, place, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->two, place * 5, __ATOMIC_RELAXED);
    atomic_store_explicit(&root->words[place % SLOTS], place, memory_order_release);
}
static void logs(void)
{
    threads(log_step);
}
static bool logs_hold(void)
{
    long most = 0;
    for (int i = 0; i < SLOTS; i++) {
        long place = root->words[i];
        most = place > most ? place : most;
        struct pair *slot = &root->pairs[i];
        /* A later one may be on its way into the slot. */
        if (slot->one < place || slot->two % 5)
            return wrong("place %ld has %ld and %ld", place, slot->one, slot->two);
    }
    if (root->counts[0] != -root->counts[1] || root->counts[0] > most)
        return wrong("%ld, %ld of %ld noted", root->counts[0], root->counts[1], most);
    return true;
}

/* Threads meet at a barrier of their own, which turns its sense each time, and each sums its neighbours up. */
static _Atomic int arrived, sense;
static void meet(int *own)
{
    *own = !*own;
    if (atomic_fetch_add_explicit(&arrived, 1, memory_order_acq_rel) == THREADS - 1) {
        atomic_store_explicit(&arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&sense, *own, memory_order_release);
        return;
    }
    while (atomic_load_explicit(&sense, memory_order_acquire) != *own)
        sched_yield();
}
static _Thread_local int own_sense;
static void grid_step(unsigned thread, unsigned long round)
{
    (void)round;
    long *from = &root->pairs[thread].one, *to = &root->pairs[16 + thread].one;
    long *left = &root->pairs[(thread + THREADS - 1) % THREADS].one;
    *to = *left + 1;
    to[1] = -*to;
    meet(&own_sense);
    *from = *to;
    from[1] = -*from;
    meet(&own_sense);
}
static void grid_mend(void)
{
    for (int i = 0; i < 64; i++)
        root->pairs[i] = (struct pair){0};
}
static void grid(void)
{
    threads(grid_step);
}
/* All have the same number but for the phase that is on its way. */
static bool grid_holds(void)
{
    long least = 1l << 60, most = 0;
    for (int i = 0; i < THREADS; i++) {
        long now = root->pairs[i].one, next = root->pairs[16 + i].one;
        if (now != -root->pairs[i].two || next != -root->pairs[16 + i].two)
            return wrong("cell %d is torn", i);
        if (next != now && next != now + 1)
            return wrong("cell %d goes from %ld to %ld", i, now, next);
        least = now < least ? now : least;
        most = now > most ? now : most;
    }
    return most - least <= 1 || wrong("%ld to %ld", least, most);
}

/* What is made when it is first wanted: by whoever wins; the others give theirs back. */
static void lazily_step(unsigned thread, unsigned long round)
{
    _Atomic(struct item *) *slot = &root->links[round % 8];
    struct item *made = atomic_load_explicit(slot, memory_order_acquire);
    if (!made) {
        struct item *mine = item_new();
        memset(mine, 0, sizeof *mine);
        mine->key = (long)(round % 8);
        mine->value = (long)round;
        mine->twin = ~mine->value;
        if (atomic_compare_exchange_strong_explicit(slot, &made, mine, memory_order_acq_rel,
                                                    memory_order_acquire))
            made = mine;
        else
            item_free(mine);
    }
    root->pairs[thread].one = made->value;
    root->pairs[thread].two = made->twin;
    /* Someone takes it away again now and then; blocks that others may look at are kept in a list. */
    if (thread == 0 && round % 5 == 0) {
        struct item *gone = atomic_exchange(slot, NULL);
        if (gone) {
            gone->next = root->heads[0];
            root->heads[0] = gone;
        }
        if (++root->counts[0] % 4096 == 0)
            usleep(100);
    }
}
static void lazily(void)
{
    unsigned long most = rounds;
    rounds = most < 4000 ? most : 4000;
    threads(lazily_step);
    if (most > rounds)
        for (;;)
            pause();
}
static void lazily_mend(void)
{
    while (root->heads[0]) {
        struct item *gone = root->heads[0];
        root->heads[0] = gone->next;
        item_free(gone);
    }
}
static bool lazily_holds(void)
{
    for (int i = 0; i < 8; i++) {
        struct item *item = root->links[i];
        if (item && (item->key != i || item->twin != ~item->value))
            return wrong("slot %d has %ld, %ld and %ld", i, item->key, item->value, item->twin);
    }
    for (struct item *item = root->heads[0]; item; item = item->next)
        if (item->twin != ~item->value)
            return wrong("%ld and %ld were taken away", item->value, item->twin);
    for (int i = 0; i < THREADS; i++)
        if (root->pairs[i].one && root->pairs[i].two != ~root->pairs[i].one)
            return wrong("thread %d saw %ld and %ld", i, root->pairs[i].one, root->pairs[i].two);
    return true;
}

const struct kind by_words[] = {
    {"bakery", false, bakery, both_hold, NULL},
    {"line", false, line, both_hold, NULL},
    {"combine", false, combine, combine_holds, NULL},
    {"wide-stack", false, stack, stack_holds, stack_mend},
    {"queue", false, queue, queue_holds, queue_clear},
    {"forest", false, forest, forest_holds, forest_mend},
    {"bits", false, bits, bits_hold, bits_mend},
    {"versions", false, versions, versions_hold, NULL},
    {"log", false, logs, logs_hold, log_mend},
    {"grid", false, grid, grid_holds, grid_mend},
    {"lazily", false, lazily, lazily_holds, lazily_mend},
    {NULL, false, NULL, NULL, NULL},
};
