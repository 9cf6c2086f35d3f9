/* Scans a file with Vectorscan: vectorscan TEXT < expressions.
   Prints matches and seconds of processor time. */
#include <hs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned long long matches;

static int found(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *context) {
    (void)id, (void)from, (void)to, (void)flags, (void)context;
    matches++;
    return 0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    static char line[4096];
    static const char *expressions[1000];
    static unsigned flags[1000], ids[1000];
    unsigned count = 0;
    while (count < 1000 && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        expressions[count] = strdup(line);
        ids[count] = count;
        count++;
    }
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!file) return 2;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc(size);
    if (fread(text, 1, size, file) != (size_t)size) return 2;
    hs_database_t *database;
    hs_compile_error_t *error;
    hs_scratch_t *scratch = NULL;
    if (hs_compile_multi(expressions, flags, ids, count, HS_MODE_BLOCK, NULL, &database, &error)) {
        fprintf(stderr, "%s\n", error->message);
        return 2;
    }
    if (hs_alloc_scratch(database, &scratch)) return 2;
    double began = now();
    for (long at = 0; at < size; at += 1 << 20)
        if (hs_scan(database, text + at, size - at < 1 << 20 ? size - at : 1 << 20, 0, scratch, found, NULL))
            return 2;
    printf("%llu %f\n", matches, now() - began);
    return 0;
}
