/*
 * A child has no pool: a store to its parent's ends it with a word, and the parent's survives.
 * And a process ends while its threads go on.
 */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strandline_pool.h>

static long *root;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument)
{
    (void)argument;
    for (;;) {
        pthread_mutex_lock(&lock);
        root[0]++;
        root[100]++;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    struct sl_pool_options options = {.flags = SL_FORCE};
    if (count != 2)
        errx(2, "usage: fork POOL");
    sl_pool *pool = access(arguments[1], F_OK) ? sl_pool_create(arguments[1], "fork", 1 << 20, 4096, &options)
                                               : sl_pool_open(arguments[1], "fork", &options);
    if (!pool)
        errx(3, "%s", sl_error());
    root = sl_at(pool, sl_root(pool));
    if (root[0] != root[100])
        errx(1, "%ld and %ld", root[0], root[100]);
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, work, NULL);
    usleep(50000);
    int status;
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            /* It may read, use locks of its own and start threads. */
            pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
            pthread_mutex_lock(&own);
            free(malloc(1000 + root[0] % 100));
            pthread_mutex_unlock(&own);
            if (i == 4)
                root[0] = 7;
            _exit(5);
        }
        if (waitpid(child, &status, 0) != child)
            err(3, "waitpid");
        if (i < 4 ? !WIFEXITED(status) || WEXITSTATUS(status) != 5 : !WIFSIGNALED(status))
            errx(1, "child %d ended with %#x", i, status);
    }
    long before = root[0];
    while (root[0] < before + 100)
        usleep(100);
    printf("%ld\n", root[0]);
    /* The threads go on. */
    return 0;
}
