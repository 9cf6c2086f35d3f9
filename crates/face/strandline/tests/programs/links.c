/* Ways to give files names, and syncs of everything. links SHAPE DIR works, links --verify SHAPE DIR checks an image.
 * A shape with a minus is wrong everywhere, one with an equals sign where names have no order. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strandline.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *folder;
static int wrong, weak;

static const char *in(const char *name)
{
    static char path[4][300];
    static int i;
    char *p = path[i++ & 3];
    snprintf(p, 300, "%s/%s", folder, name);
    return p;
}

static void put(const char *name, const char *text, int synced)
{
    int f = open(in(name), O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (write(f, text, strlen(text)) < 0)
        perror(name);
    if (synced)
        fsync(f);
    close(f);
}

static char *get(const char *name)
{
    static char bytes[20000];
    int f = open(in(name), O_RDONLY);
    long n = f < 0 ? -1 : read(f, bytes, sizeof bytes - 1);
    if (f >= 0)
        close(f);
    bytes[n < 0 ? 0 : n] = 0;
    return bytes;
}

static void sync_folder(void)
{
    int f = open(folder, O_RDONLY | O_DIRECTORY);
    fsync(f);
    close(f);
}

static void done(void)
{
    sl_region_begin(1);
    sl_region_end(1);
}

/* Mail delivery: written to tmp, synced, linked to new, tmp removed. */
static void mail(void)
{
    put("tmp", "mail", !wrong);
    sync_folder();
    done();
    if (link(in("tmp"), in("new")))
        exit(2);
    if (!weak)
        sync_folder();
    unlink(in("tmp"));
    sync_folder();
}

/* A link to the current version, replaced by a renaming; then the old version goes. */
static void version(void)
{
    put("v1", "1", 1);
    sync_folder();
    if (symlink("v1", in("current")))
        exit(2);
    sync_folder();
    done();
    put("v2", "2", 1);
    if (symlink("v2", in("next")))
        exit(2);
    if (!weak)
        sync_folder();
    if (wrong)
        unlink(in("v1"));
    rename(in("next"), in("current"));
    if (!weak)
        sync_folder();
    unlink(in("v1"));
    sync_folder();
}

/* A file without a name that gets one when it is whole. */
static void nameless(int by_number)
{
    char self[64];
    int f = open(folder, O_TMPFILE | O_RDWR, 0644);
    if (f < 0 || write(f, "12345", 5) != 5)
        exit(2);
    if (!wrong)
        fsync(f);
    snprintf(self, 64, "/proc/self/fd/%d", f);
    if (by_number ? syscall(SYS_linkat, f, "", AT_FDCWD, in("a"), AT_EMPTY_PATH)
                  : linkat(AT_FDCWD, self, AT_FDCWD, in("a"), AT_SYMLINK_FOLLOW))
        exit(2);
    sync_folder();
    done();
}

/* Everything is synced at once. */
static void everything(const char *shape)
{
    int f = open(in("a"), O_CREAT | O_WRONLY, 0644), other = open("/proc", O_RDONLY);
    if (write(f, "12345", 5) != 5)
        exit(2);
    if (!strcmp(shape, "syncfs"))
        syncfs(wrong ? other : f);
    else if (!wrong)
        sync();
    done();
}

/* Two files exchange their names, at once; the new one was synced. */
static void exchange(void)
{
    put("a", "12345", 1);
    sync_folder();
    done();
    put("b", "54321", !wrong);
    if (syscall(SYS_renameat2, AT_FDCWD, in("b"), AT_FDCWD, in("a"), 2 /* RENAME_EXCHANGE */))
        exit(2);
    sync_folder();
}

/* The first page of a log is taken out. */
static void collapse(void)
{
    static char text[12289];
    memset(text, 'x', 4096);
    memset(text + 4096, 'y', 8192);
    int f = open(in("a"), O_CREAT | O_RDWR, 0644);
    if (write(f, text, 12288) != 12288)
        exit(2);
    fsync(f);
    sync_folder();
    /* Not every file system can do it at once. */
    if (fallocate(f, FALLOC_FL_COLLAPSE_RANGE, 0, 4096)
        && (pwrite(f, text + 4096, 8192, 0) != 8192 || ftruncate(f, 8192)))
        exit(2);
    if (!wrong)
        fsync(f);
    done();
    close(f);
}

/* A file that is written to by its number, after the name by which it was opened is gone. */
static void renamed(void)
{
    int f = syscall(SYS_openat, AT_FDCWD, in("tmp"), O_CREAT | O_RDWR, 0644);
    if (link(in("tmp"), in("a")) || unlink(in("tmp")) || syscall(SYS_pwrite64, f, "12345", 5, 0) != 5)
        exit(2);
    if (!wrong)
        syscall(SYS_fsync, f);
    sync_folder();
    done();
}

/* A stream that is opened again writes by itself. */
static void reopened(void)
{
    FILE *f = freopen(in("a"), "w", fopen("/dev/null", "w"));
    if (!f || fputs("12545", f) < 0 || fseek(f, 2, SEEK_SET) || fputs("3", f) < 0 || fflush(f))
        exit(2);
    if (!wrong)
        fsync(fileno(f));
    sync_folder();
    done();
    fputs("4", f);
    fclose(freopen("/dev/null", "r", f));
}

static int verify(const char *shape, int was_done)
{
    char target[300];
    long n;
    if (!strcmp(shape, "mail"))
        return was_done && strcmp(get("tmp"), "mail") && strcmp(get("new"), "mail");
    if (!strcmp(shape, "version")) {
        if ((n = readlink(in("current"), target, 299)) < 0)
            return was_done;
        target[n] = 0;
        return !*get(target) || strcmp(get(target), get("current"));
    }
    if (!strcmp(shape, "exchange"))
        return was_done && strcmp(get("a"), "12345") && strcmp(get("a"), "54321");
    if (!strcmp(shape, "collapse"))
        return was_done && (get("a")[0] != 'y' || strlen(get("a")) != 8192);
    return was_done && strcmp(get("a"), "12345");
}

int main(int count, char **words)
{
    int verifies = count > 3;
    const char *shape = words[1 + verifies], *ended = getenv("STRANDLINE_DONE");
    folder = words[2 + verifies];
    if (verifies)
        return verify(shape + strspn(shape, "-="), atoi(ended ? ended : "0"));
    wrong = *shape == '-', weak = *shape == '=';
    shape += wrong | weak;
    if (!strcmp(shape, "mail"))
        mail();
    else if (!strcmp(shape, "version"))
        version();
    else if (!strncmp(shape, "nameless", 8))
        nameless(shape[8] != 0);
    else if (!strcmp(shape, "exchange"))
        exchange();
    else if (!strcmp(shape, "collapse"))
        collapse();
    else if (!strcmp(shape, "renamed"))
        renamed();
    else if (!strcmp(shape, "reopened"))
        reopened();
    else
        everything(shape);
    return 0;
}
