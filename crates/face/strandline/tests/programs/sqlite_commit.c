/* Commits N transactions of five rows to an SQLite database: sqlite_commit FOLDER N JOURNAL SYNCHRONOUS; N = 0 makes it. With
 * --verify FOLDER, looks whether it holds whole transactions, and not fewer than were committed before the crash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite3.h"
#include "strandline.h"

static sqlite3 *db;

static int first(void *into, int columns, char **values, char **names)
{
    (void)names;
    if (columns > 0 && values[0])
        snprintf(into, 64, "%s", values[0]);
    return 0;
}

static int ask(const char *what, char into[64])
{
    char *error = NULL;
    into[0] = 0;
    if (sqlite3_exec(db, what, first, into, &error) == SQLITE_OK)
        return 1;
    fprintf(stderr, "%s: %s\n", what, error);
    return 0;
}

static void run(const char *what)
{
    char answer[64];
    if (!ask(what, answer))
        exit(1);
}

static int verify(void)
{
    char answer[64];
    const char *text = getenv("STRANDLINE_DONE");
    int done = text ? atoi(text) : 0;
    if (!ask("pragma integrity_check", answer))
        return 1;
    if (strcmp(answer, "ok")) {
        fprintf(stderr, "integrity: %s\n", answer);
        return 1;
    }
    if (!ask("select count(*) from t", answer))
        return 1;
    int rows = atoi(answer);
    if (rows % 5 || rows < 5 * done) {
        fprintf(stderr, "%d rows after %d transactions\n", rows, done);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char text[4096];
    int verifies = argc == 3 && !strcmp(argv[1], "--verify");
    if (argc != 5 && !verifies)
        return 2;
    snprintf(text, sizeof text, "%s/t.db", argv[verifies ? 2 : 1]);
    if (sqlite3_open(text, &db)) {
        fprintf(stderr, "the database does not open\n");
        return 1;
    }
    if (verifies)
        return verify();
    snprintf(text, sizeof text, "pragma journal_mode=%s", argv[3]);
    run(text);
    snprintf(text, sizeof text, "pragma synchronous=%s", argv[4]);
    run(text);
    int transactions = atoi(argv[2]);
    if (transactions == 0)
        run("create table t(k, v)");
    for (int i = 1; i <= transactions; i++) {
        sl_region_begin(i);
        run("begin");
        for (int row = 0; row < 5; row++) {
            snprintf(text, sizeof text, "insert into t values(%d, hex(zeroblob(100)))", i);
            run(text);
        }
        run("commit");
        sl_region_end(i);
    }
    return 0;
}
