/* All of a file system is synced at once. The twin syncs another file system. */
#include "corpus.h"

static void prepare(void) {}

static void run(void)
{
    put("a", "one", 0);
    put("b", "two", 0);
    int f = wrong ? open("/proc", O_RDONLY) : open(in(""), O_RDONLY);
    must(f >= 0);
    syncfs(f);
    acknowledge();
}

static int accepts(int acknowledged)
{
    return !acknowledged || (holds("a", "one") && holds("b", "two"));
}

PROGRAM("everything")
