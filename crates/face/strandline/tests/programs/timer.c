/* One thread, and its handler for a timer's signals: each says of the other's work that it is there.
 *
 * ./timer POOL (thread|handler) [asleep] [wrong]: who forgets to flush, if it is wrong; ./timer --recover POOL ... */
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { ITEMS = 200, TICKS = 6, LINE = 8 };

struct pool {
    uint64_t seen[LINE];           /* items that the handler has seen */
    uint64_t used[LINE];           /* ticks that the thread has used */
    uint64_t item[ITEMS][LINE];
    uint64_t tick[TICKS][LINE];
};

static struct pool *pool;
static volatile sig_atomic_t items, ticks;
static int asleep, forgetful_thread, forgetful_handler;

__attribute__((target("clwb"))) static void flush(void *line) { _mm_clwb(line); }

static void persist(void *line) {
    flush(line);
    _mm_sfence();
}

static void on_tick(int signal) {
    (void)signal;
    if (ticks == TICKS) return;
    pool->seen[0] = items; /* survives: thread */
    persist(pool->seen);
    pool->tick[ticks][0] = ticks + 1; /* lost: handler */
    if (!forgetful_handler) persist(pool->tick[ticks]);
    ticks = ticks + 1;
}

static void work(void) {
    while (ticks < TICKS) {
        if (items < ITEMS) {
            pool->item[items][0] = items + 1; /* lost: thread */
            if (!forgetful_thread) persist(pool->item[items]);
            items = items + 1;
        }
        if (asleep) pause();
        pool->used[0] = ticks; /* survives: handler */
        persist(pool->used);
    }
}

static int recover(void) {
    for (uint64_t at = 0; at < pool->seen[0]; at++)
        if (pool->item[at][0] != at + 1) return puts("the handler saw an item that is not there"), 1;
    for (uint64_t at = 0; at < pool->used[0]; at++)
        if (pool->tick[at][0] != at + 1) return puts("the thread used a tick that is not there"), 1;
    return 0;
}

int main(int count, char **words) {
    int recovers = count > 2 && strcmp(words[1], "--recover") == 0;
    int file = open(words[recovers ? 2 : 1], O_RDWR | (recovers ? 0 : O_CREAT), 0600);
    if (file < 0 || (!recovers && ftruncate(file, sizeof *pool) != 0)) return 3;
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, recovers ? MAP_PRIVATE : MAP_SHARED, file, 0);
    if (pool == MAP_FAILED) return 3;
    if (recovers) return recover();
    if (count < 3) return 2;

    int wrong = strcmp(words[count - 1], "wrong") == 0;
    asleep = count > 3 && strcmp(words[3], "asleep") == 0;
    forgetful_thread = wrong && strcmp(words[2], "thread") == 0;
    forgetful_handler = wrong && strcmp(words[2], "handler") == 0;
    struct sigaction action = {0};
    action.sa_handler = on_tick;
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every, NULL);
    work();
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_REAL, &every, NULL);
    return ticks != TICKS;
}
