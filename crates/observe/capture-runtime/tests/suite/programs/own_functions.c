// A program that defines functions of the C library itself, as shells, allocators and replays of time do.
// Prints how often each was called without its asking.
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void *strandline_memcpy(void *, const void *, size_t);
void sl_phase(const char *);

#define OWN __attribute__((noinline, optimize("no-tree-loop-distribute-patterns")))

static long clocks, environments, seeks, masks, lists, copies, fills, compares, lengths;

int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    clocks++;
    time->tv_sec = 7;
    time->tv_nsec = 0;
    return 0;
}
// Knows nothing before `main`.
char *getenv(const char *name) {
    (void)name;
    environments++;
    return NULL;
}
off_t lseek(int fd, off_t offset, int whence) {
    seeks++;
    return syscall(SYS_lseek, fd, offset, whence);
}
int sigaddset(sigset_t *set, int number) {
    masks++;
    set->__val[0] |= 1ul << (number - 1);
    return 0;
}
int dl_iterate_phdr(int (*each)(struct dl_phdr_info *, size_t, void *), void *data) {
    (void)each;
    (void)data;
    lists++;
    return 0;
}
OWN void *memcpy(void *restrict to, const void *restrict from, size_t len) {
    copies++;
    for (size_t at = 0; at < len; at++) ((char *)to)[at] = ((const char *)from)[at];
    return to;
}
OWN void *memmove(void *to, const void *from, size_t len) {
    copies++;
    for (size_t at = len; at--;) ((char *)to)[at] = ((const char *)from)[at];
    return to;
}
OWN void *memset(void *to, int byte, size_t len) {
    fills++;
    for (size_t at = 0; at < len; at++) ((char *)to)[at] = (char)byte;
    return to;
}
OWN int memcmp(const void *a, const void *b, size_t len) {
    compares++;
    for (size_t at = 0; at < len; at++)
        if (((const char *)a)[at] != ((const char *)b)[at])
            return ((const char *)a)[at] - ((const char *)b)[at];
    return 0;
}
OWN size_t strlen(const char *text) {
    lengths++;
    size_t len = 0;
    while (text[len]) len++;
    return len;
}

static volatile sig_atomic_t handled;
static void handler(int number) { handled = number; }

// Enough for many chunks.
__attribute__((noinline)) static void work(void) {
    static volatile long words[512];
    for (int at = 0; at < 100000; at++) words[at % 512]++;
}

int main(int count, char **arguments) {
    char other[4096];
    if (count != 2) return 2;
    sl_phase("work");
    work();
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    FILE *file = fopen(arguments[1], "w");
    if (!file) return 2;
    fprintf(file, "twelve bytes");
    fseek(file, 4096, SEEK_SET);
    fprintf(file, "and more");
    if (fclose(file)) return 2;
    snprintf(other, sizeof other, "%s.renamed", arguments[1]);
    if (rename(arguments[1], other) || unlink(other)) return 2;
    printf("%ld clocks, %ld environments, %ld seeks, %ld masks, %ld lists, %ld copies, %ld fills, "
           "%ld compares, %ld lengths\n",
           clocks, environments, seeks, masks, lists, copies, fills, compares, lengths);
    // What the program asks for is done by its own definition.
    char a[8] = "abcdefg", b[8];
    long before = copies;
    strandline_memcpy(b, a, 8);
    printf("%ld %s\n", copies - before, b);
    return handled == SIGUSR1 ? 0 : 2;
}
