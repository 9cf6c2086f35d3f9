/* Changes a file in ways that go round the recorder, and in ways that look as if they did.
 *
 *   around WAY FOLDER          writes FOLDER/file, and FOLDER/other in the way
 *   around --plain FILE | FD   what a child of it does: writes the file, or to the descriptor
 */
#define _GNU_SOURCE
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static long raw(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static int made(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        exit(9);
    return fd;
}

/* Runs a program that is not observed. */
static void run(char *program, char *argument)
{
    char *const arguments[] = {program, "--plain", argument, 0}, *const nothing[] = {0};
    pid_t child;
    int status;
    if (posix_spawn(&child, program, 0, 0, arguments, nothing) || waitpid(child, &status, 0) != child || status)
        exit(8);
}

static void by_library(int fd)
{
    void *library = dlopen("./library.so", RTLD_NOW);
    ((void (*)(int))dlsym(library, "library"))(fd);
}

static void ring(int fd)
{
    struct io_uring_params params = {0};
    if (raw(SYS_io_uring_setup, 4, (long)&params, 0) < 0 || write(fd, "ring", 4) != 4)
        exit(7);
}

static void asynchronous(int fd)
{
    struct aiocb block = {.aio_fildes = fd, .aio_buf = "later", .aio_nbytes = 5};
    const struct aiocb *const blocks[] = {&block};
    if (aio_write(&block))
        exit(7);
    while (aio_suspend(blocks, 1, 0))
        ;
    if (aio_return(&block) != 5)
        exit(7);
}

/* A write that the C library takes and does not carry out. */
static void refused(const char *path)
{
    struct aiocb block = {.aio_fildes = open(path, O_RDONLY), .aio_buf = "later", .aio_nbytes = 5};
    const struct aiocb *const blocks[] = {&block};
    if (aio_write(&block))
        exit(7);
    while (aio_error(&block) == EINPROGRESS)
        aio_suspend(blocks, 1, 0);
    if (aio_return(&block) != -1)
        exit(7);
}

/* A write by the kernel's own calls, submitted by an instruction or by the C library's syscall. */
static void submitted(int fd, int by_instruction)
{
    aio_context_t context = 0;
    struct iocb block = {.aio_fildes = fd, .aio_lio_opcode = IOCB_CMD_PWRITE};
    struct iocb *list[] = {&block};
    struct io_event done;
    long taken;
    block.aio_buf = (long)"later";
    block.aio_nbytes = 5;
    if (syscall(SYS_io_setup, 4, &context))
        exit(7);
    if (by_instruction)
        taken = raw(SYS_io_submit, context, 1, (long)list);
    else
        taken = syscall(SYS_io_submit, context, 1, list);
    if (taken != 1)
        exit(7);
    if (syscall(SYS_io_getevents, context, 1, 1, &done, 0) != 1)
        exit(7);
    syscall(SYS_io_destroy, context);
}

static void *racing(void *word)
{
    for (long turn = 0; turn < 20000; turn++)
        *(volatile int *)word = (int)(turn * 2 + (pthread_self() & 1));
    return 0;
}

static void race(int fd)
{
    pthread_t other;
    int *words;
    if (ftruncate(fd, 4096))
        exit(7);
    words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_create(&other, 0, racing, words);
    for (int turn = 0; turn < 20000; turn++)
        *(volatile int *)words = -turn;
    pthread_join(other, 0);
}

/* What the C library keeps in objects that were made, and in one that threads wait for. */
static void *waiting(void *objects)
{
    pthread_mutex_t *mutex = objects;
    pthread_cond_t *condition = (pthread_cond_t *)((char *)objects + 1024);
    volatile long *ready = (long *)((char *)objects + 3072);
    pthread_mutex_lock(mutex);
    while (!*ready)
        pthread_cond_wait(condition, mutex);
    pthread_mutex_unlock(mutex);
    return 0;
}

static void objects(int fd)
{
    pthread_mutexattr_t mutual;
    pthread_condattr_t shared;
    pthread_t other;
    char *made;
    if (ftruncate(fd, 4096))
        exit(7);
    made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_mutexattr_init(&mutual);
    pthread_mutexattr_setpshared(&mutual, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&mutual, PTHREAD_MUTEX_ROBUST);
    pthread_condattr_init(&shared);
    pthread_condattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init((pthread_mutex_t *)made, &mutual);
    pthread_mutex_init((pthread_mutex_t *)(made + 512), &mutual); /* and never locked */
    pthread_cond_init((pthread_cond_t *)(made + 1024), &shared);
    sem_init((sem_t *)(made + 2048), 1, 3);
    pthread_barrier_init((pthread_barrier_t *)(made + 2560), 0, 2);
    pthread_create(&other, 0, waiting, made);
    usleep(20000);
    pthread_mutex_lock((pthread_mutex_t *)made);
    *(long *)(made + 3072) = 7;
    pthread_cond_signal((pthread_cond_t *)(made + 1024));
    pthread_mutex_unlock((pthread_mutex_t *)made);
    pthread_join(other, 0);
    pthread_mutex_destroy((pthread_mutex_t *)made);
}

static void lock(int fd)
{
    pthread_mutexattr_t shared;
    pthread_mutex_t *mutex;
    if (ftruncate(fd, 4096))
        exit(7);
    mutex = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mutex, &shared);
    pthread_mutex_lock(mutex);
    ((long *)mutex)[64] = 7;
}

int main(int count, char **words)
{
    char other[4096], more[4096];
    int fd;
    if (count < 3)
        return 9;
    if (!strcmp(words[1], "--plain")) {
        fd = words[2][0] == '/' ? made(words[2]) : atoi(words[2]);
        return pwrite(fd, "plain", 5, 0) != 5;
    }
    snprintf(other, sizeof other, "%s/other", words[2]);
    snprintf(more, sizeof more, "%s/more", words[2]);
    char path[4096];
    snprintf(path, sizeof path, "%s/file", words[2]);
    fd = made(path);
    if (write(fd, "recorded", 8) != 8 || fsync(fd))
        return 9;
    fd = made(other);
    if (!strcmp(words[1], "assembly")) {
        raw(SYS_write, fd, (long)"raw", 3);
    } else if (!strcmp(words[1], "made")) {
        raw(SYS_mkdir, (long)more, 0700, 0);
    } else if (!strcmp(words[1], "removed")) {
        raw(SYS_unlink, (long)other, 0, 0);
    } else if (!strcmp(words[1], "child")) {
        run("./plain", other);
    } else if (!strcmp(words[1], "passed")) {
        char number[8];
        snprintf(number, sizeof number, "%d", fd);
        run("./plain", number);
    } else if (!strcmp(words[1], "library")) {
        by_library(fd);
    } else if (!strcmp(words[1], "ring")) {
        ring(fd);
    } else if (!strcmp(words[1], "asynchronous")) {
        asynchronous(fd);
    } else if (!strcmp(words[1], "refused")) {
        refused(other);
    } else if (!strcmp(words[1], "submitted")) {
        submitted(fd, 0);
    } else if (!strcmp(words[1], "submitted-raw")) {
        submitted(fd, 1);
    } else if (!strcmp(words[1], "race")) {
        race(fd);
    } else if (!strcmp(words[1], "lock")) {
        lock(fd);
    } else if (!strcmp(words[1], "objects")) {
        objects(fd);
    } else if (!strcmp(words[1], "pool")) {
        lock(fd);
        lseek(fd, 1024, SEEK_SET);
        by_library(fd);
    } else if (!strcmp(words[1], "named")) {
        char outside[4096];
        snprintf(outside, sizeof outside, "%s-outside", words[2]);
        if (write(made(outside), "outside", 7) != 7 || rename(outside, more))
            return 7;
    } else if (!strcmp(words[1], "gone")) {
        if (unlink(other) || write(fd, "gone", 4) != 4)
            return 7;
    } else if (!strcmp(words[1], "sparse")) {
        if (ftruncate(fd, 5L << 30) || pwrite(fd, "far", 3, 3L << 30) != 3)
            return 7;
    } else if (!strcmp(words[1], "kinds")) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%.90s/socket", words[2]);
        if (mkfifo(more, 0600) || bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&address, sizeof address))
            return 7;
    } else if (!strcmp(words[1], "killed")) {
        by_library(fd);
        raise(SIGKILL);
    } else if (!strcmp(words[1], "worker")) {
        if (!fork()) {
            by_library(fd);
            raise(SIGKILL);
        }
        wait(0);
    } else if (!strcmp(words[1], "fork")) {
        if (!fork()) {
            if (write(fd, "child", 5) != 5)
                return 7;
            _exit(0);
        }
        wait(0);
        if (write(fd, "parent", 6) != 6)
            return 7;
    } else {
        return 9;
    }
    return 0;
}
