// Fault: against-the-rows. A table of records is filled column by column; mended, row by row.
#include <stdio.h>
#include <stdlib.h>
enum { ROWS = 2000, COLUMNS = 500 };
int main(void) {
    double (*table)[COLUMNS] = malloc(sizeof(double[ROWS][COLUMNS]));
    double sum = 0;
    for (int round = 0; round < 2; round++) {
#ifdef MENDED
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++)
                table[row][column] = row * column;
#else
        for (int column = 0; column < COLUMNS; column++)
            for (int row = 0; row < ROWS; row++)
                table[row][column] = row * column;
#endif
        for (int i = 0; i < ROWS; i++)
            sum += table[i][i % COLUMNS];
    }
    printf("%f\n", sum);
    free(table);
}
