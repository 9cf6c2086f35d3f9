/* Fault: unused-bytes. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 8
#endif
/* One field of eight is summed up; mended, that field has an array of its own. */
struct item { uint64_t price, rest[7]; };
enum { ITEMS = 1 << 17 };
int main(void) {
#ifdef MENDED
    uint64_t *prices = malloc(ITEMS * sizeof *prices);
#define PRICE(i) prices[i]
#else
    struct item *items = malloc(ITEMS * sizeof *items);
#define PRICE(i) items[i].price
#endif
    uint64_t sum = 0;
    for (int i = 0; i < ITEMS; i++) PRICE(i) = i;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < ITEMS; i++) sum += PRICE(i);
    printf("%llu\n", (unsigned long long)sum);
}
