/*
 * Runs operations on a store, slice by slice, and prints what they took: CPU time of the process and wall
 * time, both in nanoseconds, and how many records were found.
 *
 * usage: PROGRAM PATH MODE KEY VALUE RECORDS THREADS, then a line on standard input for each slice: its file.
 * Keys, values and the format of slices are as in record.rs and child.rs.
 */
#define _GNU_SOURCE
#include "harness.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NOISE = 4096, TIME_ONE_OF = 16, THREADS_MAX = 1024 };
enum { INSERT, UPDATE, READ, SCAN, MODIFY, DELETE };

struct operation {
    uint64_t id;
    uint32_t kind, count;
};

struct work {
    struct operation *operations;
    uint64_t count, version, found;
    int thread;
};

struct options options;
static unsigned char *noise;

void fail(const char *what, const char *why)
{
    printf("error %s: %s\n", what, why);
    fflush(stdout);
    _exit(1);
}

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void big_endian(unsigned char *to, uint64_t word)
{
    word = __builtin_bswap64(word);
    memcpy(to, &word, 8);
}

static void make_key(unsigned char *key, uint64_t id)
{
    if (options.key_bytes == 24) {
        memcpy(key, "user", 4);
        for (int at = 23; at >= 4; at--, id /= 10)
            key[at] = (unsigned char)('0' + id % 10);
        return;
    }
    big_endian(key, id);
    if (options.key_bytes == 16)
        big_endian(key + 8, ~id);
}

static void put(struct work *work, unsigned char *value, const void *key, uint64_t id, uint64_t version)
{
    uint64_t word = (id & ~(uint64_t)0xFFFF) | (version & 0xFFFF);
    memcpy(value, noise + version % NOISE, options.value_bytes);
    memcpy(value, &word, 8);
    store_put(work->thread, key, value);
}

static void get(struct work *work, const void *key, uint64_t id)
{
    uint64_t word = 0;
    if (!store_get(work->thread, key, &word))
        fail("read", "a record that was put in is not there");
    if ((word ^ id) >> 16)
        fail("read", "the value is another record's");
    work->found++;
}

static void one(struct work *work, unsigned char *value, struct operation *operation, uint64_t version)
{
    unsigned char key[24];
    make_key(key, operation->id);
    switch (operation->kind) {
    case INSERT:
    case UPDATE:
        put(work, value, key, operation->id, version);
        break;
    case READ:
        get(work, key, operation->id);
        break;
    case SCAN:
        work->found += store_scan(work->thread, key, operation->count);
        break;
    case MODIFY:
        get(work, key, operation->id);
        put(work, value, key, operation->id, version);
        break;
    case DELETE:
        if (!store_delete(work->thread, key))
            fail("delete", "a record that was put in is not there");
    }
}

static void *run(void *argument)
{
    struct work *work = argument;
    unsigned char *value = malloc(options.value_bytes);
    for (uint64_t at = 0; at < work->count; at++) {
        struct operation *operation = &work->operations[at];
        if (at % TIME_ONE_OF) {
            one(work, value, operation, work->version + at);
            continue;
        }
        uint64_t begin = now(CLOCK_MONOTONIC);
        one(work, value, operation, work->version + at);
        uint64_t took = now(CLOCK_MONOTONIC) - begin;
        operation->count = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
    }
    free(value);
    return NULL;
}

static void slice(const char *path)
{
    static struct work works[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    struct stat status;
    int file = open(path, O_RDWR);
    if (file < 0 || fstat(file, &status))
        fail("slice", "it can't be opened");
    uint64_t *words =
        mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (words == MAP_FAILED)
        fail("slice", "it can't be mapped");
    int count = (int)words[0];
    uint64_t version = words[1];
    struct operation *operations = (struct operation *)&words[2 + count];
    for (int thread = 0; thread < count; thread++) {
        works[thread] = (struct work){operations, words[2 + thread], version, 0, thread};
        operations += words[2 + thread];
        version += words[2 + thread];
    }
    uint64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID), wall = now(CLOCK_MONOTONIC), found = 0;
    if (count == 1)
        run(&works[0]);
    for (int thread = 0; count > 1 && thread < count; thread++)
        if (pthread_create(&threads[thread], NULL, run, &works[thread]))
            fail("threads", "they can't be started");
    for (int thread = 0; count > 1 && thread < count; thread++)
        pthread_join(threads[thread], NULL);
    wall = now(CLOCK_MONOTONIC) - wall;
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    for (int thread = 0; thread < count; thread++)
        found += works[thread].found;
    munmap(words, (size_t)status.st_size);
    close(file);
    printf("done %ju %ju %ju\n", (uintmax_t)cpu, (uintmax_t)wall, (uintmax_t)found);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static char line[1 << 16];
    if (argc != 7)
        return 2;
    options = (struct options){argv[1], argv[2], !strcmp(argv[3], "text") ? 24 : strtoul(argv[3], NULL, 10),
                               strtoul(argv[4], NULL, 10), strtoull(argv[5], NULL, 10), atoi(argv[6])};
    if (options.threads > THREADS_MAX)
        fail("threads", "there are too many");
    uint64_t random = 88172645463325252u;
    noise = malloc(options.value_bytes + NOISE);
    for (size_t at = 0; at < options.value_bytes + NOISE; at++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        noise[at] = (unsigned char)random;
    }
    store_open();
    puts("done 0 0 0");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        slice(line);
    }
    store_close();
    return 0;
}
