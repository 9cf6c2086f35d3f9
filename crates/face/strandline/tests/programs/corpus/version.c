/* Version links: `current` leads to a version's file and is replaced by a renaming; then the old
 * version goes. */
#include "corpus.h"

static void prepare(void)
{
    put("v1", "one", 1);
    must(!symlink("v1", in("current")));
}

static void run(void)
{
    put("v2", "two", 1);
    must(!symlink("v2", in("next")));
    sync_folder("");
    if (wrong)
        unlink(in("v1"));
    must(!rename(in("next"), in("current")));
    sync_folder("");
    acknowledge();
    unlink(in("v1"));
}

static int accepts(int acknowledged)
{
    return holds("current", "two") || (!acknowledged && holds("current", "one"));
}

PROGRAM("version")
