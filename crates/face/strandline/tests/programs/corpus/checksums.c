/* A log that is read up to the first record whose checksum is wrong. The twin has none and trusts
 * the file's length. */
#include "corpus.h"

enum { RECORD = 300, RECORDS = 4 };

static void prepare(void)
{
    put("log", "", 1);
}

static void run(void)
{
    int f = open(in("log"), O_WRONLY | O_APPEND);
    for (int n = 1; n <= RECORDS; n++) {
        unsigned char record[RECORD];
        memset(record, n, RECORD);
        uint32_t h = sum(record, RECORD - 4);
        if (!wrong)
            memcpy(record + RECORD - 4, &h, 4);
        must(write(f, record, RECORD) == RECORD);
        must(!fdatasync(f));
        acknowledge();
    }
}

static int accepts(int acknowledged)
{
    unsigned char log[RECORD * RECORDS], whole[RECORD];
    int size = get("log", log, sizeof log), n = 0;
    for (int i = 0; i + RECORD <= size; i += RECORD, n++) {
        uint32_t h = sum(log + i, RECORD - 4);
        if (!wrong && memcmp(log + i + RECORD - 4, &h, 4))
            break;
        memset(whole, n + 1, RECORD);
        if (memcmp(log + i, whole, RECORD - 4))
            return 0;
    }
    return n >= acknowledged;
}

PROGRAM("checksums")
