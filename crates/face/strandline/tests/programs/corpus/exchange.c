/* Two files exchange their names. No file system writes the contents back for that, as it may for
 * a replacement. */
#include "corpus.h"

static void prepare(void)
{
    put("state", "one", 1);
}

static void run(void)
{
    put("other", "two", !wrong);
    must(!renameat2(AT_FDCWD, in("other"), AT_FDCWD, in("state"), RENAME_EXCHANGE));
    sync_folder("");
    acknowledge();
    unlink(in("other"));
}

static int accepts(int acknowledged)
{
    return holds("state", "two") || (!acknowledged && holds("state", "one"));
}

PROGRAM("exchange")
