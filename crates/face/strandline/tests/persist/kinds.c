/*
 * Every kind of synchronisation, each around a cell of its own in the pool.
 *
 *     kinds POOL [KIND]     runs until it is killed: all kinds, or one
 *     kinds --check POOL    says what is wrong with what survived
 *
 * An operation changes both halves of a cell, so at any frontier they are equal. In the cell it also notes
 * how far its thread has seen the other cells, so a frontier that holds the note holds what was seen.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include <strandline_pool.h>

enum {
    MUTEX, TRYLOCK, TIMEDLOCK, RECURSIVE, ERRORCHECK, ROBUST, RWLOCK, SPIN, SEMAPHORE, CONDITION, MTX, CND,
    FLAG, CAS, TICKET, FENCES, BUILTIN, FUTEX, PIPE, SOCKET, EVENTFD, IN_POOL, BARRIER, ONCE, CREATE, KINDS
};

static const char *const names[KINDS] = {
    "mutex", "trylock", "timedlock", "recursive", "errorcheck", "robust", "rwlock", "spin", "semaphore",
    "condition", "mtx", "cnd", "flag", "cas", "ticket", "fences", "builtin", "futex", "pipe", "socket",
    "eventfd", "in-pool", "barrier", "once", "create",
};

struct cell {
    long one;
    char between[120];
    long seen[KINDS];
    char behind[56];
    long other;
    _Atomic int lock;
    char last[52];
};

struct root {
    long ready;
    struct cell cells[KINDS];
};

static struct root *root;
static int only = -1;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, tried = PTHREAD_MUTEX_INITIALIZER,
                       timed = PTHREAD_MUTEX_INITIALIZER, conditions = PTHREAD_MUTEX_INITIALIZER, recursive,
                       errorcheck, robust, once_lock = PTHREAD_MUTEX_INITIALIZER,
                       create_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int taken, cnd_taken;
static mtx_t mtx, cnd_mtx;
static cnd_t cnd;
static atomic_flag flag = ATOMIC_FLAG_INIT;
static atomic_int cas, fences;
static atomic_uint ticket, serving;
static int builtin;
static atomic_int futex;
static int pipes[2], sockets[2], event;
static pthread_barrier_t barrier;

static long futex_call(int operation, int value)
{
    return syscall(SYS_futex, &futex, operation, value, NULL, NULL, 0);
}

static int take(int kind)
{
    char token;
    uint64_t events;
    struct timespec time;
    int free = 0;
    unsigned mine;
    switch (kind) {
    case MUTEX: return pthread_mutex_lock(&mutex);
    case TRYLOCK: return pthread_mutex_trylock(&tried);
    case TIMEDLOCK:
        clock_gettime(CLOCK_REALTIME, &time);
        time.tv_sec++;
        return pthread_mutex_timedlock(&timed, &time);
    case RECURSIVE: return pthread_mutex_lock(&recursive) || pthread_mutex_lock(&recursive);
    case ERRORCHECK: return pthread_mutex_lock(&errorcheck);
    case ROBUST:
        if (pthread_mutex_lock(&robust) == EOWNERDEAD)
            pthread_mutex_consistent(&robust);
        return 0;
    case RWLOCK: return pthread_rwlock_wrlock(&rwlock);
    case SPIN: return pthread_spin_lock(&spin);
    case SEMAPHORE: return sem_wait(&semaphore);
    case CONDITION:
        pthread_mutex_lock(&conditions);
        while (taken)
            pthread_cond_wait(&condition, &conditions);
        taken = 1;
        pthread_mutex_unlock(&conditions);
        return 0;
    case MTX: return mtx_lock(&mtx) != thrd_success;
    case CND:
        mtx_lock(&cnd_mtx);
        while (cnd_taken)
            cnd_wait(&cnd, &cnd_mtx);
        cnd_taken = 1;
        mtx_unlock(&cnd_mtx);
        return 0;
    case FLAG:
        while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire))
            sched_yield();
        return 0;
    case CAS:
        while (!atomic_compare_exchange_weak_explicit(&cas, &free, 1, memory_order_acquire,
                                                      memory_order_relaxed)) {
            free = 0;
            sched_yield();
        }
        return 0;
    case TICKET:
        mine = atomic_fetch_add_explicit(&ticket, 1, memory_order_relaxed);
        while (atomic_load_explicit(&serving, memory_order_acquire) != mine)
            sched_yield();
        return 0;
    case FENCES:
        while (atomic_exchange_explicit(&fences, 1, memory_order_relaxed))
            sched_yield();
        atomic_thread_fence(memory_order_acquire);
        return 0;
    case BUILTIN:
        while (__sync_lock_test_and_set(&builtin, 1))
            sched_yield();
        return 0;
    case FUTEX:
        while (atomic_exchange(&futex, 1))
            futex_call(FUTEX_WAIT, 1);
        return 0;
    case PIPE: return read(pipes[0], &token, 1) != 1;
    case SOCKET: return recv(sockets[0], &token, 1, 0) != 1;
    case EVENTFD: return read(event, &events, 8) != 8;
    case IN_POOL:
        while (atomic_exchange_explicit(&root->cells[IN_POOL].lock, 1, memory_order_acquire))
            sched_yield();
        return 0;
    }
    return 1;
}

static void give(int kind)
{
    char token = 0;
    uint64_t events = 1;
    switch (kind) {
    case MUTEX: pthread_mutex_unlock(&mutex); break;
    case TRYLOCK: pthread_mutex_unlock(&tried); break;
    case TIMEDLOCK: pthread_mutex_unlock(&timed); break;
    case RECURSIVE:
        pthread_mutex_unlock(&recursive);
        pthread_mutex_unlock(&recursive);
        break;
    case ERRORCHECK: pthread_mutex_unlock(&errorcheck); break;
    case ROBUST: pthread_mutex_unlock(&robust); break;
    case RWLOCK: pthread_rwlock_unlock(&rwlock); break;
    case SPIN: pthread_spin_unlock(&spin); break;
    case SEMAPHORE: sem_post(&semaphore); break;
    case CONDITION:
        pthread_mutex_lock(&conditions);
        taken = 0;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&conditions);
        break;
    case MTX: mtx_unlock(&mtx); break;
    case CND:
        mtx_lock(&cnd_mtx);
        cnd_taken = 0;
        cnd_broadcast(&cnd);
        mtx_unlock(&cnd_mtx);
        break;
    case FLAG: atomic_flag_clear_explicit(&flag, memory_order_release); break;
    case CAS: atomic_store_explicit(&cas, 0, memory_order_release); break;
    case TICKET: atomic_fetch_add_explicit(&serving, 1, memory_order_release); break;
    case FENCES:
        atomic_thread_fence(memory_order_release);
        atomic_store_explicit(&fences, 0, memory_order_relaxed);
        break;
    case BUILTIN: __sync_lock_release(&builtin); break;
    case FUTEX:
        atomic_store(&futex, 0);
        futex_call(FUTEX_WAKE, 1);
        break;
    case PIPE: if (write(pipes[1], &token, 1) != 1) abort(); break;
    case SOCKET: if (send(sockets[1], &token, 1, 0) != 1) abort(); break;
    case EVENTFD: if (write(event, &events, 8) != 8) abort(); break;
    case IN_POOL: atomic_store_explicit(&root->cells[IN_POOL].lock, 0, memory_order_release); break;
    }
}

/* In between: what the thread has seen goes in, and what is here is seen. */
static void change(int kind, long *seen)
{
    struct cell *cell = &root->cells[kind];
    cell->one++;
    for (int other = 0; other < KINDS; other++) {
        if (cell->seen[other] < seen[other])
            cell->seen[other] = seen[other];
        else
            seen[other] = cell->seen[other];
    }
    cell->other++;
    seen[kind] = cell->one;
}

static void *work(void *argument)
{
    unsigned random = (unsigned)(size_t)argument * 2654435761u + 1;
    long seen[KINDS] = {0};
    for (;;) {
        random = random * 1664525 + 1013904223;
        int kind = only >= 0 ? only : (int)(random >> 8) % BARRIER;
        if (take(kind))
            continue;
        change(kind, seen);
        give(kind);
    }
    return NULL;
}

/* Two threads take turns between the phases of a barrier. */
static void *meet(void *argument)
{
    size_t me = (size_t)argument;
    long seen[KINDS] = {0};
    for (size_t turn = 0;; turn++) {
        if (turn % 2 == me)
            change(BARRIER, seen);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static pthread_once_t *once;
static long *once_seen;

static void at_once(void)
{
    change(ONCE, once_seen);
}

static void *run_once(void *argument)
{
    (void)argument;
    pthread_once(once, at_once);
    long seen[KINDS] = {0};
    /* It has happened, whoever did it. */
    pthread_mutex_lock(&once_lock);
    seen[ONCE] = root->cells[ONCE].one;
    pthread_mutex_lock(&create_lock);
    change(CREATE, seen);
    pthread_mutex_unlock(&create_lock);
    pthread_mutex_unlock(&once_lock);
    return NULL;
}

/* Threads come and go: each sees what its parent did, and its parent what it did. */
static void *parent(void *argument)
{
    long seen[KINDS] = {0};
    (void)argument;
    for (;;) {
        pthread_once_t control = PTHREAD_ONCE_INIT;
        pthread_t threads[2];
        once = &control;
        once_seen = seen;
        for (int i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, run_once, NULL))
                err(3, "pthread_create");
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        change(CREATE, seen);
    }
    return NULL;
}

static int check(void)
{
    int wrong = 0;
    long all = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        struct cell *cell = &root->cells[kind];
        all += cell->one;
        if (cell->one != cell->other) {
            printf("%s: %ld and %ld\n", names[kind], cell->one, cell->other);
            wrong = 1;
        }
        for (int other = 0; other < KINDS; other++)
            if (cell->seen[other] > root->cells[other].one) {
                printf("%s has seen %ld of %s, which has %ld\n", names[kind], cell->seen[other], names[other],
                       root->cells[other].one);
                wrong = 1;
            }
    }
    printf("%ld operations\n", all);
    return wrong;
}

int main(int count, char **arguments)
{
    int checks = count > 1 && !strcmp(arguments[1], "--check");
    const char *path = arguments[1 + checks];
    struct sl_pool_options options = {.flags = SL_FORCE};
    if (count < 2 + checks)
        errx(2, "usage: kinds [--check] POOL [KIND]");
    sl_pool *pool = access(path, F_OK) ? sl_pool_create(path, "kinds", 16 << 20, sizeof *root, &options)
                                       : sl_pool_open(path, "kinds", &options);
    if (!pool)
        errx(sl_error_code() == SL_E_NO_POOL ? 4 : 3, "%s", sl_error());
    root = sl_at(pool, sl_root(pool));
    if (checks)
        return check();
    for (int kind = 0; count > 2 && kind < KINDS; kind++)
        if (!strcmp(arguments[2], names[kind]))
            only = kind;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&errorcheck, &attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_spin_init(&spin, 0);
    sem_init(&semaphore, 0, 1);
    mtx_init(&mtx, mtx_plain);
    mtx_init(&cnd_mtx, mtx_plain);
    cnd_init(&cnd);
    event = eventfd(1, EFD_SEMAPHORE);
    pthread_barrier_init(&barrier, NULL, 2);
    if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || event < 0)
        err(3, "pipe");
    give(PIPE);
    give(SOCKET);
    /* A lock of the pool's memory is held by nobody any more. */
    atomic_store(&root->cells[IN_POOL].lock, 0);
    puts("begins");
    fflush(stdout);
    pthread_t thread;
    for (size_t i = 0; i < 4; i++)
        pthread_create(&thread, NULL, work, (void *)(i + (size_t)getpid()));
    if (only < 0) {
        for (size_t i = 0; i < 2; i++)
            pthread_create(&thread, NULL, meet, (void *)i);
        pthread_create(&thread, NULL, parent, NULL);
    }
    for (;;)
        pause();
}
