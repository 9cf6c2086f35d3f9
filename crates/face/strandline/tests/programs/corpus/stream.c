/* A stream: its buffer is flushed before the file is synced. The twin leaves that to fclose. */
#include "corpus.h"

static void prepare(void)
{
    put("journal", "", 1);
}

static void run(void)
{
    FILE *f = fopen(in("journal"), "a");
    must(f && fputs("entry\n", f) >= 0);
    if (!wrong)
        must(!fflush(f));
    must(!fsync(fileno(f)));
    fclose(f);
    acknowledge();
}

static int accepts(int acknowledged)
{
    return !acknowledged || holds("journal", "entry\n");
}

PROGRAM("stream")
