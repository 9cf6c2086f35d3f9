/*
 * SQLite's B-tree in a pool. Nothing of SQLite is changed: its `memdb` keeps a database in memory that it is given
 * (sqlite3_deserialize), and this memory is a block of the pool.
 *
 *     sqlite POOL run THREADS [N]   threads that commit transactions, until killed or each N times; prints each that is durable
 *     sqlite POOL check [LINES]     integrity_check, the transactions' own sums, and that none of those in the file LINES is lost
 *
 * Pages of a transaction are changed in SQLite's page cache, which is ordinary memory, and written to the database as it
 * commits. That happens under one lock, so it is one SFR.
 */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sqlite3.h"
#include "strandline_pool.h"

enum { ACCOUNTS = 50, TALLER = 8 << 20 };

struct root {
    unsigned char *database; /* allocated once */
};

static sl_pool *pool;
static sqlite3 *db;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long times;

static void run(const char *what)
{
    char *error = NULL;
    if (sqlite3_exec(db, what, NULL, NULL, &error) != SQLITE_OK)
        errx(1, "%s: %s", what, error);
}

static long ask(const char *what, char *text, int room)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, what, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        errx(1, "%s: %s", what, sqlite3_errmsg(db));
    long number = sqlite3_column_int64(statement, 0);
    if (text)
        snprintf(text, (size_t)room, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return number;
}

/* The database's length is in its header: pages and their size, in the order of the network. */
static sqlite3_int64 length(const unsigned char *database)
{
    sqlite3_int64 pages = 0, size = database[16] << 8 | database[17];
    for (int byte = 28; byte < 32; byte++)
        pages = pages << 8 | database[byte];
    return pages * (size == 1 ? 65536 : size);
}

static void open_database(const char *path)
{
    int new = access(path, F_OK) != 0;
    pool = new ? sl_pool_create(path, "sqlite, 1", TALLER * 2, sizeof(struct root), NULL) : sl_pool_open(path, "sqlite, 1", NULL);
    if (!pool)
        errx(sl_error_code() == SL_E_NO_POOL ? 4 : 2, "%s", sl_error());
    struct root *root = sl_at(pool, sl_root(pool));
    if (!root->database)
        root->database = sl_at(pool, sl_zalloc(pool, TALLER));
    if (!root->database)
        errx(2, "%s", sl_error());
    /* Not the counts of memory, whose lock would end the region. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    if (sqlite3_open(":memory:", &db) != SQLITE_OK ||
        sqlite3_deserialize(db, "main", root->database, length(root->database), TALLER, 0) != SQLITE_OK)
        errx(2, "%s", sqlite3_errmsg(db));
    run("pragma cache_spill=off; pragma journal_mode=memory; pragma locking_mode=exclusive; pragma temp_store=memory");
    if (!length(root->database)) {
        pthread_mutex_lock(&lock);
        run("begin; create table accounts(id integer primary key, balance); create table log(thread, time, text);"
            "create index by_thread on log(thread, time);"
            "with recursive n(i) as (select 0 union all select i+1 from n where i<49) insert into accounts select i, 0 from n;"
            "commit");
        pthread_mutex_unlock(&lock);
    }
}

static void *work(void *argument)
{
    long me = (long)argument;
    unsigned seed = (unsigned)(me * 7919 + getpid());
    for (long i = 0; i < times; i++) {
        char text[700];
        int from = rand_r(&seed) % ACCOUNTS, to = rand_r(&seed) % ACCOUNTS, much = rand_r(&seed) % 100;
        pthread_mutex_lock(&lock);
        char name[64];
        snprintf(name, sizeof name, "select coalesce(max(time), 0) from log where thread=%ld", me);
        long time = ask(name, NULL, 0) + 1;
        snprintf(text, sizeof text,
                 "begin; update accounts set balance=balance-%d where id=%d; update accounts set balance=balance+%d where id=%d;"
                 "insert into log values(%ld, %ld, hex(zeroblob(%d)));"
                 "delete from log where thread=%ld and time<%ld - 200;"
                 "%s commit",
                 much, from, much, to, me, time, rand_r(&seed) % 300, me, time,
                 time % 97 == 0 ? "create table t(a); drop table t;" : "");
        run(text);
        pthread_mutex_unlock(&lock);
        sl_psync();
        printf("%ld %ld\n", me, time);
        fflush(stdout);
    }
    return NULL;
}

static int check(const char *lines)
{
    char answer[200];
    ask("pragma integrity_check", answer, sizeof answer);
    if (strcmp(answer, "ok"))
        errx(1, "integrity: %s", answer);
    if (ask("select count(*) from accounts", NULL, 0) != ACCOUNTS || ask("select sum(balance) from accounts", NULL, 0))
        errx(1, "money came from nowhere");
    if (ask("select count(*) from (select max(time)-min(time)+1 m, count(*) c from log group by thread having m<>c)", NULL, 0))
        errx(1, "a transaction is missing in the middle");
    long thread, time;
    FILE *file = lines ? fopen(lines, "r") : NULL;
    while (file && fscanf(file, "%ld %ld\n", &thread, &time) == 2) {
        char text[100];
        snprintf(text, sizeof text, "select coalesce(max(time), 0) from log where thread=%ld", thread);
        long last = ask(text, NULL, 0);
        if (last < time)
            errx(1, "thread %ld has %ld transactions, and has reported %ld", thread, last, time);
    }
    printf("%ld rows\n", ask("select count(*) from log", NULL, 0));
    return 0;
}

int main(int count, char **arguments)
{
    if (count < 3)
        errx(2, "usage: sqlite POOL run THREADS [N], sqlite POOL check [LINES]");
    open_database(arguments[1]);
    if (!strcmp(arguments[2], "check"))
        return check(count > 3 ? arguments[3] : NULL);
    pthread_t ids[16];
    int threads = count > 3 ? atoi(arguments[3]) : 2;
    times = count > 4 ? atol(arguments[4]) : 1L << 40;
    for (long i = 0; i < threads && i < 16; i++)
        pthread_create(&ids[i], NULL, work, (void *)i);
    for (long i = 0; i < threads && i < 16; i++)
        pthread_join(ids[i], NULL);
    return sl_pool_close(pool) ? 2 : 0;
}
