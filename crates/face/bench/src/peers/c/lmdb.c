/* LMDB: a write transaction for each write; readers keep a transaction that they renew. */
#include "harness.h"
#include <lmdb.h>
#include <string.h>
#include <sys/stat.h>

enum { READERS = 126 };

static MDB_env *env;
static MDB_dbi dbi;
static MDB_txn *readers[READERS];

static void check(int error, const char *what)
{
    if (error)
        fail(what, mdb_strerror(error));
}

void store_open(void)
{
    size_t pair = options.key_bytes + options.value_bytes + 64;
    size_t pages = (options.records * pair * 4 + (256 << 20)) >> 12;
    MDB_txn *txn;
    mkdir(options.path, 0700);
    check(mdb_env_create(&env), "mdb_env_create");
    check(mdb_env_set_mapsize(env, pages << 12), "mdb_env_set_mapsize");
    /* Transactions of threads that come and go: the slot is the transaction's. */
    unsigned flags = MDB_NOTLS | (strcmp(options.mode, "fast") ? 0 : MDB_NOSYNC);
    check(mdb_env_open(env, options.path, flags, 0600), "mdb_env_open");
    check(mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
    check(mdb_dbi_open(txn, NULL, 0, &dbi), "mdb_dbi_open");
    check(mdb_txn_commit(txn), "mdb_txn_commit");
}

void store_close(void)
{
    mdb_env_close(env);
}

void store_put(int thread, const void *key, const void *value)
{
    MDB_val k = {options.key_bytes, (void *)key}, v = {options.value_bytes, (void *)value};
    MDB_txn *txn;
    (void)thread;
    check(mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
    check(mdb_put(txn, dbi, &k, &v, 0), "mdb_put");
    check(mdb_txn_commit(txn), "mdb_txn_commit");
}

static MDB_txn *reader(int thread)
{
    if (readers[thread])
        check(mdb_txn_renew(readers[thread]), "mdb_txn_renew");
    else
        check(mdb_txn_begin(env, NULL, MDB_RDONLY, &readers[thread]), "mdb_txn_begin");
    return readers[thread];
}

int store_get(int thread, const void *key, uint64_t *word)
{
    MDB_val k = {options.key_bytes, (void *)key}, v;
    MDB_txn *txn = reader(thread);
    int error = mdb_get(txn, dbi, &k, &v);
    if (!error)
        memcpy(word, v.mv_data, 8);
    mdb_txn_reset(txn);
    if (error != MDB_NOTFOUND)
        check(error, "mdb_get");
    return !error;
}

uint64_t store_scan(int thread, const void *key, uint32_t count)
{
    MDB_val k = {options.key_bytes, (void *)key}, v;
    MDB_txn *txn = reader(thread);
    MDB_cursor *cursor;
    uint64_t found = 0;
    check(mdb_cursor_open(txn, dbi, &cursor), "mdb_cursor_open");
    for (int error = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE); !error && found < count; found++)
        error = found + 1 < count ? mdb_cursor_get(cursor, &k, &v, MDB_NEXT) : 0;
    mdb_cursor_close(cursor);
    mdb_txn_reset(txn);
    return found;
}

int store_delete(int thread, const void *key)
{
    MDB_val k = {options.key_bytes, (void *)key};
    MDB_txn *txn;
    (void)thread;
    check(mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
    int error = mdb_del(txn, dbi, &k, NULL);
    if (error != MDB_NOTFOUND)
        check(error, "mdb_del");
    check(mdb_txn_commit(txn), "mdb_txn_commit");
    return !error;
}
