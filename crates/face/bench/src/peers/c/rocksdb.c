/* RocksDB, as it is but for compression: values are noise. */
#include "harness.h"
#include <rocksdb/c.h>
#include <string.h>

static rocksdb_t *db;
static rocksdb_writeoptions_t *writes;
static rocksdb_readoptions_t *reads;

static void check(char *error, const char *what)
{
    if (error)
        fail(what, error);
}

void store_open(void)
{
    char *error = NULL;
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    db = rocksdb_open(o, options.path, &error);
    check(error, "rocksdb_open");
    writes = rocksdb_writeoptions_create();
    if (strcmp(options.mode, "fast"))
        rocksdb_writeoptions_set_sync(writes, 1);
    else
        rocksdb_writeoptions_disable_WAL(writes, 1);
    reads = rocksdb_readoptions_create();
}

void store_close(void)
{
    rocksdb_close(db);
}

void store_put(int thread, const void *key, const void *value)
{
    char *error = NULL;
    (void)thread;
    rocksdb_put(db, writes, key, options.key_bytes, value, options.value_bytes, &error);
    check(error, "rocksdb_put");
}

int store_get(int thread, const void *key, uint64_t *word)
{
    char *error = NULL;
    size_t bytes = 0;
    (void)thread;
    rocksdb_pinnableslice_t *value = rocksdb_get_pinned(db, reads, key, options.key_bytes, &error);
    check(error, "rocksdb_get_pinned");
    if (!value)
        return 0;
    const char *data = rocksdb_pinnableslice_value(value, &bytes);
    if (bytes >= 8)
        memcpy(word, data, 8);
    rocksdb_pinnableslice_destroy(value);
    return bytes >= 8;
}

uint64_t store_scan(int thread, const void *key, uint32_t count)
{
    uint64_t found = 0;
    size_t bytes;
    (void)thread;
    rocksdb_iterator_t *iterator = rocksdb_create_iterator(db, reads);
    rocksdb_iter_seek(iterator, key, options.key_bytes);
    for (; found < count && rocksdb_iter_valid(iterator); rocksdb_iter_next(iterator)) {
        rocksdb_iter_value(iterator, &bytes);
        found++;
    }
    rocksdb_iter_destroy(iterator);
    return found;
}

int store_delete(int thread, const void *key)
{
    uint64_t word;
    char *error = NULL;
    /* It does not say whether there was something. */
    int there = store_get(thread, key, &word);
    rocksdb_delete(db, writes, key, options.key_bytes, &error);
    check(error, "rocksdb_delete");
    return there;
}
