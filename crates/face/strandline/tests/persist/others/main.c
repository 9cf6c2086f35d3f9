/*
 * Runs the programs, until they are killed or for some rounds.
 *
 *     others POOL KIND [ROUNDS]   as many rounds of each thread; without a number until it is killed
 *     others --check POOL KIND    says what is wrong with what survived
 *     others --kinds              lists the kinds, those of locks alone with a star
 */
#include "others.h"

sl_pool *pool;
struct root *root;
unsigned long rounds = ~0ul;

bool wrong(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    puts("");
    return false;
}

static _Thread_local unsigned long state;

unsigned long chance(unsigned long below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

struct item *item_new(void)
{
    sl_ref ref = sl_alloc(pool, sizeof(struct item));
    if (!ref)
        errx(3, "%s", sl_error());
    return sl_at(pool, ref);
}

void item_free(struct item *item)
{
    if (sl_free(pool, sl_ref_of(pool, item)))
        errx(3, "%s", sl_error());
}

struct task {
    void (*work)(unsigned thread, unsigned long round);
    unsigned thread;
};

static void *begin(void *argument)
{
    struct task *task = argument;
    state = task->thread + 1;
    for (unsigned long round = 1; round <= rounds; round++)
        task->work(task->thread, round);
    return NULL;
}

void threads(void (*work)(unsigned thread, unsigned long round))
{
    pthread_t all[THREADS];
    struct task tasks[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        tasks[i] = (struct task){work, i};
        if (pthread_create(&all[i], NULL, begin, &tasks[i]))
            errx(3, "no thread");
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
}

static void mending(long is)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    root->mending = is;
    pthread_mutex_unlock(&lock);
    sl_psync(pool);
}

static const struct kind *const lists[] = {by_locks, by_words, by_waits, by_openmp};

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "--kinds")) {
        for (int i = 0; i < 4; i++)
            for (const struct kind *kind = lists[i]; kind->name; kind++)
                printf("%s%s\n", kind->name, kind->locked ? "*" : "");
        return 0;
    }
    bool checks = count > 1 && !strcmp(arguments[1], "--check");
    if (count != 3 + checks && (checks || count != 4))
        errx(2, "usage: others [--check] POOL KIND [ROUNDS]");
    const char *path = arguments[1 + checks], *name = arguments[2 + checks];
    const struct kind *kind = NULL;
    for (int i = 0; i < 4 && !kind; i++)
        for (const struct kind *at = lists[i]; at->name; at++)
            if (!strcmp(at->name, name))
                kind = at;
    if (!kind)
        errx(2, "no kind %s", name);
    struct sl_pool_options options = {NULL, SL_FORCE};
    pool = sl_pool_open(path, "others", &options);
    if (!pool && !checks)
        pool = sl_pool_create(path, "others", 32 << 20, sizeof(struct root), &options);
    if (!pool) {
        printf("%s\n", sl_error());
        return 1;
    }
    root = sl_at(pool, sl_root(pool));
    if (checks)
        return !root->mending && !kind->holds();
    if (count == 4)
        rounds = strtoul(arguments[3], NULL, 10);
    if (kind->mend) {
        mending(1);
        kind->mend();
        mending(0);
    }
    printf("begins\n");
    fflush(stdout);
    if (rounds)
        kind->run();
    return sl_pool_close(pool) != 0;
}
