/*
 * The pool calls that the programs here use, for a compiler without persistency: the file is mapped, and
 * nothing protects it. What a program built so costs is the baseline of `strandline bench sfr`. A program
 * that is killed leaves whatever was stored.
 *
 * The address is outside the window in which the persistency runtime looks for pools, so a program that
 * is built by `strandline cc --persist` with -DSFR_PLAIN shows what hooks cost that find nothing to do.
 */
#ifndef POOL_PLAIN_H
#define POOL_PLAIN_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLAIN_MAGIC 0x6e69616c70726673u
#define PLAIN_BASE ((char *)0x300000000000)
#define SL_E_FILE (-7)
#define SL_E_NO_POOL (-9)

typedef uint64_t sl_ref;

/* What stands at the beginning of the file: free blocks by class, 16 bytes << class each. */
typedef struct sl_pool {
    uint64_t magic, bytes, root, next, free[40];
} sl_pool;

struct sl_pool_options;

static pthread_mutex_t plain_heap = PTHREAD_MUTEX_INITIALIZER;
static char plain_error[256];
static int plain_code;

static inline sl_pool *plain_fail(const char *path, const char *what, int code)
{
    plain_code = code;
    snprintf(plain_error, sizeof plain_error, "%s: %s: %s", path, what,
             code == SL_E_FILE ? strerror(errno) : "no pool");
    return NULL;
}

static inline const char *sl_error(void)
{
    return plain_error;
}

static inline int sl_error_code(void)
{
    return plain_code;
}

static inline void *sl_at(sl_pool *pool, sl_ref ref)
{
    return ref ? (char *)pool + ref : NULL;
}

static inline sl_ref sl_root(sl_pool *pool)
{
    return pool->root;
}

static inline sl_ref sl_alloc(sl_pool *pool, uint64_t bytes)
{
    unsigned class = 0;
    sl_ref block;
    /* In front of a block stands its class. */
    while ((uint64_t)16 << class < bytes + 16)
        class++;
    pthread_mutex_lock(&plain_heap);
    block = pool->free[class];
    if (block) {
        pool->free[class] = *(sl_ref *)sl_at(pool, block);
    } else if (((uint64_t)16 << class) <= pool->bytes - pool->next) {
        block = pool->next + 16;
        pool->next += (uint64_t)16 << class;
        *(uint64_t *)sl_at(pool, block - 16) = class;
    }
    pthread_mutex_unlock(&plain_heap);
    return block;
}

static inline sl_ref sl_zalloc(sl_pool *pool, uint64_t bytes)
{
    sl_ref block = sl_alloc(pool, bytes);
    if (block)
        memset(sl_at(pool, block), 0, bytes);
    return block;
}

static inline int sl_free(sl_pool *pool, sl_ref block)
{
    uint64_t class = *(uint64_t *)sl_at(pool, block - 16);
    pthread_mutex_lock(&plain_heap);
    *(sl_ref *)sl_at(pool, block) = pool->free[class];
    pool->free[class] = block;
    pthread_mutex_unlock(&plain_heap);
    return 0;
}

static inline int sl_psync(sl_pool *pool)
{
    (void)pool;
    return 0;
}

static inline sl_pool *plain_map(int file, uint64_t bytes)
{
    int flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
    void *memory = mmap(PLAIN_BASE, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

static inline sl_pool *sl_pool_create(const char *path, const char *layout, uint64_t bytes,
                                      uint64_t root_bytes,
                                      const struct sl_pool_options *options)
{
    sl_pool *pool;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    (void)layout, (void)options;
    if (file < 0 || ftruncate(file, (off_t)bytes))
        return plain_fail(path, "can't be made", SL_E_FILE);
    if (!(pool = plain_map(file, bytes)))
        return plain_fail(path, "can't be mapped", SL_E_FILE);
    pool->bytes = bytes;
    pool->next = (sizeof *pool + 15) / 16 * 16;
    pool->root = sl_zalloc(pool, root_bytes);
    pool->magic = PLAIN_MAGIC;
    return pool;
}

static inline sl_pool *sl_pool_open(const char *path, const char *layout,
                                    const struct sl_pool_options *options)
{
    struct stat status;
    sl_pool *pool;
    int file = open(path, O_RDWR);
    (void)layout, (void)options;
    if (file < 0 || fstat(file, &status))
        return plain_fail(path, "can't be opened", SL_E_FILE);
    if (status.st_size < 4096)
        return close(file), plain_fail(path, "is too short", SL_E_NO_POOL);
    if (!(pool = plain_map(file, (uint64_t)status.st_size)))
        return plain_fail(path, "can't be mapped", SL_E_FILE);
    if (pool->magic != PLAIN_MAGIC)
        return plain_fail(path, "was not made here", SL_E_NO_POOL);
    return pool;
}

static inline int sl_pool_close(sl_pool *pool)
{
    return munmap(pool, pool->bytes);
}

#endif
