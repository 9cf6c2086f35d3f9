/*
 * A bank whose accounts survive: an ordinary program with threads and locks, built by
 *
 *     strandline cc --persist=decoupled -O2 -pthread -o bank bank.c
 *     ./bank /dev/shm/bank run 4 100000      moves money between accounts, keeps a list, counts
 *     ./bank /dev/shm/bank check             opens the pool, which recovers it, and looks
 *
 * Both accounts of a transfer are locked, so the sum of all is 0 at every frontier. A list and its length are
 * changed under a lock of their own. The count is an atomic in the pool.
 */
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "strandline_pool.h"

#define ACCOUNTS 64

struct account {
    long balance, twin;
    char name[16];
};

struct node {
    struct node *next;
    long value;
    char text[40];
};

struct bank {
    struct account accounts[ACCOUNTS];
    _Atomic long operations;
    struct node *first;
    long length;
};

static sl_pool *pool;
static struct bank *bank;
static pthread_mutex_t locks[ACCOUNTS], of_list = PTHREAD_MUTEX_INITIALIZER;
static long operations;

static void transfer(int from, int to)
{
    struct account *a = &bank->accounts[from], *b = &bank->accounts[to];
    pthread_mutex_lock(&locks[from < to ? from : to]);
    pthread_mutex_lock(&locks[from < to ? to : from]);
    a->balance--;
    b->balance++;
    a->twin--;
    b->twin++;
    snprintf(a->name, sizeof a->name, "%ld", a->balance);
    pthread_mutex_unlock(&locks[from < to ? to : from]);
    pthread_mutex_unlock(&locks[from < to ? from : to]);
}

static void list(unsigned *seed)
{
    pthread_mutex_lock(&of_list);
    if (bank->first && rand_r(seed) % 2) {
        struct node *node = bank->first;
        bank->first = node->next;
        bank->length--;
        sl_free(pool, sl_ref_of(pool, node));
    } else {
        struct node *node = sl_at(pool, sl_alloc(pool, sizeof *node));
        if (!node)
            errx(2, "%s", sl_error());
        struct node filled = {bank->first, *seed, "to be overwritten"};
        *node = filled;
        strcpy(node->text, "a node");
        bank->first = node;
        bank->length++;
    }
    pthread_mutex_unlock(&of_list);
}

static void *work(void *number)
{
    unsigned seed = (unsigned)(long)number * 77 + 1;
    for (long i = 0; i < operations; i++) {
        int from = rand_r(&seed) % ACCOUNTS, to = rand_r(&seed) % ACCOUNTS;
        if (from != to)
            transfer(from, to);
        if (i % 10 == 0)
            list(&seed);
        atomic_fetch_add(&bank->operations, 1);
    }
    return NULL;
}

static int check(void)
{
    long sum = 0, length = 0;
    for (int i = 0; i < ACCOUNTS; i++) {
        struct account *account = &bank->accounts[i];
        sum += account->balance;
        if (account->balance != account->twin)
            errx(1, "account %d has %ld and %ld", i, account->balance, account->twin);
    }
    if (sum)
        errx(1, "%ld came from nowhere", sum);
    for (struct node *node = bank->first; node; node = node->next) {
        if (strcmp(node->text, "a node") || ++length > bank->length)
            errx(1, "the list of %ld is damaged at its node %ld", bank->length, length);
    }
    if (length != bank->length)
        errx(1, "the list has %ld nodes and not %ld", length, bank->length);
    printf("%ld operations, %ld nodes\n", (long)bank->operations, length);
    return 0;
}

int main(int count, char **arguments)
{
    if (count < 3)
        errx(2, "usage: bank POOL run [THREADS [OPERATIONS]], bank POOL check");
    const char *path = arguments[1];
    int runs = !strcmp(arguments[2], "run"), threads = count > 3 ? atoi(arguments[3]) : 2;
    operations = count > 4 ? atol(arguments[4]) : 1000;
    for (int i = 0; i < ACCOUNTS; i++)
        pthread_mutex_init(&locks[i], NULL);
    if (runs && access(path, F_OK))
        pool = sl_pool_create(path, "bank, 1", 16 << 20, sizeof(struct bank), NULL);
    else
        pool = sl_pool_open(path, "bank, 1", NULL);
    if (!pool && !runs && sl_error_code() == SL_E_NO_POOL) {
        puts("no bank yet");
        return 0;
    }
    if (!pool)
        errx(2, "%s", sl_error());
    bank = sl_at(pool, sl_root(pool));
    if (!runs)
        return check();

    pthread_t ids[64];
    for (long i = 0; i < threads && i < 64; i++)
        pthread_create(&ids[i], NULL, work, (void *)(i + getpid()));
    for (long i = 0; i < threads && i < 64; i++)
        pthread_join(ids[i], NULL);
    sl_psync();
    int result = check();
    return sl_pool_close(pool) ? 2 : result;
}
