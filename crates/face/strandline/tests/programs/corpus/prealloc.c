/* A log whose room is allocated first, so that each write through O_DSYNC changes data only. */
#include "corpus.h"

enum { RECORD = 512, RECORDS = 3 };

static void prepare(void) {}

static void run(void)
{
    int f = open(in("log"), O_CREAT | O_WRONLY | (wrong ? 0 : O_DSYNC), 0644);
    must(f >= 0 && !posix_fallocate(f, 0, RECORD * RECORDS) && !fsync(f));
    sync_folder("");
    for (int n = 0; n < RECORDS; n++) {
        char record[RECORD];
        memset(record, 'a' + n, RECORD);
        must(pwrite(f, record, RECORD, n * RECORD) == RECORD);
        acknowledge();
    }
}

static int accepts(int acknowledged)
{
    char log[RECORD * RECORDS];
    int size = get("log", log, sizeof log);
    for (int i = 0; i < acknowledged * RECORD; i++)
        if (i >= size || log[i] != 'a' + i / RECORD)
            return 0;
    return 1;
}

PROGRAM("prealloc")
