// Periodic timers that have expired, unnoticed, when it is saved: they go on afterwards. Writes its line once they did.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static volatile int alarms;

static void on(int signal) { alarms++; }

int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    signal(SIGALRM, on);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), watch = epoll_create1(0);
    // By the time of day, as `sleep until` does: what is left of it is no time of day.
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct itimerspec at = {{0, 30000000}, {now.tv_sec, now.tv_nsec}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, 0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(watch, EPOLL_CTL_ADD, timer, &event);
    struct itimerval every = {{0, 30000}, {0, 30000}};
    setitimer(ITIMER_REAL, &every, 0);
    // Saved meanwhile.
    struct timespec rest = {1, 200000000};
    while (nanosleep(&rest, &rest));
    int reads = 0;
    uint64_t ticks;
    for (; reads < 10; reads++) {
        epoll_wait(watch, &event, 1, -1);
        read(timer, &ticks, 8);
    }
    sigprocmask(SIG_UNBLOCK, &blocked, 0);
    while (alarms < 5) pause();
    FILE *out = fopen(argv[1], "w");
    fprintf(out, "reads %d, alarms\n", reads);
    return 5;
}
