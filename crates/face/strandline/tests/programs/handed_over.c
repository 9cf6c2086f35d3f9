/*
 * A thread makes each second word durable and hands over by an atomic store; the other one goes on from
 * there. `-DWRONG` leaves out the fence before. It includes our header without saying where that is, as
 * programs do.
 *
 *   handed_over FILE | handed_over --recover FILE
 */
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "strandline.h"

enum { WORDS = 6, APART = 8 };
static uint64_t *words;
static int turn;

static void work(int from)
{
    for (int i = from; i < WORDS; i += 2) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != i)
            ;
        *(volatile uint64_t *)&words[i * APART] = 1;
        _mm_clflushopt(&words[i * APART]);
#ifndef WRONG
        _mm_sfence();
#endif
        __atomic_store_n(&turn, i + 1, __ATOMIC_RELEASE);
    }
}

static void *other(void *nothing)
{
    work(1);
    return nothing;
}

int main(int count, char **arguments)
{
    const size_t bytes = 4096;
    const int file = open(arguments[count - 1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || (count == 2 && ftruncate(file, bytes)))
        return 2;
    words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (words == MAP_FAILED)
        return 2;
    if (count == 3) {
        for (int i = 1; i < WORDS; i++)
            if (words[i * APART] > words[(i - 1) * APART])
                return puts("a word is there, and the one before is not"), 1;
        return 0;
    }
    sl_region_begin(1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, other, NULL))
        return 2;
    work(0);
    pthread_join(thread, NULL);
    sl_region_end(1);
    return 0;
}
