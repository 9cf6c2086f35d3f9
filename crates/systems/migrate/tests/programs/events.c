// Waits for a timer (edge-triggered, by the clock) and for queued signals with one epoll.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &mask, 0);
    int watch = epoll_create1(0), timer = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    int signals = signalfd(-1, &mask, SFD_NONBLOCK);
    struct itimerspec every = {{0, 5000000}, {0, 5000000}};
    timerfd_settime(timer, 0, &every, 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 0xdeadbeef00000001};
    epoll_ctl(watch, EPOLL_CTL_ADD, timer, &event);
    event.events = EPOLLIN, event.data.u64 = 2;
    epoll_ctl(watch, EPOLL_CTL_ADD, signals, &event);
    long ticks = 0, sent = 0, seen = 0, last = 0, late = 0;
    while (ticks < 200 && late < 5) {
        if (epoll_wait(watch, &event, 1, 1000) <= 0) {
            late++;
        } else if (event.data.u64 == 2) {
            struct signalfd_siginfo one;
            while (read(signals, &one, sizeof one) == sizeof one)
                if (one.ssi_int > last) seen++, last = one.ssi_int;
        } else {
            uint64_t expired;
            if (read(timer, &expired, 8) == 8 && ++ticks % 10 == 0) {
                union sigval value = {.sival_int = ++sent};
                sigqueue(getpid(), SIGRTMIN, value);
            }
        }
    }
    FILE *out = fopen(argv[1], "a");
    fprintf(out, "ticks %ld lost %d\n", ticks, sent - seen > 1);
    return 7;
}
