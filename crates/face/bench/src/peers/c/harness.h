/* What the harness asks of a store. */
#include <stddef.h>
#include <stdint.h>

struct options {
    const char *path;   /* where the store is to be: nothing is there */
    const char *mode;   /* which of two ways to use it */
    size_t key_bytes;   /* 8, 16 or 24 */
    size_t value_bytes; /* at least 8 */
    uint64_t records;   /* at most so many */
    int threads;
};

extern struct options options;

/* Prints why the run can't go on, and ends it. */
_Noreturn void fail(const char *what, const char *why);

void store_open(void);
void store_close(void);
/* `thread` is the caller's number, from 0. */
void store_put(int thread, const void *key, const void *value);
/* Copies the first word of the value; 0 if there is none. */
int store_get(int thread, const void *key, uint64_t *word);
/* Reads up to `count` records from the key on; how many. */
uint64_t store_scan(int thread, const void *key, uint32_t count);
/* 0 if there is none. */
int store_delete(int thread, const void *key);
