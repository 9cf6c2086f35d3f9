// Runs the shapes, until they are killed or for some rounds.
//
//     shapes POOL KIND [ROUNDS]   as many rounds of each thread; without a number until it is killed
//     shapes --check POOL KIND    says what is wrong with what survived
//     shapes --kinds              lists the kinds
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <err.h>

#include "shapes.h"

sl_pool *pool;
Root *root;
unsigned long rounds = ~0ul;
static Kind *kinds;

Kind::Kind(const char *name, void (*run)(), bool (*holds)(), void (*mend)())
    : name(name), run(run), holds(holds), mend(mend), next(kinds)
{
    kinds = this;
}

bool wrong(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    puts("");
    return false;
}

bool pairs_agree()
{
    long a = 0, b = 0;
    for (int i = 0; i < 8; i++)
        a += root->lines[i].a, b += root->lines[i].b;
    return a == b || wrong("%ld and %ld", a, b);
}

bool messages_hold()
{
    Line &from = root->lines[0], &to = root->lines[1];
    return (from.a == from.b && to.a <= from.a) || wrong("%ld, %ld written, %ld read", from.a, from.b, to.a);
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "--kinds")) {
        for (Kind *kind = kinds; kind; kind = kind->next)
            puts(kind->name);
        return 0;
    }
    bool checks = count > 1 && !strcmp(arguments[1], "--check");
    if (count != 3 + checks && (checks || count != 4))
        errx(2, "usage: shapes [--check] POOL KIND [ROUNDS]");
    const char *path = arguments[1 + checks], *name = arguments[2 + checks];
    Kind *kind = kinds;
    while (kind && strcmp(kind->name, name))
        kind = kind->next;
    if (!kind)
        errx(2, "no kind %s", name);
    sl_pool_options options = {nullptr, SL_FORCE};
    pool = sl_pool_open(path, "shapes", &options);
    if (!pool && !checks)
        pool = sl_pool_create(path, "shapes", 8 << 20, sizeof(Root), &options);
    if (!pool) {
        printf("%s\n", sl_error());
        return 1;
    }
    root = static_cast<Root *>(sl_at(pool, sl_root(pool)));
    if (checks)
        return !kind->holds();
    if (count == 4)
        rounds = strtoul(arguments[3], nullptr, 10);
    kind->mend();
    printf("begins\n");
    fflush(stdout);
    if (rounds)
        kind->run();
    return sl_pool_close(pool) != 0;
}
