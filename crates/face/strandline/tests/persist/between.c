/*
 * A handler that ends a region comes between a store's announcement and the store: the store faults, and the
 * handler posts a semaphore before it lets it through. Then the program dies in the middle of the region.
 */
#define _GNU_SOURCE
#include <err.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <strandline_pool.h>

enum { PAGE = 4096 };

static sem_t semaphore;

static void let_through(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    void *page = (void *)((uintptr_t)info->si_addr / PAGE * PAGE);
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
        _exit(3);
    sem_post(&semaphore);
}

int main(int count, char **arguments)
{
    int checks = count > 1 && !strcmp(arguments[1], "--check");
    struct sl_pool_options options = {.flags = SL_FORCE};
    if (count != 2 + checks)
        errx(2, "usage: between [--check] POOL");
    sl_pool *pool = checks ? sl_pool_open(arguments[2], "between", &options)
                           : sl_pool_create(arguments[1], "between", 1 << 20, 4 * PAGE, &options);
    if (!pool)
        errx(3, "%s", sl_error());
    volatile long *one = sl_at(pool, sl_root(pool));
    volatile long *other = (volatile long *)(((uintptr_t)one / PAGE + 2) * PAGE);
    if (checks) {
        printf("%ld and %ld\n", *one, *other);
        return *one != 0 || *other != 0;
    }
    struct sigaction action = {.sa_sigaction = let_through, .sa_flags = SA_SIGINFO};
    sem_init(&semaphore, 0, 0);
    sigaction(SIGSEGV, &action, NULL);
    sl_psync();
    if (mprotect((void *)other, PAGE, PROT_READ))
        err(3, "mprotect");
    *other = 1;
    /* Time for whoever commits what has ended, and no call. */
    for (volatile int i = 0; i < 100000000; i++)
        ;
    *one = 1;
    __builtin_trap();
}
