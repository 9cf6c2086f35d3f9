/*
 * blind SHAPE wrong|fixed: loses data in the folder d, in a way that public reports have, or does not.
 * blind judge SHAPE wrong|fixed POOL: whether the folder is in order after a crash.
 * blind.py and blind.go lose the same.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void put(int fd, char letter, size_t len)
{
    char bytes[8192];
    memset(bytes, letter, len);
    must(write(fd, bytes, len) == (ssize_t)len, "no room");
}

static void synced(const char *path)
{
    const int fd = opened(path, O_RDONLY);
    must(!fsync(fd), "a sync failed");
    close(fd);
}

/* A file of so many letters, durable but for its name. */
static void written(const char *path, int flags, char letter, size_t len)
{
    const int fd = opened(path, O_WRONLY | O_CREAT | flags);
    put(fd, letter, len);
    must(!fsync(fd), "a sync failed");
    close(fd);
}

static void renamed(const char *from, const char *to, const char *folder)
{
    must(!rename(from, to), "a renaming failed");
    synced(folder);
}

/* Records of a log say how long they are, and nothing of their bytes. */
static void log_of_records(void)
{
    const int fd = opened("d/log", O_WRONLY | O_APPEND);
    for (int i = 0; i < 2; i++) {
        char bytes[1600];
        const int len = 1500, head = sprintf(bytes, "%c%06d\n", fixed ? 'F' : 'W', len);
        memset(bytes + head, 'r', len);
        const int tail = fixed ? sprintf(bytes + head + len, "C%06d\n", len * 'r') : 0;
        must(write(fd, bytes, head + len + tail) == head + len + tail && !fdatasync(fd), "no room");
    }
}

/* An index takes its name before the data that it is about is durable. */
static void index_first(void)
{
    const int fd = opened("d/data", O_WRONLY | O_APPEND), tmp = opened("d/index.tmp", O_WRONLY | O_CREAT);
    put(fd, 'd', 700);
    must(!fixed || !fsync(fd), "a sync failed");
    must(write(tmp, "1300\n", 5) == 5 && !fsync(tmp), "no room");
    renamed("d/index.tmp", "d/index", "d");
}

/* Of two headers the newer one counts; it is written with what it points to. */
static void header(void)
{
    char page[4096];
    const int fd = opened("d/db", O_WRONLY);
    memset(page, 'p', sizeof page);
    must(pwrite(fd, page, sizeof page, 3 * 4096) == sizeof page, "no room");
    must(!fixed || !fsync(fd), "a sync failed");
    must(pwrite(fd, "2 3\n", 4, 4096) == 4 && !fsync(fd), "no room");
}

/* The old log is removed before the new one's name is durable. */
static void wal(void)
{
    written("d/wal.2", 0, 'w', 700);
    if (fixed)
        synced("d");
    must(!unlink("d/wal.1"), "no log");
    synced("d");
}

/* What a crash left in a temporary file is not cut off when it is used again. */
static void temp(const char *folder, char letter, size_t len)
{
    char from[512], to[512];
    snprintf(from, sizeof from, "%s/config.tmp", folder);
    snprintf(to, sizeof to, "%s/config", folder);
    written(from, fixed ? O_TRUNC : 0, letter, len);
    renamed(from, to, folder);
}

/* A configuration is emptied and written again. */
static void config(void)
{
    if (fixed)
        temp("d", 'n', 700);
    else
        written("d/config", O_TRUNC, 'n', 700);
}

/* A new file takes an old one's name, which is synced, and its bytes are not. */
static void unsynced(void)
{
    const int fd = opened("d/config.tmp", O_WRONLY | O_CREAT | O_TRUNC);
    put(fd, 'n', 700);
    must(!fixed || !fsync(fd), "a sync failed");
    close(fd);
    renamed("d/config.tmp", "d/config", "d");
}

/* Both copies of a superblock of more than a sector are written before the first of them is durable. */
static void super(void)
{
    char copy[2048];
    const int fd = opened("d/super", O_WRONLY);
    memset(copy, 'n', sizeof copy);
    must(pwrite(fd, copy, sizeof copy, 0) == sizeof copy && (!fixed || !fsync(fd)), "no room");
    must(pwrite(fd, copy, sizeof copy, 4096) == sizeof copy && !fsync(fd), "no room");
}

/* A log of 512 B for each record is used again: what is behind the last one is of before. Each says what number it
 * has; what reads a fixed one's also asks whether it is the next. */
static void reused(void)
{
    const int fd = opened("d/reused", O_WRONLY);
    for (int i = 0; i < 4; i++) {
        char record[512];
        memset(record, 'r', sizeof record);
        record[sprintf(record, "%06d", 5 + i)] = '\n';
        must(pwrite(fd, record, sizeof record, i * 512) == 512 && !fdatasync(fd), "no room");
    }
}

static char bytes[65536];

static int read_all(const char *pool, const char *name)
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

static void judge(const char *shape, const char *pool)
{
    if (!strcmp(shape, "log")) {
        const int len = read_all(pool, "log");
        for (int at = 0; at + 8 <= len && (bytes[at] == 'W' || bytes[at] == 'F');) {
            const int count = atoi(bytes + at + 1), tail = bytes[at] == 'F' ? 8 : 0;
            if (at + 8 + count + tail > len)
                break;
            int sum = 0;
            for (int i = 0; i < count; i++)
                sum += bytes[at + 8 + i];
            if (tail && (bytes[at + 8 + count] != 'C' || atoi(bytes + at + 8 + count + 1) != sum))
                break;
            must(all(bytes + at + 8, count, 'r'), "a record has other bytes");
            at += 8 + count + tail;
        }
    } else if (!strcmp(shape, "index")) {
        must(read_all(pool, "index") > 0, "no index");
        const int count = atoi(bytes), len = read_all(pool, "data");
        must(len >= count && all(bytes, count, 'd'), "the index names data that is not there");
    } else if (!strcmp(shape, "header")) {
        must(read_all(pool, "db") == 5 * 4096, "no database");
        const char *newer = bytes + (atoi(bytes) > atoi(bytes + 4096) ? 0 : 4096);
        must(all(bytes + atoi(newer + 2) * 4096, 4096, 'p'), "the header points to no page");
    } else if (!strcmp(shape, "wal")) {
        int logs = 0;
        for (const char *name = "wal.1"; name; name = strcmp(name, "wal.1") ? NULL : "wal.2")
            logs += read_all(pool, name) == 700 && all(bytes, 700, 'w');
        must(logs > 0, "no log");
    } else if (!strcmp(shape, "super")) {
        const int len = read_all(pool, "super");
        must(len == 8192 && (all(bytes, 2048, *bytes) || all(bytes + 4096, 2048, bytes[4096])),
             "no superblock is whole");
    } else if (!strcmp(shape, "reused")) {
        must(read_all(pool, "reused") == 2048, "no log");
        for (int at = 0, last = 0; at < 2048; at += 512) {
            const int number = atoi(bytes + at);
            if (at && number != last + 1) {
                must(fixed, "an old record is taken for a new one");
                break;
            }
            must(all(bytes + at + 7, 505, 'r'), "a record has other bytes");
            last = number;
        }
    } else if (!strcmp(shape, "temp")) {
        temp(pool, 'r', 500);
        must(read_all(pool, "config") == 500 && all(bytes, 500, 'r'), "the file has an end of another one");
    } else {
        const int len = read_all(pool, "config");
        must(len == 700 && (all(bytes, len, 'o') || all(bytes, len, 'n')), "the configuration is lost");
    }
}

int main(int count, char **words)
{
    const int judges = count == 5 && !strcmp(words[1], "judge");
    if (!judges && count != 3)
        return 2;
    const char *shape = words[1 + judges];
    fixed = !strcmp(words[2 + judges], "fixed");
    if (judges)
        judge(shape, words[4]);
    else if (!strcmp(shape, "log"))
        log_of_records();
    else if (!strcmp(shape, "index"))
        index_first();
    else if (!strcmp(shape, "header"))
        header();
    else if (!strcmp(shape, "wal"))
        wal();
    else if (!strcmp(shape, "temp"))
        temp("d", 'n', 3000);
    else if (!strcmp(shape, "unsynced"))
        unsynced();
    else if (!strcmp(shape, "super"))
        super();
    else if (!strcmp(shape, "reused"))
        reused();
    else
        config();
    return 0;
}
