/*
 * What the programs share: a pool in a mapped file, flushes and fences, variants, and the check of a map against the
 * operations that were acknowledged.
 *
 *   PROGRAM POOL [VARIANT]             makes the pool and works on it
 *   PROGRAM --recover POOL [VARIANT]   recovers it after a crash and checks it: status 0, or 1 and a line that says why
 *   PROGRAM --list                     the variants, `fixed` first, and which published bug each one is
 *
 * A variant is a name or its number in the list. Each operation is a region (sl_region_begin, sl_region_end): once it
 * has ended it must survive. A checker tells recovery by STRANDLINE_DONE how many had ended before the crash.
 *
 * Pointers in a pool are offsets from its start, 0 for none. The pool is a fresh file, so what was never written is zero.
 */
#ifndef BUGS_H
#define BUGS_H

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "strandline.h"

#ifndef POOL_BYTES
#define POOL_BYTES 65536
#endif
#define LINE 64
#define MAGIC 0x6c6f6f70u /* "pool" */

/* Flushes and fences are macros, so that each counts as the line of source that asked for it. */

#define EACH_LINE(start, bytes, instruct)                                                                              \
    do {                                                                                                               \
        const char *line_ = (const char *)((uintptr_t)(start) & ~(uintptr_t)(LINE - 1));                               \
        const char *end_ = (const char *)(start) + (bytes);                                                            \
        for (; line_ < end_; line_ += LINE)                                                                            \
            instruct;                                                                                                  \
    } while (0)

/* Starts to write back the lines of so many bytes: clwb as an intrinsic, or in a program that asks for it the older
 * instruction in inline assembly. */
#ifdef BY_ASSEMBLY
#define flush(start, bytes) EACH_LINE(start, bytes, __asm__ volatile("clflushopt %0" : : "m"(*line_) : "memory"))
#else
#define flush(start, bytes) EACH_LINE(start, bytes, _mm_clwb((void *)(uintptr_t)line_))
#endif

/* Waits until what this thread flushed is durable. */
#define fence() _mm_sfence()

#define persist(start, bytes)    \
    do {                         \
        flush(start, bytes);     \
        fence();                 \
    } while (0)

/* Stores one word, at this place in the program and in one piece, whatever the compiler would like. */
#define SET(place, value) (*(volatile __typeof__(place) *)&(place) = (value))

/* What the checker gets. */

/* The program's own mistake, or the user's. */
__attribute__((noreturn, unused, format(printf, 1, 2))) static void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

/* What a crash must not have done to a pool. */
__attribute__((noreturn, unused, format(printf, 1, 2))) static void wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* Operations that had ended before the crash; 0 if nobody says. */
__attribute__((unused)) static size_t done_operations(void)
{
    const char *done = getenv("STRANDLINE_DONE");
    return done ? (size_t)strtoull(done, NULL, 10) : 0;
}

/* The pool. */

struct pool_header {
    uint64_t magic; /* written last */
    uint64_t free;  /* where the next allocation starts */
};

/* The mapped file. The first line is the header, the program's root comes behind it. */
static char *pool;
#define HEADER ((struct pool_header *)pool)
enum { ROOT = LINE };

/* What recovery may look at before it counts as caught in a circle; 0 for the work before. */
static uint64_t patience;

/* What is at `offset`; ends the check if an object of so many bytes can't be there. */
__attribute__((unused)) static void *at(uint64_t offset, size_t bytes)
{
    if (offset < ROOT || offset % 8 || offset > POOL_BYTES || bytes > POOL_BYTES - offset)
        wrong("a pointer leads to %#llx, where nothing can be", (unsigned long long)offset);
    if (patience && !--patience)
        wrong("the pool's pointers lead in circles");
    return pool + offset;
}

__attribute__((unused)) static uint64_t offset_of(const void *place)
{
    return (uint64_t)((const char *)place - pool);
}

/* Takes zeroed bytes that start at a line. A crash before they are linked leaks them, which is harmless. */
__attribute__((unused)) static uint64_t allocate(size_t bytes)
{
    const uint64_t offset = HEADER->free;
    if (offset % LINE || offset < ROOT || offset > POOL_BYTES || bytes > POOL_BYTES - offset)
        wrong("there is no room for %zu bytes from %#llx on", bytes, (unsigned long long)offset);
    SET(HEADER->free, offset + ((bytes + LINE - 1) & ~(size_t)(LINE - 1)));
    persist(&HEADER->free, sizeof HEADER->free);
    return offset;
}

/* Maps the file; makes it, empty, if it is to be written. Returns whether it is of a pool's size. */
static int pool_map(const char *path, int create)
{
    struct stat status;
    unsigned a, b = 0, c, d;
    const int file = open(path, create ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR, 0600);
    if (file < 0 || (create && ftruncate(file, POOL_BYTES)) || fstat(file, &status))
        fatal("%s: %s", path, strerror(errno));
    if (status.st_size < POOL_BYTES) {
        close(file);
        return 0;
    }
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b >> 23 & b >> 24 & 1))
        fatal("this processor has not both clflushopt and clwb");
    pool = (char *)mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pool == MAP_FAILED)
        fatal("%s: %s", path, strerror(errno));
    close(file);
    return 1;
}

/* Makes an empty pool with a root of `bytes`. */
__attribute__((unused)) static void pool_create(size_t bytes)
{
    SET(HEADER->free, (ROOT + bytes + LINE - 1) & ~(size_t)(LINE - 1));
    persist(&HEADER->free, sizeof HEADER->free);
}

/* The structure in the pool is there: from here on recovery looks at it. */
__attribute__((unused)) static void pool_ready(void)
{
    SET(HEADER->magic, MAGIC);
    persist(&HEADER->magic, sizeof HEADER->magic);
}

/* Operations on a map from keys to values, and what may be found after a crash. */

struct operation {
    char kind; /* 'i' insert, 'u' update, 'd' delete */
    uint64_t key;
};

/* The value that the operation with this number stores: it tells its key, and no two operations store the same. */
__attribute__((unused)) static uint64_t value_of(uint64_t key, size_t number)
{
    return key * 1000 + number;
}

/* Checks what a lookup of `key` found (0: nothing) against the operations. What the acknowledged ones left must be
 * there, or what a later one made of it. */
__attribute__((unused)) static void check_key(const struct operation *operations, size_t count, uint64_t key, uint64_t found)
{
    const size_t done = done_operations();
    uint64_t state = 0;
    size_t i;
    for (i = 0; i < count; i++) {
        if (i >= done && found == state)
            return;
        if (operations[i].key == key)
            state = operations[i].kind == 'd' ? 0 : value_of(key, i + 1);
    }
    if (found == state)
        return;
    if (!found)
        wrong("key %llu is lost", (unsigned long long)key);
    wrong("key %llu has the value %llu, which it may not have after %zu operations", (unsigned long long)key,
          (unsigned long long)found, done);
}

/* Whether an operation is about the key. */
__attribute__((unused)) static int is_known(const struct operation *operations, size_t count, uint64_t key)
{
    size_t i;
    for (i = 0; i < count; i++)
        if (operations[i].key == key)
            return 1;
    return 0;
}

__attribute__((unused)) static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The program. */

struct variant {
    const char *name;   /* "fixed" for the first */
    const char *origin; /* the published bug */
};

/* Number of the variant that runs; the programs have an enumeration for it. */
static int variant;

static void choose(const struct variant *variants, int count, const char *name)
{
    char *end;
    const long number = strtol(name, &end, 10);
    for (variant = 0; variant < count; variant++)
        if (!strcmp(variants[variant].name, name) || (end != name && !*end && number == variant))
            return;
    fatal("no variant %s; see --list", name);
}

/* `run` works on a fresh pool, `check` recovers one and looks at it. */
__attribute__((unused)) static int bugs_main(int argc, char **argv, const struct variant *variants, int count,
                                             void (*run)(void), void (*check)(void))
{
    const int recover = argc > 1 && !strcmp(argv[1], "--recover");
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (variant = 0; variant < count; variant++)
            printf("%s\t%s\n", variants[variant].name, variants[variant].origin);
        return 0;
    }
    if (argc < 2 + recover || argc > 3 + recover || (argv[1 + recover][0] == '-'))
        fatal("usage: %s [--recover] POOL [VARIANT]\n       %s --list", argv[0], argv[0]);
    if (argc == 3 + recover)
        choose(variants, count, argv[2 + recover]);
    if (!recover) {
        pool_map(argv[1], 1);
        run();
    } else if (pool_map(argv[2], 0) && HEADER->magic == MAGIC) {
        patience = 1000000;
        check();
    } else if (done_operations()) {
        wrong("operations ended in a pool that is not there");
    }
    return 0;
}

#define MAIN(run, check)                                                       \
    int main(int argc, char **argv)                                            \
    {                                                                          \
        return bugs_main(argc, argv, VARIANTS, COUNT(VARIANTS), run, check);   \
    }

#endif
