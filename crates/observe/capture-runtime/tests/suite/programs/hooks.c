// Every hook before an instruction keeps every register. Argument: calls of each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct registers {
    long general[14], flags, pad;
    unsigned char vector[16][32];
};

void call_hook(void (*hook)(void), const struct registers *before, struct registers *after, long off_by);

#define HOOKS(X) X(clwb) X(clflushopt) X(clflush) X(cldemote) X(sfence) X(mfence) X(nt4) X(nt8) X(nt16) X(nt32) X(nt64) \
    X(rmw1) X(rmw2) X(rmw4) X(rmw8) X(rmw16)
#define DECLARE(name) void strandline_hook_##name(void);
HOOKS(DECLARE)
#define ENTRY(name) strandline_hook_##name,
static void (*hooks[])(void) = {HOOKS(ENTRY)};

static struct registers before, after;
static char target[64] __attribute__((aligned(64)));

__attribute__((no_sanitize("thread"))) int main(int argc, char **argv) {
    long calls = atol(argv[1]);
    printf("%p\n", (void *)target);
    fflush(stdout);
    for (size_t hook = 0; hook < sizeof hooks / sizeof *hooks; hook++) {
        for (long call = 0; call < calls; call++) {
            for (size_t at = 0; at < sizeof before; at++)
                ((unsigned char *)&before)[at] = (unsigned char)(at * 31 + call * 7 + hook);
            before.general[5] = (long)target; // rdi
            before.flags = 0x202 | (call & 0x8d5); // CF PF AF ZF SF OF
            call_hook(hooks[hook], &before, &after, call % 2 * 8 + call % 5);
            before.pad = after.pad;
            if ((before.flags & 0x8d5) != (after.flags & 0x8d5))
                return 2;
            before.flags = after.flags;
            if (memcmp(&before, &after, sizeof before))
                return 1;
        }
    }
    puts("done");
    return 0;
}
