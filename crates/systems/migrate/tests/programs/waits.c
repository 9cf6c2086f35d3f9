// Counts beats in a file that it maps, in the way that is asked for, until the file says stop; each beat checks that nothing
// has changed: results, mask, signal stack, returned values. Exits with 7, or at the first fault with its number.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t *beats, *stop;
static uint32_t word;
static sigset_t mask;
static stack_t alternate;

static void beat(void) {
    sigset_t now;
    stack_t stack;
    sigprocmask(SIG_SETMASK, 0, &now);
    if (memcmp(&now, &mask, 8)) _exit(10);
    sigaltstack(0, &stack);
    if (stack.ss_sp != alternate.ss_sp || stack.ss_size != alternate.ss_size) _exit(11);
    ++*beats;
}

// Vectors and doubles, in registers all the while.
#define SUM(NAME, ...)                                                            \
    __VA_ARGS__ static double NAME(void) {                                        \
        typedef double four __attribute__((vector_size(32)));                     \
        four sum = {0, 1, 2, 3}, step = {1.5, 2.5, 3.5, 4.5};                     \
        for (int i = 1; i < 300000; i++) sum = sum * 0.999 + step / (double)i;    \
        return sum[0] + sum[1] + sum[2] + sum[3];                                 \
    }
SUM(narrow)
SUM(wide, __attribute__((target("avx2"))))

static double chunk(void) { return __builtin_cpu_supports("avx2") ? wide() : narrow(); }

static void spin(void) {
    double wanted = chunk();
    while (!*stop) {
        if (chunk() != wanted) _exit(12);
        beat();
    }
}

static void on(int signal) {
    char here;
    if (&here < (char *)alternate.ss_sp || &here >= (char *)alternate.ss_sp + alternate.ss_size) _exit(13);
    sigprocmask(SIG_SETMASK, 0, &mask);
    spin();
}

static void *wake(void *none) {
    while (!*stop) {
        struct timespec rest = {0, 5000000};
        if (nanosleep(&rest, 0)) _exit(14);
        __atomic_add_fetch(&word, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    }
    return 0;
}

int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    int file = open(argv[1], O_RDWR);
    beats = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    stop = beats + 1;
    const char *way = argv[2];
    alternate.ss_sp = malloc(alternate.ss_size = 1 << 16);
    sigaltstack(&alternate, 0);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    // A trap that comes by our own doing must not depend on what the program blocks.
    if (!strcmp(way, "blocked")) sigfillset(&mask);
    sigprocmask(SIG_SETMASK, &mask, 0);
    sigprocmask(SIG_SETMASK, 0, &mask);
    if (!strcmp(way, "spin") || !strcmp(way, "blocked")) {
        spin();
    } else if (!strcmp(way, "handler")) {
        struct sigaction action = {.sa_handler = on, .sa_flags = SA_ONSTACK};
        sigaction(SIGALRM, &action, 0);
        raise(SIGALRM);
    } else if (!strcmp(way, "read")) {
        for (unsigned char next = 0, got; !*stop; next++) {
            if (read(0, &got, 1) != 1) _exit(15);
            if (got != next) _exit(16);
            beat();
        }
    } else if (!strcmp(way, "sleep")) {
        while (!*stop) {
            struct timespec rest = {0, 10000000}, begin, end;
            clock_gettime(CLOCK_MONOTONIC, &begin);
            if (nanosleep(&rest, &rest)) _exit(17);
            clock_gettime(CLOCK_MONOTONIC, &end);
            if ((end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec < 10000000) _exit(18);
            beat();
        }
    } else if (!strcmp(way, "futex")) {
        pthread_t other;
        pthread_create(&other, 0, wake, 0);
        while (!*stop) {
            uint32_t seen = __atomic_load_n(&word, __ATOMIC_SEQ_CST);
            if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0) && errno != EAGAIN) _exit(19);
            beat();
        }
        pthread_join(other, 0);
    } else if (!strcmp(way, "epoll")) {
        int watch = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
        struct itimerspec every = {{0, 5000000}, {0, 5000000}};
        timerfd_settime(timer, 0, &every, 0);
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(watch, EPOLL_CTL_ADD, timer, &event);
        while (!*stop) {
            uint64_t ticks;
            // The kernel does not make this call again after a stop.
            int found = epoll_wait(watch, &event, 1, -1);
            if (found < 0 && errno == EINTR) continue;
            if (found != 1 || read(timer, &ticks, 8) != 8) _exit(20);
            beat();
        }
    } else {
        return 1;
    }
    return 7;
}
