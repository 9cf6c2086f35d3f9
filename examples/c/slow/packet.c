/* Fault: overwritten-unread. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 3000
#endif
/* A packet's buffer is zeroed, and then nearly all of it is copied over; mended, only its rest is zeroed. */
enum { BUFFERS = 16, BUFFER = 2048, PAYLOAD = 1500 };
__attribute__((noinline)) static uint64_t header(const volatile uint64_t *packet) {
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++) sum += packet[i];
    return sum;
}
int main(void) {
    uint8_t *ring = malloc(BUFFERS * BUFFER), *payload = malloc(PAYLOAD);
    uint64_t sum = 0;
    for (int i = 0; i < PAYLOAD; i++) payload[i] = i;
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t *packet = ring + round % BUFFERS * BUFFER;
#ifdef MENDED
        memset(packet + PAYLOAD, 0, BUFFER - PAYLOAD);
#else
        memset(packet, 0, BUFFER);
        __asm__ volatile("" ::: "memory");
#endif
        memcpy(packet, payload, PAYLOAD);
        sum += header((const volatile uint64_t *)packet);
    }
    printf("%llu\n", (unsigned long long)sum);
}
