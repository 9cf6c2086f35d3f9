/* A file without a name (O_TMPFILE) gets one when it is whole and synced. */
#include "corpus.h"

static void prepare(void) {}

static void run(void)
{
    char self[64];
    int f = open(in(""), O_TMPFILE | O_RDWR, 0644);
    must(f >= 0 && write(f, "upload", 6) == 6);
    if (!wrong)
        must(!fsync(f));
    snprintf(self, sizeof self, "/proc/self/fd/%d", f);
    must(!linkat(AT_FDCWD, self, AT_FDCWD, in("upload"), AT_SYMLINK_FOLLOW));
    sync_folder("");
    acknowledge();
}

static int accepts(int acknowledged)
{
    return !acknowledged || holds("upload", "upload");
}

PROGRAM("nameless")
