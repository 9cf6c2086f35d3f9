/* Two slots that are written in turn; the newest one with a right checksum counts. The twin has
 * one slot only. */
#include "corpus.h"

struct slot {
    uint32_t number, text[1022], sum;
};

static void put_slot(int f, uint32_t number, int at)
{
    struct slot s = {.number = number};
    for (int i = 0; i < 1022; i++)
        s.text[i] = number;
    s.sum = sum(&s, sizeof s - 4);
    must(pwrite(f, &s, sizeof s, at * sizeof s) == sizeof s);
}

static void prepare(void)
{
    int f = open(in("slots"), O_CREAT | O_WRONLY, 0644);
    put_slot(f, 0, 0), put_slot(f, 0, 1);
}

static void run(void)
{
    int f = open(in("slots"), O_WRONLY);
    for (uint32_t n = 1; n < 4; n++) {
        put_slot(f, n, wrong ? 0 : n & 1);
        must(!fdatasync(f));
        acknowledge();
    }
}

static int accepts(int acknowledged)
{
    struct slot s[2];
    int newest = -1;
    must(get("slots", s, sizeof s) == sizeof s);
    for (int i = 0; i < 2; i++)
        if (s[i].sum == sum(&s[i], sizeof s[i] - 4) && (int)s[i].number > newest)
            newest = s[i].number;
    return newest >= acknowledged;
}

PROGRAM("slots")
