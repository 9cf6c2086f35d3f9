/* Records in one cache line, of which the word stored last says that the others are there. The processor keeps the order of
   stores to a line; the compiler keeps it only with BARRIER. */
#include <fcntl.h>
#include <immintrin.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef BARRIER
#define LAST __asm__ volatile("" ::: "memory")
#else
#define LAST ((void)0)
#endif
#define ALONE __attribute__((noinline))

typedef struct {
    long sum, v[6], valid;
} Record;

/* The last value but one is loaded too late for its store to be first. */
ALONE void sunk(Record *p, const long *v, long valid)
{
    p->v[0] = v[0];
    p->v[1] = v[1];
    p->v[2] = v[2];
    LAST;
    p->valid = valid;
}

/* What the loop adds up is in a register. */
ALONE void added(Record *p, const long *v, long valid)
{
    p->sum = 0;
    for (int i = 0; i < 6; i++) {
        p->v[i] = v[i];
        p->sum += v[i];
    }
    LAST;
    p->valid = valid;
}

/* The loop is three stores of two values. */
ALONE void vectors(Record *p, const long *v, long valid)
{
    for (int i = 0; i < 6; i++)
        p->v[i] = v[i] + 1;
    p->sum = 1;
    LAST;
    p->valid = valid;
}

/* The first of two stores to a word is none. */
ALONE void again(Record *p, const long *restrict v, long valid)
{
    p->valid = 0;
    LAST;
    for (int i = 0; i < 6; i++)
        p->v[i] = v[i];
    LAST;
    p->valid = valid;
}

static void flush(const void *p)
{
    _mm_clflush(p);
    _mm_sfence();
}

int main(int argc, char **argv)
{
    const char *variant = argv[argc - 1];
    int recovers = strcmp(argv[1], "--recover") == 0;
    int fd = open(argv[1 + recovers], O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return 3;
    Record *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    long v[6] = {11, 22, 33, 44, 55, 65 + argc};
    int three = strcmp(variant, "sunk") == 0;
    if (recovers) {
        if (p->valid == 0)
            return 0;
        /* All values are of this record, or of the one before it. */
        for (int i = 0; i < (three ? 3 : 6); i++)
            if (p->v[i] == 0 || (p->v[i] < 0) != (p->valid < 0))
                return 1;
        return strcmp(variant, "added") == 0 && p->sum < 230;
    }
    if (three) {
        sunk(p, v, 1);
    } else if (strcmp(variant, "added") == 0) {
        added(p, v, 1);
    } else if (strcmp(variant, "vectors") == 0) {
        vectors(p, v, 1);
    } else {
        long before[6] = {-1, -2, -3, -4, -5, -6};
        again(p, before, -1);
        flush(p);
        again(p, v, 1);
    }
    flush(p);
    return 0;
}
