// Functions that write into the pool, one after the other, each followed by a crash: nothing of it may be
// there.
//
//     writers POOL N           case N, which ends in a trap
//     writers --check POOL N   says what is wrong with what survived
//     writers --count          how many cases there are
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>
#include <err.h>
#include <fcntl.h>
#include <list>
#include <map>
#include <new>
#include <string>
#include <strings.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include <strandline_pool.h>

static sl_pool *pool;
constexpr size_t BYTES = 16384;

// Takes memory of the area, and never gives it back.
static char *area, *next_free;
template <class T> struct Piece {
    using value_type = T;
    Piece() = default;
    template <class U> Piece(const Piece<U> &) {}
    T *allocate(size_t count)
    {
        char *at = next_free;
        next_free += (count * sizeof(T) + 15) / 16 * 16;
        return reinterpret_cast<T *>(at);
    }
    void deallocate(T *, size_t) {}
    bool operator==(const Piece &) const { return true; }
    bool operator!=(const Piece &) const { return false; }
};

using Map = std::map<int, long, std::less<int>, Piece<std::pair<const int, long>>>;
using Entry = std::pair<const int, long>;
using Hash = std::unordered_map<int, long, std::hash<int>, std::equal_to<int>, Piece<Entry>>;
using List = std::list<long, Piece<long>>;
using Vector = std::vector<long, Piece<long>>;

struct Pair {
    long one, other;
};
struct Large {
    char bytes[200];
};
struct Base {
    virtual ~Base() {}
    virtual long get() { return 1; }
    long base = 5;
};
struct Derived : Base {
    long get() override { return 2; }
    long fields[4] = {1, 2, 3, 4};
};

static char *source;
static Large large;

[[gnu::noinline]] static Pair make(long value) { return {value, value + 1}; }
[[gnu::noinline]] static long double make_long(long value) { return value; }
[[gnu::noinline]] static Large make_large()
{
    Large made;
    memset(&made, 9, sizeof made);
    return made;
}
[[gnu::noinline]] static int compare(const void *one, const void *other)
{
    return *static_cast<const unsigned char *>(one) - *static_cast<const unsigned char *>(other);
}

static int file_with(const char *text)
{
    int ends[2];
    if (pipe(ends) || write(ends[1], text, strlen(text)) < 0)
        err(3, "pipe");
    close(ends[1]);
    return ends[0];
}

using Case = void (*)(char *);
typedef long Vector4 __attribute__((vector_size(32)));
struct Bits {
    unsigned one : 3, two : 17;
    unsigned long three : 40;
};

static const Case cases[] = {
    [](char *at) { *reinterpret_cast<long *>(at) = 1; },
    [](char *at) { *reinterpret_cast<volatile short *>(at) = 1; },
    [](char *at) { *reinterpret_cast<Pair *>(at) = make(4); },
    [](char *at) { *reinterpret_cast<long double *>(at) = make_long(4); },
    [](char *at) { *reinterpret_cast<Large *>(at) = make_large(); },
    [](char *at) { *reinterpret_cast<Large *>(at) = large; },
    [](char *at) { *reinterpret_cast<Vector4 *>(at) = Vector4{1, 2, 3, 4}; },
    [](char *at) { reinterpret_cast<Bits *>(at)->two = 99; },
    [](char *at) { reinterpret_cast<Bits *>(at)->three ^= 0x123456789; },
    [](char *at) { for (int i = 0; i < 100; i++) at[i] = static_cast<char>(i); },
    [](char *at) { for (int i = 0; i < 100; i++) reinterpret_cast<double *>(at)[i] = i * 1.5; },
    [](char *at) { memcpy(at, source, 300); },
    [](char *at) { memcpy(at, source, 8); },
    [](char *at) { memmove(at, at + 5, 300); },
    [](char *at) { memset(at, 3, 500); },
    [](char *at) { memset(at, 0, 64); },
    [](char *at) { mempcpy(at, source, 40); },
    [](char *at) { memccpy(at, source, 'x', 40); },
    [](char *at) { bzero(at, 90); },
    [](char *at) { explicit_bzero(at, 90); },
    [](char *at) { strcpy(at, source); },
    [](char *at) { strncpy(at, source, 30); },
    [](char *at) { strcat(at, source); },
    [](char *at) { strncat(at, source, 3); },
    [](char *at) { stpcpy(at, source); },
    [](char *at) { sprintf(at, "%d and %s and %g", 5, source, 1.5); },
    [](char *at) { snprintf(at, 20, "%d and %s and %g", 5, source, 1.5); },
    [](char *at) { wmemset(reinterpret_cast<wchar_t *>(at), L'x', 20); },
    [](char *at) { wcscpy(reinterpret_cast<wchar_t *>(at), L"wide"); },
    [](char *at) {
        auto *number = reinterpret_cast<double *>(at + 64);
        sscanf("12 word 1.5", "%ld %s %lf", reinterpret_cast<long *>(at), at + 8, number);
    },
    [](char *at) { sscanf("ab cd", "%2c %[c-d]%n", at, at + 8, reinterpret_cast<int *>(at + 64)); },
    [](char *at) {
        FILE *file = fdopen(file_with("77 other"), "r");
        if (fscanf(file, "%ld %7s", reinterpret_cast<long *>(at), at + 8) != 2)
            abort();
    },
    [](char *at) { if (!fgets(at, 100, fdopen(file_with("line\nand\n"), "r"))) abort(); },
    [](char *at) { if (fread(at, 1, 6, fdopen(file_with("content"), "r")) != 6) abort(); },
    [](char *at) { if (read(file_with("content"), at, 100) != 7) abort(); },
    [](char *at) {
        iovec pieces[2] = {{at, 3}, {at + 50, 4}};
        if (readv(file_with("content"), pieces, 2) != 7) abort();
    },
    [](char *at) { qsort(at, 64, 1, compare); },
    [](char *at) { strtol("12x", reinterpret_cast<char **>(at), 10); },
    [](char *at) { strtod("1.5x", reinterpret_cast<char **>(at)); },
    [](char *at) { rand_r(reinterpret_cast<unsigned *>(at)); },
    [](char *at) { char *rest; strtok_r(at, " ", &rest); strtok_r(nullptr, " ", &rest); },
    [](char *at) { strtok(at, " "); strtok(nullptr, " "); },
    [](char *at) {
        *reinterpret_cast<char **>(at + 64) = at;
        strsep(reinterpret_cast<char **>(at + 64), " ");
    },
    [](char *at) { time_t now = 5; gmtime_r(&now, reinterpret_cast<tm *>(at)); },
    [](char *at) { time_t now = 5; tm parts; gmtime_r(&now, &parts); strftime(at, 40, "%H:%M", &parts); },
    [](char *at) { time(reinterpret_cast<time_t *>(at)); },
    [](char *at) { clock_gettime(CLOCK_REALTIME, reinterpret_cast<timespec *>(at)); },
    [](char *at) { gettimeofday(reinterpret_cast<timeval *>(at), nullptr); },
    [](char *at) { if (stat("/", reinterpret_cast<struct stat *>(at))) abort(); },
    [](char *at) { if (!getcwd(at, 1000)) abort(); },
    [](char *at) { std::frexp(12.5, reinterpret_cast<int *>(at)); },
    [](char *at) { std::modf(large.bytes[0] + 12.5, reinterpret_cast<double *>(at)); },
    [](char *at) { inet_pton(AF_INET, "1.2.3.4", at); },
    [](char *at) { mbstowcs(reinterpret_cast<wchar_t *>(at), "wide", 10); },
    [](char *at) { gethostname(at, 64); },
    [](char *at) { new (at) Derived; },
    [](char *at) { new (at) Pair{7, 8}; },
    [](char *at) { new (at) std::string("a string that is too long to stay in place"); },
    [](char *at) { asm volatile("movq $5, %0" : "=m"(*reinterpret_cast<long *>(at))); },
    [](char *at) { asm volatile("lock; incq %0" : "+m"(*reinterpret_cast<long *>(at))); },
    [](char *at) { asm volatile("cld; rep stosq" : "+D"(at) : "a"(5L), "c"(20L) : "memory"); },
    [](char *at) { __builtin_ia32_movnti(reinterpret_cast<int *>(at), 5); },
    [](char *) {
        auto *map = reinterpret_cast<Map *>(area);
        for (int i = 0; i < 40; i++) (*map)[i * 37 % 41] = i;
    },
    [](char *) { auto *map = reinterpret_cast<Map *>(area); for (int i = 100; i < 120; i++) map->erase(i); },
    [](char *) { auto *map = reinterpret_cast<Map *>(area); map->clear(); },
    [](char *) {
        auto *hash = reinterpret_cast<Hash *>(area + 128);
        for (int i = 0; i < 40; i++) (*hash)[i] = i;
    },
    [](char *) { auto *hash = reinterpret_cast<Hash *>(area + 128); hash->erase(103); },
    [](char *) {
        auto *list = reinterpret_cast<List *>(area + 256);
        list->push_back(1); list->push_front(2); list->pop_back();
    },
    [](char *) { auto *list = reinterpret_cast<List *>(area + 256); list->reverse(); list->sort(); },
    [](char *) { auto *list = reinterpret_cast<List *>(area + 256); list->erase(list->begin()); },
    [](char *) {
        auto *list = reinterpret_cast<Vector *>(area + 384);
        for (int i = 0; i < 9; i++) list->push_back(i);
    },
};
constexpr int COUNT = sizeof cases / sizeof cases[0];

// What is there before.
static void prepare(char *at)
{
    for (size_t i = 0; i < BYTES; i++)
        at[i] = static_cast<char>('a' + i * 7 % 23);
    // Some words with an end.
    for (size_t i = 5; i < 600; i += 6)
        at[8192 + i] = ' ';
    at[8192 + 600] = 0;
    area = at;
    next_free = at + 512;
    auto *map = new (at) Map;
    auto *hash = new (at + 128) Hash;
    auto *list = new (at + 256) List;
    auto *vector = new (at + 384) Vector;
    for (int i = 0; i < 30; i++) {
        (*map)[100 + i] = i;
        if (i < 10)
            (*hash)[100 + i] = i, list->push_back(i * 37 % 10), vector->push_back(i);
    }
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "--count"))
        return printf("%d\n", COUNT) < 0;
    bool checks = count == 4 && !strcmp(arguments[1], "--check");
    if (count != 3 + checks)
        errx(2, "usage: writers [--check] POOL CASE");
    const char *path = arguments[1 + checks];
    int number = atoi(arguments[2 + checks]);
    sl_pool_options options = {nullptr, SL_FORCE};
    pool = checks ? sl_pool_open(path, "writers", &options)
                  : sl_pool_create(path, "writers", 16 << 20, 2 * BYTES, &options);
    if (!pool)
        errx(3, "%s", sl_error());
    char *root = static_cast<char *>(sl_at(pool, sl_root(pool)));
    if (checks) {
        for (size_t i = 0; i < BYTES; i++)
            if (root[i] != root[BYTES + i]) {
                printf("case %d: byte %zu is %d and was %d\n", number, i, root[i], root[BYTES + i]);
                return 1;
            }
        return 0;
    }
    source = strdup("text x of the source");
    source = static_cast<char *>(realloc(source, 1000));
    prepare(root);
    memcpy(root + BYTES, root, BYTES);
    sl_psync();
    cases[number](root + 8192);
    __builtin_trap();
}
