/* A list in a file. PERSIST is what an insertion flushes of the new node: `node`, or by mistake `&node`, the
 * variable. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
    uint64_t key, value, check, next;
};

struct pool {
    uint64_t head, used;
    char rest[48];
    struct node nodes[64];
};

static void pm_persist(const void *from, size_t bytes) {
    uintptr_t end = (uintptr_t)from + bytes;
    for (uintptr_t line = (uintptr_t)from & ~63ul; line < end; line += 64)
        _mm_clwb((void *)line);
    _mm_sfence();
}

static void insert(struct pool *pool, uint64_t key) {
    struct node *node = &pool->nodes[pool->used];
    node->key = key;
    node->value = key * 10;
    node->check = node->key ^ node->value;
    node->next = pool->head;
    pm_persist(PERSIST, sizeof *node);
    pool->used++;
    pm_persist(&pool->used, sizeof pool->used);
    pool->head = (uint64_t)((char *)node - (char *)pool);
    pm_persist(&pool->head, sizeof pool->head);
}

static int recover(struct pool *pool) {
    for (uint64_t at = pool->head; at;) {
        struct node *node = (struct node *)((char *)pool + at);
        if (!node->key)
            return puts("a node has no key"), 1;
        if (node->value != node->key * 10)
            return puts("a value is wrong"), 1;
        if (node->check != (node->key ^ node->value))
            return puts("a checksum is wrong"), 1;
        at = node->next;
    }
    return 0;
}

int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct pool)))
        return 2;
    struct pool *pool = mmap(0, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED)
        return 2;
    if (argc > 2)
        return recover(pool);
    for (uint64_t key = 1; key <= 4; key++)
        insert(pool, key);
    return 0;
}
