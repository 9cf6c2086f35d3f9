// Locks of three kinds, pipes with several descriptions of an end, and pairs of sockets with queues, one half shut down:
// all are there before a wait, and looked at behind it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char path[4096], buffer[1 << 20];

static int range(int fd, int command, int type, long start, long len) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fcntl(fd, command, &lock);
}

// What another process gets of a lock: 0, or why not. F_OFD_GETLK: whether an open file has it, and no process.
static int other(int command, int type, long start, long len) {
    int status, child = fork();
    if (!child) {
        int fd = open(path, O_RDWR);
        if (command == F_OFD_GETLK) {
            struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
            fcntl(fd, command, &lock);
            _exit(lock.l_type != F_UNLCK && lock.l_pid == -1);
        }
        if (command < 0) _exit(flock(fd, type | LOCK_NB) ? errno : 0);
        _exit(range(fd, command, type, start, len) ? errno : 0);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static long drained(int fd) {
    long sum = 0, len;
    while ((len = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
        for (long i = 0; i < len; i++) sum += (unsigned char)buffer[i];
    return len ? -sum : sum;
}

int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    int locks = argc < 3, half[2], full[2], packets[2], ends[2], both[2], size = 1 << 20;
    snprintf(path, sizeof path, "%s.locked", argv[1]);
    int fd = open(path, O_RDWR | O_CREAT, 0600), again = open(path, O_RDWR);
    ftruncate(fd, 1000);
    if (locks) range(fd, F_SETLK, F_WRLCK, 10, 20), range(again, F_SETLK, F_RDLCK, 40, 0);
    range(again, F_OFD_SETLK, F_WRLCK, 1, 5);
    flock(fd, LOCK_EX);
    socketpair(AF_UNIX, SOCK_STREAM, 0, half);
    socketpair(AF_UNIX, SOCK_STREAM, 0, full);
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets);
    for (long i = 0; i < 300000; i++) buffer[i] = i % 251;
    setsockopt(full[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    send(full[0], buffer, 300000, 0);
    send(half[0], buffer, 1000, 0);
    shutdown(half[0], SHUT_WR);
    for (int i = 1; i < 6; i++) send(packets[0], buffer, i * 10, 0);
    pipe(ends), pipe(both);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", ends[0]);
    int second = open(name, O_RDONLY | O_NONBLOCK);
    snprintf(name, sizeof name, "/proc/self/fd/%d", both[0]);
    int through = open(name, O_RDWR);
    close(both[0]), close(both[1]);
    write(ends[1], "abcdefgh", 8), write(through, "through", 7);
    struct timespec now, until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - until.tv_sec) * 1000 + (now.tv_nsec - until.tv_nsec) / 1000000 < 900);
    FILE *out = fopen(argv[1], "a");
    if (locks)
        fprintf(out, "ranges %d %d %d %d %d, ", other(F_SETLK, F_WRLCK, 15, 1) == EAGAIN,
                other(F_SETLK, F_WRLCK, 30, 5), other(F_SETLK, F_WRLCK, 9999, 1) == EAGAIN, other(F_SETLK, F_RDLCK, 50, 1),
                other(F_OFD_GETLK, F_WRLCK, 15, 1));
    fprintf(out, "open file's %d %d %d, whole %d\n", other(F_OFD_SETLK, F_RDLCK, 5, 1) == EAGAIN,
            other(F_OFD_SETLK, F_RDLCK, 6, 1), other(F_OFD_GETLK, F_WRLCK, 5, 1), other(-1, LOCK_SH, 0, 0) == EWOULDBLOCK);
    struct pollfd shut = {half[1], POLLIN | POLLRDHUP, 0};
    poll(&shut, 1, 0);
    fprintf(out, "half %ld %d %ld, ", drained(half[1]), !!(shut.revents & POLLRDHUP), (long)send(half[1], "x", 1, 0));
    socklen_t len = sizeof size;
    getsockopt(full[0], SOL_SOCKET, SO_SNDBUF, &size, &len);
    fprintf(out, "full %ld of %d, packets", drained(full[1]), size);
    for (int i = 0; i < 6; i++) fprintf(out, " %ld", (long)recv(packets[1], buffer, 100, MSG_DONTWAIT));
    memset(buffer, 0, 100);
    read(ends[0], buffer, 4), read(second, buffer + 10, 90);
    fprintf(out, ", pipe %s %s %ld", buffer, buffer + 10, (long)read(second, buffer, 1));
    close(ends[1]);
    fprintf(out, " %ld, ", (long)read(second, buffer, 1));
    memset(buffer, 0, 100);
    read(through, buffer, 100);
    write(through, "again", 5), read(through, buffer + 50, 20);
    fprintf(out, "both %s %s\n", buffer, buffer + 50);
    return 7;
}
