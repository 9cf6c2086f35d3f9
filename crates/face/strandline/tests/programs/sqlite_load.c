/* SQLite: N inserts in one transaction, an index, range queries through it, a scan. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

static uint64_t state = 88172645463325252ULL;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static sqlite3 *db;

static void run(const char *sql) {
    char *message;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, message);
        exit(1);
    }
}

static sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        exit(1);
    }
    return statement;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: sqlite_load FILE ROWS\n");
        return 2;
    }
    long rows = atol(argv[2]);
    if (sqlite3_open(argv[1], &db) != SQLITE_OK) return 1;
    run("create table t(id integer primary key, k integer, name text, v real)");
    run("begin");
    sqlite3_stmt *insert = prepare("insert into t(k, name, v) values(?, ?, ?)");
    for (long i = 0; i < rows; i++) {
        char name[64];
        int n = snprintf(name, sizeof name, "name-%llu-%ld", (unsigned long long)(next_random() % 1000003), i);
        sqlite3_bind_int64(insert, 1, (sqlite3_int64)(next_random() % 1000000));
        sqlite3_bind_text(insert, 2, name, n, SQLITE_TRANSIENT);
        sqlite3_bind_double(insert, 3, (double)i * 0.5);
        if (sqlite3_step(insert) != SQLITE_DONE) return 1;
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    run("commit");
    run("create index tk on t(k)");
    long long found = 0;
    sqlite3_stmt *range = prepare("select sum(v) from t where k between ? and ?");
    for (int i = 0; i < 2000; i++) {
        sqlite3_int64 from = (sqlite3_int64)(next_random() % 1000000);
        sqlite3_bind_int64(range, 1, from);
        sqlite3_bind_int64(range, 2, from + 1000);
        while (sqlite3_step(range) == SQLITE_ROW) found += sqlite3_column_int64(range, 0);
        sqlite3_reset(range);
    }
    sqlite3_finalize(range);
    sqlite3_stmt *count = prepare("select count(*) from t where name like '%99%'");
    if (sqlite3_step(count) != SQLITE_ROW) return 1;
    printf("%ld rows, sum %lld, %lld names\n", rows, found, (long long)sqlite3_column_int64(count, 0));
    sqlite3_finalize(count);
    sqlite3_close(db);
    return 0;
}
