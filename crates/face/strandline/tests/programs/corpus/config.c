/* A configuration that is either the old or the new one. The twin does not sync the new file
 * before it is renamed. */
#include "corpus.h"

static void prepare(void)
{
    put("config", "volume=3\n", 1);
}

static void run(void)
{
    put("config.new", "volume=11\n", !wrong);
    must(!rename(in("config.new"), in("config")));
}

static int accepts(int acknowledged)
{
    (void)acknowledged;
    return holds("config", "volume=3\n") || holds("config", "volume=11\n");
}

PROGRAM("config")
