/* Loads N random 8-byte keys with 100-byte values into LMDB, 1000 per transaction. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lmdb.h"

static uint64_t state = 88172645463325252ULL;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void check(int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, mdb_strerror(rc));
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: lmdb_load FILE KEYS [writemap]\n");
        return 2;
    }
    long keys = atol(argv[2]);
    unsigned flags = MDB_NOSUBDIR | MDB_NOSYNC | (argc > 3 ? MDB_WRITEMAP : 0);
    MDB_env *env;
    check(mdb_env_create(&env), "create");
    check(mdb_env_set_mapsize(env, 1UL << 30), "mapsize");
    check(mdb_env_open(env, argv[1], flags, 0644), "open");
    char value[100];
    memset(value, 7, sizeof value);
    for (long i = 0; i < keys;) {
        MDB_txn *txn;
        MDB_dbi dbi;
        check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
        check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
        for (int j = 0; j < 1000 && i < keys; j++, i++) {
            uint64_t key = next_random();
            memcpy(value, &key, sizeof key);
            MDB_val k = {sizeof key, &key}, v = {sizeof value, value};
            check(mdb_put(txn, dbi, &k, &v, 0), "put");
        }
        check(mdb_txn_commit(txn), "commit");
    }
    MDB_stat stat;
    check(mdb_env_stat(env, &stat), "stat");
    printf("%zu entries\n", stat.ms_entries);
    mdb_env_close(env);
    return 0;
}
