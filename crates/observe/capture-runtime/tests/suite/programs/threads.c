// Threads that lock, wait, count atomically and allocate. Arguments: threads, rounds.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t semaphore;
static int threads, rounds, turn;
static long guarded, spun;
static atomic_long counter;

static void *work(void *argument) {
    int me = (int)(long)argument;
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < rounds; round++) {
        pthread_mutex_lock(&mutex);
        guarded++;
        pthread_mutex_unlock(&mutex);
        pthread_spin_lock(&spin);
        spun++;
        pthread_spin_unlock(&spin);
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        atomic_fetch_add(&counter, 1);
        long *memory = malloc(64);
        memory[me % 8] = round;
        free(memory);
    }
    pthread_mutex_lock(&mutex);
    while (turn != me)
        pthread_cond_wait(&turn_changed, &mutex);
    turn++;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&mutex);
    sem_post(&semaphore);
    return NULL;
}

static int c11(void *argument) {
    *(int *)argument = 7;
    return 3;
}

int main(int argc, char **argv) {
    threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    pthread_t ids[256];
    pthread_barrier_init(&barrier, NULL, threads);
    pthread_spin_init(&spin, 0);
    sem_init(&semaphore, 0, 0);
    for (long at = 0; at < threads; at++)
        pthread_create(&ids[at], NULL, work, (void *)at);
    for (int at = 0; at < threads; at++)
        sem_wait(&semaphore);
    for (int at = 0; at < threads; at++)
        pthread_join(ids[at], NULL);
    thrd_t thread;
    int set = 0, result = 0;
    thrd_create(&thread, c11, &set);
    thrd_join(thread, &result);
    long all = (long)threads * rounds;
    if (guarded != all || spun != all || counter != all || set != 7 || result != 3)
        return 1;
    puts("done");
    return 0;
}
