/*
 * A shortener of links: names for addresses, in a key-value store, for any number of threads.
 *
 *   links put STORE NAME ADDRESS     makes the store if there is none
 *   links get STORE NAME
 *   links remove STORE NAME
 *   links list STORE [FROM]          in the order of names
 *   links load STORE FROM TO         puts links number FROM to TO - 1 by four threads, which wait every 16
 *                                    links until they are durable, and prints those that are
 *   links try STORE [MISTAKE]        a few operations, for `strandline check`
 *   links --recover STORE [try]      looks whether the store is whole: status 0, or 1 and a line that says
 *                                    why. After `try`, what its operations left must be there, too
 *
 * Each link has a second entry, from the address to the name, and both are written together. MISTAKE is none
 * or `apart`: they are written one after the other. STRANDLINE_ENGINE is that of a new store, slab or log.
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "strandline.h"
#include "strandline_kv.h"

enum { THREADS = 4, AT_ONCE = 16, LONGEST = 256 };

static sl_kv *store;
static int apart;

static void check(int status)
{
    if (status < 0)
        errx(2, "%s", sl_error());
}

static void open_store(const char *path, uint64_t flags)
{
    const struct sl_kv_options options = {getenv("STRANDLINE_ENGINE"), 16 << 20, 0, flags};
    store = sl_kv_open(path, &options);
    if (!store)
        errx(2, "%s", sl_error());
}

/* The key of an entry: "n" and a name, or "a" and an address. */
static size_t key_of(char *key, char kind, const char *text)
{
    return (size_t)snprintf(key, LONGEST, "%c%s", kind, text);
}

/* What the entry of a key says, to be freed; NULL if there is none. */
static char *look(const char *key, size_t bytes)
{
    void *value;
    size_t value_bytes;
    int status = sl_kv_get(store, key, bytes, &value, &value_bytes);
    check(status);
    if (status == SL_KV_ABSENT)
        return NULL;
    char *text = strndup(value, value_bytes);
    free(value);
    return text;
}

/* Sets a link, both of its entries; the ticket to wait for. */
static uint64_t put(const char *name, const char *address)
{
    char by_name[LONGEST], by_address[LONGEST];
    size_t name_bytes = key_of(by_name, 'n', name), address_bytes = key_of(by_address, 'a', address);
    if (name_bytes >= LONGEST || address_bytes >= LONGEST)
        errx(2, "at most %d bytes", LONGEST - 2);
    char *old = look(by_name, name_bytes), old_key[LONGEST];
    size_t old_bytes = old ? key_of(old_key, 'a', old) : 0;
    free(old);
    if (apart) {
        check(sl_kv_put(store, by_name, name_bytes, address, strlen(address)));
        check(sl_kv_put(store, by_address, address_bytes, name, strlen(name)));
        if (old_bytes)
            check(sl_kv_delete(store, old_key, old_bytes));
        return sl_kv_ticket();
    }
    sl_kv_batch *both = sl_kv_batch_new();
    if (old_bytes)
        check(sl_kv_batch_delete(both, old_key, old_bytes));
    check(sl_kv_batch_put(both, by_name, name_bytes, address, strlen(address)));
    check(sl_kv_batch_put(both, by_address, address_bytes, name, strlen(name)));
    check(sl_kv_write(store, both));
    sl_kv_batch_free(both);
    return sl_kv_ticket();
}

/* Whether it was there. */
static int remove_link(const char *name)
{
    char by_name[LONGEST], by_address[LONGEST];
    size_t name_bytes = key_of(by_name, 'n', name);
    char *address = look(by_name, name_bytes);
    if (!address)
        return 0;
    sl_kv_batch *both = sl_kv_batch_new();
    check(sl_kv_batch_delete(both, by_name, name_bytes));
    check(sl_kv_batch_delete(both, by_address, key_of(by_address, 'a', address)));
    check(sl_kv_write(store, both));
    sl_kv_batch_free(both);
    free(address);
    return 1;
}

static int print(void *argument, const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
    (void)argument;
    if (key_bytes < 1 || *(const char *)key != 'n')
        return 1; /* names are the last */
    printf("%.*s %.*s\n", (int)key_bytes - 1, (const char *)key + 1, (int)value_bytes, (const char *)value);
    return 0;
}

static uint64_t load_from, load_to;

/* Every fourth link; waits for 16 at once. */
static void *load(void *number)
{
    uint64_t link = load_from + (uint64_t)(uintptr_t)number, first = link;
    while (link < load_to) {
        char name[32], address[64];
        snprintf(name, sizeof name, "link%" PRIu64, link);
        snprintf(address, sizeof address, "https://example.org/%" PRIu64, link);
        uint64_t ticket = put(name, address);
        link += THREADS;
        if (link < load_to && link - first < AT_ONCE * THREADS)
            continue;
        check(sl_kv_wait(store, ticket));
        for (; first < link; first += THREADS)
            fprintf(stderr, "%" PRIu64 "\n", first);
    }
    return NULL;
}

static void load_all(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, load, (void *)i))
            errx(2, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Operations, and what must be there once each is durable. */
static const struct {
    const char *name, *address; /* address NULL: removed */
} OPERATIONS[] = {{"sea", "https://sea.example"},   {"tide", "https://tide.example"},
                  {"sea", "https://ocean.example"}, {"tide", NULL},
                  {"sand", "https://sand.example"}};
enum { OPERATION_COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

static void try_all(void)
{
    for (uint64_t i = 0; i < OPERATION_COUNT; i++) {
        sl_region_begin(i + 1);
        if (OPERATIONS[i].address)
            check(sl_kv_wait(store, put(OPERATIONS[i].name, OPERATIONS[i].address)));
        else
            remove_link(OPERATIONS[i].name), check(sl_kv_sync(store));
        sl_region_end(i + 1);
    }
}

static int broken;

/* Each entry has its other one. */
static int has_other(void *argument, const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
    (void)argument;
    char other[LONGEST], text[LONGEST];
    const char kind = *(const char *)key == 'n' ? 'a' : 'n';
    snprintf(text, sizeof text, "%.*s", (int)value_bytes, (const char *)value);
    char *back = look(other, key_of(other, kind, text));
    if (!back || strlen(back) != key_bytes - 1 || memcmp(back, (const char *)key + 1, key_bytes - 1)) {
        printf("%.*s leads to %s, which leads to %s\n", (int)key_bytes, (const char *)key, other,
               back ? back : "nothing");
        broken = 1;
    }
    free(back);
    return 0;
}

static int recover(const char *path, int tried)
{
    const char *done_text = getenv("STRANDLINE_DONE");
    const uint64_t done = done_text ? strtoull(done_text, NULL, 10) : OPERATION_COUNT;
    const struct sl_kv_options options = {NULL, 0, 0, SL_KV_EXISTING};
    store = sl_kv_open(path, &options);
    if (!store && done == 0 && (sl_error_code() == SL_E_NO_POOL || sl_error_code() == SL_E_FILE))
        return 0; /* the crash came before there was a store */
    if (!store)
        errx(1, "%s", sl_error());
    check(sl_kv_scan(store, "", 0, has_other, NULL));
    for (uint64_t i = 0; tried && i < OPERATION_COUNT; i++) {
        /* It counts unless a later one of the same name has begun. */
        int last = i < done;
        for (uint64_t later = i + 1; later < OPERATION_COUNT && later <= done; later++)
            last &= strcmp(OPERATIONS[later].name, OPERATIONS[i].name) != 0;
        if (!last)
            continue;
        char key[LONGEST];
        char *found = look(key, key_of(key, 'n', OPERATIONS[i].name));
        const char *wanted = OPERATIONS[i].address;
        if (wanted ? !found || strcmp(found, wanted) : found != NULL) {
            printf("operation %" PRIu64 " is lost: %s is %s\n", i + 1, key, found ? found : "not there");
            broken = 1;
        }
        free(found);
    }
    return broken;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        errx(2, "usage: links put|get|remove|list|load|try|--recover STORE ...");
    const char *verb = argv[1];
    int status = 0;
    if (!strcmp(verb, "--recover"))
        return recover(argv[2], argc > 3 && !strcmp(argv[3], "try"));
    open_store(argv[2], 0);
    if (!strcmp(verb, "put") && argc == 5) {
        check(sl_kv_wait(store, put(argv[3], argv[4])));
    } else if (!strcmp(verb, "get") && argc == 4) {
        char key[LONGEST];
        char *address = look(key, key_of(key, 'n', argv[3]));
        status = !address;
        if (address)
            puts(address);
        free(address);
    } else if (!strcmp(verb, "remove") && argc == 4) {
        status = !remove_link(argv[3]);
    } else if (!strcmp(verb, "list") && argc <= 4) {
        char key[LONGEST];
        check(sl_kv_scan(store, key, key_of(key, 'n', argc == 4 ? argv[3] : ""), print, NULL));
    } else if (!strcmp(verb, "load") && argc == 5) {
        load_from = strtoull(argv[3], NULL, 10);
        load_to = strtoull(argv[4], NULL, 10);
        load_all();
    } else if (!strcmp(verb, "try")) {
        apart = argc > 3 && !strcmp(argv[3], "apart");
        try_all();
    } else {
        errx(2, "what is %s? links.c says what there is", verb);
    }
    check(sl_kv_close(store));
    return status;
}
