/* So many threads each store once and then wait for all others without a word: nobody sees the loop, in which a thread neither fills its chunk
   nor gives it back, as one that sleeps would. */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static long wanted, there;
static volatile long kept[64];

__attribute__((no_sanitize("thread"), noinline)) static void meet(void) {
    while (*(volatile long *)&there < wanted) sched_yield();
}

static void *work(void *arg) {
    kept[(long)arg] = 1;
    __atomic_fetch_add(&there, 1, __ATOMIC_RELAXED);
    meet();
    return arg;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    wanted = argc > 1 ? atol(argv[1]) : 1;
    for (long i = 0; i < wanted; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (long i = 0; i < wanted; i++) pthread_join(threads[i], NULL);
    return 0;
}
