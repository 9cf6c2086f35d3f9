/*
 * A hash map with chains in a mapped file: `map_inserts POOL COUNT` makes it and inserts so many keys, each a region. An entry is durable
 * before the bucket points to it.
 *
 * `map_inserts --recover POOL COUNT` follows every chain: each entry is whole, and no insert that had ended is missing.
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "strandline.h"

enum { BUCKETS = 16384 };

struct entry {
    uint64_t key, value, next;
    char rest[40];
};

struct map {
    uint64_t used;
    char rest[56];
    uint64_t bucket[BUCKETS];
    struct entry entry[];
};

static struct map *map;

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void persist(const void *start, size_t bytes)
{
    const char *line = (const char *)((uintptr_t)start & ~(uintptr_t)63);
    for (; line < (const char *)start + bytes; line += 64)
        _mm_clflushopt((void *)(uintptr_t)line);
    _mm_sfence();
}

static void insert(uint64_t key)
{
    uint64_t *place = &map->bucket[mix(key) % BUCKETS];
    struct entry *entry = &map->entry[map->used];
    entry->key = key;
    entry->value = mix(key ^ 1);
    entry->next = *place;
    persist(entry, sizeof *entry);
    map->used++;
    persist(&map->used, sizeof map->used);
    *place = map->used;
    persist(place, sizeof *place);
}

static int check(uint64_t count)
{
    const char *done = getenv("STRANDLINE_DONE");
    uint64_t found = 0, bucket, at;
    for (bucket = 0; bucket < BUCKETS; bucket++)
        for (at = map->bucket[bucket]; at; at = map->entry[at - 1].next) {
            const struct entry *entry = &map->entry[at - 1];
            if (at > count || entry->value != mix(entry->key ^ 1) || mix(entry->key) % BUCKETS != bucket)
                return puts("an entry is torn"), 1;
            found++;
        }
    if (found < (done ? strtoull(done, NULL, 10) : 0))
        return puts("an entry is lost"), 1;
    return 0;
}

int main(int argc, char **argv)
{
    const int recover = argc > 1 && !strcmp(argv[1], "--recover");
    const uint64_t count = argc > 2 + recover ? strtoull(argv[2 + recover], NULL, 10) : 0;
    const size_t bytes = sizeof *map + count * sizeof(struct entry);
    const int fd = count ? open(argv[1 + recover], recover ? O_RDWR : O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    uint64_t key;
    if (fd < 0 || (!recover && ftruncate(fd, (off_t)bytes)))
        return 2;
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return 2;
    if (recover)
        return check(count);
    for (key = 1; key <= count; key++) {
        sl_region_begin(key);
        insert(key);
        sl_region_end(key);
    }
    return 0;
}
