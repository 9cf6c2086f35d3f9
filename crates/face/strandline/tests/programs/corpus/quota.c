/* A write that finds no room is short. The twin acknowledges it, and writes the rest when there is
 * room again. */
#include "corpus.h"
#include <signal.h>
#include <sys/resource.h>

enum { SIZE = 8192, ROOM = 5000 };

static void prepare(void)
{
    put("data", "", 1);
}

static void quota(rlim_t room)
{
    struct rlimit limit;
    must(!getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = room;
    must(!setrlimit(RLIMIT_FSIZE, &limit));
}

static void run(void)
{
    static char text[SIZE];
    int f = open(in("data"), O_WRONLY);
    memset(text, 'q', SIZE);
    signal(SIGXFSZ, SIG_IGN);
    quota(ROOM);
    int n = write(f, text, SIZE);
    quota(RLIM_INFINITY);
    must(n == ROOM && !fsync(f));
    if (wrong)
        acknowledge();
    must(write(f, text + n, SIZE - n) == SIZE - n && !fsync(f));
    if (!wrong)
        acknowledge();
}

static int accepts(int acknowledged)
{
    char text[SIZE];
    int size = get("data", text, SIZE);
    for (int i = 0; acknowledged && i < SIZE; i++)
        if (i >= size || text[i] != 'q')
            return 0;
    return 1;
}

PROGRAM("quota")
