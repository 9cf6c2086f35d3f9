// A call writes few bytes, in a region that is never committed; another thread stores behind them and commits. Only
// the former is taken back: bytes that a call does not write are none of its business.
//
//     beside POOL N           case N, which ends in a trap
//     beside --check POOL N   says what is wrong with what survived
//     beside --count          how many cases there are
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include <strandline_pool.h>

static char *at;
static _Atomic int turn, turns;

static void character(void) { wctomb(at, L'x'); }
static void character_with_state(void)
{
    static mbstate_t state;
    wcrtomb(at, L'x', &state);
}
static void set_of_signals(void) { sigaddset((sigset_t *)at, SIGSEGV); }
static void mask_of_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, NULL, (sigset_t *)at);
}
static void up_to_a_byte(void) { memccpy(at, "ab-cdefghijklmnopqrstuvwxyz0123456789", '-', 38); }
static void appended(void)
{
    wcsncat((wchar_t *)at, L"x", 100);
}
static void printed(void) { snprintf(at, 1000, "%d", 5); }
static void printed_wide(void) { swprintf((wchar_t *)at, 500, L"%d", 5); }
// A comparison copies what it sees of the array, and ends the region: whatever sorting does after the last one
// is taken back.
static int compare(const void *one, const void *other)
{
    memcpy(at + 1024, at, 256);
    atomic_fetch_add_explicit(&turns, 1, memory_order_acq_rel);
    return *(const unsigned char *)one - *(const unsigned char *)other;
}
static void sorted(void)
{
    for (int i = 0; i < 256; i++)
        at[i] = (char)(i * 7 % 101 + 1);
    qsort(at, 256, 1, compare);
}
static void option(void)
{
    int ends[2];
    socklen_t len = 100;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || getsockopt(ends[0], SOL_SOCKET, SO_TYPE, at, &len))
        err(3, "socket");
}

static const struct {
    void (*call)(void);
    // Bytes that it does not write begin here.
    int behind;
} cases[] = {
    {character, 1}, {character_with_state, 1}, {set_of_signals, 8}, {mask_of_signals, 8}, {up_to_a_byte, 3},
    {appended, 8}, {printed, 2}, {printed_wide, 8}, {option, 8},
    // Zero bytes: a case of its own.
    {sorted, 0},
};
enum { COUNT = sizeof cases / sizeof cases[0], BYTES = 4096 };

static void *other(void *argument)
{
    int behind = *(int *)argument;
    while (atomic_load_explicit(&turn, memory_order_relaxed) != 1) {
    }
    memset(at + behind, 'z', 8);
    sl_psync();
    atomic_store_explicit(&turn, 2, memory_order_relaxed);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "--count"))
        return printf("%d\n", COUNT) < 0;
    int checks = count == 4 && !strcmp(arguments[1], "--check");
    if (count != 3 + checks)
        errx(2, "usage: beside [--check] POOL CASE");
    const char *path = arguments[1 + checks];
    int number = atoi(arguments[2 + checks]);
    struct sl_pool_options options = {NULL, SL_FORCE};
    sl_pool *pool = checks ? sl_pool_open(path, "beside", &options)
                           : sl_pool_create(path, "beside", 8 << 20, BYTES, &options);
    if (!pool)
        errx(3, "%s", sl_error());
    at = sl_at(pool, sl_root(pool));
    int behind = cases[number].behind;
    if (checks && !behind) {
        if (memcmp(at, at + 1024, 256))
            return printf("case %d: what sorting did after the last comparison is there\n", number), 1;
        return 0;
    }
    if (checks) {
        for (int i = 0; i < behind; i++)
            if (at[i])
                return printf("case %d: byte %d of the call is there\n", number, i), 1;
        for (int i = behind; i < behind + 8; i++)
            if (at[i] != 'z')
                return printf("case %d: byte %d of the other thread was taken back\n", number, i), 1;
        return 0;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, other, &behind))
        errx(3, "no thread");
    cases[number].call();
    if (!behind)
        __builtin_trap();
    atomic_store_explicit(&turn, 1, memory_order_relaxed);
    while (atomic_load_explicit(&turn, memory_order_relaxed) != 2) {
    }
    __builtin_trap();
}
