/* Fault: leak. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 20000
#endif
/* A path that returns early forgets to free; mended, it does not. */
__attribute__((noinline)) static int step(int i) {
    volatile int *work = malloc(128);
    work[0] = i;
    int odd = work[0] % 5 == 0;
#ifdef MENDED
    free((void *)work);
    return odd;
#else
    if (odd) return 1;
    free((void *)work);
    return 0;
#endif
}
int main(void) {
    int sum = 0;
    for (int i = 0; i < ROUNDS; i++) sum += step(i);
    volatile int spin[64] = {0};
    for (int i = 0; i < 64 * ROUNDS; i++) spin[i & 63] += i;
    printf("%d\n", sum);
}
