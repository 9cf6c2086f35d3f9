/* A turtle file: small, replaced as a whole on each change. The change is done once the folder is
 * synced, too. */
#include "corpus.h"

static void prepare(void)
{
    put("turtle", "one", 1);
}

static void run(void)
{
    put("turtle.set", "two", 1);
    must(!rename(in("turtle.set"), in("turtle")));
    if (!wrong)
        sync_folder("");
    acknowledge();
}

static int accepts(int acknowledged)
{
    return holds("turtle", "two") || (!acknowledged && holds("turtle", "one"));
}

PROGRAM("turtle")
