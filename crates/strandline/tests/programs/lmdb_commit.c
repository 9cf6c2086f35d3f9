/* Commits N small transactions to an LMDB file, each durable before the next begins; the number of each is under the key
 * "last", and under its own key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lmdb.h"

static void check(int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, mdb_strerror(rc));
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: lmdb_commit FILE TRANSACTIONS [writemap]\n");
        return 2;
    }
    int transactions = atoi(argv[2]);
    MDB_env *env;
    check(mdb_env_create(&env), "create");
    check(mdb_env_set_mapsize(env, 1UL << 20), "mapsize");
    check(mdb_env_open(env, argv[1], MDB_NOSUBDIR | (argc > 3 ? MDB_WRITEMAP : 0), 0644), "open");
    for (int i = 1; i <= transactions; i++) {
        MDB_txn *txn;
        MDB_dbi dbi;
        char name[16];
        check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
        check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
        MDB_val key = {4, "last"}, value = {sizeof i, &i};
        check(mdb_put(txn, dbi, &key, &value, 0), "put");
        key.mv_data = name;
        key.mv_size = (size_t)snprintf(name, sizeof name, "key %d", i);
        check(mdb_put(txn, dbi, &key, &value, 0), "put");
        check(mdb_txn_commit(txn), "commit");
    }
    mdb_env_close(env);
    return 0;
}
