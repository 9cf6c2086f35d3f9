// Has open what cannot be saved, each under a number of its own, from 3 on.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int at(int fd, int number) {
    if (fd != number) dup2(fd, number), close(fd);
    return number;
}

int main(int argc, char **argv) {
    char path[4096];
    close_range(3, ~0U, 0);
    at(open(argv[1], O_RDWR | O_CREAT, 0600), 3);
    unlink(argv[1]);
    at(inotify_init(), 4);
    snprintf(path, sizeof path, "%s.pipe", argv[1]);
    mkfifo(path, 0600);
    at(open(path, O_RDWR), 5);
    at(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), 6);
    snprintf(path, sizeof path, "%s.lease", argv[1]);
    close(open(path, O_RDWR | O_CREAT, 0600));
    at(open(path, O_RDONLY), 7);
    fcntl(7, F_SETLEASE, F_RDLCK);
    struct sockaddr_in here = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    int listener = at(socket(AF_INET, SOCK_STREAM, 0), 20);
    bind(listener, (void *)&here, sizeof here), listen(listener, 1);
    getsockname(listener, (void *)&here, &len);
    at(socket(AF_INET, SOCK_STREAM, 0), 8);
    connect(8, (void *)&here, sizeof here);
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    at(ends[1], 21), at(ends[0], 9);
    struct iovec part = {"x", 1};
    char room[CMSG_SPACE(4)];
    struct msghdr message = {0, 0, &part, 1, room, sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(4);
    *(int *)CMSG_DATA(head) = 0;
    sendmsg(21, &message, 0);
    at(open("/dev/loop-control", O_RDWR), 10);
    if (fcntl(10, F_GETFD) < 0) at(open("/dev/tty0", O_RDWR | O_NOCTTY), 10);
    if (fcntl(10, F_GETFD) < 0) at(open("/dev/ptmx", O_RDWR | O_NOCTTY), 10);
    at(syscall(SYS_userfaultfd, O_CLOEXEC | 1), 11);
    for (;;) pause();
}
