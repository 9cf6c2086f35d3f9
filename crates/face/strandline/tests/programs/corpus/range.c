/* msync's range: the page of the value is synced before the flag in another page is set. The twin
 * syncs the flag's. */
#include "corpus.h"

static void prepare(void)
{
    char pages[8192] = {0};
    int f = open(in("map"), O_CREAT | O_WRONLY, 0644);
    must(write(f, pages, 8192) == 8192);
}

static void run(void)
{
    int f = open(in("map"), O_RDWR);
    char *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    must(map != MAP_FAILED);
    memset(map + 4096, 'v', 100);
    must(!msync(wrong ? map : map + 4096, 4096, MS_SYNC));
    *(volatile char *)map = 1;
    must(!msync(map, 4096, MS_SYNC));
}

static int accepts(int acknowledged)
{
    char map[8192];
    int right = get("map", map, sizeof map) == sizeof map;
    (void)acknowledged;
    for (int i = 0; right && map[0] && i < 100; i++)
        right = map[4096 + i] == 'v';
    return right;
}

PROGRAM("range")
