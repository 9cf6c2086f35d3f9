// Particles of two cache lines each, of which the busy loop reads one number.
#include <stdio.h>
#include <stdlib.h>

struct particle {
    float x, y, z;
    char name[116];
};

int main(void) {
    enum { COUNT = 20000 };
    float sum = 0;
#ifdef MENDED
    float *x = malloc(COUNT * sizeof *x);
    for (long i = 0; i < COUNT; i++) x[i] = i;
    for (int round = 0; round < 10; round++)
        for (long i = 0; i < COUNT; i++) sum += x[i];
#else
    struct particle *all = malloc(COUNT * sizeof *all);
    for (long i = 0; i < COUNT; i++) all[i].x = i;
    for (int round = 0; round < 10; round++)
        for (long i = 0; i < COUNT; i++) sum += all[i].x;
#endif
    printf("%f\n", sum);
}
