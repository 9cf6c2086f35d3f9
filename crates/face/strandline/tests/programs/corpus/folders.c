/* A folder for each version: made and filled under another name, then renamed. */
#include "corpus.h"

static void prepare(void)
{
    must(!mkdir(in("v1"), 0755));
    put("v1/a", "one", 1);
}

static void run(void)
{
    must(!mkdir(in("v2.tmp"), 0755));
    put("v2.tmp/a", "two", !wrong);
    put("v2.tmp/b", "more", !wrong);
    sync_folder("v2.tmp");
    must(!rename(in("v2.tmp"), in("v2")));
    sync_folder("");
    acknowledge();
}

static int accepts(int acknowledged)
{
    struct stat found;
    if (stat(in("v2"), &found))
        return !acknowledged && holds("v1/a", "one");
    return holds("v2/a", "two") && holds("v2/b", "more");
}

PROGRAM("folders")
