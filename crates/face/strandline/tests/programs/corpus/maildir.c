/* Mail delivery: the message is written to tmp, synced, linked into new, and removed from tmp. */
#include "corpus.h"

static void prepare(void)
{
    must(!mkdir(in("tmp"), 0755) && !mkdir(in("new"), 0755));
}

static void run(void)
{
    put("tmp/1", "Subject: hello", !wrong);
    must(!link(in("tmp/1"), in("new/1")));
    sync_folder("new");
    acknowledge();
    unlink(in("tmp/1"));
}

static int accepts(int acknowledged)
{
    return !acknowledged || holds("new/1", "Subject: hello");
}

PROGRAM("maildir")
