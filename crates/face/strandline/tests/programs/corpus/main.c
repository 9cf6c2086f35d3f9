/* corpus PROGRAM right|wrong DIR runs a program of the corpus, with `prepare` behind it makes what is
 * there before, with `accepts` is its recovery command. */
#include "corpus.h"
#include <strandline.h>

struct program *programs;
int wrong;
static const char *folder;

const char *in(const char *name)
{
    static char path[4][300];
    static int i;
    char *p = path[i++ & 3];
    snprintf(p, 300, "%s/%s", folder, name);
    return p;
}

void put(const char *name, const char *text, int synced)
{
    int f = open(in(name), O_CREAT | O_WRONLY | O_TRUNC, 0644), length = strlen(text);
    must(f >= 0 && write(f, text, length) == length);
    must(!synced || !fsync(f));
    close(f);
}

int get(const char *name, void *bytes, int size)
{
    int f = open(in(name), O_RDONLY), n = f < 0 ? -1 : (int)read(f, bytes, size);
    if (f >= 0)
        close(f);
    return n;
}

int holds(const char *name, const char *text)
{
    char bytes[10000];
    int n = get(name, bytes, sizeof bytes);
    return n == (int)strlen(text) && !memcmp(bytes, text, n);
}

void sync_folder(const char *name)
{
    int f = open(in(name), O_RDONLY | O_DIRECTORY);
    must(f >= 0 && !fsync(f));
    close(f);
}

void acknowledge(void)
{
    sl_region_begin(1);
    sl_region_end(1);
}

uint32_t sum(const void *bytes, int size)
{
    uint32_t h = 2166136261u;
    for (int i = 0; i < size; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * 16777619u;
    return h;
}

int main(int count, char **words)
{
    struct program *p = programs;
    const char *ended = getenv("STRANDLINE_DONE");
    must(count == 4 || count == 5);
    wrong = !strcmp(words[2], "wrong");
    folder = words[3];
    while (p && strcmp(p->name, words[1]))
        p = p->next;
    must(p);
    if (count == 4)
        p->run();
    else if (!strcmp(words[4], "prepare"))
        p->prepare();
    else
        return !p->accepts(ended ? atoi(ended) : 0);
    return 0;
}
