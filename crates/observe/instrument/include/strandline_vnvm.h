/*
 * Virtualised, shared NVM for C and C++: link with -lstrandline (cargo build --release -p capi makes it).
 *
 * A program maps files and reads them through plain pointers. It changes them in transactions, which survive
 * any crash whole or not at all. Log and write cache are in NVM (a DAX file system, a DAX device, or
 * /dev/shm) that any number of processes, up to 64, use at the same time; the files may be as large as
 * their disk.
 *
 *     nv_init();
 *     char *p = nv_allocate("data", 1 << 20, NV_PRIVATE);
 *     uint64_t tid = nv_txbegin();
 *     nv_write(tid, p, &x, sizeof x);
 *     nv_write(tid, p + 100, &y, sizeof y);
 *     if (nv_commit(tid))
 *         errx(1, "%s", sl_error());
 *     nv_free(p, 1 << 20);
 *     nv_release();
 *
 * Functions that return int give 0 or a number of enum sl_status (below 0); pointers are NULL instead. What
 * went wrong says sl_error(). Any thread may use any transaction; conflicting transactions must commit in
 * the order in which they write. docs/vnvm.md has the rest.
 */
#ifndef STRANDLINE_VNVM_H
#define STRANDLINE_VNVM_H

#include "strandline_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a file is mapped. */
enum nv_mode {
    /* One process has it; commits go through the NVM cache. Stores of the program are its own and never
     * durable. */
    NV_PRIVATE = 0,
    /* Several processes see the same data. All writes of a transaction go to one such region. */
    NV_SHARED = 1,
    /* As private; the program stores to it directly, and nv_sync commits all that changed. */
    NV_ATOMIC = 2
};

/* Flags of struct nv_options. */
enum nv_flag {
    /* Commits are durable before they are visible in memory. */
    NV_DURABLE_FIRST = 1,
    /* Takes the memory for persistent although the system does not say so. */
    NV_FORCE = 2,
    /* When all cache pages are dirty, redo waits for write-back instead of writing around the cache. */
    NV_WAIT = 4
};

/* How to make or join an NVM. Zeros stand for the defaults; sizes are those of whoever comes first. */
struct nv_options {
    /* The NVM's directory; NULL: the environment's STRANDLINE_VNVM, or /dev/shm/strandline-vnvm-UID. */
    const char *directory;
    /* A DAX device or another file in place of the file in the directory; or NULL. */
    const char *nvm;
    /* Bytes of the log; 0: 64 MiB. */
    uint64_t log_bytes;
    /* Bytes of the write cache; 0: 256 MiB. */
    uint64_t cache_bytes;
    /* Bytes of a cache page, 4096 or 8192; 0: 4096. */
    uint64_t cache_page;
    /* Of enum nv_flag. */
    uint64_t flags;
};

/* Joins the processes that use the NVM; once per process, first. What an NVM holds that nobody alive uses is
 * recovered before. A child of fork calls it anew. */
int nv_init(void);
int nv_init_with(const struct nv_options *options);

/* Leaves: all that was committed is in the files when it returns. The last process removes the NVM. If a file
 * can't be written, the process is still there and may try again. No other thread may be in a call. */
int nv_release(void);

/* Maps the first n bytes of a file, which is made if it is not there. */
void *nv_allocate(const char *filepath, size_t n, int mode);

/* Ends a region; all that was committed to it is in its file when it returns. */
int nv_free(void *ptr, size_t n);

/* Begins a transaction; its number, 0 on an error. */
uint64_t nv_txbegin(void);

/* Logs that n bytes shall be at dst, which is in a region. Returns how many were logged: fewer than n when the
 * log is full. Then write the rest later, or abort. Below 0: an error. The bytes are seen after nv_commit. */
int64_t nv_write(uint64_t tid, void *dst, const void *src, size_t n);

/* Makes a transaction's writes durable, and visible. */
int nv_commit(uint64_t tid);

/* Ends a transaction without effect. */
int nv_abort(uint64_t tid);

/* Commits all that changed in an atomic region since the last time, in one step; how many pages that were, or
 * an error below 0. */
int64_t nv_sync(void *ptr);

/* What a worker of this process could not do when it tried last (a full disk, say), and tries again; NULL if
 * nothing. Valid until the thread's next call. */
const char *nv_failure(void);

#ifdef __cplusplus
}
#endif
#endif
