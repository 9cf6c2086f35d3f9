/* LevelDB, as it is but for compression: values are noise. */
#include "harness.h"
#include <leveldb/c.h>
#include <string.h>

static leveldb_t *db;
static leveldb_writeoptions_t *writes;
static leveldb_readoptions_t *reads;

static void check(char *error, const char *what)
{
    if (error)
        fail(what, error);
}

void store_open(void)
{
    char *error = NULL;
    leveldb_options_t *o = leveldb_options_create();
    leveldb_options_set_create_if_missing(o, 1);
    leveldb_options_set_compression(o, leveldb_no_compression);
    db = leveldb_open(o, options.path, &error);
    check(error, "leveldb_open");
    writes = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(writes, strcmp(options.mode, "fast") != 0);
    reads = leveldb_readoptions_create();
}

void store_close(void)
{
    leveldb_close(db);
}

void store_put(int thread, const void *key, const void *value)
{
    char *error = NULL;
    (void)thread;
    leveldb_put(db, writes, key, options.key_bytes, value, options.value_bytes, &error);
    check(error, "leveldb_put");
}

int store_get(int thread, const void *key, uint64_t *word)
{
    char *error = NULL;
    size_t bytes = 0;
    (void)thread;
    char *value = leveldb_get(db, reads, key, options.key_bytes, &bytes, &error);
    check(error, "leveldb_get");
    if (!value)
        return 0;
    if (bytes >= 8)
        memcpy(word, value, 8);
    leveldb_free(value);
    return bytes >= 8;
}

uint64_t store_scan(int thread, const void *key, uint32_t count)
{
    uint64_t found = 0;
    size_t bytes;
    (void)thread;
    leveldb_iterator_t *iterator = leveldb_create_iterator(db, reads);
    leveldb_iter_seek(iterator, key, options.key_bytes);
    for (; found < count && leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        leveldb_iter_value(iterator, &bytes);
        found++;
    }
    leveldb_iter_destroy(iterator);
    return found;
}

int store_delete(int thread, const void *key)
{
    uint64_t word;
    char *error = NULL;
    /* It does not say whether there was something. */
    int there = store_get(thread, key, &word);
    leveldb_delete(db, writes, key, options.key_bytes, &error);
    check(error, "leveldb_delete");
    return there;
}
