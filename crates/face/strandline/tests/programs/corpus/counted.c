/* A log whose header counts its records: a record is appended and synced before the header counts it. */
#include "corpus.h"

enum { HEAD = 512, RECORD = 512 };

static void prepare(void)
{
    char head[HEAD] = {0};
    int f = open(in("log"), O_CREAT | O_WRONLY, 0644);
    must(pwrite(f, head, HEAD, 0) == HEAD);
}

static void run(void)
{
    int f = open(in("log"), O_WRONLY);
    for (int n = 1; n < 4; n++) {
        char record[RECORD];
        memset(record, 'a' + n, RECORD);
        must(pwrite(f, record, RECORD, HEAD + (n - 1) * RECORD) == RECORD);
        if (!wrong)
            must(!fdatasync(f));
        must(pwrite(f, &n, sizeof n, 0) == sizeof n);
        must(!fdatasync(f));
        acknowledge();
    }
}

static int accepts(int acknowledged)
{
    char log[HEAD + 4 * RECORD];
    int size = get("log", log, sizeof log), count;
    memcpy(&count, log, sizeof count);
    for (int i = 0; i < count * RECORD; i++)
        if (HEAD + i >= size || log[HEAD + i] != 'b' + i / RECORD)
            return 0;
    return count >= acknowledged;
}

PROGRAM("counted")
