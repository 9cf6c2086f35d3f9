/* Threads that wait for each other by what the system has, and code that does not run straight on. */
#include "others.h"

#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>

static void *thread_of(void *(*function)(void *), void *argument)
{
    pthread_t *thread = malloc(sizeof *thread);
    if (pthread_create(thread, NULL, function, argument))
        errx(3, "no thread");
    return thread;
}
static void joined(void *thread)
{
    pthread_join(*(pthread_t *)thread, NULL);
    free(thread);
}

/* What the sender counts comes before what the receiver notes of it. */
static bool noted_hold(void)
{
    struct pair *from = &root->pairs[0], *to = &root->pairs[1];
    if (from->one != -from->two || to->one != -to->two)
        return wrong("%ld, %ld sent; %ld, %ld noted", from->one, from->two, to->one, to->two);
    return to->one <= from->one || wrong("%ld noted of %ld", to->one, from->one);
}
static void count_up(void)
{
    root->pairs[0].one++;
    root->pairs[0].two--;
}
static void note(long value)
{
    root->pairs[1].one = value;
    root->pairs[1].two = -value;
}

/* A queue of messages, which carry the number. */
static mqd_t messages;
static void *takes(void *argument)
{
    (void)argument;
    long value[8];
    for (unsigned long round = 1; round <= rounds; round++)
        if (mq_receive(messages, (char *)value, sizeof value, NULL) > 0)
            note(value[0]);
    return NULL;
}
static void mail(void)
{
    char name[64];
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = sizeof(long[8])};
    snprintf(name, sizeof name, "/strandline-%d", getpid());
    messages = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (messages < 0) {
        /* A system without them: there is nothing to wait for. */
        for (unsigned long round = 0; round < rounds && round < 100; round++)
            count_up();
        return;
    }
    mq_unlink(name);
    void *reader = thread_of(takes, NULL);
    for (unsigned long round = 1; round <= rounds; round++) {
        count_up();
        long value[8] = {root->pairs[0].one};
        mq_send(messages, (char *)value, sizeof value, 0);
    }
    joined(reader);
}

/* Records go by writev from the pool into a socket and by readv into the pool; an epoll reports them. */
static int ends[2];
static void *listens(void *argument)
{
    (void)argument;
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1], &event);
    for (unsigned long round = 1; round <= rounds; round++) {
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            abort();
        struct iovec pieces[] = {{&root->pairs[1].one, 8}, {&root->pairs[1].two, 8}};
        if (readv(ends[1], pieces, 2) != 16)
            abort();
        root->counts[0] = root->pairs[1].one;
    }
    return NULL;
}
static void records(void)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
        err(3, "socketpair");
    void *listener = thread_of(listens, NULL);
    for (unsigned long round = 1; round <= rounds; round++) {
        count_up();
        struct iovec pieces[] = {{&root->pairs[0].one, 8}, {&root->pairs[0].two, 8}};
        if (writev(ends[0], pieces, 2) != 16)
            abort();
    }
    joined(listener);
}
static bool records_hold(void)
{
    if (root->counts[0] > root->pairs[1].one)
        return wrong("%ld counted of %ld", root->counts[0], root->pairs[1].one);
    return noted_hold();
}

/* Timers that start threads of the C library's, and timers that are read. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void ticked(union sigval value)
{
    (void)value;
    pthread_mutex_lock(&lock);
    count_up();
    pthread_mutex_unlock(&lock);
}
static void timers(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD};
    event.sigev_notify_function = ticked;
    timer_t timer;
    struct itimerspec often = {{0, 300000}, {0, 300000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
        err(3, "timer");
    int descriptor = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec other = {{0, 500000}, {0, 500000}};
    timerfd_settime(descriptor, 0, &other, NULL);
    for (unsigned long round = 1; round <= rounds; round++) {
        uint64_t expirations;
        if (read(descriptor, &expirations, 8) != 8)
            abort();
        pthread_mutex_lock(&lock);
        note(root->pairs[0].one);
        pthread_mutex_unlock(&lock);
    }
    timer_delete(timer);
}

/* Signals with numbers, taken by a descriptor. */
static pthread_t sender_thread;
static void *takes_signals(void *argument)
{
    int descriptor = *(int *)argument;
    struct signalfd_siginfo info;
    for (unsigned long round = 1; round <= rounds; round++) {
        if (read(descriptor, &info, sizeof info) != sizeof info)
            abort();
        note(info.ssi_int);
        /* An answer, for which the sender waits. */
        pthread_kill(sender_thread, SIGUSR2);
    }
    return NULL;
}
static void signals(void)
{
    sigset_t one, other;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    pthread_sigmask(SIG_BLOCK, &other, NULL);
    int descriptor = signalfd(-1, &one, 0);
    sender_thread = pthread_self();
    void *reader = thread_of(takes_signals, &descriptor);
    for (unsigned long round = 1; round <= rounds; round++) {
        count_up();
        sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = (int)root->pairs[0].one});
        int signal;
        sigwait(&other, &signal);
    }
    joined(reader);
}

/* C11's threads, each with an object whose end counts. */
static mtx_t mutex;
static cnd_t condition;
static tss_t key;
static long waiting_for;
static void counts_at_end(void *value)
{
    mtx_lock(&mutex);
    root->counts[0] += *(long *)value;
    root->counts[1]++;
    mtx_unlock(&mutex);
    free(value);
}
static int short_life(void *argument)
{
    long *amount = malloc(sizeof *amount);
    *amount = (long)(intptr_t)argument;
    tss_set(key, amount);
    mtx_lock(&mutex);
    root->counts[2] += *amount;
    root->counts[3]++;
    waiting_for--;
    cnd_signal(&condition);
    mtx_unlock(&mutex);
    thrd_exit(0);
}
static void lives(void)
{
    mtx_init(&mutex, mtx_plain);
    cnd_init(&condition);
    tss_create(&key, counts_at_end);
    for (unsigned long round = 1; round <= rounds; round++) {
        thrd_t both[2];
        mtx_lock(&mutex);
        waiting_for = 2;
        mtx_unlock(&mutex);
        for (int i = 0; i < 2; i++)
            thrd_create(&both[i], short_life, (void *)(intptr_t)(i + 1));
        mtx_lock(&mutex);
        while (waiting_for)
            cnd_wait(&condition, &mutex);
        root->counts[4] = root->counts[3];
        mtx_unlock(&mutex);
        for (int i = 0; i < 2; i++)
            thrd_join(both[i], NULL);
        mtx_lock(&mutex);
        root->counts[5] = root->counts[1];
        mtx_unlock(&mutex);
    }
}
static bool lives_hold(void)
{
    long *counts = root->counts;
    if (counts[0] > counts[2] || counts[1] > counts[3] || counts[4] > counts[3] || counts[5] > counts[1])
        return wrong("%ld %ld %ld %ld %ld %ld", counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]);
    return counts[3] - counts[1] <= 2 || wrong("%ld began, %ld ended", counts[3], counts[1]);
}
static void lives_mend(void)
{
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&own);
    root->counts[0] = root->counts[2];
    root->counts[1] = root->counts[3];
    pthread_mutex_unlock(&own);
}

/* A thread is cancelled in the midst of its waiting; what is to be cleaned up makes both words equal again. */
static void make_equal(void *argument)
{
    (void)argument;
    root->pairs[0].two = -root->pairs[0].one;
    pthread_mutex_unlock(&lock);
}
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static void *is_cancelled(void *argument)
{
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(make_equal, NULL);
    root->pairs[0].one++;
    /* The wait gives the lock up, so the words must agree before it. */
    root->pairs[0].two--;
    for (;;)
        pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(1);
    return argument;
}
static void cancelled(void)
{
    for (unsigned long round = 1; round <= rounds; round++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, is_cancelled, NULL))
            abort();
        if (round % 2)
            usleep(100);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        pthread_mutex_lock(&lock);
        note(root->pairs[0].one);
        pthread_mutex_unlock(&lock);
    }
}

/* Coroutines in each thread, which change the halves of a record in turn, with a lock held over both. */
struct routine {
    ucontext_t own, back;
    char *memory;
    struct pair *pair;
    unsigned long round;
};
static _Thread_local struct routine *current;
static void routine(void)
{
    for (;;) {
        current->pair->one += (long)current->round;
        swapcontext(&current->own, &current->back);
        current->pair->two -= (long)current->round;
        swapcontext(&current->own, &current->back);
    }
}
static pthread_mutex_t pair_locks[8] = {[0 ... 7] = PTHREAD_MUTEX_INITIALIZER};
static void coroutines_step(unsigned thread, unsigned long round)
{
    (void)thread;
    if (!current) {
        current = calloc(1, sizeof *current);
        current->memory = malloc(64 << 10);
        getcontext(&current->own);
        current->own.uc_stack.ss_sp = current->memory;
        current->own.uc_stack.ss_size = 64 << 10;
        makecontext(&current->own, routine, 0);
    }
    unsigned place = (unsigned)chance(8);
    pthread_mutex_lock(&pair_locks[place]);
    current->pair = &root->pairs[place];
    current->round = round;
    swapcontext(&current->back, &current->own);
    swapcontext(&current->back, &current->own);
    pthread_mutex_unlock(&pair_locks[place]);
}
static void coroutines(void)
{
    threads(coroutines_step);
}
static bool coroutines_hold(void)
{
    for (int i = 0; i < 8; i++)
        if (root->pairs[i].one != -root->pairs[i].two)
            return wrong("%ld and %ld", root->pairs[i].one, root->pairs[i].two);
    return true;
}

/* Three stages with a place between each two, and a condition for each place. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    long full;
} places[2] = {
    {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
    {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
};
static void put(int place, long value)
{
    pthread_mutex_lock(&places[place].lock);
    while (places[place].full)
        pthread_cond_wait(&places[place].changed, &places[place].lock);
    root->ring[place] = value;
    root->counts[place]++;
    places[place].full = 1;
    pthread_cond_broadcast(&places[place].changed);
    pthread_mutex_unlock(&places[place].lock);
}
static long get(int place)
{
    pthread_mutex_lock(&places[place].lock);
    while (!places[place].full)
        pthread_cond_wait(&places[place].changed, &places[place].lock);
    long value = root->ring[place];
    root->counts[8 + place]++;
    places[place].full = 0;
    pthread_cond_broadcast(&places[place].changed);
    pthread_mutex_unlock(&places[place].lock);
    return value;
}
static void *middle(void *argument)
{
    for (unsigned long round = 1; round <= rounds; round++)
        put(1, get(0) * 2);
    return argument;
}
static void *last(void *argument)
{
    for (unsigned long round = 1; round <= rounds; round++) {
        long value = get(1);
        pthread_mutex_lock(&lock);
        root->counts[16] = value;
        root->counts[17] = -value;
        pthread_mutex_unlock(&lock);
    }
    return argument;
}
static void stages(void)
{
    void *second = thread_of(middle, NULL), *third = thread_of(last, NULL);
    for (unsigned long round = 1; round <= rounds; round++)
        put(0, (long)round);
    joined(second);
    joined(third);
}
static void stages_mend(void)
{
    pthread_mutex_lock(&lock);
    memset(root->counts, 0, sizeof root->counts);
    memset(root->ring, 0, sizeof root->ring);
    pthread_mutex_unlock(&lock);
}
static bool stages_hold(void)
{
    long *counts = root->counts;
    for (int i = 0; i < 2; i++)
        if (counts[i] - counts[8 + i] < 0 || counts[i] - counts[8 + i] > 1 || root->ring[i] != counts[i] * (i + 1))
            return wrong("place %d: %ld in, %ld out, %ld there", i, counts[i], counts[8 + i], root->ring[i]);
    return (counts[1] <= counts[8] && counts[16] == -counts[17] && counts[16] <= counts[9] * 2) ||
           wrong("%ld, %ld, %ld", counts[1], counts[8], counts[16]);
}

/* Children of fork read the pool and answer by a pipe. */
static void children(void)
{
    for (unsigned long round = 1; round <= rounds; round++) {
        int pipes[2];
        if (pipe(pipes))
            err(3, "pipe");
        count_up();
        pid_t child = fork();
        if (child == 0) {
            long value = root->pairs[0].one;
            _exit(write(pipes[1], &value, sizeof value) != sizeof value);
        }
        long value = 0;
        int status = 0;
        if (child < 0 || read(pipes[0], &value, sizeof value) != sizeof value || waitpid(child, &status, 0) < 0)
            abort();
        note(value);
        close(pipes[0]);
        close(pipes[1]);
    }
}

/* Phases with the library's barrier: a square is turned over by rows, then read by columns. */
static pthread_barrier_t barrier;
static void phases_step(unsigned thread, unsigned long round)
{
    for (unsigned i = 0; i < THREADS; i++)
        root->ring[thread * THREADS + i] = (long)round;
    pthread_barrier_wait(&barrier);
    long least = (long)round + 1;
    for (unsigned i = 0; i < THREADS; i++)
        least = root->ring[i * THREADS + thread] < least ? root->ring[i * THREADS + thread] : least;
    root->pairs[thread].one = least;
    root->pairs[thread].two = -least;
    pthread_barrier_wait(&barrier);
}
static void phases(void)
{
    pthread_barrier_init(&barrier, NULL, THREADS);
    threads(phases_step);
}
static void phases_mend(void)
{
    memset(root->ring, 0, sizeof root->ring);
    memset(root->pairs, 0, sizeof root->pairs);
}
static bool phases_hold(void)
{
    for (int i = 0; i < THREADS; i++) {
        for (int j = 1; j < THREADS; j++)
            if (root->ring[i * THREADS + j] != root->ring[i * THREADS])
                return wrong("row %d is torn", i);
        for (int j = 0; j < THREADS; j++)
            if (root->pairs[j].one > root->ring[i * THREADS] || root->pairs[j].one != -root->pairs[j].two)
                return wrong("%ld seen, row %d is %ld", root->pairs[j].one, i, root->ring[i * THREADS]);
    }
    return true;
}

const struct kind by_waits[] = {
    {"mail", false, mail, noted_hold, NULL},
    {"records", false, records, records_hold, NULL},
    {"timers", true, timers, noted_hold, NULL},
    {"signals", false, signals, noted_hold, NULL},
    {"lives", true, lives, lives_hold, lives_mend},
    {"cancelled", true, cancelled, noted_hold, NULL},
    {"coroutines", true, coroutines, coroutines_hold, NULL},
    {"stages", true, stages, stages_hold, stages_mend},
    {"children", false, children, noted_hold, NULL},
    {"phases", false, phases, phases_hold, phases_mend},
    {NULL, false, NULL, NULL, NULL},
};
