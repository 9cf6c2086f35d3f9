/* Does to the files below the folder argv[1] what programs do to files, and a few things besides to those elsewhere. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int done, const char *what)
{
    if (!done) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static char big[200000];
    char template[PATH_MAX];
    must(argc == 2 && chdir(argv[1]) == 0, "chdir");

    /* Positions, appending, parts, lengths. */
    int fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0600);
    must(fd >= 0, "open");
    must(write(fd, "one", 3) == 3, "write");
    must(pwrite(fd, "two", 3, 100) == 3, "pwrite");
    must(write(fd, "three", 5) == 5, "write");
    struct iovec parts[3] = {{"ab", 2}, {"", 0}, {"cde", 3}};
    must(writev(fd, parts, 3) == 5, "writev");
    must(pwritev(fd, parts, 3, 200) == 5, "pwritev");
    must(lseek(fd, 50, SEEK_SET) == 50 && write(fd, "seek", 4) == 4, "lseek");
    must(fdatasync(fd) == 0, "fdatasync");
    must(ftruncate(fd, 1000) == 0 && ftruncate(fd, 1000) == 0, "ftruncate");
    must(truncate("a", 2000) == 0, "truncate");
    must(posix_fallocate(fd, 0, 3000) == 0, "posix_fallocate");
    must(fsync(fd) == 0, "fsync");
    int other = dup(fd);
    must(close(fd) == 0 && pwrite(other, "dup", 3, 7) == 3, "dup");
    must(write(other, "gone", 4) == 4 && pwrite(other, "bad", 3, -1) == -1 && errno == EINVAL, "offset");
    close(other);

    /* To the end, and at once to the medium. */
    fd = open("a", O_WRONLY | O_APPEND | O_DSYNC);
    must(write(fd, "end", 3) == 3, "append");
    close(fd);

    /* More than one record holds. */
    for (size_t at = 0; at < sizeof(big); at++)
        big[at] = (char)(at * 7 + at / 251);
    fd = creat("big", 0600);
    must(write(fd, big, sizeof(big)) == sizeof(big), "big");
    close(fd);
    fd = open("big", O_WRONLY | O_TRUNC);
    close(fd);

    /* A new version of a file, in a folder of its own. */
    must(mkdir("d", 0700) == 0, "mkdir");
    strcpy(template, "d/tmp-XXXXXX");
    fd = mkstemp(template);
    must(fd >= 0 && write(fd, "new", 3) == 3 && fsync(fd) == 0, "mkstemp");
    must(rename(template, "d/../d/final") == 0, "rename");
    must(pwrite(fd, "N", 1, 0) == 1, "after rename");
    must(rename("d/final", "/nowhere/final") == -1, "no rename");
    int folder = open("d", O_RDONLY | O_DIRECTORY);
    must(fsync(folder) == 0, "fsync of a folder");
    must(unlinkat(folder, "final", 0) == 0, "unlinkat");
    must(write(fd, "unlinked", 8) == 8, "after unlink");
    must(unlink("d/none") == -1, "no unlink");
    close(fd), close(folder);
    must(rmdir("d") == 0, "rmdir");

    /* Mapped, from its second page. */
    fd = open("m", O_RDWR | O_CREAT, 0600);
    must(ftruncate(fd, 3 * 4096) == 0, "ftruncate");
    volatile char *map = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
    must(map != MAP_FAILED, "mmap");
    map[5] = 9;
    must(msync((void *)map, 4096, MS_SYNC) == 0 && msync((void *)map, 4096, MS_ASYNC) == 0, "msync");
    munmap((void *)map, 2 * 4096);
    close(fd);

    /* A child appends to a file that it inherited. */
    fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    must(write(fd, "parent", 6) == 6, "log");
    pid_t child = fork();
    if (child == 0)
        _exit(write(fd, "child", 5) == 5 ? 0 : 1);
    int status;
    must(waitpid(child, &status, 0) == child && status == 0, "child");
    must(write(fd, "again", 5) == 5, "log");
    close(fd);

    /* None of the user's files. */
    int pipes[2];
    must(pipe(pipes) == 0 && write(pipes[1], "pipe", 4) == 4, "pipe");
    strcpy(template, "../elsewhere");
    fd = open(template, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(write(fd, "elsewhere", 9) == 9 && fsync(fd) == 0 && unlink(template) == 0, "elsewhere");
    return 0;
}
