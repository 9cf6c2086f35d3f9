/* msync's flags: MS_SYNC waits until the page is durable, MS_ASYNC promises nothing. */
#include "corpus.h"

static void prepare(void)
{
    char page[4096] = {0};
    int f = open(in("map"), O_CREAT | O_WRONLY, 0644);
    must(write(f, page, 4096) == 4096);
}

static void run(void)
{
    int f = open(in("map"), O_RDWR);
    volatile int *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    must(map != MAP_FAILED);
    for (int n = 1; n < 4; n++) {
        *map = n;
        must(!msync((void *)map, 4096, wrong ? MS_ASYNC : MS_SYNC));
        acknowledge();
    }
}

static int accepts(int acknowledged)
{
    int count = 0;
    return get("map", &count, sizeof count) == sizeof count && count >= acknowledged;
}

PROGRAM("flags")
