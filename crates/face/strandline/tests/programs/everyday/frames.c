// Fault: overwritten-unread. Each frame's buffer is zeroed by calloc, by memset, and then filled; mended, only filled.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { FRAME = 1 << 16, FRAMES = 100 };
static unsigned char source[FRAME];

static unsigned checksum(const unsigned char *frame) {
    unsigned sum = 0;
    for (int i = 0; i < FRAME; i += 64)
        sum = sum * 31 + frame[i];
    return sum;
}

int main(void) {
    unsigned sum = 0;
    unsigned char *frame = malloc(FRAME);
    for (int i = 0; i < FRAME; i++)
        source[i] = i * 7;
    for (int number = 0; number < FRAMES; number++) {
#ifndef MENDED
        memset(frame, 0, FRAME);
#endif
        memcpy(frame, source, FRAME);
        frame[number % FRAME] ^= 1;
        sum += checksum(frame);
    }
    printf("%u\n", sum);
    free(frame);
}
