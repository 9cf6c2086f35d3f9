/* A copy made by the kernel (copy_file_range) gets its name when it is durable. */
#include "corpus.h"

static void prepare(void)
{
    put("data", "what is to be kept", 1);
}

static void run(void)
{
    int from = open(in("data"), O_RDONLY), to = open(in("copy.tmp"), O_CREAT | O_WRONLY, 0644);
    must(copy_file_range(from, 0, to, 0, 100, 0) == 18);
    if (!wrong)
        must(!fsync(to));
    must(!rename(in("copy.tmp"), in("copy")));
    sync_folder("");
    acknowledge();
}

static int accepts(int acknowledged)
{
    return holds("copy", "what is to be kept") || (!acknowledged && get("copy", &acknowledged, 0) < 0);
}

PROGRAM("backup")
