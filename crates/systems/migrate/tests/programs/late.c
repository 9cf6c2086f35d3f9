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
    // One counts from now, one by the clock, as `sleep until` does: what is left of that is no time of day.
    int watch = epoll_create1(0), timers[2];
    for (int i = 0; i < 2; i++) {
        timers[i] = timerfd_create(CLOCK_MONOTONIC, 0);
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        struct itimerspec at = {{0, 30000000}, {i ? now.tv_sec : 0, i ? now.tv_nsec : 30000000}};
        timerfd_settime(timers[i], i ? TFD_TIMER_ABSTIME : 0, &at, 0);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(watch, EPOLL_CTL_ADD, timers[i], &event);
    }
    struct itimerval every = {{0, 30000}, {0, 30000}};
    setitimer(ITIMER_REAL, &every, 0);
    // Saved meanwhile.
    struct timespec rest = {1, 200000000};
    while (nanosleep(&rest, &rest));
    int reads[2] = {0, 0};
    while (reads[0] < 10 || reads[1] < 10) {
        uint64_t ticks;
        struct epoll_event event;
        epoll_wait(watch, &event, 1, -1);
        read(timers[event.data.u32], &ticks, 8);
        reads[event.data.u32]++;
    }
    sigprocmask(SIG_UNBLOCK, &blocked, 0);
    while (alarms < 5) pause();
    FILE *out = fopen(argv[1], "w");
    fprintf(out, "reads, alarms\n");
    return 5;
}
