/* Commits N small transactions to an LMDB file, each durable before the next begins; transaction i sets the key "last" to
 * i and adds a key of its own. With --verify, looks whether a file is what some first of them made, and not fewer than were
 * committed before the crash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lmdb.h"
#include "strandline.h"

static void check(int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, mdb_strerror(rc));
        exit(1);
    }
}

static MDB_env *open_file(const char *file, unsigned flags) {
    MDB_env *env;
    check(mdb_env_create(&env), "create");
    check(mdb_env_set_mapsize(env, 1UL << 20), "mapsize");
    check(mdb_env_open(env, file, MDB_NOSUBDIR | flags, 0644), "open");
    return env;
}

static int get(MDB_txn *txn, MDB_dbi dbi, const char *name) {
    MDB_val key = {strlen(name), (void *)name}, value;
    int number, rc = mdb_get(txn, dbi, &key, &value);
    if (rc == MDB_NOTFOUND)
        return 0;
    check(rc, name);
    memcpy(&number, value.mv_data, sizeof number);
    return number;
}

static int verify(const char *file) {
    const char *text = getenv("STRANDLINE_DONE");
    int done = text ? atoi(text) : 0;
    MDB_env *env = open_file(file, 0);
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_stat stat;
    check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
    check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
    int last = get(txn, dbi, "last");
    if (last < done) {
        fprintf(stderr, "transaction %d was committed, the last one is %d\n", done, last);
        return 1;
    }
    for (int i = 1; i <= last; i++) {
        char name[16];
        snprintf(name, sizeof name, "key %d", i);
        if (get(txn, dbi, name) != i) {
            fprintf(stderr, "transaction %d is there, but not the key of %d\n", last, i);
            return 1;
        }
    }
    check(mdb_stat(txn, dbi, &stat), "stat");
    if (stat.ms_entries != (size_t)last + (last > 0)) {
        fprintf(stderr, "%zu entries after transaction %d\n", stat.ms_entries, last);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--verify"))
        return verify(argv[2]);
    if (argc < 3) {
        fprintf(stderr, "usage: lmdb_commit FILE TRANSACTIONS [writemap] | --verify FILE\n");
        return 2;
    }
    int transactions = atoi(argv[2]);
    MDB_env *env = open_file(argv[1], argc > 3 ? MDB_WRITEMAP : 0);
    for (int i = 1; i <= transactions; i++) {
        MDB_txn *txn;
        MDB_dbi dbi;
        char name[16];
        sl_region_begin(i);
        check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
        check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
        MDB_val key = {4, "last"}, value = {sizeof i, &i};
        check(mdb_put(txn, dbi, &key, &value, 0), "put");
        key.mv_data = name;
        key.mv_size = (size_t)snprintf(name, sizeof name, "key %d", i);
        check(mdb_put(txn, dbi, &key, &value, 0), "put");
        check(mdb_txn_commit(txn), "commit");
        sl_region_end(i);
    }
    mdb_env_close(env);
    return 0;
}
