// A matrix transposed in one sweep: one line of source reads rows and writes columns.
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 768, STRIDE = 776 };
#ifdef MENDED
enum { BLOCK = 8 };
#else
enum { BLOCK = ROWS };
#endif

int main(void) {
    double *from = malloc(ROWS * STRIDE * sizeof *from), *to = malloc(ROWS * STRIDE * sizeof *to);
    for (long i = 0; i < ROWS * STRIDE; i++) from[i] = i;
    for (long rows = 0; rows < ROWS; rows += BLOCK)
        for (long columns = 0; columns < ROWS; columns += BLOCK)
            for (long i = rows; i < rows + BLOCK; i++)
                for (long j = columns; j < columns + BLOCK; j++)
                    to[j * STRIDE + i] = from[i * STRIDE + j];
    printf("%f\n", to[5]);
}
