/* Locks of the threads library around structures that people write. */
#include "others.h"

#include <search.h>

#define LOCKS 16
static pthread_mutex_t locks[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;

/* Transfers between accounts with a lock each; whoever audits takes all locks and notes the sum. */
enum { OPENING = 100 };
static void transfers_mend(void)
{
    if (root->counts[0])
        return;
    pthread_mutex_lock(&locks[0]);
    for (int i = 0; i < ACCOUNTS; i++)
        root->pairs[i].one = OPENING;
    root->counts[0] = 1;
    pthread_mutex_unlock(&locks[0]);
}
static void transfer(unsigned thread, unsigned long round)
{
    if (thread == 0 && round % 16 == 0) {
        long sum = 0;
        for (int i = 0; i < ACCOUNTS; i++)
            pthread_mutex_lock(&locks[i]);
        for (int i = 0; i < ACCOUNTS; i++)
            sum += root->pairs[i].one;
        root->counts[1] = sum;
        root->counts[2]++;
        for (int i = 0; i < ACCOUNTS; i++)
            pthread_mutex_unlock(&locks[i]);
        return;
    }
    unsigned from = chance(ACCOUNTS), to = chance(ACCOUNTS);
    if (from == to)
        return;
    unsigned first = from < to ? from : to, second = from < to ? to : from;
    pthread_mutex_lock(&locks[first]);
    pthread_mutex_lock(&locks[second]);
    long amount = chance(7);
    root->pairs[from].one -= amount;
    root->pairs[to].one += amount;
    root->pairs[from].two++;
    root->pairs[to].three++;
    pthread_mutex_unlock(&locks[second]);
    pthread_mutex_unlock(&locks[first]);
}
static void transfers(void)
{
    threads(transfer);
}
static bool transfers_hold(void)
{
    long sum = 0, out = 0, in = 0;
    for (int i = 0; i < ACCOUNTS; i++) {
        sum += root->pairs[i].one;
        out += root->pairs[i].two;
        in += root->pairs[i].three;
    }
    if (!root->counts[0])
        return true;
    if (root->counts[2] && root->counts[1] != ACCOUNTS * OPENING)
        return wrong("an audit saw %ld", root->counts[1]);
    return (sum == ACCOUNTS * OPENING && out == in) || wrong("%ld, %ld out, %ld in", sum, out, in);
}

/* A cache: a table and a list by last use, both of the same blocks; the oldest is freed. */
enum { CACHED = 12 };
static void unlink_item(struct item *item)
{
    *(item->before ? &item->before->next : &root->heads[32]) = item->next;
    *(item->next ? &item->next->before : &root->heads[33]) = item->before;
}
static void push_front(struct item *item)
{
    item->before = NULL;
    item->next = root->heads[32];
    *(item->next ? &item->next->before : &root->heads[33]) = item;
    root->heads[32] = item;
}
static void cache_step(unsigned thread, unsigned long round)
{
    (void)thread, (void)round;
    pthread_mutex_lock(&locks[0]);
    long key = (long)chance(40);
    struct item *item = root->heads[key % BUCKETS];
    while (item && item->key != key)
        item = item->chain;
    if (item) {
        unlink_item(item);
        push_front(item);
        item->value++;
        item->twin--;
    } else {
        item = item_new();
        memset(item, 0, sizeof *item);
        item->key = key;
        item->chain = root->heads[key % BUCKETS];
        root->heads[key % BUCKETS] = item;
        push_front(item);
        if (++root->counts[0] > CACHED) {
            struct item *oldest = root->heads[33];
            unlink_item(oldest);
            struct item **at = &root->heads[oldest->key % BUCKETS];
            while (*at != oldest)
                at = &(*at)->chain;
            *at = oldest->chain;
            item_free(oldest);
            root->counts[0]--;
        }
    }
    pthread_mutex_unlock(&locks[0]);
}
static void cache(void)
{
    threads(cache_step);
}
static bool cache_holds(void)
{
    long listed = 0, chained = 0;
    struct item *before = NULL;
    for (struct item *item = root->heads[32]; item; item = item->next, listed++) {
        if (item->before != before || item->value != -item->twin || listed > CACHED)
            return wrong("the list is torn at %ld", listed);
        before = item;
    }
    if (root->heads[33] != before)
        return wrong("the list's end is elsewhere");
    for (int i = 0; i < BUCKETS; i++)
        for (struct item *item = root->heads[i]; item; item = item->chain, chained++)
            if (item->key % BUCKETS != i || chained > CACHED)
                return wrong("the table is torn at %ld", item->key);
    return (listed == chained && listed == root->counts[0]) ||
           wrong("%ld in the list, %ld in the table, %ld counted", listed, chained, root->counts[0]);
}

/* Sorted pages that are split and merged, under one writer or many readers. Readers note what they saw below. */
enum { PAGE = 8, PAGES = 40 };
struct page {
    long keys[PAGE], count;
};
#define PAGE_AT(i) ((struct page *)root->heads[i])
static void pages_put(long key)
{
    long at = 0;
    while (at + 1 < root->counts[0] && PAGE_AT(at + 1)->keys[0] <= key)
        at++;
    struct page *page = PAGE_AT(at);
    if (page->count == PAGE) {
        if (root->counts[0] == PAGES)
            return;
        sl_ref ref = sl_zalloc(pool, sizeof(struct page));
        struct page *half = sl_at(pool, ref);
        memcpy(half->keys, page->keys + PAGE / 2, sizeof half->keys / 2);
        half->count = page->count = PAGE / 2;
        memmove(&root->heads[at + 2], &root->heads[at + 1], (root->counts[0] - at - 1) * sizeof root->heads[0]);
        root->heads[at + 1] = (struct item *)half;
        root->counts[0]++;
        if (key >= half->keys[0])
            page = half;
    }
    long place = 0;
    while (place < page->count && page->keys[place] < key)
        place++;
    if (place < page->count && page->keys[place] == key)
        return;
    memmove(&page->keys[place + 1], &page->keys[place], (page->count - place) * sizeof(long));
    page->keys[place] = key;
    page->count++;
    root->counts[1]++;
}
static void pages_delete(long key)
{
    for (long at = 0; at < root->counts[0]; at++) {
        struct page *page = PAGE_AT(at);
        for (long place = 0; place < page->count; place++) {
            if (page->keys[place] != key)
                continue;
            memmove(&page->keys[place], &page->keys[place + 1], (page->count - place - 1) * sizeof(long));
            page->count--;
            root->counts[1]--;
            if (page->count == 0 && root->counts[0] > 1) {
                memmove(&root->heads[at], &root->heads[at + 1],
                        (root->counts[0] - at - 1) * sizeof root->heads[0]);
                root->counts[0]--;
                sl_free(pool, sl_ref_of(pool, page));
            }
            return;
        }
    }
}
static void pages_step(unsigned thread, unsigned long round)
{
    if (thread == 0 && round % 4) {
        pthread_rwlock_rdlock(&shared);
        long count = 0;
        for (long at = 0; at < root->counts[0]; at++)
            count += PAGE_AT(at)->count;
        root->counts[8] = count == root->counts[1] ? 0 : 1;
        pthread_rwlock_unlock(&shared);
        return;
    }
    pthread_rwlock_wrlock(&shared);
    if (chance(2))
        pages_put((long)chance(200));
    else
        pages_delete((long)chance(200));
    pthread_rwlock_unlock(&shared);
}
static void pages_mend(void)
{
    if (root->counts[0])
        return;
    pthread_rwlock_wrlock(&shared);
    root->heads[0] = sl_at(pool, sl_zalloc(pool, sizeof(struct page)));
    root->counts[0] = 1;
    pthread_rwlock_unlock(&shared);
}
static void pages(void)
{
    threads(pages_step);
}
static bool pages_hold(void)
{
    long count = 0, last = -1;
    if (root->counts[8])
        return wrong("a reader saw a count that is not the pages'");
    for (long at = 0; at < root->counts[0]; at++) {
        struct page *page = PAGE_AT(at);
        for (long place = 0; place < page->count; place++) {
            if (page->keys[place] <= last)
                return wrong("%ld behind %ld", page->keys[place], last);
            last = page->keys[place];
        }
        count += page->count;
    }
    return count == root->counts[1] || wrong("%ld keys, %ld counted", count, root->counts[1]);
}

/* A table with a lock for each stripe, made twice as large or half under all locks. */
static void stripes_step(unsigned thread, unsigned long round)
{
    if (thread == 0 && round % 8 == 0) {
        for (int i = 0; i < BUCKETS; i++)
            pthread_mutex_lock(&locks[i]);
        long was = root->counts[0] ? 64 : 32, now = was == 32 ? 64 : 32;
        struct item *all = NULL;
        for (long i = 0; i < was; i++)
            while (root->heads[i]) {
                struct item *item = root->heads[i];
                root->heads[i] = item->next;
                item->next = all;
                all = item;
            }
        while (all) {
            struct item *item = all;
            all = item->next;
            item->next = root->heads[item->key % now];
            root->heads[item->key % now] = item;
        }
        root->counts[0] = now == 64;
        for (int i = BUCKETS - 1; i >= 0; i--)
            pthread_mutex_unlock(&locks[i]);
        return;
    }
    long key = (long)chance(96);
    pthread_mutex_lock(&locks[key % BUCKETS]);
    struct item **at = &root->heads[key % (root->counts[0] ? 64 : 32)];
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    long *counted = &root->pairs[key % BUCKETS].one;
    if (*at) {
        struct item *gone = *at;
        *at = gone->next;
        item_free(gone);
        --*counted;
    } else {
        struct item *item = item_new();
        item->key = key;
        item->value = key * key;
        item->next = NULL;
        *at = item;
        ++*counted;
    }
    pthread_mutex_unlock(&locks[key % BUCKETS]);
}
static void stripes(void)
{
    threads(stripes_step);
}
static bool stripes_hold(void)
{
    long found[BUCKETS] = {0}, size = root->counts[0] ? 64 : 32;
    for (long i = 0; i < 64; i++) {
        if (i >= size && root->heads[i])
            return wrong("something behind the table");
        long chain = 0;
        for (struct item *item = root->heads[i]; item; item = item->next) {
            if (item->key % size != i || item->value != item->key * item->key || ++chain > 96)
                return wrong("a wrong item in %ld of %ld", i, size);
            found[item->key % BUCKETS]++;
        }
    }
    for (int i = 0; i < BUCKETS; i++)
        if (found[i] != root->pairs[i].one)
            return wrong("stripe %d: %ld found, %ld counted", i, found[i], root->pairs[i].one);
    return true;
}

/* Records of text at the end of a ring, under a spin lock, printed and summed. */
static long sum_of(const char *text)
{
    long sum = 0;
    for (; *text && *text != '#'; text++)
        sum += *text;
    return sum;
}
static void texts_step(unsigned thread, unsigned long round)
{
    pthread_spin_lock(&spin);
    char *text = root->texts[root->counts[0] % SLOTS], words[TEXT];
    int length = snprintf(words, sizeof words, "%u:%lu:%ld", thread, round, root->counts[0]);
    strcpy(text, words);
    snprintf(text + length, TEXT - (size_t)length, "#%ld", sum_of(words));
    root->counts[0]++;
    pthread_spin_unlock(&spin);
}
static void texts(void)
{
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    threads(texts_step);
}
static bool texts_hold(void)
{
    long count = root->counts[0];
    for (long at = count > SLOTS ? count - SLOTS : 0; at < count; at++) {
        char *text = root->texts[at % SLOTS], *sum = strchr(text, '#');
        char *number = strrchr(text, ':');
        if (!sum || !number || strtol(number + 1, NULL, 10) != at || strtol(sum + 1, NULL, 10) != sum_of(text))
            return wrong("record %ld of %ld is \"%s\"", at, count, text);
    }
    return true;
}

/* Places that are kept sorted by qsort, with its best and its median beside. */
static int by_value(const void *one, const void *other)
{
    long a = *(const long *)one, b = *(const long *)other;
    return (a > b) - (a < b);
}
static void ranks_step(unsigned thread, unsigned long round)
{
    pthread_mutex_lock(&locks[0]);
    root->ring[chance(SLOTS)] = (long)(round * THREADS + thread);
    qsort(root->ring, SLOTS, sizeof(long), by_value);
    root->counts[0] = root->ring[SLOTS - 1];
    root->counts[1] = root->ring[SLOTS / 2];
    pthread_mutex_unlock(&locks[0]);
}
static void ranks(void)
{
    threads(ranks_step);
}
static bool ranks_hold(void)
{
    for (int i = 1; i < SLOTS; i++)
        if (root->ring[i - 1] > root->ring[i])
            return wrong("%ld before %ld", root->ring[i - 1], root->ring[i]);
    return (root->counts[0] == root->ring[SLOTS - 1] && root->counts[1] == root->ring[SLOTS / 2]) ||
           wrong("%ld, %ld noted", root->counts[0], root->counts[1]);
}

/* Jobs of a table go from new to running to done; whoever runs one gives up the lock meanwhile. */
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static void jobs_step(unsigned thread, unsigned long round)
{
    pthread_mutex_lock(&locks[0]);
    if (thread == 0) {
        for (int i = 0; i < SLOTS; i++)
            if (root->pairs[i].one == 0) {
                root->pairs[i] = (struct pair){1, (long)round, 0, 0};
                root->counts[0]++;
                pthread_cond_signal(&more);
                break;
            }
        pthread_mutex_unlock(&locks[0]);
        return;
    }
    int job = -1;
    for (int i = 0; i < SLOTS && job < 0; i++)
        if (root->pairs[i].one == 1)
            job = i;
    if (job < 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec = until.tv_nsec > 998000000 ? 999999999 : until.tv_nsec + 1000000;
        pthread_cond_timedwait(&more, &locks[0], &until);
        pthread_mutex_unlock(&locks[0]);
        return;
    }
    root->pairs[job].one = 2;
    root->pairs[job].four = thread;
    root->counts[1]++;
    long input = root->pairs[job].two;
    pthread_mutex_unlock(&locks[0]);
    long output = input * 3 + 1;
    pthread_mutex_lock(&locks[0]);
    root->pairs[job] = (struct pair){0, input, output, thread};
    root->counts[2]++;
    root->counts[3] += output - 3 * input;
    pthread_mutex_unlock(&locks[0]);
}
static void jobs_mend(void)
{
    pthread_mutex_lock(&locks[0]);
    for (int i = 0; i < SLOTS; i++)
        if (root->pairs[i].one == 2) {
            root->pairs[i].one = 1;
            root->counts[1]--;
        }
    pthread_mutex_unlock(&locks[0]);
}
static void jobs(void)
{
    threads(jobs_step);
}
static bool jobs_hold(void)
{
    long fresh = 0, running = 0;
    for (int i = 0; i < SLOTS; i++) {
        struct pair *job = &root->pairs[i];
        fresh += job->one == 1;
        running += job->one == 2;
        if (job->one == 0 && job->three && job->three != job->two * 3 + 1)
            return wrong("job %d: %ld of %ld", i, job->three, job->two);
    }
    long *counts = root->counts;
    return (counts[0] - counts[1] == fresh && counts[1] - counts[2] == running && counts[3] == counts[2]) ||
           wrong("%ld, %ld, %ld, %ld; %ld new, %ld running", counts[0], counts[1], counts[2], counts[3], fresh,
                 running);
}

/* A tree that a recursive lock is taken for at every step down; sums of subtrees stand in the nodes. */
static pthread_mutex_t again = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static long add_below(unsigned node, unsigned leaf, long value)
{
    pthread_mutex_lock(&again);
    if (node >= 16)
        root->counts[node] += node == leaf ? value : 0;
    else
        root->counts[node] = add_below(node * 2, leaf, value) + add_below(node * 2 + 1, leaf, value);
    long sum = root->counts[node];
    pthread_mutex_unlock(&again);
    return sum;
}
static void sums_step(unsigned thread, unsigned long round)
{
    (void)round;
    pthread_mutex_lock(&locks[1]);
    add_below(1, 16 + (unsigned)chance(16), thread + 1);
    pthread_mutex_unlock(&locks[1]);
}
static void sums(void)
{
    threads(sums_step);
}
/* Locks within locks are several regions, so a sum may be behind its parts, as far as one addition goes. */
static bool sums_hold(void)
{
    for (int i = 1; i < 16; i++) {
        long behind = root->counts[2 * i] + root->counts[2 * i + 1] - root->counts[i];
        if (behind < 0 || behind > THREADS)
            return wrong("node %d: %ld behind", i, behind);
    }
    return true;
}

/* A set of the C library's, of nodes that lie outside, beside an array in the pool. */
static void *tree;
static int by_address(const void *one, const void *other)
{
    return (one > other) - (one < other);
}
static void sets_step(unsigned thread, unsigned long round)
{
    (void)thread, (void)round;
    void *key = (void *)(chance(100) + 1);
    pthread_mutex_lock(&locks[0]);
    void *found = tfind(key, &tree, by_address);
    if (!found && root->counts[0] < SLOTS) {
        tsearch(key, &tree, by_address);
        root->ring[root->counts[0]++] = (long)key;
        root->counts[1] += (long)key;
    } else if (found && root->counts[0] == SLOTS) {
        long place = 0;
        while (root->ring[place] != (long)key)
            place++;
        tdelete(key, &tree, by_address);
        root->counts[1] -= (long)key;
        memmove(&root->ring[place], &root->ring[place + 1], (SLOTS - 1 - place) * sizeof(long));
        root->counts[0]--;
    }
    pthread_mutex_unlock(&locks[0]);
}
static void sets_begin(void)
{
    for (long i = 0; i < root->counts[0]; i++)
        tsearch((void *)root->ring[i], &tree, by_address);
}
static void sets(void)
{
    threads(sets_step);
}
static bool sets_hold(void)
{
    long sum = 0;
    for (long i = 0; i < root->counts[0]; i++) {
        sum += root->ring[i];
        for (long j = 0; j < i; j++)
            if (root->ring[i] == root->ring[j])
                return wrong("%ld twice", root->ring[i]);
    }
    return sum == root->counts[1] || wrong("%ld of %ld", sum, root->counts[1]);
}

/* Values move through nodes of a list, each with its lock, two held at a time; new nodes come in, old ones go. */
static void walk_step(unsigned thread, unsigned long round)
{
    (void)round;
    long key = (long)chance(30) + 1;
    pthread_mutex_lock(&locks[15]);
    struct item **at = &root->heads[0];
    while (*at && (*at)->key < key)
        at = &(*at)->next;
    if (*at && (*at)->key == key) {
        struct item *gone = *at;
        *at = gone->next;
        root->counts[0]--;
        root->counts[1] -= gone->value;
        item_free(gone);
    } else {
        struct item *item = item_new();
        *item = (struct item){.next = *at, .key = key, .value = thread + 1};
        *at = item;
        root->counts[0]++;
        root->counts[1] += thread + 1;
    }
    pthread_mutex_unlock(&locks[15]);
}
static void walk(void)
{
    threads(walk_step);
}
static bool walk_holds(void)
{
    long count = 0, sum = 0, last = 0;
    for (struct item *item = root->heads[0]; item; item = item->next) {
        if (item->key <= last || count > 30)
            return wrong("%ld behind %ld", item->key, last);
        last = item->key;
        count++;
        sum += item->value;
    }
    return (count == root->counts[0] && sum == root->counts[1]) ||
           wrong("%ld of %ld, %ld of %ld", count, root->counts[0], sum, root->counts[1]);
}

const struct kind by_locks[] = {
    {"transfers", true, transfers, transfers_hold, transfers_mend},
    {"cache", true, cache, cache_holds, NULL},
    {"pages", true, pages, pages_hold, pages_mend},
    {"stripes", true, stripes, stripes_hold, NULL},
    {"texts", true, texts, texts_hold, NULL},
    {"ranks", true, ranks, ranks_hold, NULL},
    {"jobs", true, jobs, jobs_hold, jobs_mend},
    {"sums", true, sums, sums_hold, NULL},
    {"sets", true, sets, sets_hold, sets_begin},
    {"sorted-list", true, walk, walk_holds, NULL},
    {NULL, false, NULL, NULL, NULL},
};
