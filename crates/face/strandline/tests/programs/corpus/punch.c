/* Old records of a log are punched out once they are durable elsewhere. */
#include "corpus.h"
#include <linux/falloc.h>

static void prepare(void)
{
    char log[8192];
    int f = open(in("log"), O_CREAT | O_WRONLY, 0644);
    memset(log, 'r', sizeof log);
    must(write(f, log, sizeof log) == sizeof log);
    put("table", "", 1);
}

static void run(void)
{
    int log = open(in("log"), O_RDWR), table = open(in("table"), O_WRONLY);
    must(write(table, "r", 1) == 1);
    if (!wrong)
        must(!fsync(table));
    must(!fallocate(log, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    must(!fsync(log));
    fsync(table);
}

static int accepts(int acknowledged)
{
    char first = 0;
    (void)acknowledged;
    return (get("log", &first, 1) == 1 && first == 'r') || holds("table", "r");
}

PROGRAM("punch")
