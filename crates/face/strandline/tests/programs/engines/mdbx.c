/* libmdbx. The mode is a list of flags: "WRITEMAP", "NOMETASYNC", "SAFE_NOSYNC", "UTTERLY_NOSYNC". */
#include "mdbx.h"

#include "engine.h"

static MDBX_env *env;
static MDBX_txn *txn;
static MDBX_dbi dbi;

static void check(int rc, const char *what) {
    if (rc)
        fail("%s: %s", what, mdbx_strerror(rc));
}

static void open_store(const char *mode, const char *path) {
    static const struct { const char *name; MDBX_env_flags_t flag; } flags[] = {
        {"WRITEMAP", MDBX_WRITEMAP}, {"NOMETASYNC", MDBX_NOMETASYNC},
        {"SAFE_NOSYNC", MDBX_SAFE_NOSYNC}, {"UTTERLY_NOSYNC", MDBX_UTTERLY_NOSYNC}};
    MDBX_env_flags_t wanted = MDBX_ENV_DEFAULTS;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        wanted |= strstr(mode, flags[i].name) ? flags[i].flag : MDBX_ENV_DEFAULTS;
    mdbx_setup_debug(MDBX_LOG_FATAL, MDBX_DBG_DONTCHANGE, MDBX_LOGGER_DONTCHANGE);
    check(mdbx_env_create(&env), "create");
    check(mdbx_env_set_geometry(env, -1, -1, 1 << 20, 64 << 10, 64 << 10, 4096), "geometry");
    check(mdbx_env_open(env, path, wanted, 0644), "open");
}

static void commit(const char *mode, const char *path, int count) {
    open_store(mode, path);
    for (int i = 1; i <= count; i++) {
        char data[VALUE];
        sl_region_begin((unsigned)i);
        check(mdbx_txn_begin(env, NULL, MDBX_TXN_READWRITE, &txn), "begin");
        check(mdbx_dbi_open(txn, NULL, MDBX_DB_DEFAULTS, &dbi), "open");
        MDBX_val key = {"last", 4}, value = {data, value_of(i, data)};
        check(mdbx_put(txn, dbi, &key, &value, MDBX_UPSERT), "put");
        key = (MDBX_val){(void *)key_of(i), strlen(key_of(i))};
        check(mdbx_put(txn, dbi, &key, &value, MDBX_UPSERT), "put");
        key = (MDBX_val){(void *)key_of(i - KEPT), strlen(key_of(i - KEPT))};
        if (i > KEPT)
            check(mdbx_del(txn, dbi, &key, NULL), "delete");
        check(mdbx_txn_commit(txn), "commit");
        sl_region_end((unsigned)i);
    }
    check(mdbx_env_close(env), "close");
}

static size_t get(const char *name, char *value) {
    MDBX_val key = {(void *)name, strlen(name)}, found;
    int rc = mdbx_get(txn, dbi, &key, &found);
    if (rc == MDBX_NOTFOUND)
        return 0;
    check(rc, "get");
    memcpy(value, found.iov_base, found.iov_len < VALUE ? found.iov_len : VALUE);
    return found.iov_len;
}

static int verify(int lost, const char *mode, const char *path) {
    MDBX_stat stat;
    open_store(mode, path);
    check(mdbx_txn_begin(env, NULL, MDBX_TXN_RDONLY, &txn), "begin");
    check(mdbx_dbi_open(txn, NULL, MDBX_DB_DEFAULTS, &dbi), "open");
    check(mdbx_dbi_stat(txn, dbi, &stat, sizeof stat), "stat");
    return verified(lost, KEPT, get, stat.ms_entries);
}

int main(int argc, char **argv) { return engine(argc, argv, commit, verify); }
