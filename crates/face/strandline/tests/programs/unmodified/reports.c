/*
 * reports SHAPE wrong|fixed: loses data in the folder d, in a way that public reports have, or does not.
 * reports judge SHAPE wrong|fixed POOL: recovers the folder, and says whether it is in order.
 * reports.py and reports.js lose the same.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD = 1024, RECORDS = 12, PAGE = 8192, SLOT = 512 };

static int fixed;

static void must(int right, const char *what)
{
    if (!right) {
        puts(what);
        exit(1);
    }
}

static int opened(const char *path, int flags)
{
    const int fd = open(path, flags, 0644);
    must(fd >= 0, path);
    return fd;
}

static void put(int fd, const char *bytes, size_t len, off_t at)
{
    must(pwrite(fd, bytes, len, at) == (ssize_t)len, "no room");
}

static void synced(const char *path)
{
    const int fd = opened(path, O_RDONLY);
    must(!fsync(fd) && !close(fd), "a sync failed");
}

static void said(int number)
{
    printf("saved %d\n", number);
    fflush(stdout);
}

/* A file of so many letters; durable, if that is wanted, but for its name. */
static void written(const char *path, char letter, size_t len, int durable)
{
    char bytes[PAGE];
    const int fd = opened(path, O_WRONLY | O_CREAT | O_TRUNC);
    memset(bytes, letter, len);
    put(fd, bytes, len, 0);
    must((!durable || !fsync(fd)) && !close(fd), "a sync failed");
}

/* A full log is left for the next one; only the table that is made of them is synced. */
static void logs(void)
{
    char record[RECORD];
    int fd = opened("d/log.1", O_WRONLY);
    for (int i = 0; i < 2 * RECORDS; i++) {
        if (i == RECORDS) {
            must((!fixed || !fsync(fd)) && !close(fd), "a sync failed");
            fd = opened("d/log.2", O_WRONLY);
        }
        memset(record, 'a' + i, sizeof record);
        put(fd, record, sizeof record, i % RECORDS * RECORD);
    }
    close(fd);
    written("d/table", 't', 100, 1);
}

/* A page of several sectors begins with its version, by which recovery knows what of the log is in it. */
static void version(void)
{
    char page[PAGE];
    const int log = opened("d/log", O_WRONLY), fd = opened("d/page", O_WRONLY);
    put(log, "2", 1, 0);
    must(!fsync(log), "a sync failed");
    memset(page, '2', sizeof page);
    put(fd, page, sizeof page, 0);
    must(!fsync(fd), "a sync failed");
}

static void *slot(void *number)
{
    const int at = (int)(long)number, fd = opened("d/slots", O_WRONLY);
    char record[SLOT];
    memset(record, 'r', sizeof record);
    put(fd, record, sizeof record, at * SLOT);
    must(!fdatasync(fd) && !close(fd), "a sync failed");
    said(at);
    return NULL;
}

/* Two threads have a slot of the log each; the later one is done first. */
static void slots(void)
{
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        must(!pthread_create(&thread, NULL, slot, (void *)(long)(fixed ? i : 1 - i)), "no thread");
        pthread_join(thread, NULL);
    }
}

/* What is synced is not what the stream still holds. */
static void unflushed(void)
{
    FILE *file = fopen("d/stream", "w");
    must(file != NULL, "no file");
    fputs("saved", file);
    must(!fixed || !fflush(file), "no room");
    must(!fsync(fileno(file)), "a sync failed");
    synced("d");
    said(1);
    fclose(file);
}

/* A file goes to another folder by a copy. */
static void moved(void)
{
    written("d/out/file", 'm', 3000, fixed);
    if (fixed)
        synced("d/out");
    must(!unlink("d/in/file"), "no file");
    synced("d/in");
}

/* Pages are written twice, so that one copy is whole; the first place is used again for the next one. */
static void twice(void)
{
    char page[2048];
    const int copy = opened("d/copy", O_WRONLY), home = opened("d/home", O_WRONLY);
    for (int i = 0; i < 2; i++) {
        memset(page, '0' + i, sizeof page);
        put(copy, page, sizeof page, 0);
        must(!fsync(copy), "a sync failed");
        put(home, page, sizeof page, i * 4096);
        must(!fixed || !fsync(home), "a sync failed");
    }
    must(!fsync(home), "a sync failed");
}

/* A link to the folder of the version leads to the next one. */
static void version_link(void)
{
    must(!mkdir("d/v2", 0755), "no folder");
    written("d/v2/data", 'd', 2000, fixed);
    if (fixed)
        synced("d/v2");
    must(!symlink("v2", "d/next"), "no link");
    if (fixed)
        synced("d");
    must(!rename("d/next", "d/current"), "no renaming");
    synced("d");
}

/* Numbers are given out up to a mark, which is set before. */
static void numbers(void)
{
    char text[16];
    const int fd = opened("d/mark", O_WRONLY);
    for (int i = 1; i <= 3; i++) {
        put(fd, text, (size_t)sprintf(text, "%d", i), 0);
        must(!fixed || !fsync(fd), "a sync failed");
        said(i);
    }
    must(!fsync(fd), "a sync failed");
}

static char bytes[65536];
static const char *pool;

static int read_all(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", pool, name);
    const int fd = open(path, O_RDONLY);
    memset(bytes, 0, sizeof bytes);
    const int len = fd < 0 ? -1 : (int)read(fd, bytes, sizeof bytes - 1);
    if (fd >= 0)
        close(fd);
    return len;
}

static int all(const char *at, int len, char letter)
{
    for (int i = 0; i < len; i++)
        if (at[i] != letter)
            return 0;
    return 1;
}

/* The greatest number that had been printed. */
static int printed(void)
{
    int last = -1, number;
    FILE *file = fopen(getenv("STRANDLINE_STDOUT"), "r");
    must(file != NULL, "nothing printed is known");
    while (fscanf(file, "saved %d\n", &number) == 1)
        last = number > last ? number : last;
    fclose(file);
    return last;
}

static void judge(const char *shape)
{
    if (!strcmp(shape, "logs")) {
        int first = 0, second;
        read_all("log.1");
        while (first < RECORDS && all(bytes + first * RECORD, RECORD, (char)('a' + first)))
            first++;
        read_all("log.2");
        second = all(bytes, RECORD, 'a' + RECORDS);
        must(!second || first == RECORDS, "a later record is there without an earlier one");
    } else if (!strcmp(shape, "version")) {
        const int logged = read_all("log") == 1;
        must(read_all("page") == PAGE, "no page");
        /* The fixed recovery applies what the page says that it has, too. */
        const int applies = logged && bytes[0] < (fixed ? '3' : '2');
        must(applies || all(bytes, PAGE, bytes[0]), "the page is not of its version");
    } else if (!strcmp(shape, "slots")) {
        int found = 0;
        const int last = printed();
        read_all("slots");
        while (found < 2 && all(bytes + found * SLOT, SLOT, 'r'))
            found++;
        must(last < found, "a record behind a hole is lost");
    } else if (!strcmp(shape, "unflushed")) {
        must(printed() < 0 || (read_all("stream") == 5 && !memcmp(bytes, "saved", 5)), "the stream is lost");
    } else if (!strcmp(shape, "moved")) {
        const int there = read_all("in/file") == 3000 && all(bytes, 3000, 'm');
        must(there || (read_all("out/file") == 3000 && all(bytes, 3000, 'm')),
             "the file is in neither folder");
    } else if (!strcmp(shape, "twice")) {
        char copy[2048];
        read_all("copy");
        memcpy(copy, bytes, sizeof copy);
        read_all("home");
        for (int i = 0; i < 2; i++) {
            const char *page = bytes + i * 4096;
            const int is_copied = all(copy, sizeof copy, (char)('0' + i));
            must(is_copied || all(page, 2048, page[0]), "no copy of a page is whole");
        }
    } else if (!strcmp(shape, "link")) {
        const int len = read_all("current/data");
        must((len == 2000 && all(bytes, len, 'd')) || (len == 3 && all(bytes, len, 'o')),
             "the version is not whole");
    } else {
        must(read_all("mark") >= 0 && atoi(bytes) >= printed(), "a number is given out again");
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } shapes[] = {
        { "logs", logs },   { "version", version }, { "slots", slots },       { "unflushed", unflushed },
        { "moved", moved }, { "twice", twice },     { "link", version_link }, { "numbers", numbers },
    };
    if (argc == 5 && !strcmp(argv[1], "judge")) {
        fixed = !strcmp(argv[3], "fixed");
        pool = argv[4];
        judge(argv[2]);
        return 0;
    }
    must(argc == 3, "reports SHAPE wrong|fixed");
    fixed = !strcmp(argv[2], "fixed");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(argv[1], shapes[i].name))
            return shapes[i].run(), 0;
    return 2;
}
