/* Stores of every kind into one arena. After each step the arena's bytes are appended to the file that is
 * named on the command line, and a store of the step's number says so to whoever replays the stores. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALONE __attribute__((noinline))

typedef struct { char c[3]; } S3;
typedef struct { int a, b; } S8;
typedef struct { long a, b; } S16;
typedef struct { char c[24]; } S24;
typedef struct { long a, b, c; } L24;
typedef struct { char c[65]; } S65;
typedef struct { char c[300]; } S300;
typedef struct { char c[9000]; } S9000;
typedef struct { double x; long n; } Mixed;
typedef struct { float x, y; } Floats;
typedef struct { char head; S24 in; S16 deep[3]; S8 tail; } Nested;
typedef struct { char head; long value; S8 pair; } __attribute__((packed)) Packed;
typedef struct { int narrow : 3, wide : 17; long after; } Bits;
typedef union { S24 s; long l; char c[40]; S16 pair; } Either;
typedef int Vec16 __attribute__((vector_size(16)));
typedef int Vec32 __attribute__((vector_size(32)));

static struct {
    uint64_t step;
    char c1, c2;
    short h;
    int i, scalars[64];
    long l, longs[64];
    double d;
    long double ld;
    _Complex double complex_;
    S3 s3[4];
    S8 s8[4];
    S16 s16[8];
    S24 s24[8];
    L24 l24[4];
    S65 s65[2];
    S300 s300[3];
    S9000 s9000[2];
    Mixed mixed;
    Floats floats;
    Nested nested[3];
    Packed packed[3];
    Bits bits[2];
    Either either[3];
    Vec16 vec16[3];
    Vec32 vec32[3];
    _Atomic uint64_t atomic;
    _Atomic uint32_t atomic4;
    _Atomic unsigned char atomic1;
    long legacy;
    char text[256];
} __attribute__((aligned(64))) arena;

static char other[10000];
static uint64_t state = 88172645463325252u;
static int out;

/* Keeps a value's origin from the compiler. */
#define HIDE(x) __asm__("" : "+r"(x))

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void fill(void *at, size_t len) {
    char *byte = at;
    for (size_t i = 0; i < len; i++) byte[i] = (char)next();
}

ALONE static void step_done(void) {
    static uint64_t steps;
    *(volatile uint64_t *)&arena.step = ++steps;
    if (write(out, &arena, sizeof arena) != sizeof arena) _exit(3);
}

/* Some store has to tell exactly these bytes, even if they are soon overwritten. */
ALONE static void reported(const void *to, const void *bytes, size_t len) {
    printf("reported %p ", to);
    for (size_t i = 0; i < len; i++) printf("%02x", ((const unsigned char *)bytes)[i]);
    printf("\n");
}

ALONE static void copy3(S3 *a, const S3 *b) { *a = *b; }
ALONE static void copy8(S8 *a, const S8 *b) { *a = *b; }
ALONE static void copy16(S16 *a, const S16 *b) { *a = *b; }
ALONE static void copy24(S24 *a, const S24 *b) { *a = *b; }
ALONE static void copy65(S65 *a, const S65 *b) { *a = *b; }
ALONE static void copy300(S300 *a, const S300 *b) { *a = *b; }
ALONE static void copy9000(S9000 *a, const S9000 *b) { *a = *b; }
ALONE static void copy_nested(Nested *a, const Nested *b) { *a = *b; }
ALONE static void copy_packed(Packed *a, const Packed *b) { *a = *b; }
ALONE static void copy_bits(Bits *a, const Bits *b) { *a = *b; }
ALONE static void copy_either(Either *a, const Either *b) { *a = *b; }
ALONE static void copy_volatile(volatile S16 *a, const S16 *b) { *a = *b; }
ALONE static void copy_index(int i, int j) {
    arena.s24[i] = arena.s24[j];
    arena.s16[i] = arena.s16[j];
}
ALONE static void copy_many(S16 *a, const S16 *b, long n) {
    for (long i = 0; i < n; i++) a[i] = b[i];
}
ALONE static void copy_if(S16 *a, const S16 *b, int first, int second) {
    a->a = 1;
    if (first) a[1] = b[1];
    a->b += a[1].b;
    if (second) a[2] = b[2];
    a[3] = b[3];
}
ALONE static void swap16(S16 *a, S16 *b) {
    S16 kept = *a;
    *a = *b;
    *b = kept;
}
ALONE static void swap24(S24 *a, S24 *b) {
    S24 kept = *a;
    *a = *b;
    *b = kept;
}
/* More values alive than there are registers. */
ALONE static long copy_crowded(S16 *a, const S16 *b, long n) {
    long v[12] = {n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10, n + 11};
    for (int i = 0; i < 4; i++) {
        a[i] = b[3 - i];
        for (int k = 0; k < 12; k++) v[k] = v[k] * 3 + v[(k + 5) % 12] + a[i].a;
        a[i].b = v[i];
        a[(i + 1) & 3] = a[i];
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3] ^ v[4] ^ v[5] ^ v[6] ^ v[7] ^ v[8] ^ v[9] ^ v[10] ^ v[11];
}
/* More accesses in a row than a run takes, and the copy at every place in the run. */
#define LOAD4(p) (p)[0] + (p)[1] + (p)[2] + (p)[3]
#define LONG_RUN(n, extra) \
    ALONE static long long_run##n(S16 *a, const S16 *b, const volatile long *p) { \
        long sum = LOAD4(p) + LOAD4(p + 4) + LOAD4(p + 8) + LOAD4(p + 12) + LOAD4(p + 16) + LOAD4(p + 20) + \
            LOAD4(p + 24) + extra; \
        *a = *b; \
        sum += p[31]; \
        a[1] = b[1]; \
        a[2].a = sum; \
        return sum; \
    }
LONG_RUN(0, 0)
LONG_RUN(1, p[28])
LONG_RUN(2, p[28] + p[29])
LONG_RUN(3, p[28] + p[29] + p[30])
LONG_RUN(4, p[28] + p[29] + p[30] + p[31])
LONG_RUN(5, p[28] + p[29] + p[30] + p[31] + p[32])

/* Where a function has no other effect, gcc lets it store what it returns where the caller wants it. */
static volatile int calls;
ALONE static S8 returned8(int x) { S8 s = {x, x + 1}; return s; }
ALONE static S16 returned16(long x) { S16 s = {x, x + 1}; return s; }
ALONE static S3 returned3(int x) { S3 s = {{(char)x, (char)(x + 1), (char)(x + 2)}}; return s; }
ALONE static S24 returned24(const S24 *from) {
    calls++;
    return *from;
}
ALONE static L24 returned_l24(long x) {
    L24 s = {x, x + 1, x + 2};
    calls++;
    return s;
}
ALONE static L24 pure_l24(long x) {
    L24 s = {x, x + 1, x + 2};
    return s;
}
ALONE static S24 pure24(const S24 *from) { return *from; }
ALONE static S300 pure300(const S300 *from) { return *from; }
ALONE static S300 returned300(const S300 *from) {
    calls++;
    return *from;
}
ALONE static Mixed returned_mixed(long x) { Mixed s = {x * 0.5, x}; return s; }
ALONE static Floats returned_floats(int x) { Floats s = {x * 0.5f, x * 0.25f}; return s; }
ALONE static _Complex double returned_complex(double x) { return x + 2.0i; }
ALONE static void store_returned(S16 *to, long n) {
    for (long i = 0; i < n; i++) to[i] = returned16(n * 100 + i);
}

/* Not a copy: a store and then a load of the same place, on the stack and elsewhere. */
ALONE static long through_stack(long x, void (*touch)(void *)) {
    long local = 0;
    touch(&local);
    local = x;
    long seen = *(volatile long *)&local;
    arena.l = seen;
    return arena.l + seen;
}
static void touch(void *at) { *(volatile char *)at = 1; }

static void scalars(void) {
    arena.c1 = (char)next();
    arena.c2 = arena.c1;
    arena.h = (short)next();
    arena.i = (int)next();
    arena.l = (long)next();
    arena.d = (double)next();
    arena.ld = (long double)next();
    arena.complex_ = (double)next() + 1.0i * (double)next();
    step_done();
    for (int i = 0; i < 64; i++) arena.scalars[i] = i * 3;
    for (int i = 0; i < 64; i++) arena.longs[i] = arena.scalars[i] * 5L + i;
    step_done();
    for (int i = 0; i < 64; i++) arena.longs[i] += i;
    arena.bits[0].narrow = 2;
    arena.bits[0].wide = 77777 & 0xffff;
    arena.bits[0].after = arena.bits[0].wide;
    arena.packed[0].value = (long)next();
    arena.packed[0].pair.b = (int)next();
    through_stack((long)next(), touch);
    step_done();
}

static void copies(void) {
    fill(&arena.s3, sizeof arena.s3);
    fill(&arena.s16, sizeof arena.s16);
    fill(&arena.s24, sizeof arena.s24);
    fill(other, sizeof other);
    step_done();
    copy3(&arena.s3[0], &arena.s3[1]);
    step_done();
    copy8(&arena.s8[0], (S8 *)other);
    step_done();
    copy16(&arena.s16[0], &arena.s16[1]);
    step_done();
    copy16((S16 *)(arena.text + 1), (S16 *)(other + 3));
    step_done();
    copy24(&arena.s24[0], &arena.s24[1]);
    step_done();
    copy65(&arena.s65[0], (S65 *)other);
    step_done();
    copy300(&arena.s300[0], (S300 *)other);
    step_done();
    copy9000(&arena.s9000[0], (S9000 *)other);
    step_done();
    copy_nested(&arena.nested[0], (Nested *)other);
    arena.nested[1].in = arena.nested[0].in;
    arena.nested[1].deep[1] = arena.nested[0].deep[2];
    arena.nested[2] = arena.nested[1];
    step_done();
    copy_packed(&arena.packed[1], (Packed *)other);
    arena.packed[2].pair = arena.packed[1].pair;
    copy_bits(&arena.bits[1], (Bits *)other);
    step_done();
    copy_either(&arena.either[0], (Either *)other);
    arena.either[1].pair = arena.either[0].pair;
    arena.either[1].l = 7;
    arena.either[2].s = arena.either[1].s;
    step_done();
    copy_volatile(&arena.s16[2], (S16 *)(other + 64));
    step_done();
    copy_index(3, 1);
    copy_index(3, 3);
    step_done();
    copy_many(arena.s16, (S16 *)(other + 128), 8);
    step_done();
}

static void crowded(void) {
    for (int taken = 0; taken < 4; taken++) {
        fill(other, 128);
        copy_if(arena.s16, (S16 *)other, taken & 1, taken & 2);
        step_done();
    }
    swap16(&arena.s16[0], &arena.s16[5]);
    swap24(&arena.s24[0], &arena.s24[5]);
    step_done();
    arena.l = copy_crowded(arena.s16, (S16 *)(other + 256), (long)next());
    step_done();
    long (*runs[])(S16 *, const S16 *, const volatile long *) = {long_run0, long_run1, long_run2,
                                                                long_run3, long_run4, long_run5};
    for (int i = 0; i < 6; i++) {
        fill(other, 64);
        arena.longs[i] = runs[i](arena.s16, (S16 *)other, (long *)(other + 512));
        step_done();
    }
}

static void constants(void) {
    fill(arena.s300, sizeof arena.s300);
    arena.s300[0] = (S300){{1, 2, 3}};
    step_done();
    arena.s24[2] = (S24){{0}};
    arena.s16[2] = (S16){0};
    arena.s16[3] = (S16){5, 6};
    arena.s9000[1] = (S9000){{0}};
    arena.l24[3] = (L24){1, 2, (long)next()};
    step_done();
}

static void returned(void) {
    arena.s3[2] = returned3((int)next());
    step_done();
    arena.s8[1] = returned8((int)next());
    step_done();
    arena.s16[4] = returned16((long)next());
    step_done();
    arena.s24[6] = returned24(&arena.s24[1]);
    step_done();
    arena.l24[0] = returned_l24((long)next());
    step_done();
    arena.s300[1] = returned300((S300 *)other);
    step_done();
    arena.l24[2] = pure_l24((long)next());
    step_done();
    arena.s24[7] = pure24((S24 *)(other + 9));
    step_done();
    arena.s300[2] = pure300((S300 *)(other + 10));
    step_done();
    arena.mixed = returned_mixed((long)next());
    arena.floats = returned_floats((int)next());
    step_done();
    arena.complex_ = returned_complex((double)next());
    step_done();
    S16 *to = &arena.s16[5];
    HIDE(to);
    store_returned(to, 3);
    step_done();
}

static void library(void) {
    size_t len = 100;
    HIDE(len);
    memcpy(arena.text, other, 16);
    memcpy(arena.text + 16, other + 16, 5);
    memcpy(arena.text + 32, other + 32, len);
    step_done();
    memmove(arena.text + 3, arena.text, len);
    memset(arena.text + 150, 7, 20);
    memset(arena.text + 200, 9, len / 5);
    step_done();
    __builtin_memcpy(&arena.l, other + 40, 8);
    __builtin_memcpy(&arena.i, other + 50, 4);
    __builtin_memcpy(&arena.s16[1], other + 60, 16);
    step_done();
    __builtin_memcpy(arena.text + 1, other + 1, 5);
    __builtin_memcpy(arena.text + 9, other + 30, 13);
    step_done();
    __builtin_memcpy(arena.text + 40, "a text of some forty characters, in pieces", 40);
    __builtin_memset(arena.text + 90, 5, 11);
    step_done();
    strcpy(arena.text, "seaweed");
    strncpy(arena.text + 16, "kelp", 9);
    strcat(arena.text, " and kelp");
    step_done();
    /* A store, a copy and a clearing that are overwritten at once: each has its own bytes. */
    long number = 0x1111;
    reported(&arena.l, &number, 8);
    reported(&arena.l24[1], other, 24);
    reported(&arena.s16[0], other, 16);
    reported(&arena.s300[2], other, 300);
    arena.l = number;
    memset(&arena.l, 0x22, 8);
    arena.l24[1] = *(L24 *)other;
    memset(&arena.l24[1], 0x33, 24);
    arena.s16[0] = *(S16 *)other;
    memset(&arena.s16[0], 0x44, 16);
    arena.s300[2] = *(S300 *)other;
    memcpy(&arena.s300[2], other + 300, 300);
    arena.s16[0].b = 5;
    step_done();
}

static void wide(void) {
    Vec16 a = {1, 2, 3, (int)next()};
    Vec32 b = {1, 2, 3, 4, 5, 6, 7, (int)next()};
    arena.vec16[0] = a;
    arena.vec16[1] = arena.vec16[0] + a;
    arena.vec32[0] = b;
    arena.vec32[1] = arena.vec32[0] * b;
    step_done();
    _mm_storeu_si128((__m128i *)(arena.text + 5), _mm_set1_epi32((int)next()));
    _mm_stream_si128((__m128i *)&arena.vec16[2], _mm_set1_epi32((int)next()));
    _mm_stream_si64((long long *)&arena.longs[3], (long long)next());
    _mm_stream_si32(&arena.scalars[9], (int)next());
    _mm_sfence();
    step_done();
}

static void atomics(void) {
    atomic_store(&arena.atomic, next());
    atomic_fetch_add(&arena.atomic, 3);
    atomic_fetch_xor(&arena.atomic4, (uint32_t)next());
    atomic_exchange(&arena.atomic1, 0x5a);
    uint64_t expected = 1;
    atomic_compare_exchange_strong(&arena.atomic, &expected, 9);
    step_done();
    atomic_compare_exchange_strong(&arena.atomic, &expected, 11);
    atomic_store_explicit(&arena.atomic4, 77, memory_order_relaxed);
    __sync_fetch_and_add(&arena.legacy, 5);
    __sync_lock_test_and_set(&arena.i, 3);
    step_done();
    __asm__ volatile("lock; add{q $7, %0| %0, 7}" : "+m"(arena.legacy));
    long old = 100;
    __asm__ volatile("xchg{q|} %0, %1" : "+r"(old), "+m"(arena.l));
    arena.longs[0] = old;
    step_done();
}

/* No compiler tells these. */
static void by_hand(void) {
    long a = (long)next(), b = (long)next(), count = 5;
    char *to = arena.text + 3;
    const char *from = other + 7;
    __asm__ volatile("mov{q %1, (%0)| QWORD PTR [%0], %1}\n\tmov{b $7, 8(%0)| BYTE PTR [%0+8], 7}" : : "r"(&arena.longs[5]), "r"(a) : "memory");
    __asm__ volatile("mov{l %k1, (%0)| DWORD PTR [%0], %k1}; add{q %2, 8(%0)| QWORD PTR [%0+8], %2}" : : "r"(&arena.longs[9]), "r"(a), "r"(b) : "memory");
    __asm__ volatile("inc{q|} %0" : "+m"(arena.longs[12]));
    __asm__ volatile("movups %0, %1" : : "x"(_mm_set1_epi64x(b)), "m"(*(__m128i *)(arena.text + 100)) : "memory");
    step_done();
    __asm__ volatile("rep; movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    to += 10;
    count = 9;
    __asm__ volatile("rep movs{q|q}" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    if (count != 0 || to != arena.text + 3 + 5 + 10 + 72 || from != other + 7 + 5 + 72) _exit(4);
    count = 7;
    __asm__ volatile("rep stos{l|d}" : "+D"(to), "+c"(count) : "a"(0x12345678) : "memory");
    count = 0;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
    if (to != arena.text + 3 + 5 + 10 + 72 + 28) _exit(4);
    step_done();
    /* Backwards, which nothing in between may change. */
    to = arena.text + 200;
    from = other + 400;
    count = 50;
    __asm__ volatile("std; sfence; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(count) : : "memory", "cc");
    if (to != arena.text + 150) _exit(4);
    step_done();
    to = arena.text;
    __asm__ volatile("movsb; movs{q|q}; stosb" : "+D"(to), "+S"(from) : "a"(5) : "memory");
    step_done();
    a = 1;
    __asm__ volatile("xadd{q %1, %0| %0, %1}; rol{l $3, %2| %2, 3}; sete %3" : "+m"(arena.longs[40]), "+r"(a), "+m"(arena.scalars[30]), "=m"(arena.text[90]) : : "cc");
    __asm__ volatile("push{q|} %1; pop{q|} %0; fldpi; fstp{l|} %2" : "=m"(arena.longs[41]), "+r"(b), "=m"(arena.d));
    step_done();
}

/* The last page before nothing. */
static char *last_page(void) {
    char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || munmap(at + 4096, 4096) != 0) _exit(3);
    return at + 4096;
}

__attribute__((target("avx2"))) static void masked(void) {
    __m256i words = _mm256_set1_epi32((int)next()), longs = _mm256_set1_epi64x((long long)next());
    _mm256_maskstore_epi32(arena.scalars + 3, _mm256_setr_epi32(0, -1, 0, -1, -1, 0, 0, 0), words);
    _mm256_maskstore_epi64((long long *)arena.longs + 20, _mm256_setr_epi64x(-1, 0, 0, -1), longs);
    _mm256_maskstore_ps((float *)arena.scalars + 20, _mm256_setr_epi32(-1, -1, 0, 0, 0, 0, 0, -1), _mm256_castsi256_ps(words));
    _mm_maskstore_pd((double *)arena.longs + 30, _mm_setr_epi32(0, 0, -1, -1), _mm_castsi128_pd(_mm256_castsi256_si128(longs)));
    _mm256_maskstore_epi32(arena.scalars + 40, _mm256_setzero_si256(), words);
    step_done();
    _mm256_maskstore_epi32((int *)last_page() - 3, _mm256_setr_epi32(-1, -1, -1, 0, 0, 0, 0, 0), words);
    step_done();
}

__attribute__((target("avx512f,avx512bw,avx512vl"))) static void masked_wide(void) {
    __m512i words = _mm512_set1_epi32((int)next()), longs = _mm512_set1_epi64((long long)next());
    _mm512_mask_storeu_epi32(arena.scalars + 5, 0x8421, words);
    _mm512_mask_storeu_epi64(arena.longs + 3, 0x3c, longs);
    _mm512_mask_storeu_epi8(arena.text + 1, 0xf0f0f0f000000001u, words);
    _mm256_mask_storeu_epi16(arena.text + 101, 0x0ff0, _mm512_castsi512_si256(longs));
    _mm512_mask_compressstoreu_epi64(arena.longs + 40, 0x55, longs);
    _mm512_mask_compressstoreu_epi32(arena.scalars + 50, 0x7, words);
    step_done();
    _mm512_mask_storeu_epi64(last_page() - 16, 3, longs);
    _mm512_mask_compressstoreu_epi64(last_page() - 24, 0xe0, longs);
    step_done();
}

/* The last store to memory that goes away. */
static void unmapped(void) {
    for (int how = 0; how < 3; how++) {
        char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *page = 1;
        if (how == 0) munmap(page, 4096);
        if (how == 1) mprotect(page, 4096, PROT_NONE);
        if (how == 2) mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, page + (1L << 32));
    }
    arena.i = 9;
    step_done();
}

static void overlapping(void) {
    for (int round = 0; round < 200; round++) {
        char *to = arena.text + next() % 200;
        const char *from = other + next() % 300;
        switch (next() % 6) {
        case 0: *to = *from; break;
        case 1: copy16((S16 *)to, (const S16 *)from); break;
        case 2: copy24((S24 *)to, (const S24 *)from); break;
        case 3: copy3((S3 *)to, (const S3 *)from); break;
        case 4: copy8((S8 *)to, (const S8 *)from); break;
        case 5: ((Packed *)to)->value = (long)next(); break;
        }
        if (round % 10 == 0) step_done();
    }
    step_done();
}

int main(int argc, char **argv) {
    out = open(argv[argc - 1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0) return 2;
    scalars();
    copies();
    crowded();
    constants();
    returned();
    library();
    wide();
    atomics();
    by_hand();
    if (__builtin_cpu_supports("avx2")) masked();
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) masked_wide();
    unmapped();
    overlapping();
    printf("arena %p %zu\n", (void *)&arena, sizeof arena);
    return 0;
}
