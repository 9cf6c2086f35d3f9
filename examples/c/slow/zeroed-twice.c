/* Fault: overwritten-unread. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 40
#endif
/* A buffer is zeroed before it is filled; mended, it is only filled. */
enum { BYTES = 1 << 15 };
__attribute__((noinline)) static uint64_t use(volatile uint64_t *buffer) {
    uint64_t sum = 0;
    for (int i = 0; i < BYTES / 8; i += 8) sum += buffer[i];
    return sum;
}
int main(void) {
    uint64_t *buffer = malloc(BYTES), sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
#ifndef MENDED
        memset(buffer, 0, BYTES);
        __asm__ volatile("" ::: "memory");
#endif
        for (int i = 0; i < BYTES / 8; i++) ((volatile uint64_t *)buffer)[i] = i + round;
        sum += use(buffer);
    }
    printf("%llu\n", (unsigned long long)sum);
}
