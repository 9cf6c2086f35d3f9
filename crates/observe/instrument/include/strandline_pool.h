/*
 * Pools and failure-atomic regions for C and C++: link with -lstrandline (cargo build --release -p capi makes it).
 *
 * A pool is a file whose structures survive. What has to be there together after a crash is written in a region: all of it is there, or
 * nothing, and all once sl_commit has returned. Memory that a region allocates or frees goes with it, so nothing leaks.
 *
 * Regions do NOT isolate: what one writes, no other thread may read or write at the same time. Take your lock before sl_begin and give it
 * up after sl_commit. A child of fork opens its pools itself: calls with those of its parent are errors.
 *
 *     struct root { sl_ref first; uint64_t count; };
 *     struct node { uint64_t value; sl_ref next; };
 *
 *     sl_pool *pool = sl_pool_create("/mnt/pmem/list", "list, 1", 64 << 20, sizeof(struct root), NULL);
 *     if (!pool)
 *         errx(1, "%s", sl_error());
 *     sl_begin(pool);
 *     sl_ref root = sl_root(pool), node = sl_zalloc(pool, sizeof(struct node));
 *     SL_SET(pool, node, struct node, value, 7);
 *     SL_SET(pool, node, struct node, next, SL_GET(pool, root, struct root, first));
 *     SL_SET(pool, root, struct root, first, node);
 *     if (sl_commit(pool))
 *         errx(1, "%s", sl_error());
 *
 * There are no pointers into a pool: what lies there is read and written by calls, at references that stay right when the pool is opened
 * again. That is what lets a region be undone, and `strandline check` see it.
 *
 * Errors: functions that return int give 0, or a number of enum sl_status; those that return something else give NULL or 0. What went
 * wrong says sl_error(). In a region one may look at the end only: if any call in it failed, sl_commit commits nothing and says what
 * it was. (Only an sl_alloc that finds no room leaves the region as it was.)
 *
 * docs/man/pool.md has the rest: engines, threads, recovery, `strandline check`.
 */
#ifndef STRANDLINE_POOL_H
#define STRANDLINE_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header, and that of the library that the program runs with, as "1.2.3". Libraries of another major version have another name
 * (libstrandline.so.1), so a program never gets one by mistake. */
#define SL_VERSION_MAJOR 0
#define SL_VERSION_MINOR 1
#define SL_VERSION_PATCH 0
const char *sl_version(void);

/*
 * Programs that are built by `strandline cc --persist=DESIGN` see less of this header, and two functions more: there are pointers into the pool, stores
 * by them are as they are everywhere, and what a thread stores between two synchronisations survives whole or not at all. docs/persist.md says how.
 *
 *     struct root *root = sl_at(pool, sl_root(pool));
 *     pthread_mutex_lock(&lock);
 *     struct node *node = sl_at(pool, sl_zalloc(pool, sizeof *node));
 *     node->value = 7;
 *     node->next = root->first;
 *     root->first = node;
 *     pthread_mutex_unlock(&lock);
 *     sl_psync();
 */

/* An open pool. */
typedef struct sl_pool sl_pool;

/* A place in a pool: 0 for none, else a mark of the pool and an offset. Of a structure at `ref`, the field `f` is at
 * `ref + offsetof(struct s, f)`. It may be stored in the pool that it leads into, and nowhere else. */
typedef uint64_t sl_ref;

enum sl_status {
    SL_OK = 0,
    SL_E_ARGUMENT = -1,  /* an argument can't be: null, an unknown engine, a size of no pool */
    SL_E_STATE = -2,     /* not now: this thread has no region, or has one; the pool was closed */
    SL_E_REFERENCE = -3, /* a reference leads nowhere, into another pool, out of this one, or to no block */
    SL_E_FULL = -4,      /* the pool has no room for the block, or for what a long region notes */
    SL_E_FAILED = -6,    /* a part of the region failed or was aborted, so nothing of it is there */
    SL_E_FILE = -7,      /* the system refuses the file; errno says why */
    SL_E_LOCKED = -8,    /* somebody else has the pool open */
    SL_E_NO_POOL = -9,   /* there is no pool in the file, or not yet */
    SL_E_FOREIGN = -10,  /* a pool of another layout, engine or version */
    SL_E_DAMAGED = -11,  /* a damaged pool */
    SL_E_SYNC = -12,     /* the disk failed: what was written since the last commit may be lost; close the pool, or end */
    SL_E_INTERNAL = -13  /* a mistake of this library */
};

/* The number and the text of the calling thread's last error. The text stays until its next one. */
int sl_error_code(void);
const char *sl_error(void);

/* How to make or open a pool; a null pointer in its place stands for zeros. */
struct sl_pool_options {
    /* How regions are made atomic: "redo", "undo", "micro-buffer", "shadow", "ssp", "group", or "none" for
     * comparison. NULL: "redo", or what the pool has. */
    const char *engine;
    /* SL_FORCE, SL_GROW, SL_READ_ONLY, or 0. */
    uint64_t flags;
};

/* Take the memory for persistent although the system does not say so: nothing is ever synced. Data is lost with the power unless it is. */
#define SL_FORCE 1u
/* As long as the pool is open, it and its file grow when a block or a long region finds no room, by half or by what the disk has. */
#define SL_GROW 2u
/* To look only: the file stays as it is, and others may look at the same time. What a crash left is brought into order for this process alone.
 * It is enough that the file can be read. sl_begin is an error then. A whole DAX device can't be opened so. */
#define SL_READ_ONLY 4u

/* Makes a file with a pool of `bytes`, a multiple of 8 from about 64 KiB on, and a root object of `root_bytes` zeros; or such a pool at the beginning
 * of a whole DAX device (/dev/dax0.0), where zeros have to be. `layout` is a name of
 * at most 64 bytes for what lies in it: change it when your structures change. Who may read and write the file is as of any new one: 0666, less
 * what umask takes away. NULL if that fails; no file is left then. */
sl_pool *sl_pool_create(const char *path, const char *layout, uint64_t bytes, uint64_t root_bytes,
                        const struct sl_pool_options *options);

/* Opens the pool in a file, after recovery if that is needed. NULL if that fails; nothing was changed then, but where damage of the heap is found
 * behind whole logs: these were carried out. */
sl_pool *sl_pool_open(const char *path, const char *layout, const struct sl_pool_options *options);

/* Closes a pool and leaves nothing for recovery to do. Not while a region is under way, which is an error, or another thread is in a call with
 * the pool, which can't be known. A program may also just end: then recovery does it. */
int sl_pool_close(sl_pool *pool);

#ifndef __STRANDLINE_PERSIST__
/* Leaves nothing for recovery to do, as before a backup. */
int sl_pool_checkpoint(sl_pool *pool);

/* Does a little of what regions would have to stop for when they end: with the engine ssp, brings pages home until a quarter of the spare ones is free;
 * with the engine group, makes durable what is committed; with the other engines it does nothing. 1 if there is more to do at once, 0 if not. For a thread that calls it now and then:
 *     while (running) if (sl_pool_consolidate(pool) != 1) usleep(1000); */
int sl_pool_consolidate(sl_pool *pool);

/* Measures from how many bytes on it is cheaper to write back by non-temporal stores than through the cache, on this machine and this memory, and goes by it from now
 * on; UINT64_MAX if it never is. For the moment after opening, takes some milliseconds and 256 KiB of free memory at least. Of the engine micro-buffer
 * alone. */
int sl_pool_measure_threshold(sl_pool *pool, uint64_t *bytes);

/* Makes the pool and its file so many bytes long, a multiple of 8; other threads go on using it meanwhile. One that is as long stays as it is. */
int sl_pool_grow(sl_pool *pool, uint64_t bytes);
#endif

/* Bytes of the pool. */
uint64_t sl_pool_bytes(sl_pool *pool);

#ifndef __STRANDLINE_PERSIST__
/* What recovery found when the pool was opened; all zeros if it had been left in order. */
struct sl_recovered {
    uint64_t redone;      /* regions that had ended, and were done again */
    uint64_t undone;      /* regions under way, that were taken back */
    uint64_t torn_lines;  /* lines of logs that the crash left half written */
    uint64_t moved_lines; /* lines that an engine kept elsewhere, and were brought back to their places */
};
int sl_pool_recovered(sl_pool *pool, struct sl_recovered *result);

/* Names of the pool's engine and layout, as long as it is open. */
const char *sl_pool_engine(sl_pool *pool);
const char *sl_pool_layout(sl_pool *pool);
#endif

/* What becomes of what was committed: "dax" if flushes bring it to a persistent device, "synced" if each commit waits for the disk, "volatile" if it
 * survives the process and not the power (/dev/shm), which is also said of a pool that is open to read only; "forced" with SL_FORCE, unless it is "dax". */
const char *sl_pool_durability(sl_pool *pool);

#ifndef __STRANDLINE_PERSIST__
/* What of the heap is taken and free, in bytes. */
struct sl_usage {
    uint64_t heap;         /* all of it */
    uint64_t taken;        /* in blocks that are allocated */
    uint64_t blocks;       /* how many these are, the root object among them */
    uint64_t free_chunks;  /* in free chunks, the unit of large blocks */
    uint64_t longest_free; /* the longest piece of these */
};
int sl_pool_usage(sl_pool *pool, struct sl_usage *result);

/* All blocks that are allocated, in the order of their places: at most `room` of them are stored at `result`. How many there are; -1 if
 * that fails. What can't be reached from the root object is a leak. */
struct sl_block {
    sl_ref at;
    uint64_t bytes;
};
int64_t sl_pool_blocks(sl_pool *pool, struct sl_block *result, uint64_t room);

/* Moving blocks together, so that memory becomes free that only blocks of their size could have. Where a block is referred to from only the
 * program knows, so it goes through its references between these two, and calls sl_move on those that lead to a block that sl_moving_wants.
 * sl_moving_begin gives how many blocks are worth moving, sl_moving_end how many bytes have become free; both -1 if they fail. */
int64_t sl_moving_begin(sl_pool *pool);
int sl_moving_wants(sl_pool *pool, sl_ref block);
int64_t sl_moving_end(sl_pool *pool);
#endif

/* The object from which everything in the pool is reached. */
sl_ref sl_root(sl_pool *pool);

/* Bytes of the block that begins at `block`, at least as many as were asked for; 0 if none does. */
uint64_t sl_block_bytes(sl_pool *pool, sl_ref block);

#ifndef __STRANDLINE_PERSIST__
/* Begins this thread's region in the pool. Within a region it begins a part of it: that ends with its own sl_commit or sl_abort, and is there
 * when the outermost one is. */
int sl_begin(sl_pool *pool);

/* Ends the region: when the outermost sl_commit returns 0, all that was written in it survives. On any other result nothing of it is there, and
 * it has ended all the same. */
int sl_commit(sl_pool *pool);

/* Ends the region as sl_commit does, but returns once it is committed: other threads see what it wrote, and a crash may still lose it, with all
 * that was committed later. It survives once its ticket is due. With the engine group many regions become due by one sync; with the others the
 * ticket is due at once. `ticket` is not NULL; a part of a region gets 0, which is always due. On an error the region has ended and nothing of
 * it is there. */
int sl_commit_async(sl_pool *pool, uint64_t *ticket);

/* Waits until the region of that ticket is durable, and with it each that was committed before. */
int sl_wait(sl_pool *pool, uint64_t ticket);

/* Makes each region durable that was committed before the call. */
int sl_sync(sl_pool *pool);

/* Whether the region of that ticket is durable: 1, or 0 if not. Does not wait. */
int sl_is_due(sl_pool *pool, uint64_t ticket);

/* Ends the region and takes back all that was written in it. After the abort of a part the whole can't be committed. */
int sl_abort(sl_pool *pool);

/* Whether this thread has a region under way in the pool. */
int sl_in_region(sl_pool *pool);

/* Reads `bytes` at `from`, in a region as the region has them. On an error `to` is filled with zeros. */
int sl_read(sl_pool *pool, sl_ref from, void *to, uint64_t bytes);

/* What follows is for regions only. */

/* Writes `bytes` at `to`. */
int sl_write(sl_pool *pool, sl_ref to, const void *from, uint64_t bytes);

/* Fills `bytes` at `to`. */
int sl_fill(sl_pool *pool, sl_ref to, int byte, uint64_t bytes);

/* Copies `bytes` within the pool. They may overlap. */
int sl_copy(sl_pool *pool, sl_ref to, sl_ref from, uint64_t bytes);
#endif

/* A new block, with anything in it, or with zeros, at a multiple of 16. 0 if there is no room. It is nobody's if the region is not committed. */
sl_ref sl_alloc(sl_pool *pool, uint64_t bytes);
sl_ref sl_zalloc(sl_pool *pool, uint64_t bytes);

/* Gives a block back when the region is committed. */
int sl_free(sl_pool *pool, sl_ref block);

#ifndef __STRANDLINE_PERSIST__
/* Moves the block to which the reference at `cell` leads, with all that is in it, and sets that reference: where the block is then. References
 * to it elsewhere, or into it, are the program's to set in the same region. It stays where it is if there is no better place, as the root
 * object does. 0 if that fails. */
sl_ref sl_move(sl_pool *pool, sl_ref cell);

/* What follows needs no region. */

/* Allocation in two steps: a block of zeros that is this process's alone is reserved, filled by sl_reserved_write, and made part of the pool by
 * sl_publish, which writes its reference to `cell` in the same region: after a crash both are there, or neither, and a block that was not published is
 * free. sl_publish is a region of its own, or a part of the one that this thread has under way, so several blocks can be published at once. Whether it
 * succeeds or not, the block is not reserved any more. sl_reserve gives 0 if there is no room. What is reserved
 * can't be read; sl_pool_blocks lists it. */
sl_ref sl_reserve(sl_pool *pool, uint64_t bytes);
int sl_reserved_write(sl_pool *pool, sl_ref to, const void *from, uint64_t bytes);
int sl_publish(sl_pool *pool, sl_ref block, sl_ref cell);

/* Gives a reserved block up. sl_pool_close does it with all that are left. */
int sl_cancel(sl_pool *pool, sl_ref block);

/* Runs `work` as a region, or a part of one: committed if it returns 0, else aborted, and that is the result. */
__attribute__((always_inline)) static inline int sl_region(sl_pool *pool, int (*work)(sl_pool *pool, void *argument),
                                                           void *argument)
{
    int result = sl_begin(pool);
    if (result)
        return result;
    result = work(pool, argument);
    if (!result)
        return sl_commit(pool);
    sl_abort(pool);
    return result;
}
#endif

#ifdef __STRANDLINE_PERSIST__
#include "strandline_persist.h"
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#ifndef __STRANDLINE_PERSIST__
/* A value of a type, or a field of a structure, at a reference. SL_SET and SL_PUT give the result of sl_write. What can't be read is zero. */
#define SL_PEEK(pool, ref, type)                         \
    __extension__({                                      \
        type sl_value_;                                  \
        sl_read((pool), (ref), &sl_value_, sizeof(type)); \
        sl_value_;                                       \
    })
#define SL_PUT(pool, ref, type, value)                    \
    __extension__({                                       \
        type sl_value_ = (value);                         \
        sl_write((pool), (ref), &sl_value_, sizeof(type)); \
    })
#define SL_FIELD(type, field) __typeof__(((type *)0)->field)
#define SL_GET(pool, ref, type, field) SL_PEEK(pool, (ref) + offsetof(type, field), SL_FIELD(type, field))
#define SL_SET(pool, ref, type, field, value) SL_PUT(pool, (ref) + offsetof(type, field), SL_FIELD(type, field), value)
#endif

#endif
