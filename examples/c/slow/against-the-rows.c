/* Fault: against-the-rows. With -DMENDED it is mended; ROUNDS says how long it runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef ROUNDS
#define ROUNDS 1
#endif
/* A matrix summed up column by column; mended, row by row. */
enum { ROWS = 1024, COLUMNS = 1040 };
int main(void) {
    double (*matrix)[COLUMNS] = malloc(ROWS * sizeof *matrix);
    double sum = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) (*matrix)[i] = i;
    for (int round = 0; round < ROUNDS; round++)
#ifdef MENDED
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++) sum += ((volatile double *)matrix[row])[column];
#else
        for (int column = 0; column < COLUMNS; column++)
            for (int row = 0; row < ROWS; row++) sum += ((volatile double *)matrix[row])[column];
#endif
    printf("%g\n", sum);
}
