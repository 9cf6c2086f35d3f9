/*
 * A key-value store in a file, for C and C++: link with -lstrandline (cargo build --release -p capi makes
 * it).
 *
 * Keys and values are bytes. A change that was made durable is there after any crash; several changes can
 * be made together, all or none. Any number of threads may use a store at the same time, and need no lock
 * for it. One process at a time has a store open; a child of fork opens it itself.
 *
 *     sl_kv *kv = sl_kv_open("/mnt/pmem/books", NULL);
 *     if (!kv)
 *         errx(1, "%s", sl_error());
 *     if (sl_kv_put(kv, "dune", 4, "1965", 4) || sl_kv_wait(kv, sl_kv_ticket()))
 *         errx(1, "%s", sl_error());
 *     void *value;
 *     size_t bytes;
 *     if (sl_kv_get(kv, "dune", 4, &value, &bytes) == 0) {
 *         printf("%.*s\n", (int)bytes, (char *)value);
 *         free(value);
 *     }
 *     sl_kv_close(kv);
 *
 * Functions that return int give 0, a number of enum sl_status (below 0), or SL_KV_ABSENT; sl_kv_open
 * gives NULL instead. What went wrong says sl_error().
 *
 * docs/man/kv.md has the rest.
 */
#ifndef STRANDLINE_KV_H
#define STRANDLINE_KV_H

#include "strandline_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open store, and changes that are to be made together. */
typedef struct sl_kv sl_kv;
typedef struct sl_kv_batch sl_kv_batch;

/* The key is not there. */
#define SL_KV_ABSENT 1

/* How to open a store; a null pointer in its place stands for zeros. */
struct sl_kv_options {
    /* Of a new store: "slab", as fast at any time, or "log", faster in bursts. NULL: "slab". A store that is
     * there has its own. */
    const char *engine;
    /* Bytes that a new file begins with, 17 MB at least; 0: 64 MiB. It grows as it is needed. */
    uint64_t bytes;
    /* Bytes that the file may grow to, 17 MB at least; 0: as many as there is room for. */
    uint64_t max_bytes;
    /* SL_KV_EXISTING, or 0. */
    uint64_t flags;
};

/* Opens only a store that is there; otherwise a new one is made where no file is. */
#define SL_KV_EXISTING 1u

/* Opens the store in a file, after recovery if that is needed, or makes one. */
sl_kv *sl_kv_open(const char *file, const struct sl_kv_options *options);

/* Makes everything durable and closes the store: opening it again takes no recovery. No other thread may
 * be in a call. */
int sl_kv_close(sl_kv *kv);

/* Sets the value of a key. Keys have up to 65,535 bytes. */
int sl_kv_put(sl_kv *kv, const void *key, size_t key_bytes, const void *value, size_t value_bytes);

/* Gives a copy of a key's value, which the program frees by free(), and its length; SL_KV_ABSENT if
 * there is none. An empty value is a copy, too. */
int sl_kv_get(sl_kv *kv, const void *key, size_t key_bytes, void **value, size_t *value_bytes);

/* Takes a key out; SL_KV_ABSENT if it was not there. */
int sl_kv_delete(sl_kv *kv, const void *key, size_t key_bytes);

/* Calls visit for each key from `from` on, in the order of their bytes (memcmp, a shorter key first),
 * until it returns something else than 0. Key and value are valid during the call. Keys that other
 * threads change meanwhile are seen before or after their change. */
int sl_kv_scan(sl_kv *kv, const void *from, size_t from_bytes,
               int (*visit)(void *argument, const void *key, size_t key_bytes, const void *value,
                            size_t value_bytes),
               void *argument);

/* Changes that sl_kv_write makes together; a later one of the same key replaces an earlier one. */
sl_kv_batch *sl_kv_batch_new(void);
int sl_kv_batch_put(sl_kv_batch *batch, const void *key, size_t key_bytes, const void *value,
                    size_t value_bytes);
int sl_kv_batch_delete(sl_kv_batch *batch, const void *key, size_t key_bytes);
int sl_kv_batch_free(sl_kv_batch *batch);

/* Makes the changes of a batch: after a crash all of them are there, or none. The batch stays as it is. */
int sl_kv_write(sl_kv *kv, sl_kv_batch *batch);

/* A ticket of the calling thread's last change, in whatever store; 0 if it was durable when it returned. */
uint64_t sl_kv_ticket(void);

/* Waits until the change with that ticket, and all before it, are durable. On an ordinary file that
 * takes a sync, which threads share; on persistent memory it returns at once. */
int sl_kv_wait(sl_kv *kv, uint64_t ticket);

/* Waits until all changes that returned are durable. */
int sl_kv_sync(sl_kv *kv);

/* Keys that there are. */
uint64_t sl_kv_count(sl_kv *kv);

#ifdef __cplusplus
}
#endif
#endif
