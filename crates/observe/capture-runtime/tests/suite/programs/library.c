// The C library's functions and others that we stand in front of, each once, on known addresses. Argument: a file to map.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *strandline_memcpy(void *, const void *, size_t);
void *strandline_memmove(void *, const void *, size_t);
void *strandline_memset(void *, int, size_t);
int strandline_memcmp(const void *, const void *, size_t);
void *strandline_memchr(const void *, int, size_t);
size_t strandline_strlen(const char *);
char *strandline_strcpy(char *, const char *);
char *strandline_strncpy(char *, const char *, size_t);
char *strandline_strcat(char *, const char *);
int strandline_strcmp(const char *, const char *);
char *strandline_strchr(const char *, int);
char *strandline_strstr(const char *, const char *);
char *strandline_strdup(const char *);
char *strandline___strcpy_chk(char *, const char *, size_t);
void *strandline__Znwm(size_t);
void strandline__ZdlPv(void *);
void pmem_persist(const void *, size_t);
void pmem_flush(const void *, size_t);
void pmem_drain(void);
void *pmem_memcpy_persist(void *, const void *, size_t);
void *pmem_memset_nodrain(void *, int, size_t);
void sl_phase(const char *);
void sl_region_begin(unsigned long);
void sl_region_end(unsigned long);

static char a[4096] __attribute__((aligned(4096))), b[4096] __attribute__((aligned(4096)));

__attribute__((no_sanitize("thread"))) static int memory_and_strings(void) {
    int wrong = 0;
    wrong += strandline_memset(a, 7, 100) != a || a[99] != 7 || a[100];
    wrong += strandline_memcpy(b, a, 50) != b || b[49] != 7 || b[50];
    wrong += strandline_memmove(a + 1, a, 50) != a + 1;
    wrong += strandline_memcmp(a, b, 50) != 0;
    a[10] = 9;
    wrong += strandline_memcmp(a, b, 50) <= 0;
    wrong += strandline_memchr(a, 9, 50) != a + 10;
    wrong += strandline_strcpy(a, "seaweed") != a || strcmp(a, "seaweed");
    wrong += strandline_strlen(a) != 7;
    wrong += strandline_strcpy(b, a) != b;
    wrong += strandline_strcmp(a, b) != 0;
    wrong += strandline_strcat(b, a) != b || strcmp(b, "seaweedseaweed");
    wrong += strandline_strncpy(b, a, 10) != b || memcmp(b, "seaweed\0\0\0wee", 13);
    wrong += strandline_strchr(a, 'w') != a + 3;
    wrong += strandline_strstr(a, "wee") != a + 3;
    wrong += strandline___strcpy_chk(b, a, 20) != b;
    return wrong;
}

__attribute__((no_sanitize("thread"))) static int allocations(void) {
    sl_phase("allocate");
    char *memory = malloc(100);
    memory = realloc(memory, 5000);
    free(memory);
    free(calloc(3, 30));
    void *aligned;
    int wrong = posix_memalign(&aligned, 256, 300) != 0 || (long)aligned % 256;
    free(aligned);
    wrong += reallocarray(NULL, 1ul << 33, 1ul << 33) != NULL;
    char *copy = strandline_strdup(a);
    wrong += strcmp(copy, a) != 0;
    free(copy);
    strandline__ZdlPv(strandline__Znwm(24));
    return wrong;
}

__attribute__((no_sanitize("thread"))) static int persistence(const char *path) {
    sl_phase("persist");
    sl_region_begin(42);
    pmem_flush(a, 100);
    pmem_drain();
    pmem_persist(a + 60, 8);
    int wrong = pmem_memcpy_persist(b, a, 255) != b || memcmp(a, b, 255);
    wrong += pmem_memcpy_persist(b, a, 256) != b;
    wrong += pmem_memset_nodrain(a, 1, 300) != a || a[299] != 1;
    sl_region_end(42);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    wrong += ftruncate(fd, 1 << 16) != 0;
    char *map = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    wrong += map == MAP_FAILED;
    wrong += munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0), 4096) != 0;
    map = mremap(map, 1 << 16, 1 << 15, 0);
    wrong += munmap(map + 8192, 4096) != 0;
    wrong += munmap(map, 1 << 15) != 0;
    close(fd);
    unlink(path);
    return wrong;
}

__attribute__((no_sanitize("thread"))) int main(int argc, char **argv) {
    printf("%p %p\n", (void *)a, (void *)b);
    fflush(stdout);
    sl_phase("strings");
    int wrong = memory_and_strings();
    wrong += 100 * allocations();
    wrong += 10000 * persistence(argv[1]);
    sl_phase("end");
    if (wrong)
        printf("%d\n", wrong);
    return wrong != 0;
}
