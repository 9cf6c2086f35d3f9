/* Makes one call, or a few of one kind, that docs/check.md names.
 *
 *   calls CALL FOLDER      in FOLDER are `file` and `other`, of 8192 bytes each, and a folder `sub`;
         `file` has an
 *                          attribute from `attributes`
 *
 * The call's result is checked: status 9 if it failed, 7 if this system has none.
 */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <wchar.h>

static int failed(const char *what, int line)
{
    const int none = errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM || errno == ENODATA ||
                     errno == ENOTTY;
    fprintf(stderr, "%s, line %d: %s\n", what, line, strerror(errno));
    exit(none ? 7 : 9);
}
#define DO(call) do { errno = 0; if (!(call)) failed(#call, __LINE__); } while (0)
#define IS(name) (!strcmp(call, name))

static struct iovec parts[] = {{"some", 4}, {"thing", 5}};

/* Contents, by descriptor. True if it is one of these. */
static int contents(const char *call, int fd, int other)
{
    off_t at = 100, from = 0;
    if (IS("write")) DO(write(fd, "written", 7) == 7);
    else if (IS("pwrite")) DO(pwrite(fd, "written", 7, 5000) == 7);
    else if (IS("writev")) DO(writev(fd, parts, 2) == 9);
    else if (IS("pwritev")) DO(pwritev(fd, parts, 2, 3) == 9);
    else if (IS("pwritev2")) DO(pwritev2(fd, parts, 2, 3, RWF_DSYNC) == 9);
    else if (IS("pwritev2-append")) DO(pwritev2(fd, parts, 2, 3, RWF_APPEND) == 9);
    else if (IS("pwritev2-here")) DO(lseek(fd, 50, SEEK_SET) == 50 && pwritev2(fd, parts, 2, -1, 0) == 9
            && write(fd, "x", 1) == 1);
    else if (IS("ftruncate")) DO(!ftruncate(fd, 5000));
    else if (IS("ftruncate-longer")) DO(!ftruncate(fd, 20000) && pwrite(fd, "x", 1, 15000) == 1);
    else if (IS("posix_fallocate")) DO(!posix_fallocate(fd, 0, 20000));
    else if (IS("fallocate")) DO(!fallocate(fd, 0, 8000, 8000));
    else if (IS("fallocate-keep")) DO(!fallocate(fd, FALLOC_FL_KEEP_SIZE, 8000, 8000));
    else if (IS("fallocate-punch")) DO(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1000,
            5000));
    else if (IS("fallocate-zero")) DO(!fallocate(fd, FALLOC_FL_ZERO_RANGE, 1000, 10000));
    else if (IS("fallocate-zero-keep")) DO(!fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 1000,
            10000));
    else if (IS("fallocate-collapse")) DO(!fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
    else if (IS("fallocate-insert")) DO(!fallocate(fd, FALLOC_FL_INSERT_RANGE, 4096, 4096));
    else if (IS("copy_file_range")) DO(copy_file_range(other, &from, fd, &at, 3000, 0) == 3000);
    else if (IS("copy_file_range-here")) DO(copy_file_range(other, 0, fd, 0, 3000, 0) == 3000 && write(fd,
            "x", 1) == 1);
    else if (IS("sendfile")) DO(sendfile(fd, other, &from, 3000) == 3000);
    else if (IS("splice")) {
        int ends[2];
        DO(!pipe(ends) && write(ends[1], "spliced", 7) == 7);
        DO(splice(ends[0], 0, fd, &at, 7, 0) == 7);
    } else if (IS("dup")) {
        const int two = dup(fd), three = dup2(fd, 77), four = fcntl(fd, F_DUPFD, 80);
        DO(write(two, "one", 3) == 3 && write(three, "two", 3) == 3 && write(four, "three", 5) == 5
                && write(fd, "four", 4) == 4);
    } else if (IS("fcntl-append")) DO(!fcntl(fd, F_SETFL, O_APPEND) && write(fd, "at the end", 10) == 10);
    else if (IS("append")) {
        const int end = open("file", O_WRONLY | O_APPEND);
        DO(end >= 0 && write(end, "at the end", 10) == 10 && pwrite(end, "too", 3, 0) == 3);
    } else if (IS("dprintf")) DO(dprintf(fd, "%d and %s", 12, "more") == 11);
    else if (IS("lseek-hole")) DO(lseek(fd, 100000, SEEK_SET) == 100000 && write(fd, "far", 3) == 3);
    else return 0;
    return 1;
}

static int streams(const char *call)
{
    FILE *f;
    if (IS("fopen")) { DO((f = fopen("new", "w")) && fputs("text", f) >= 0 && !fclose(f)); }
    else if (IS("fopen-append")) { DO((f = fopen("file", "a")) && fputs("text", f) >= 0 && !fclose(f)); }
    else if (IS("fopen-update")) { DO((f = fopen("file", "r+")) && fgetc(f) >= 0 && !fseek(f, 7, SEEK_SET)
            && fputs("text", f) >= 0 && !fclose(f)); }
    else if (IS("fopen-exclusive")) { DO((f = fopen("new", "wx")) && fputs("text", f) >= 0 && !fclose(f)); }
    else if (IS("fdopen")) { DO((f = fdopen(open("file", O_RDWR), "r+")) && fputs("text", f) >= 0
            && !fflush(f) && !fsync(fileno(f)) && !fclose(f)); }
    else if (IS("freopen")) { DO((f = fopen("file", "r+")) && (f = freopen("new", "w", f)) && fputs("text",
            f) >= 0 && !fclose(f)); }
    else if (IS("freopen-out")) { DO(freopen("new", "w", stdout) && printf("%d lines\n", 3) > 0
            && puts("more") >= 0 && putchar('x') == 'x' && !fflush(stdout)); }
    else if (IS("stream-functions")) {
        DO(f = fopen("new", "w+"));
        DO(fprintf(f, "%d", 1234) == 4 && fputc('x', f) == 'x' && putc('y', f) == 'y' && fwrite("words", 1,
                5, f) == 5 && putw(77, f) == 0);
        DO(fseek(f, 2, SEEK_SET) == 0 && fputs("zz", f) >= 0 && fflush(f) == 0);
        rewind(f);
        DO(fgetc(f) == '1' && !fclose(f));
    } else if (IS("setvbuf")) { DO((f = fopen("new", "w")) && !setvbuf(f, 0, _IONBF, 0) && fputs("text",
            f) >= 0); _exit(0); }
    else if (IS("unflushed")) { DO((f = fopen("new", "w")) && fputs("text", f) >= 0); _exit(0); }
    else if (IS("at-exit")) { DO((f = fopen("new", "w")) && fputs("text", f) >= 0); exit(0); }
    else if (IS("fputws")) { DO((f = fopen("new", "w")) && (fputws(L"wide", f), fputs("text", f), 1)
            && !fclose(f)); }
    else if (IS("fwprintf")) { DO((f = fopen("new", "w")) && fwprintf(f, L"%d", 12) != 0); }
    else if (IS("fwide")) { DO((f = fopen("new", "w")) && fputs("text", f) >= 0 && (fwide(f, 1), 1)
            && !fclose(f)); }
    else if (IS("fputwc")) { DO((f = fopen("new", "w")) && (fputwc(L'x', f), putwc(L'x', f), fputs("text",
            f), 1) && !fclose(f)); }
    else if (IS("tmpfile")) { DO((f = tmpfile()) && fputs("text", f) >= 0 && !fclose(f)); DO(creat("new",
            0600) >= 0); }
    else return 0;
    return 1;
}

static int names(const char *call)
{
    char made[] = "madeXXXXXX", ends[] = "madeXXXXXX.end";
    const int here = open(".", O_RDONLY | O_DIRECTORY), sub = open("sub", O_PATH | O_DIRECTORY);
    int fd;
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600};
    DO(here >= 0 && sub >= 0);
    if (IS("open")) { DO((fd = open("new", O_RDWR | O_CREAT | O_EXCL, 0600)) >= 0 && write(fd, "x",
            1) == 1); }
    else if (IS("open-truncate")) { DO((fd = open("file", O_RDWR | O_TRUNC)) >= 0 && write(fd, "x",
            1) == 1); }
    else if (IS("creat")) DO(creat("new", 0600) >= 0);
    else if (IS("openat")) { DO((fd = openat(sub, "new", O_RDWR | O_CREAT, 0600)) >= 0 && write(fd, "x",
            1) == 1); }
    else if (IS("openat2")) { DO((fd = syscall(SYS_openat2, sub, "new", &how, sizeof how)) >= 0 && write(fd,
            "x", 1) == 1); }
    else if (IS("nameless")) {
        char path[64];
        DO((fd = open(".", O_RDWR | O_TMPFILE, 0600)) >= 0 && write(fd, "x", 1) == 1);
        sprintf(path, "/proc/self/fd/%d", fd);
        DO(!linkat(AT_FDCWD, path, AT_FDCWD, "new", AT_SYMLINK_FOLLOW) && write(fd, "y", 1) == 1);
    } else if (IS("mkstemp")) { DO((fd = mkstemp(made)) >= 0 && write(fd, "x", 1) == 1); }
    else if (IS("mkstemps")) { DO((fd = mkstemps(ends, 4)) >= 0 && write(fd, "x", 1) == 1); }
    else if (IS("mkdtemp")) DO(mkdtemp(made) == made);
    else if (IS("rename")) DO(!rename("file", "new"));
    else if (IS("rename-over")) DO(!rename("file", "other"));
    else if (IS("rename-folder")) { DO(close(open("sub/in", O_CREAT | O_WRONLY, 0600)) == 0
            && !rename("sub", "moved") && (fd = open("moved/in", O_WRONLY)) >= 0 && write(fd, "x", 1) == 1); }
    else if (IS("renameat")) DO(!renameat(here, "file", sub, "file"));
    else if (IS("renameat2-exchange")) DO(!renameat2(here, "file", here, "other", RENAME_EXCHANGE));
    else if (IS("renameat2-noreplace")) DO(!renameat2(here, "file", sub, "new", RENAME_NOREPLACE));
    else if (IS("renameat2-whiteout")) DO(!renameat2(here, "file", sub, "new", RENAME_WHITEOUT));
    else if (IS("link")) DO(!link("file", "new"));
    else if (IS("linkat")) DO(!linkat(here, "file", sub, "new", 0));
    else if (IS("linkat-empty")) { DO((fd = open("file", O_RDWR)) >= 0 && !linkat(fd, "", here, "new",
            AT_EMPTY_PATH)); }
    else if (IS("symlink")) { DO(!symlink("file", "new") && (fd = open("new", O_WRONLY)) >= 0 && write(fd,
            "x", 1) == 1); }
    else if (IS("symlinkat")) DO(!symlinkat("../file", sub, "new"));
    else if (IS("symlink-create")) { DO(!symlink("sub/real", "new") && (fd = open("new", O_WRONLY | O_CREAT,
            0600)) >= 0 && write(fd, "x", 1) == 1); }
    else if (IS("symlink-folder")) { DO(!symlink("sub", "way") && (fd = open("way/new", O_WRONLY | O_CREAT,
            0600)) >= 0 && write(fd, "x", 1) == 1 && !rename("way/new", "way/newer")); }
    else if (IS("unlink")) DO(!unlink("file"));
    else if (IS("unlinkat")) DO(!unlinkat(here, "file", 0));
    else if (IS("unlinkat-folder")) DO(!unlinkat(here, "sub", AT_REMOVEDIR));
    else if (IS("unlink-open")) { DO((fd = open("file", O_RDWR)) >= 0 && !unlink("file") && write(fd, "x",
            1) == 1 && !fsync(fd)); DO((fd = open("file", O_RDWR | O_CREAT, 0600)) >= 0 && write(fd, "new",
            3) == 3); }
    else if (IS("remove")) DO(!remove("file") && !remove("sub"));
    else if (IS("mkdir")) DO(!mkdir("new", 0700));
    else if (IS("mkdirat")) DO(!mkdirat(sub, "new", 0700));
    else if (IS("rmdir")) DO(!rmdir("sub"));
    else if (IS("truncate")) DO(!truncate("file", 100));
    else if (IS("chdir")) { DO(!chdir("sub") && (fd = open("../file", O_WRONLY)) >= 0 && write(fd, "x",
            1) == 1 && !rename("../other", "other")); }
    else if (IS("mkfifo")) DO(!mkfifo("new", 0600) && (fd = creat("newer", 0600)) >= 0);
    else if (IS("mknod-file")) DO(!mknod("new", S_IFREG | 0600, 0) && (fd = open("new", O_WRONLY)) >= 0
            && write(fd, "x", 1) == 1);
    else if (IS("bind")) {
        struct { unsigned short family; char path[100]; } name = {AF_UNIX, "new"};
        DO((fd = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0 && !bind(fd, (void *)&name, sizeof name)
                && !unlink("new") && creat("newer", 0600) >= 0);
    } else return 0;
    return 1;
}

static int syncs(const char *call, int fd)
{
    if (IS("fsync")) DO(write(fd, "x", 1) == 1 && !fsync(fd));
    else if (IS("fdatasync")) DO(write(fd, "x", 1) == 1 && !fdatasync(fd));
    else if (IS("sync")) { DO(write(fd, "x", 1) == 1); sync(); }
    else if (IS("syncfs")) DO(write(fd, "x", 1) == 1 && !syncfs(fd));
    else if (IS("sync_file_range")) DO(write(fd, "x", 1) == 1 && !sync_file_range(fd, 0, 0, 7));
    else if (IS("fsync-folder")) { DO(creat("new", 0600) >= 0 && (fd = open(".", O_RDONLY)) >= 0
            && !fsync(fd)); }
    else if (IS("open-dsync")) { DO((fd = open("file", O_WRONLY | O_DSYNC)) >= 0 && write(fd, "x", 1) == 1); }
    else if (IS("posix_fadvise")) DO(write(fd, "x", 1) == 1 && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)
            && !readahead(fd, 0, 4096));
    else if (IS("flock")) DO(!lockf(fd, F_LOCK, 0) && write(fd, "x", 1) == 1);
    else if (IS("chmod")) { struct timeval t[2] = {{1, 0}, {1, 0}}; DO(write(fd, "x", 1) == 1 && !fchmod(fd,
            0640) && !chmod("file", 0600) && !utimes("file", t) && !chown("file", -1, -1) && !futimens(fd,
            0)); }
    else return 0;
    return 1;
}

static int mappings(const char *call, int fd)
{
    char *at = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    DO(at != MAP_FAILED);
    if (IS("mmap")) { at[100] = 1; DO(!msync(at, 8192, MS_SYNC)); }
    else if (IS("msync-async")) { at[100] = 1; DO(!msync(at, 8192, MS_ASYNC)); }
    else if (IS("munmap")) { at[100] = 1; DO(!munmap(at, 4096)); at[5000] = 1; }
    else if (IS("mremap")) { at[100] = 1; DO(!ftruncate(fd, 16384) && (at = mremap(at, 8192, 16384,
            MREMAP_MAYMOVE)) != MAP_FAILED); at[15000] = 2; }
    else if (IS("mmap-private")) { char *own = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
            own[5] = 1; at[3] = 2; }
    else if (IS("mmap-offset")) { char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
            page[5] = 1; at[4096 + 9] = 2; }
    else if (IS("mmap-number")) { char *page = (char *)syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
            MAP_SHARED, fd, 4096); page[5] = 1; }
    else if (IS("mmap-close")) { DO(!close(fd)); at[7] = 3; DO(!rename("file", "new")); at[9] = 3; }
    else if (IS("mprotect")) { DO(!mprotect(at, 8192, PROT_READ) && !mprotect(at, 8192,
            PROT_READ | PROT_WRITE)); at[7] = 3; }
    else if (IS("read-into")) { int from = open("other", O_RDONLY); DO(read(from, at + 10, 100) == 100
            && pread(from, at + 3000, 10, 7) == 10); }
    else if (IS("mmap-write")) { at[5] = 1; DO(pwrite(fd, "both", 4, 4) == 4); at[6] = 2; DO(!ftruncate(fd,
            4096) && !ftruncate(fd, 8192)); at[5000] = 1; }
    else if (IS("madvise-remove")) { at[5] = 1; DO(!madvise(at, 4096, MADV_REMOVE)); }
    else if (IS("madvise-dontneed")) { at[5] = 1; DO(!madvise(at, 4096, MADV_DONTNEED)); at[6] = 1; }
    else if (IS("write-itself")) { DO(pwrite(fd, at + 4096, 100, 0) == 100 && write(fd, at, 300) == 300); }
    else return 0;
    return 1;
}

static int numbers(const char *call, int fd)
{
    if (IS("syscall-pwrite")) DO(syscall(SYS_pwrite64, fd, "x", 1L, 10L) == 1 && !syscall(SYS_fsync, fd));
    else if (IS("syscall-rename")) DO(!syscall(SYS_rename, "file", "new") && !syscall(SYS_mkdirat, AT_FDCWD,
            "made", 0700));
    else if (IS("syscall-ftruncate")) DO(!syscall(SYS_ftruncate, fd, 100L));
    else if (IS("syscall-link")) DO(!syscall(SYS_linkat, AT_FDCWD, "file", AT_FDCWD, "new", 0)
            && !syscall(SYS_symlink, "file", "way") && !syscall(SYS_unlink, "file"));
    else if (IS("syscall-fallocate")) DO(!syscall(SYS_fallocate, fd, 0, 8000L, 8000L));
    else if (IS("syscall-openat2")) { struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600};
            DO((fd = syscall(SYS_openat2, AT_FDCWD, "new", &how, sizeof how)) >= 0 && write(fd, "x",
            1) == 1); }
    else if (IS("syscall-mknod")) DO(!syscall(SYS_mknodat, AT_FDCWD, "new", S_IFREG | 0600, 0));
    else return 0;
    return 1;
}

static int others(const char *call, int fd, int other)
{
    struct file_clone_range range = {.src_fd = other, .src_length = 4096};
    struct aiocb block = {.aio_fildes = fd, .aio_buf = "later", .aio_nbytes = 5, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *const blocks[] = {&block};
    if (IS("attributes")) setxattr("file", "user.there", "1", 1, 0);
    else if (IS("setxattr")) DO(write(fd, "x", 1) == 1 && !setxattr("file", "user.state", "1", 1, 0));
    else if (IS("fsetxattr")) DO(write(fd, "x", 1) == 1 && !fsetxattr(fd, "user.state", "1", 1, 0));
    else if (IS("lsetxattr")) DO(write(fd, "x", 1) == 1 && !lsetxattr("file", "user.state", "1", 1, 0));
    else if (IS("removexattr")) DO(write(fd, "x", 1) == 1 && !removexattr("file", "user.there"));
    else if (IS("lremovexattr")) DO(write(fd, "x", 1) == 1 && !lremovexattr("file", "user.there"));
    else if (IS("fremovexattr")) DO(write(fd, "x", 1) == 1 && !fremovexattr(fd, "user.there"));
    else if (IS("rights")) DO(write(fd, "x", 1) == 1 && (setxattr("file", "security.strandline", "1", 1, 0),
            1));
    else if (IS("syscall-fsetxattr")) DO(write(fd, "x", 1) == 1 && !syscall(SYS_fsetxattr, fd, "user.state",
            "1", 1L, 0L));
    else if (IS("syscall-ioctl")) { struct { short type, whence; long long start, len; int id; unsigned pid;
            int pad[4]; } space = {0, 0, 100, 1000, 0, 0, {0}}; DO(!syscall(SYS_ioctl, fd, 0x40305839L,
            &space)); }
    else if (IS("syscall-ring")) { char params[256] = {0}; DO(write(fd, "x", 1) == 1
            && syscall(SYS_io_uring_setup, 4L, params) >= 0); }
    else if (IS("aio_write")) { DO(!aio_write(&block)); while (aio_error(&block) == EINPROGRESS);
            DO(aio_return(&block) == 5); }
    else if (IS("aio_fsync")) { DO(write(fd, "x", 1) == 1 && !aio_fsync(O_SYNC, &block));
            while (aio_error(&block) == EINPROGRESS); }
    else if (IS("aio_read")) { char to[5]; DO(write(fd, "x", 1) == 1); block.aio_buf = to;
            DO(!aio_read(&block)); while (aio_error(&block) == EINPROGRESS); }
    else if (IS("lio_listio")) DO(!lio_listio(LIO_WAIT, blocks, 1, 0));
    else if (IS("clone")) DO(!ioctl(fd, FICLONE, other));
    else if (IS("clone-range")) DO(!ioctl(fd, FICLONERANGE, &range));
    else if (IS("zero-range")) { struct { short type, whence; long long start, len; int id; unsigned pid;
            int pad[4]; } space = {0, 0, 100, 1000, 0, 0, {0}}; DO(!ioctl(fd, 0x40305839, &space)); }
    else if (IS("punch-range")) { struct { short type, whence; long long start, len; int id; unsigned pid;
            int pad[4]; } space = {0, 0, 100, 1000, 0, 0, {0}}; DO(!ioctl(fd, 0x4030582b, &space)); }
    else if (IS("fork")) { if (!fork()) { DO(write(fd, "child", 5) == 5); _exit(0); } DO(pwrite(other, "x",
            1, 0) == 1); int status; waitpid(-1, &status, 0); DO(write(fd, "parent", 6) == 6); }
    else if (IS("system")) { DO(write(fd, "x", 1) == 1); fflush(0); DO(!system("echo more >> file")); }
    else if (IS("shell-rename")) { DO(write(fd, "x", 1) == 1); DO(!system("mv file new")); }
    else return 0;
    return 1;
}


int main(int count, char **arguments)
{
    if (count != 3) return 2;
    const char *call = arguments[1];
    DO(!chdir(arguments[2]));
    if (streams(call) || names(call)) return 0;
    const int fd = open("file", O_RDWR), other = open("other", O_RDWR);
    DO(fd >= 0 && other >= 0);
    return contents(call, fd, other) || syncs(call, fd) || numbers(call, fd) || others(call, fd,
            other) || mappings(call, fd) ? 0 : 2;
}
