/* Records in a file, updated at random and committed every so often: what `strandline bench msync` measures.
 *
 *   records FILE map COUNT COMMITS EVERY LINES SEED   stores to the mapping; a commit is an msync
 *   records FILE log COUNT COMMITS EVERY LINES SEED   manual write-ahead logging: a commit writes what changed to
 *                                                     FILE.log, syncs that, and writes it to the file
 *
 * COUNT records of 512 bytes, LINES of whose 8 cache lines an update stores to; EVERY updates are a commit. The file
 * has room for them before. Prints nanoseconds, and a sum of what the file has in the end, which is the same whatever
 * the way.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, RECORD = 512, CHECKPOINT = 16 << 20 };

/* An entry of the log: where a line is, and what it is. */
struct entry {
    uint64_t at, sum;
    char line[LINE];
};

static uint64_t state;
static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void all(ssize_t done, size_t bytes, const char *what) {
    if (done < 0 || (size_t)done != bytes) err(1, "%s", what);
}

static uint64_t sum_of(const void *from, size_t bytes) {
    uint64_t sum = 0xcbf29ce484222325, word;
    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&word, (const char *)from + i, sizeof word);
        sum = (sum ^ word) * 0x100000001b3;
    }
    return sum;
}

static int file, log_file;
static char *data;
static size_t bytes;
static struct entry *entries;
static size_t used, logged;

static void commit(int by_log) {
    if (!by_log) {
        if (msync(data, bytes, MS_SYNC)) err(1, "msync");
        return;
    }
    /* A line is logged once, as it is now: the last of its entries counts. */
    for (size_t i = 0; i < used; i++) {
        memcpy(entries[i].line, data + entries[i].at, LINE);
        entries[i].sum = sum_of(entries[i].line, LINE) ^ entries[i].at;
    }
    size_t length = used * sizeof *entries;
    all(pwrite(log_file, entries, length, (off_t)logged), length, "the log");
    if (fdatasync(log_file)) err(1, "the log");
    logged += length;
    for (size_t i = 0; i < used; i++)
        all(pwrite(file, entries[i].line, LINE, (off_t)entries[i].at), LINE, "the file");
    used = 0;
    if (logged >= CHECKPOINT) {
        /* It begins anew once the file has it all. */
        if (fdatasync(file)) err(1, "the file");
        logged = 0;
    }
}

int main(int count, char **arguments) {
    if (count != 8) errx(2, "usage: records FILE map|log COUNT COMMITS EVERY LINES SEED");
    int by_log = !strcmp(arguments[2], "log");
    uint64_t records = strtoull(arguments[3], NULL, 10), commits = strtoull(arguments[4], NULL, 10);
    uint64_t every = strtoull(arguments[5], NULL, 10), lines = strtoull(arguments[6], NULL, 10);
    state = strtoull(arguments[7], NULL, 10) * 2654435769 + 1;
    if (!records || !commits || !every || !lines || lines > RECORD / LINE) errx(2, "numbers out of range");
    bytes = records * RECORD;
    char *name;
    if ((file = open(arguments[1], O_RDWR)) < 0) err(1, "%s", arguments[1]);
    if (by_log) {
        if (asprintf(&name, "%s.log", arguments[1]) < 0) err(1, "memory");
        if ((log_file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600)) < 0) err(1, "%s", name);
        data = malloc(bytes);
        entries = calloc(every * lines, sizeof *entries);
        if (!data || !entries) errx(1, "no memory");
        all(pread(file, data, bytes, 0), bytes, "the file");
    } else {
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (data == MAP_FAILED) err(1, "mmap");
        /* As in the other way: pages are there before. */
        volatile char seen = 0;
        for (size_t i = 0; i < bytes; i += 4096) seen += data[i];
    }
    uint64_t begun = now();
    for (uint64_t i = 0; i < commits; i++) {
        for (uint64_t update = 0; update < every; update++) {
            uint64_t record = next() % records * RECORD;
            for (uint64_t line = 0; line < lines; line++) {
                char *at = data + record + line * LINE;
                for (int word = 0; word < LINE / 8; word++) ((uint64_t *)at)[word] = next();
                if (by_log) entries[used++].at = (uint64_t)(at - data);
            }
        }
        commit(by_log);
    }
    uint64_t ended = now();
    printf("{\"wall_ns\":%llu,\"sum\":%llu}\n", (unsigned long long)(ended - begun),
           (unsigned long long)sum_of(data, bytes));
    if (by_log) unlink(name);
    return 0;
}
