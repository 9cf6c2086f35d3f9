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
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <clocale>
#include <csignal>
#include <cstdarg>
#include <cwchar>
#include <err.h>
#include <fcntl.h>
#include <list>
#include <map>
#include <netdb.h>
#include <new>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <search.h>
#include <string>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unordered_map>
#include <wchar.h>
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

static FILE *stream_with(const char *text) { return fdopen(file_with(text), "r"); }

static int compare_with(const void *one, const void *other, void *) { return compare(one, other); }
static void *value_of_thread(void *) { return reinterpret_cast<void *>(77); }

// Lists of arguments, as other functions take them.
static int format(char *to, const char *how, ...)
{
    va_list list;
    va_start(list, how);
    int result = vsprintf(to, how, list);
    va_end(list);
    return result;
}
static int format_within(char *to, size_t room, const char *how, ...)
{
    va_list list;
    va_start(list, how);
    int result = vsnprintf(to, room, how, list);
    va_end(list);
    return result;
}
static int parse(const char *from, const char *how, ...)
{
    va_list list;
    va_start(list, how);
    int result = vsscanf(from, how, list);
    va_end(list);
    return result;
}
static int print_to_null(const char *how, ...)
{
    va_list list;
    va_start(list, how);
    int result = vfprintf(fopen("/dev/null", "w"), how, list);
    va_end(list);
    return result;
}

// Entries that the C library checks the room of, as `_FORTIFY_SOURCE` calls them.
extern "C" {
int __sprintf_chk(char *, int, size_t, const char *, ...);
int __snprintf_chk(char *, size_t, int, size_t, const char *, ...);
int __vsprintf_chk(char *, int, size_t, const char *, va_list);
int __vsnprintf_chk(char *, size_t, int, size_t, const char *, va_list);
int __printf_chk(int, const char *, ...);
int __fprintf_chk(FILE *, int, const char *, ...);
int __dprintf_chk(int, int, const char *, ...);
int __asprintf_chk(char **, int, const char *, ...);
int __swprintf_chk(wchar_t *, size_t, int, size_t, const wchar_t *, ...);
void *__memcpy_chk(void *, const void *, size_t, size_t);
void *__memmove_chk(void *, const void *, size_t, size_t);
void *__mempcpy_chk(void *, const void *, size_t, size_t);
void *__memset_chk(void *, int, size_t, size_t);
void __explicit_bzero_chk(void *, size_t, size_t);
char *__strcpy_chk(char *, const char *, size_t);
char *__stpcpy_chk(char *, const char *, size_t);
char *__strncpy_chk(char *, const char *, size_t, size_t);
char *__stpncpy_chk(char *, const char *, size_t, size_t);
char *__strcat_chk(char *, const char *, size_t);
char *__strncat_chk(char *, const char *, size_t, size_t);
wchar_t *__wcscpy_chk(wchar_t *, const wchar_t *, size_t);
wchar_t *__wcpncpy_chk(wchar_t *, const wchar_t *, size_t, size_t);
wchar_t *__wmemset_chk(wchar_t *, wchar_t, size_t, size_t);
size_t __mbstowcs_chk(wchar_t *, const char *, size_t, size_t);
size_t __wcstombs_chk(char *, const wchar_t *, size_t, size_t);
size_t __mbsrtowcs_chk(wchar_t *, const char **, size_t, mbstate_t *, size_t);
int __wctomb_chk(char *, wchar_t, size_t);
size_t __wcrtomb_chk(char *, wchar_t, mbstate_t *, size_t);
char *__fgets_chk(char *, size_t, int, FILE *);
wchar_t *__fgetws_chk(wchar_t *, size_t, int, FILE *);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, sockaddr *, socklen_t *);
char *__getcwd_chk(char *, size_t, size_t);
char *__realpath_chk(const char *, char *, size_t);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
int __gethostname_chk(char *, size_t, size_t);
size_t __confstr_chk(int, char *, size_t, size_t);
int __poll_chk(void *, unsigned long, int, size_t);
}
static int format_checked(char *to, const char *how, ...)
{
    va_list list;
    va_start(list, how);
    int result = __vsprintf_chk(to, 1, 1000, how, list) + __vsnprintf_chk(to + 500, 100, 1, 100, "x", list);
    va_end(list);
    return result;
}
// Members whose room the compiler knows: with `_FORTIFY_SOURCE` it calls the above by itself.
struct Fields {
    char text[100], other[100], path[5000];
    wchar_t wide[50];
};
static Fields *fields(char *at) { return reinterpret_cast<Fields *>(at); }
static int socket_with(const char *text)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || send(ends[1], text, strlen(text), 0) < 0)
        err(3, "socketpair");
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

    // Counts of what was printed.
    [](char *at) { int *to = reinterpret_cast<int *>(at); if (print_to_null("%s%n", source, to) < 0) abort(); },
    [](char *at) {
        // Behind more arguments than there are registers, of all kinds.
        fprintf(fopen("/dev/null", "w"), "%d%g%Lg%s%*d%.*f%d%d%g%g%g%g%g%g%g%g%hhn%Lg%hn%lln", 1, 1.5, 1.5L, source,
                5, 1, 2, 2.5, 7, 8, 1., 2., 3., 4., 5., 6., 7., 8., reinterpret_cast<signed char *>(at), 2.5L,
                reinterpret_cast<short *>(at + 8), reinterpret_cast<long long *>(at + 16));
    },
    [](char *at) { if (dprintf(2, "%2$n%1$s\n", "", reinterpret_cast<int *>(at)) < 0) abort(); },
    [](char *at) { sprintf(at, "%s%n and", source, reinterpret_cast<int *>(at + 64)); },
    [](char *at) { fwprintf(fopen("/dev/null", "w"), L"%ls%n", L"wide", reinterpret_cast<int *>(at)); },
    [](char *at) { format(at, "%d %s %g", 5, source, 1.5); },
    [](char *at) { format_within(at, 12, "%d %s %g", 5, source, 1.5); },
    [](char *at) { parse("12 word", "%ld %9s", reinterpret_cast<long *>(at), at + 8); },
    [](char *at) { if (asprintf(reinterpret_cast<char **>(at), "%d", 5) < 0) abort(); },
    [](char *at) { swprintf(reinterpret_cast<wchar_t *>(at), 40, L"%d and %ls", 5, L"wide"); },
    // As `_FORTIFY_SOURCE` calls them.
    [](char *at) { __sprintf_chk(at, 1, 100, "%d and %s", 5, source); },
    [](char *at) { __snprintf_chk(at, 20, 1, 100, "%d and %s", 5, source); },
    [](char *at) { format_checked(at, "%d and %s", 5, source); },
    [](char *at) { __fprintf_chk(fopen("/dev/null", "w"), 0, "%s%n", source, reinterpret_cast<int *>(at)); },
    [](char *at) { __dprintf_chk(2, 0, "%n\n", reinterpret_cast<int *>(at)); },
    [](char *at) { __asprintf_chk(reinterpret_cast<char **>(at), 1, "%d", 5); },
    [](char *at) { __swprintf_chk(reinterpret_cast<wchar_t *>(at), 40, 1, 50, L"%d", 5); },
    [](char *at) { __memcpy_chk(at, source, 10, 100); },
    [](char *at) { __memmove_chk(at, source, 10, 100); },
    [](char *at) { __mempcpy_chk(at, source, 10, 100); },
    [](char *at) { __memset_chk(at, 3, 10, 100); },
    [](char *at) { __explicit_bzero_chk(at, 10, 100); },
    [](char *at) { __strcpy_chk(at, source, 100); },
    [](char *at) { __stpcpy_chk(at, source, 100); },
    [](char *at) { __strncpy_chk(at, source, 50, 100); },
    [](char *at) { __stpncpy_chk(at, source, 50, 100); },
    [](char *at) { __strcat_chk(at, source, 1000); },
    [](char *at) { __strncat_chk(at, source, 4, 1000); },
    [](char *at) { __wcscpy_chk(reinterpret_cast<wchar_t *>(at), L"wide", 50); },
    [](char *at) { __wcpncpy_chk(reinterpret_cast<wchar_t *>(at), L"wide", 20, 50); },
    [](char *at) { wcpncpy(reinterpret_cast<wchar_t *>(at), L"wide", 20); },
    [](char *at) { __wmemset_chk(reinterpret_cast<wchar_t *>(at), L'x', 5, 50); },
    [](char *at) { __mbstowcs_chk(reinterpret_cast<wchar_t *>(at), "wide", 10, 50); },
    [](char *at) { __wcstombs_chk(at, L"wide", 10, 50); },
    [](char *at) {
        auto **from = reinterpret_cast<const char **>(at + 200);
        *from = "wide";
        __mbsrtowcs_chk(reinterpret_cast<wchar_t *>(at), from, 10, reinterpret_cast<mbstate_t *>(memset(at + 256, 0, 8)), 50);
    },
    [](char *at) { __wctomb_chk(at, L'x', 100); },
    [](char *at) { __wcrtomb_chk(at, L'x', nullptr, 100); },
    [](char *at) { if (!__fgets_chk(at, 100, 50, stream_with("line\n"))) abort(); },
    [](char *at) { if (!__fgetws_chk(reinterpret_cast<wchar_t *>(at), 50, 20, stream_with("line\n"))) abort(); },
    [](char *at) { if (__fread_chk(at, 100, 1, 6, stream_with("content")) != 6) abort(); },
    [](char *at) { if (__read_chk(file_with("content"), at, 50, 100) != 7) abort(); },
    [](char *at) { if (__pread_chk(open("/proc/self/maps", O_RDONLY), at, 50, 0, 100) < 1) abort(); },
    [](char *at) { if (__recv_chk(socket_with("content"), at, 50, 100, 0) != 7) abort(); },
    [](char *at) {
        auto *len = reinterpret_cast<socklen_t *>(at + 64);
        auto *from = reinterpret_cast<sockaddr *>(at + 72);
        if (__recvfrom_chk(socket_with("content"), at, 50, 100, 0, from, len) != 7) abort();
    },
    [](char *at) { if (!__getcwd_chk(at, 1000, 2000)) abort(); },
    [](char *at) { if (!__realpath_chk("/", at, 5000)) abort(); },
    [](char *at) { if (__readlink_chk("/proc/self/exe", at, 100, 200) < 1) abort(); },
    [](char *at) { __gethostname_chk(at, 64, 100); },
    [](char *at) { __confstr_chk(_CS_PATH, at, 64, 100); },
    [](char *at) {
        // No descriptor has that number, which is an event.
        __poll_chk(at, 1, 0, 8);
    },
    [](char *at) { strcpy(fields(at)->text, source); strcat(fields(at)->text, source); },
    [](char *at) { snprintf(fields(at)->text, sizeof fields(at)->text, "%d %s", 5, source); },
    [](char *at) { sprintf(fields(at)->other, "%d %s", 5, source); },
    [](char *at) { if (read(file_with("content"), fields(at)->text, 50) != 7) abort(); },
    [](char *at) { if (!fgets(fields(at)->text, 50, stream_with("line\n"))) abort(); },
    [](char *at) { if (!realpath("/proc/self", fields(at)->path)) abort(); },
    [](char *at) { wcscpy(fields(at)->wide, L"wide"); },
    [](char *at) { strncpy(fields(at)->text, source, strlen(source) + large.bytes[0] + 20); },
    // More of the C library.
    [](char *at) { qsort_r(at, 64, 1, compare_with, at); },
    [](char *at) {
        memcpy(at + 64, at, 8);
        size_t *count = reinterpret_cast<size_t *>(at + 256);
        *count = 20;
        lsearch("\1", at, count, 1, compare);
    },
    [](char *at) { tm parts{}; parts.tm_mday = 90; memcpy(at, &parts, sizeof parts); mktime(reinterpret_cast<tm *>(at)); },
    [](char *at) { tm parts{}; memcpy(at, &parts, sizeof parts); timegm(reinterpret_cast<tm *>(at)); },
    [](char *at) { strptime("12:34", "%H:%M", reinterpret_cast<tm *>(at)); },
    [](char *at) { timespec_get(reinterpret_cast<timespec *>(at), TIME_UTC); },
    [](char *at) { srand48_r(5, reinterpret_cast<drand48_data *>(at)); },
    [](char *at) {
        static drand48_data state;
        srand48_r(5, &state);
        memcpy(at, &state, sizeof state);
        drand48_r(reinterpret_cast<drand48_data *>(at), reinterpret_cast<double *>(at + 64));
        lrand48_r(reinterpret_cast<drand48_data *>(at), reinterpret_cast<long *>(at + 72));
        nrand48_r(reinterpret_cast<unsigned short *>(at + 80), reinterpret_cast<drand48_data *>(at),
                  reinterpret_cast<long *>(at + 88));
    },
    [](char *at) { erand48(reinterpret_cast<unsigned short *>(at)); },
    [](char *at) { wcstol(L"12x", reinterpret_cast<wchar_t **>(at), 10); },
    [](char *at) { mbtowc(reinterpret_cast<wchar_t *>(at), "x", 1); },
    [](char *at) { mbrtowc(reinterpret_cast<wchar_t *>(at), "x", 1, reinterpret_cast<mbstate_t *>(memset(at + 64, 0, 8))); },
    [](char *at) { wctomb(at, L'x'); },
    [](char *at) { wcrtomb(at, L'x', nullptr); },
    [](char *at) { wchar_t *rest; wcscpy(reinterpret_cast<wchar_t *>(at), L"a b"); wcstok(reinterpret_cast<wchar_t *>(at), L" ", &rest); },
    [](char *at) { sigemptyset(reinterpret_cast<sigset_t *>(at)); },
    [](char *at) { sigfillset(reinterpret_cast<sigset_t *>(at)); },
    [](char *at) { sigaddset(reinterpret_cast<sigset_t *>(at), SIGTERM); sigdelset(reinterpret_cast<sigset_t *>(at), SIGSEGV); },
    [](char *at) { sigprocmask(SIG_BLOCK, nullptr, reinterpret_cast<sigset_t *>(at)); },
    [](char *at) { pthread_sigmask(SIG_BLOCK, nullptr, reinterpret_cast<sigset_t *>(at)); },
    [](char *at) {
        int fd = socket_with("");
        auto *len = reinterpret_cast<socklen_t *>(at + 64);
        *len = 50;
        getsockopt(fd, SOL_SOCKET, SO_TYPE, at, len);
    },
    [](char *at) {
        int fd = socket_with("");
        auto *len = reinterpret_cast<socklen_t *>(at + 64);
        *len = 50;
        getsockname(fd, reinterpret_cast<sockaddr *>(at), len);
    },
    [](char *at) { getrlimit(RLIMIT_NOFILE, reinterpret_cast<rlimit *>(at)); },
    [](char *at) { if (!realpath("/proc/self", at)) abort(); },
    [](char *at) { inet_aton("1.2.3.4", reinterpret_cast<in_addr *>(at)); },
    [](char *at) { struct stat *to = reinterpret_cast<struct stat *>(at); if (fstatat(AT_FDCWD, "/", to, 0)) abort(); },
    [](char *at) { pthread_create(reinterpret_cast<pthread_t *>(at), nullptr, value_of_thread, nullptr); },
    [](char *at) {
        pthread_t thread;
        pthread_create(&thread, nullptr, value_of_thread, nullptr);
        pthread_join(thread, reinterpret_cast<void **>(at));
    },
    [](char *at) { if (posix_memalign(reinterpret_cast<void **>(at), 64, 64)) abort(); },
    [](char *at) { strcpy(at, "/no/such/folder/XXXXXX"); if (mkstemp(at) >= 0) abort(); },
    [](char *at) {
        static regex_t expression;
        if (regcomp(&expression, "t.xt", 0)) abort();
        regexec(&expression, source, 1, reinterpret_cast<regmatch_t *>(at), 0);
    },
    [](char *at) {
        auto **line = reinterpret_cast<char **>(at + 608);
        if (getline(line, reinterpret_cast<size_t *>(at + 616), stream_with("line\n")) < 1) abort();
    },
    [](char *at) { passwd *found; getpwuid_r(0, reinterpret_cast<passwd *>(at), at + 64, 1000, &found); },
    [](char *at) { double *to = reinterpret_cast<double *>(at); sincos(large.bytes[0] + 1.0, to, to + 9); },
    // Atomics that no instruction carries out.
    [](char *at) {
        // The object is elsewhere; what is found goes to the pool.
        static std::atomic<Large> object;
        __atomic_load(reinterpret_cast<Large *>(&object), reinterpret_cast<Large *>(at), __ATOMIC_SEQ_CST);
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
    memset(at + 8192 + 608, 0, 16);
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
    setlocale(LC_ALL, "C.UTF-8");
    sl_psync();
    cases[number](root + 8192);
    __builtin_trap();
}
