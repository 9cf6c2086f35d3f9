/*
 * Accounts in virtualised NVM.
 *
 *   accounts run FOLDER NUMBER TRANSFERS     process NUMBER (0 to 63) moves money between its accounts
 *   accounts check FOLDER NUMBER             whether no money was made or lost; prints the transfers
 *
 * Each process has a file of accounts of its own, and a counter in a file that all share. A transfer changes two accounts
 * and the number of transfers, in one transaction.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "strandline_vnvm.h"

enum { ACCOUNTS = 10000, START = 100, BYTES = (ACCOUNTS + 1) * 8, SHARED = 64 * 4096 };

static void must(int status, const char *what)
{
    if (status)
        errx(1, "%s: %s", what, sl_error());
}

/* All of it, however full the log is. */
static void write_all(uint64_t tid, void *to, const void *from, size_t bytes)
{
    while (bytes) {
        int64_t written = nv_write(tid, to, from, bytes);
        if (written < 0)
            errx(1, "nv_write: %s", sl_error());
        if (nv_failure())
            errx(1, "%s", nv_failure());
        if (!written)
            usleep(100);
        to = (char *)to + written;
        from = (const char *)from + written;
        bytes -= (size_t)written;
    }
}

static void set(uint64_t tid, uint64_t *at, uint64_t value)
{
    write_all(tid, at, &value, sizeof value);
}

/* Word 0 is the number of transfers. */
static void open_accounts(uint64_t *accounts)
{
    if (accounts[1])
        return;
    uint64_t *first = malloc(BYTES);
    if (!first)
        err(1, NULL);
    first[0] = 0;
    for (int i = 1; i <= ACCOUNTS; i++)
        first[i] = START;
    uint64_t tid = nv_txbegin();
    write_all(tid, accounts, first, BYTES);
    must(nv_commit(tid), "nv_commit");
    free(first);
}

static void transfer(uint64_t *accounts, uint64_t random)
{
    uint64_t from = 1 + random % ACCOUNTS, to = 1 + random / 65537 % ACCOUNTS;
    if (from == to || !accounts[from])
        to = from;
    uint64_t tid = nv_txbegin();
    if (from != to) {
        set(tid, &accounts[from], accounts[from] - 1);
        set(tid, &accounts[to], accounts[to] + 1);
    }
    set(tid, &accounts[0], accounts[0] + 1);
    must(nv_commit(tid), "nv_commit");
}

static int check(const uint64_t *accounts, const uint64_t *shared)
{
    uint64_t sum = 0;
    for (int i = 1; i <= ACCOUNTS; i++)
        sum += accounts[i];
    printf("%llu %llu\n", (unsigned long long)accounts[0], (unsigned long long)*shared);
    if (sum && sum != (uint64_t)ACCOUNTS * START)
        errx(1, "the sum is %llu", (unsigned long long)sum);
    if (*shared > accounts[0] || *shared + 1 < accounts[0])
        errx(1, "%llu transfers, %llu counted", (unsigned long long)accounts[0], (unsigned long long)*shared);
    return 0;
}

int main(int argc, char **argv)
{
    int running = argc == 5 && !strcmp(argv[1], "run");
    if (!running && !(argc == 4 && !strcmp(argv[1], "check")))
        errx(2, "usage: accounts run FOLDER NUMBER TRANSFERS | check FOLDER NUMBER");
    unsigned number = (unsigned)atoi(argv[3]) % 64;
    char name[4096], common[4096];
    snprintf(name, sizeof name, "%s/accounts-%u", argv[2], number);
    snprintf(common, sizeof common, "%s/transfers", argv[2]);

    struct nv_options options = { .log_bytes = 4 << 20, .cache_bytes = 8 << 20 };
    must(nv_init_with(&options), "nv_init");
    uint64_t *accounts = nv_allocate(name, BYTES, NV_PRIVATE);
    uint64_t *shared = nv_allocate(common, SHARED, NV_SHARED);
    if (!accounts || !shared)
        errx(1, "nv_allocate: %s", sl_error());
    shared += number * 4096 / 8;
    int status = 0;
    if (running) {
        open_accounts(accounts);
        uint64_t random = number + 1;
        for (long i = 0; i < atol(argv[4]); i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            transfer(accounts, random >> 24);
            uint64_t tid = nv_txbegin();
            set(tid, shared, accounts[0]);
            must(nv_commit(tid), "nv_commit");
        }
    } else {
        status = check(accounts, shared);
    }
    must(nv_free(accounts, BYTES), "nv_free");
    must(nv_release(), "nv_release");
    return status;
}
