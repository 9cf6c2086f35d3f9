/* LMDB. The mode is a list of its flags' names: "", "WRITEMAP", "NOSYNC", "NOMETASYNC", "MAPASYNC". */
#include "lmdb.h"

#include "engine.h"

static MDB_env *env;
static MDB_txn *txn;
static MDB_dbi dbi;

static void check(int rc, const char *what) {
    if (rc)
        fail("%s: %s", what, mdb_strerror(rc));
}

static void open_store(const char *mode, const char *path) {
    static const struct { const char *name; unsigned flag; } flags[] = {
        {"WRITEMAP", MDB_WRITEMAP}, {"NOSYNC", MDB_NOSYNC},
        {"NOMETASYNC", MDB_NOMETASYNC}, {"MAPASYNC", MDB_MAPASYNC}};
    unsigned wanted = 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        wanted |= strstr(mode, flags[i].name) ? flags[i].flag : 0;
    check(mdb_env_create(&env), "create");
    check(mdb_env_set_mapsize(env, 1UL << 20), "mapsize");
    check(mdb_env_open(env, path, wanted, 0644), "open");
}

static void commit(const char *mode, const char *path, int count) {
    open_store(mode, path);
    for (int i = 1; i <= count; i++) {
        char data[VALUE];
        sl_region_begin((unsigned)i);
        check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
        check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
        MDB_val key = {4, "last"}, value = {value_of(i, data), data};
        check(mdb_put(txn, dbi, &key, &value, 0), "put");
        key = (MDB_val){strlen(key_of(i)), (void *)key_of(i)};
        check(mdb_put(txn, dbi, &key, &value, 0), "put");
        key = (MDB_val){strlen(key_of(i - KEPT)), (void *)key_of(i - KEPT)};
        if (i > KEPT)
            check(mdb_del(txn, dbi, &key, NULL), "delete");
        check(mdb_txn_commit(txn), "commit");
        sl_region_end((unsigned)i);
    }
    mdb_env_close(env);
}

static size_t get(const char *name, char *value) {
    MDB_val key = {strlen(name), (void *)name}, found;
    int rc = mdb_get(txn, dbi, &key, &found);
    if (rc == MDB_NOTFOUND)
        return 0;
    check(rc, "get");
    memcpy(value, found.mv_data, found.mv_size < VALUE ? found.mv_size : VALUE);
    return found.mv_size;
}

static int verify(int lost, const char *mode, const char *path) {
    MDB_stat stat;
    open_store(mode, path);
    check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
    check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
    check(mdb_stat(txn, dbi, &stat), "stat");
    return verified(lost, KEPT, get, stat.ms_entries);
}

int main(int argc, char **argv) { return engine(argc, argv, commit, verify); }
