/* A program that keeps its data in a file that it maps, and knows nothing of crashes but msync:
 *
 *   mapped FILE run N     N times: every counter gets one more, then msync; prints how often
 *   mapped FILE check N   whether all counters are the same, and at least N
 *   mapped FILE CASE      one of the things that programs do with mappings, below
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNTERS = 1024, STRIDE = 24, PAGE = 4096 };
static const size_t BYTES = COUNTERS * STRIDE * sizeof(uint64_t);

#define MUST(what)                                                                              \
    do {                                                                                        \
        if (!(what)) {                                                                          \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno));     \
            _exit(1);                                                                           \
        }                                                                                       \
    } while (0)

static int file;
static char *path;

static char *map(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        fprintf(stderr, "mmap: %s\n", strerror(errno));
        exit(2);
    }
    return at;
}

/* What the file has, whoever maps it. */
static void in_file(void *to, size_t bytes, off_t at) { MUST(pread(file, to, bytes, at) == (ssize_t)bytes); }

static char byte_in_file(off_t at) {
    char byte;
    in_file(&byte, 1, at);
    return byte;
}

static int run(long times) {
    uint64_t *counters = (uint64_t *)map(BYTES);
    for (long time = 0; time < times; time++) {
        for (int i = 0; i < COUNTERS; i++) counters[i * STRIDE]++;
        MUST(msync(counters, BYTES, MS_SYNC) == 0);
        printf("%llu\n", (unsigned long long)counters[0]);
        fflush(stdout);
    }
    return 0;
}

static int check(uint64_t least) {
    uint64_t *counters = (uint64_t *)map(BYTES);
    for (int i = 0; i < COUNTERS; i++) {
        if (counters[i * STRIDE] != counters[0]) {
            printf("counter %d is %llu, the first %llu\n", i, (unsigned long long)counters[i * STRIDE],
                   (unsigned long long)counters[0]);
            return 1;
        }
    }
    if (counters[0] < least) {
        printf("counters are %llu, and have been %llu\n", (unsigned long long)counters[0], (unsigned long long)least);
        return 1;
    }
    return 0;
}

/* Nothing reaches the file but by msync, fsync, munmap and exit. */
static void order(void) {
    char *at = map(BYTES);
    at[0] = 'a';
    at[PAGE] = 'b';
    MUST(byte_in_file(0) == 0 && byte_in_file(PAGE) == 0);
    MUST(msync(at, PAGE, MS_ASYNC) == 0 && byte_in_file(0) == 0);
    MUST(msync(at, PAGE, MS_SYNC) == 0 && byte_in_file(0) == 'a' && byte_in_file(PAGE) == 0);
    MUST(fsync(file) == 0 && byte_in_file(PAGE) == 'b');
    MUST(msync(at + 1, PAGE, MS_SYNC) == -1 && errno == EINVAL);
    at[2 * PAGE] = 'c';
    MUST(munmap(at + 2 * PAGE, PAGE) == 0 && byte_in_file(2 * PAGE) == 'c');
    at[3 * PAGE] = 'd';
    MUST(munmap(at, BYTES) == 0 && byte_in_file(3 * PAGE) == 'd');
    char *more = map(BYTES);
    more[4 * PAGE] = 'e';
}

static int after_order(void) { return byte_in_file(4 * PAGE) == 'e' && byte_in_file(0) == 'a' ? 0 : 1; }

/* Mappings of one file are one memory, and grow. */
static void aliases(void) {
    char *one = map(PAGE), *other = map(BYTES);
    other[5] = 'x';
    MUST(one[5] == 'x');
    one[6] = 'y';
    MUST(other[6] == 'y');
    MUST(munmap(one, PAGE) == 0 && other[6] == 'y');
    MUST(ftruncate(file, 2 * BYTES) == 0);
    other = mremap(other, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
    MUST(other != MAP_FAILED && other[6] == 'y');
    other[BYTES + 7] = 'z';
    MUST(msync(other, 2 * BYTES, MS_SYNC) == 0 && byte_in_file(BYTES + 7) == 'z' && byte_in_file(6) == 'y');
    MUST(madvise(other, BYTES, MADV_DONTNEED) == 0 && other[6] == 'y');
    char *read_only = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    MUST(read_only != MAP_FAILED && read_only[6] == 'y');
}

/* What write writes is in the mapping, and no recovery takes it back. */
static void written(void) {
    char *at = map(BYTES);
    memset(at, 'm', PAGE);
    MUST(msync(at, PAGE, MS_SYNC) == 0);
    MUST(pwrite(file, "file", 4, 10) == 4 && memcmp(at + 9, "mfilem", 6) == 0);
    MUST(pwrite(file, "FILE", 4, PAGE) == 4 && memcmp(at + PAGE, "FILE", 4) == 0);
    MUST(lseek(file, 20, SEEK_SET) == 20 && write(file, "here", 4) == 4 && memcmp(at + 20, "here", 4) == 0);
    _exit(0);
}

static int after_written(void) {
    char *at = map(BYTES);
    return memcmp(at + 9, "mfilem", 6) == 0 && memcmp(at + 20, "here", 4) == 0 ? 0 : 1;
}

/* Ends without any order. */
static void left(void) {
    memset(map(BYTES), 'm', PAGE);
    MUST(msync(map(BYTES), PAGE, MS_SYNC) == 0);
    _exit(0);
}

/* Stores of every kind are stores. */
static void stores(void) {
    char *at = map(BYTES);
    memset(at, 'a', 100);
    memcpy(at + PAGE, "copied", 7);
    strcpy(at + 2 * PAGE, "string");
    snprintf(at + 3 * PAGE, 16, "%d", 123);
    atomic_fetch_add((_Atomic int *)(at + 4 * PAGE), 7);
    atomic_store((_Atomic int *)(at + 5 * PAGE), 8);
    int from = open("/dev/zero", O_RDONLY);
    at[6 * PAGE] = 'x';
    MUST(msync(at, BYTES, MS_SYNC) == 0);
    MUST(read(from, at + 6 * PAGE, 1) == 1);
    at[7 * PAGE] ^= 3;
    __asm__ volatile("movb $9, (%0)" : : "r"(at + 8 * PAGE) : "memory");
    struct both {
        uint64_t words[32];
    } *both = (struct both *)(at + 9 * PAGE);
    both[1] = (struct both){{1, 2, 3}};
    both[0] = both[1];
    MUST(msync(at, BYTES, MS_SYNC) == 0);
    _exit(0);
}

static int after_stores(void) {
    char *at = map(BYTES);
    struct both {
        uint64_t words[32];
    } *both = (struct both *)(at + 9 * PAGE);
    MUST(at[0] == 'a' && at[99] == 'a' && at[100] == 0);
    MUST(strcmp(at + PAGE, "copied") == 0 && strcmp(at + 2 * PAGE, "string") == 0 && strcmp(at + 3 * PAGE, "123") == 0);
    MUST(*(int *)(at + 4 * PAGE) == 7 && *(int *)(at + 5 * PAGE) == 8 && at[6 * PAGE] == 0 && at[7 * PAGE] == 3);
    MUST(at[8 * PAGE] == 9 && both[0].words[2] == 3 && both[1].words[1] == 2);
    return 0;
}

/* No store is lost, however it falls on an msync of another thread. */
static atomic_int stop;
static char *shared;

static void *storer(void *argument) {
    uint64_t number = (uint64_t)(uintptr_t)argument, random = number;
    uint64_t *words = (uint64_t *)shared;
    for (long turn = 0; !atomic_load_explicit(&stop, memory_order_relaxed); turn++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        /* Threads share lines, and each has words of its own. */
        words[(random >> 33) % (BYTES / 8 / 4) * 4 + number] = random;
    }
    return NULL;
}

static void race(void) {
    pthread_t threads[4];
    shared = map(BYTES);
    for (uintptr_t i = 0; i < 4; i++) MUST(pthread_create(&threads[i], NULL, storer, (void *)i) == 0);
    for (int i = 0; i < 200; i++) MUST(msync(shared, BYTES, MS_SYNC) == 0);
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    MUST(msync(shared, BYTES, MS_SYNC) == 0);
    char *file_has = malloc(BYTES);
    in_file(file_has, BYTES, 0);
    MUST(memcmp(file_has, shared, BYTES) == 0);
}

/* A child reads what is mapped; a store of it is its end. A process that goes on in its child keeps what it maps. */
static void children(void) {
    char *at = map(BYTES);
    at[0] = 'p';
    int status;
    pid_t child = fork();
    if (child == 0) _exit(at[0] == 'p' ? 7 : 1);
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    child = fork();
    if (child == 0) {
        at[0] = 'c';
        _exit(0);
    }
    MUST(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && at[0] == 'p');
    child = fork();
    if (child == 0) {
        /* Its own file is its own. */
        strcat(path, ".child");
        file = open(path, O_RDWR | O_CREAT, 0644);
        MUST(ftruncate(file, BYTES) == 0);
        char *own = map(BYTES);
        own[1] = 'o';
        MUST(byte_in_file(1) == 0 && msync(own, PAGE, MS_SYNC) == 0 && byte_in_file(1) == 'o');
        exit(0);
    }
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    MUST(msync(at, PAGE, MS_SYNC) == 0 && byte_in_file(0) == 'p');
}

/* The journal goes where its file goes. */
static void renamed(void) {
    char other[4200];
    snprintf(other, sizeof other, "%s.renamed", path);
    char *at = map(BYTES);
    at[0] = 'r';
    MUST(msync(at, PAGE, MS_SYNC) == 0 && rename(path, other) == 0);
    at[1] = 's';
    MUST(msync(at, PAGE, MS_SYNC) == 0);
    char journal[4300];
    snprintf(journal, sizeof journal, "%s.sl-journal", path);
    MUST(access(journal, F_OK) == -1);
    snprintf(journal, sizeof journal, "%s.sl-journal", other);
    MUST(access(journal, F_OK) == 0 && rename(other, path) == 0 && access(journal, F_OK) == -1);
}

/* Memory that no crash is to survive stays as it is. */
static void objects(void) {
    char name[64];
    snprintf(name, sizeof name, "/strandline-mapped-%d", (int)getpid());
    int object = shm_open(name, O_RDWR | O_CREAT, 0600);
    MUST(object >= 0 && shm_unlink(name) == 0 && ftruncate(object, PAGE) == 0);
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
    MUST(at != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        at[0] = 'c';
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0) == child && at[0] == 'c');
    char *private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    MUST(private != MAP_FAILED);
    private[0] = 'x';
    MUST(msync(private, PAGE, MS_SYNC) == 0 && byte_in_file(0) == 0);
}

/* Keeps a mapping until it is asked to go. */
static void hold(void) {
    char *at = map(BYTES);
    at[0] = 1;
    puts("held");
    fflush(stdout);
    (void)getchar();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    path = malloc(strlen(argv[1]) + 100);
    strcpy(path, argv[1]);
    file = open(path, O_RDWR | O_CREAT, 0644);
    struct stat status;
    MUST(file >= 0 && fstat(file, &status) == 0);
    if (status.st_size == 0) MUST(ftruncate(file, BYTES) == 0);
    char *what = argv[2];
    if (strcmp(what, "run") == 0) return run(atol(argv[3]));
    if (strcmp(what, "check") == 0) return check(strtoull(argv[3], NULL, 10));
    static const struct {
        const char *name;
        void (*act)(void);
    } cases[] = {{"order", order},       {"aliases", aliases}, {"written", written}, {"stores", stores},
                 {"race", race},         {"children", children}, {"renamed", renamed}, {"objects", objects},
                 {"hold", hold},         {"left", left}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(what, cases[i].name) == 0) {
            cases[i].act();
            return 0;
        }
    }
    if (strcmp(what, "after-order") == 0) return after_order();
    if (strcmp(what, "after-written") == 0) return after_written();
    if (strcmp(what, "after-stores") == 0) return after_stores();
    return 2;
}
