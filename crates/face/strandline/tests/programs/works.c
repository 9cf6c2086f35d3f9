// Fills memory, goes over it for a while, and appends one line to a file at its end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    int rounds = atoi(argv[2]);
    long pages = 256, sum = 0;
    long *memory = malloc(pages * 4096);
    for (long i = 0; i < pages * 512; i++) memory[i] = i * 7;
    for (int round = 0; round < rounds; round++) {
        for (long i = 0; i < pages * 512; i += 61) sum += memory[i], memory[i] += round;
        usleep(10000);
    }
    int out = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
    dprintf(out, "sum %ld\n", sum);
    return 7;
}
