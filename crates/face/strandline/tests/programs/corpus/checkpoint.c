/* A checkpoint: what the log says is written to the database and synced before the log is cut. */
#include "corpus.h"

static void prepare(void)
{
    put("db", "one", 1);
    put("log", "", 1);
}

static void run(void)
{
    put("log", "two", 1);
    acknowledge();
    int db = open(in("db"), O_WRONLY);
    must(pwrite(db, "two", 3, 0) == 3);
    if (!wrong)
        must(!fsync(db));
    must(!truncate(in("log"), 0));
    fsync(db);
}

static int accepts(int acknowledged)
{
    if (holds("log", "two")) /* recovery applies it */
        return 1;
    return holds("db", "two") || (!acknowledged && holds("db", "one"));
}

PROGRAM("checkpoint")
