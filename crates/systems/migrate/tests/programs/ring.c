// Five children and a grandchild, one pipe after the other: numbers go round, and each child counts in shared memory.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    long *shared = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int pipes[6][2];
    for (int i = 0; i < 6; i++) pipe(pipes[i]);
    for (int i = 0; i < 5; i++)
        if (!fork()) {
            if (i == 2 && !fork()) {
                while (!shared[1001]) usleep(1000);
                shared[1000] = 100;
                _exit(3);
            }
            for (;;) {
                long number, next, status = 0;
                if (read(pipes[i][0], &number, 8) != 8) _exit(1);
                shared[i]++;
                next = number + 1;
                write(pipes[i + 1][1], &next, 8);
                if (number < 0) {
                    if (i == 2) shared[1001] = 1, wait((int *)&status);
                    _exit(status ? 4 : 0);
                }
            }
        }
    long sum = 0, number, back, ended = 0;
    int status;
    for (long k = 1; k <= 200; k++) {
        number = k * 10;
        write(pipes[0][1], &number, 8);
        read(pipes[5][0], &back, 8);
        sum += back;
        usleep(4000);
    }
    number = -1000;
    write(pipes[0][1], &number, 8);
    read(pipes[5][0], &back, 8);
    while (wait(&status) > 0) ended += 1 + WEXITSTATUS(status);
    FILE *out = fopen(argv[1], "a");
    fprintf(out, "sum %ld ended %ld shared %ld %ld %ld\n", sum, ended, shared[0], shared[4], shared[1000]);
    return 7;
}
