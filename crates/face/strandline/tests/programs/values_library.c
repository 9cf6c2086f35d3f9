/* Stores by the C library, by the kernel and by intrinsics that compilers' passes leave out, into one arena: see values.c. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <wchar.h>

#define ALONE __attribute__((noinline))

static struct {
    uint64_t step;
    char text[512];
    wchar_t wide[128];
    long longs[64];
} __attribute__((aligned(64))) arena;

static int out;
static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

ALONE static void step_done(void) {
    static uint64_t steps;
    *(volatile uint64_t *)&arena.step = ++steps;
    if (write(out, &arena, sizeof arena) != sizeof arena) _exit(3);
}

ALONE static int list(char *to, size_t room, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int len = room ? vsnprintf(to, room, format, arguments) : vsprintf(to, format, arguments);
    va_end(arguments);
    return len;
}

/* Jumps, as last calls, and with arguments on the stack. */
ALONE static int last_call(char *to, const char *format, int a, int b, int c, int d, int e, int f) {
    return sprintf(to, format, a, b, c, d, e, f);
}

static void formats(void) {
    int wrong = sprintf(arena.text, "%d and %s", 17, "kelp") != 11;
    wrong += snprintf(arena.text + 40, 10, "%s %g %Lg %d %d %d %d", "seaweed", 2.5, 3.5L, 1, 2, 3, 4) != 23;
    wrong += sprintf(arena.text + 60, "%d %d %d %d %d %g %g %g %g %g %g %g %g %g", 1, 2, 3, 4, 5, 1., 2., 3., 4., 5., 6., 7., 8., 9.5) != 29;
    wrong += snprintf(NULL, 0, "%d", 100) != 3;
    wrong += snprintf(arena.text + 100, 1, "%d", 100) != 3;
    wrong += list(arena.text + 110, 0, "%d %g", 5, 2.5) != 5;
    wrong += list(arena.text + 130, 4, "%d %g", 5, 2.5) != 5;
    wrong += last_call(arena.text + 150, "%d %d %d %d %d %d", 1, 2, 3, 4, 5, 6) != 11;
    if (wrong || strcmp(arena.text + 40, "seaweed 2") || strcmp(arena.text + 60, "1 2 3 4 5 1 2 3 4 5 6 7 8 9.5") ||
        strcmp(arena.text + 150, "1 2 3 4 5 6"))
        _exit(4);
    step_done();
}

static int by_value(const void *a, const void *b) {
    arena.longs[60]++;
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}
static int by_value_with(const void *a, const void *b, void *with) {
    ++*(long *)with;
    return -by_value(a, b);
}

static void sorts(void) {
    for (int i = 0; i < 50; i++) arena.longs[i] = (long)next();
    step_done();
    arena.longs[7] = 7;
    qsort(arena.longs, 50, sizeof(long), by_value);
    step_done();
    qsort_r(arena.longs, 25, sizeof(long), by_value_with, &arena.longs[61]);
    step_done();
    for (int i = 1; i < 25; i++)
        if (arena.longs[i] > arena.longs[i - 1]) _exit(4);
}

static void memory(void) {
    char from[32] = "abcdefghijklmnopqrstuvwxyz";
    swab(from, arena.text + 200, 7);
    char *end = memccpy(arena.text + 210, from, 'e', 20);
    if (end != arena.text + 215 || memccpy(arena.text + 220, from, '!', 5)) _exit(4);
    explicit_bzero(arena.text + 10, 5);
    bzero(arena.text + 20, 5);
    bcopy(from, arena.text + 240, 9);
    step_done();
    wmemset(arena.wide, L'w', 20);
    wmemcpy(arena.wide + 30, arena.wide, 4);
    wmemmove(arena.wide + 31, arena.wide + 30, 4);
    wcscpy(arena.wide + 50, L"kelp");
    wcscat(arena.wide + 50, L" and weed");
    wcsncat(arena.wide + 50, L"!?", 1);
    wcsncpy(arena.wide + 70, L"sea", 6);
    if (wcpcpy(arena.wide + 80, L"deep") != arena.wide + 84) _exit(4);
    if (wmempcpy(arena.wide + 90, arena.wide, 3) != arena.wide + 93) _exit(4);
    if (wcscmp(arena.wide + 50, L"kelp and weed!")) _exit(4);
    step_done();
}

static void kernel(const char *path) {
    int fd = open(path, O_RDONLY), ends[2];
    char *at = arena.text + 256;
    struct iovec parts[2] = {{at + 60, 5}, {at + 70, 8}};
    if (read(fd, at, 20) != 20 || pread(fd, at + 30, 20, 64) != 20 || readv(fd, parts, 2) != 13) _exit(4);
    parts[0].iov_base = at + 80;
    if (preadv(fd, parts, 2, 100) != 13) _exit(4);
    close(fd);
    step_done();
    if (getrandom(at + 90, 12, 0) != 12 || getentropy(at + 104, 4) != 0) _exit(4);
    step_done();
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) || write(ends[0], "datagram", 8) != 8 || recv(ends[1], at + 110, 20, 0) != 8) _exit(4);
    if (write(ends[0], "datagram", 8) != 8 || recvfrom(ends[1], at + 120, 4, MSG_TRUNC, NULL, NULL) != 8) _exit(4);
    step_done();
    FILE *file = fopen(path, "r");
    if (fread(at + 130, 8, 5, file) != 5) _exit(4);
    fclose(file);
    file = fmemopen((char[]){"a line\nanother"}, 14, "r");
    if (!fgets(at + 180, 40, file)) _exit(4);
    fclose(file);
    step_done();
}

/* gcc's pass tells some of these and leaves out others, which come between. */
__attribute__((target("avx2,f16c,movbe"))) ALONE static void halves(char *to, int n) {
    __m128 floats = _mm_set_ps(n, n + 1, n + 2, n + 3);
    __m256i words = _mm256_set1_epi32(n);
    _mm256_storeu_si256((__m256i *)(to + 100), words);
    _mm_storeh_pi((__m64 *)to, floats);
    _mm_storel_pi((__m64 *)(to + 9), floats);
    _mm_storeh_pd((double *)(to + 20), _mm_castps_pd(floats));
    _mm_storel_pd((double *)(to + 30), _mm_castps_pd(floats));
    _mm_storel_epi64((__m128i *)(to + 40), _mm256_castsi256_si128(words));
    *(uint16_t *)(to + 50) = (uint16_t)_mm_extract_epi16(_mm256_castsi256_si128(words), 2);
    *(int *)(to + 53) = _mm_extract_epi32(_mm256_castsi256_si128(words), 1);
    _mm_storeu_si128((__m128i *)(to + 60), _mm256_extracti128_si256(words, 1));
    _mm_storel_epi64((__m128i *)(to + 80), _mm_cvtps_ph(floats, 0));
    _mm_maskmoveu_si128(_mm_set1_epi8((char)n), _mm_set_epi32(0, 0x80008000, -1, 0x00800000), to + 140);
    unsigned carry, sum;
    carry = _addcarry_u32(0, 0xffffffff, (unsigned)n, &sum);
    *(unsigned *)(to + 160) = sum + carry;
    _addcarry_u32(1, (unsigned)n, 5, (unsigned *)(to + 170));
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))) ALONE static void narrowed(char *to, int n) {
    __m512i words = _mm512_set1_epi32(n), longs = _mm512_set1_epi64(n + 1);
    *(__m256i_u *)to = _mm512_extracti64x4_epi64(words, 1);
    _mm_storeh_pi((__m64 *)(to + 64), _mm_set1_ps((float)n));
    *(__m128i_u *)(to + 80) = _mm512_extracti32x4_epi32(longs, 2);
    _mm512_mask_cvtepi32_storeu_epi8(to + 100, 0x8181, words);
    _mm512_mask_cvtepi64_storeu_epi16(to + 120, 0x3c, longs);
    _mm512_mask_cvtepi64_storeu_epi32(to + 140, 0xff, longs);
    _mm256_mask_cvtusepi64_storeu_epi32(to + 180, 5, _mm512_castsi512_si256(longs));
    _mm_mask_cvtsepi64_storeu_epi8(to + 200, 2, _mm512_castsi512_si128(longs));
    *(__m256i_u *)(to + 210) = _mm512_cvtepi64_epi32(longs);
    _store_mask16((__mmask16 *)(to + 250), _mm512_cmpeq_epi32_mask(words, longs));
}

int main(int argc, char **argv) {
    out = open(argv[argc - 1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0) return 2;
    formats();
    sorts();
    memory();
    kernel(argv[0]);
    if (__builtin_cpu_supports("avx2")) halves(arena.text, (int)next());
    step_done();
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        narrowed(arena.text, (int)next());
    step_done();
    printf("arena %p %zu\n", (void *)&arena, sizeof arena);
    return 0;
}
