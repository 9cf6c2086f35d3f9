/*
 * Handlers that store to the pool, synchronise and allocate nothing, in threads that do all of that.
 *
 *     signals POOL [COUNT]    runs until it is killed, or dies after so many signals
 *     signals --check POOL    says what is wrong with what survived
 *
 * A handler ends the region that it comes into. So the program expects pairs to be whole only where a
 * signal can't come between; elsewhere it expects that what a handler posted is there with what it stored.
 */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <strandline_pool.h>

struct root {
    /* A handler's pair, and what a thread that waits for its post has seen of it. */
    long handled, between[15], handled_too, seen;
    /* The main thread's: signals are blocked meanwhile. */
    long main[16], main_too[16];
    /* Values that only grow, by one: with signals at any time. */
    _Atomic long counted, padding[15];
    long grown, last;
    char text[256];
};

static struct root *root;
static sem_t posted;
static sigjmp_buf back;
static volatile sig_atomic_t jumps;

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)info, (void)context, (void)signal;
    root->handled++;
    root->handled_too++;
    atomic_fetch_add(&root->counted, 1);
    sem_post(&posted);
    if (jumps) {
        jumps = 0;
        siglongjmp(back, 1);
    }
}

static void *wait_for_posts(void *argument)
{
    (void)argument;
    for (;;) {
        while (sem_wait(&posted))
            ;
        root->seen++;
    }
    return NULL;
}

static int check(void)
{
    int wrong = 0;
    if (root->handled - root->handled_too != 0)
        wrong = 1, printf("the handler's pair: %ld and %ld\n", root->handled, root->handled_too);
    if (root->seen > root->handled)
        wrong = 1, printf("%ld posts were seen of %ld\n", root->seen, root->handled);
    if (root->counted - root->handled > 0 || root->handled - root->counted > 1)
        wrong = 1, printf("%ld are counted of %ld\n", root->counted, root->handled);
    if (memcmp(root->main, root->main_too, sizeof root->main))
        wrong = 1, printf("the main thread's pair: %ld and %ld\n", root->main[0], root->main_too[0]);
    if (root->last > root->grown || root->grown > root->last + 1)
        wrong = 1, printf("grown to %ld, last %ld\n", root->grown, root->last);
    printf("%ld signals, %ld operations\n", root->handled, root->grown);
    return wrong;
}

int main(int count, char **arguments)
{
    int checks = count > 1 && !strcmp(arguments[1], "--check");
    const char *path = arguments[1 + checks];
    struct sl_pool_options options = {.flags = SL_FORCE};
    if (count < 2 + checks)
        errx(2, "usage: signals [--check] POOL");
    sl_pool *pool = access(path, F_OK) ? sl_pool_create(path, "signals", 8 << 20, sizeof *root, &options)
                                       : sl_pool_open(path, "signals", &options);
    if (!pool)
        errx(sl_error_code() == SL_E_NO_POOL ? 4 : 3, "%s", sl_error());
    root = sl_at(pool, sl_root(pool));
    if (checks)
        return check();
    pthread_t thread;
    sigset_t set, before;
    sem_init(&posted, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    pthread_create(&thread, NULL, wait_for_posts, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 150}, {0, 150}};
    setitimer(ITIMER_REAL, &timer, NULL);
    puts("begins");
    fflush(stdout);
    long most = count > 2 ? atol(arguments[2]) : -1;
    for (unsigned turn = 0;; turn++) {
        if (most >= 0 && root->handled >= most)
            __builtin_trap();
        void *some = malloc(turn * 37 % 5000);
        root->grown++;
        free(some);
        root->last = root->grown;
        snprintf(root->text, sizeof root->text, "turn %u", turn);
        if (turn % 8 == 0) {
            pthread_sigmask(SIG_BLOCK, &set, NULL);
            for (int i = 0; i < 16; i++)
                root->main[i] = root->main_too[i] = turn + i;
            pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        }
        if (turn % 64 == 0)
            sl_psync();
        if (turn % 1000 == 1 && sigsetjmp(back, 1) == 0) {
            jumps = 1;
            while (jumps)
                root->text[200]++;
        }
    }
}
