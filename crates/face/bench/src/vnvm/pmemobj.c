/* Commits of 32 writes, one to a page, by libpmemobj: path, bytes of the array, bytes of a write. Prints nanoseconds per commit, of a second pass. */
#include <libpmemobj.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    size_t array = strtoull(argv[2], NULL, 0), bytes = strtoull(argv[3], NULL, 0);
    PMEMobjpool *pool = pmemobj_create(argv[1], "array", 2 * array + (32 << 20), 0600);
    if (!pool) {
        fprintf(stderr, "%s\n", pmemobj_errormsg());
        return 1;
    }
    PMEMoid root = pmemobj_root(pool, array);
    char *data = pmemobj_direct(root), *from = malloc(bytes);
    memset(from, 7, bytes);
    size_t transactions = array / 4096 / 32;
    double began = 0;
    for (int pass = 0; pass < 2; pass++) {
        began = now();
        for (size_t i = 0; i < transactions; i++) {
            TX_BEGIN(pool) {
                for (size_t page = 0; page < 32; page++) {
                    size_t at = (i * 32 + page) * 4096;
                    pmemobj_tx_add_range(root, at, bytes);
                    memcpy(data + at, from, bytes);
                }
            } TX_ONABORT {
                return 1;
            } TX_END
        }
    }
    printf("%f\n", (now() - began) / transactions);
    pmemobj_close(pool);
    return 0;
}
