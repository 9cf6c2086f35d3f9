// Small kernels in the manner of the NAS parallel benchmarks (ep, is, cg, mg, ft) and PARSEC (canneal, streamcluster):
// `kernels NAME THREADS ROUNDS OUT`. Each appends the checksum of its result to OUT, the same for any run with the same
// number of threads.
#define _GNU_SOURCE
#include <complex.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int threads, rounds;
static pthread_barrier_t all;
static double part[8];

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 11;
}
static double unit(uint64_t *state) { return next(state) / 9007199254740992.0; }
static void wait_all(void) { pthread_barrier_wait(&all); }
static double sum(void) {
    double total = 0;
    for (int i = 0; i < threads; i++) total += part[i];
    return total;
}

// Embarrassingly parallel: pairs of Gaussian deviates, counted by size.
static void ep(int me) {
    uint64_t state = me + 1;
    double found = 0;
    for (long i = 0; i < rounds * 200000L; i++) {
        double x = 2 * unit(&state) - 1, y = 2 * unit(&state) - 1, t = x * x + y * y;
        if (t <= 1 && t > 0) found += fabs(x * sqrt(-2 * log(t) / t)) + fabs(y);
    }
    part[me] = found;
}

// Integer sort: keys counted, ranked, moved.
enum { KEYS = 1 << 20, RANGE = 1 << 16 };
static int *keys, *sorted, *counts[8];
static void is(int me) {
    for (int round = 0; round < rounds; round++) {
        int from = KEYS / threads * me, to = me + 1 == threads ? KEYS : KEYS / threads * (me + 1);
        uint64_t state = me + 77 + round;
        for (int i = from; i < to; i++) keys[i] = next(&state) % RANGE;
        memset(counts[me], 0, RANGE * sizeof(int));
        for (int i = from; i < to; i++) counts[me][keys[i]]++;
        wait_all();
        if (me == 0)
            for (int key = 0, at = 0; key < RANGE; key++)
                for (int t = 0; t < threads; t++) {
                    int n = counts[t][key];
                    counts[t][key] = at, at += n;
                }
        wait_all();
        for (int i = from; i < to; i++) sorted[counts[me][keys[i]]++] = keys[i];
        wait_all();
        if (me == 0)
            for (int i = 1; i < KEYS; i++) part[0] += (sorted[i - 1] > sorted[i]) * 1e9 + sorted[i] * (i % 7);
        wait_all();
    }
}

// Conjugate gradient on a sparse symmetric matrix, columns drawn at random.
enum { ROWS = 60000, PER_ROW = 12 };
static int *column;
static double *cg_x, *cg_r, *cg_p, *cg_q;
static double dot(int me, double *a, double *b, int from, int to) {
    double d = 0;
    for (int i = from; i < to; i++) d += a[i] * b[i];
    wait_all();
    part[me] = d;
    wait_all();
    return sum();
}
static void cg(int me) {
    int from = ROWS / threads * me, to = me + 1 == threads ? ROWS : ROWS / threads * (me + 1);
    for (int i = from; i < to; i++) {
        uint64_t state = i;
        for (int k = 0; k < PER_ROW; k++) column[i * PER_ROW + k] = next(&state) % ROWS;
        cg_x[i] = 0, cg_r[i] = cg_p[i] = 1 + i % 3;
    }
    double rho = dot(me, cg_r, cg_r, from, to);
    for (int round = 0; round < rounds; round++) {
        for (int i = from; i < to; i++) {
            double v = 40 * cg_p[i];
            for (int k = 0; k < PER_ROW; k++) v += 0.5 * cg_p[column[i * PER_ROW + k]];
            cg_q[i] = v;
        }
        double alpha = rho / dot(me, cg_p, cg_q, from, to);
        for (int i = from; i < to; i++) cg_x[i] += alpha * cg_p[i], cg_r[i] -= alpha * cg_q[i];
        double new = dot(me, cg_r, cg_r, from, to), beta = new / rho;
        rho = new;
        for (int i = from; i < to; i++) cg_p[i] = cg_r[i] + beta * cg_p[i];
        wait_all();
        if (rho < 1e-200) rho = 1;
    }
    dot(me, cg_x, cg_x, from, to);
}

// Multigrid: smoothing on a grid and on one half as fine, to and fro.
enum { SIDE = 96 };
static double *fine[2], *coarse[2];
static void smooth(double *from, double *to, int side, int me) {
    for (int z = 1 + me; z < side - 1; z += threads)
        for (int y = 1; y < side - 1; y++)
            for (int x = 1; x < side - 1; x++) {
                int at = (z * side + y) * side + x;
                to[at] = 0.4 * from[at] + 0.1 * (from[at - 1] + from[at + 1] + from[at - side] + from[at + side] +
                                                 from[at - side * side] + from[at + side * side]);
            }
    wait_all();
}
static void mg(int me) {
    int half = SIDE / 2;
    if (me == 0)
        for (int i = 0; i < SIDE * SIDE * SIDE; i++) fine[0][i] = i % 1013;
    wait_all();
    for (int round = 0; round < rounds; round++) {
        smooth(fine[0], fine[1], SIDE, me);
        for (int z = me; z < half; z += threads)
            for (int i = 0; i < half * half; i++)
                coarse[0][z * half * half + i] = fine[1][(2 * z * SIDE + 2 * (i / half)) * SIDE + 2 * (i % half)];
        wait_all();
        smooth(coarse[0], coarse[1], half, me);
        for (int z = me; z < half; z += threads)
            for (int i = 0; i < half * half; i++)
                fine[1][(2 * z * SIDE + 2 * (i / half)) * SIDE + 2 * (i % half)] += 0.1 * coarse[1][z * half * half + i];
        wait_all();
        smooth(fine[1], fine[0], SIDE, me);
    }
    for (int i = me; i < SIDE * SIDE * SIDE; i += threads) part[me] += fine[0][i];
}

// Fourier transforms of many rows.
enum { LINE = 4096, LINES = 128 };
static double complex *wave;
static void ft(int me) {
    for (int row = me; row < LINES; row += threads) {
        double complex *a = wave + row * LINE;
        for (int i = 0; i < LINE; i++) a[i] = (i * 31 + row) % 17;
        for (int round = 0; round < rounds; round++) {
            for (int i = 1, j = 0; i < LINE; i++) {
                int bit = LINE >> 1;
                for (; j & bit; bit >>= 1) j ^= bit;
                j ^= bit;
                if (i < j) { double complex t = a[i]; a[i] = a[j], a[j] = t; }
            }
            for (int length = 2; length <= LINE; length <<= 1) {
                double complex step = cexp(2 * M_PI * I / length);
                for (int i = 0; i < LINE; i += length) {
                    double complex w = 1;
                    for (int k = 0; k < length / 2; k++, w *= step) {
                        double complex u = a[i + k], v = a[i + k + length / 2] * w;
                        a[i + k] = u + v, a[i + k + length / 2] = u - v;
                    }
                }
            }
            for (int i = 0; i < LINE; i++) a[i] /= 64;
        }
        for (int i = 0; i < LINE; i++) part[me] += cabs(a[i]);
    }
}

// Annealing: elements of a netlist swap places where that shortens wires. Each thread has its own share.
enum { ELEMENTS = 400000, WIRES = 4 };
static int *place, *wires;
static void canneal(int me) {
    int from = ELEMENTS / threads * me, count = ELEMENTS / threads;
    uint64_t state = me + 5;
    for (int i = from; i < from + count; i++) {
        place[i] = next(&state) % 100000;
        for (int k = 0; k < WIRES; k++) wires[i * WIRES + k] = from + next(&state) % count;
    }
    for (long step = 0; step < rounds * 40000L; step++) {
        int a = from + next(&state) % count, b = from + next(&state) % count;
        long before = 0, after = 0;
        for (int k = 0; k < WIRES; k++) {
            int wa = place[wires[a * WIRES + k]], wb = place[wires[b * WIRES + k]];
            before += labs(place[a] - wa) + labs(place[b] - wb);
            after += labs(place[b] - wa) + labs(place[a] - wb);
        }
        if (after < before || unit(&state) < 0.01) { int t = place[a]; place[a] = place[b], place[b] = t; }
    }
    for (int i = from; i < from + count; i++) part[me] += (double)place[i] * (i % 11);
}

// Clustering of points that stream by: each goes to the nearest of a few centres, which follow.
enum { CENTRES = 32, DIMENSIONS = 16 };
static void streamcluster(int me) {
    double centre[CENTRES][DIMENSIONS], point[DIMENSIONS];
    uint64_t state = me + 9;
    for (int c = 0; c < CENTRES; c++)
        for (int d = 0; d < DIMENSIONS; d++) centre[c][d] = unit(&state);
    for (long step = 0; step < rounds * 4000L; step++) {
        int best = 0;
        double least = 1e9;
        for (int d = 0; d < DIMENSIONS; d++) point[d] = unit(&state);
        for (int c = 0; c < CENTRES; c++) {
            double distance = 0;
            for (int d = 0; d < DIMENSIONS; d++) distance += (point[d] - centre[c][d]) * (point[d] - centre[c][d]);
            if (distance < least) least = distance, best = c;
        }
        for (int d = 0; d < DIMENSIONS; d++) centre[best][d] += 0.05 * (point[d] - centre[best][d]);
        part[me] += least;
    }
}

static struct { const char *name; void (*run)(int); } kernels[] = {
    {"ep", ep}, {"is", is}, {"cg", cg}, {"mg", mg}, {"ft", ft}, {"canneal", canneal}, {"streamcluster", streamcluster},
};
static void (*chosen)(int);
static void *work(void *me) { return chosen((int)(intptr_t)me), NULL; }
static void *room(size_t count, size_t bytes) { return calloc(count, bytes); }

int main(int argc, char **argv) {
    close_range(3, ~0U, 0);
    threads = atoi(argv[2]), rounds = atoi(argv[3]);
    for (int i = 0; i < 7; i++)
        if (!strcmp(argv[1], kernels[i].name)) chosen = kernels[i].run;
    if (chosen == is) {
        keys = room(KEYS, sizeof(int)), sorted = room(KEYS, sizeof(int));
        for (int i = 0; i < threads; i++) counts[i] = room(RANGE, sizeof(int));
    }
    if (chosen == cg) {
        column = room(ROWS * PER_ROW, sizeof(int));
        cg_x = room(ROWS, 8), cg_r = room(ROWS, 8), cg_p = room(ROWS, 8), cg_q = room(ROWS, 8);
    }
    for (int i = 0; chosen == mg && i < 2; i++)
        fine[i] = room(SIDE * SIDE * SIDE, 8), coarse[i] = room(SIDE * SIDE * SIDE / 8, 8);
    if (chosen == ft) wave = room(LINE * LINES, sizeof *wave);
    if (chosen == canneal) place = room(ELEMENTS, sizeof(int)), wires = room(ELEMENTS * WIRES, sizeof(int));
    pthread_barrier_init(&all, 0, threads);
    pthread_t other[8];
    for (int i = 1; i < threads; i++) pthread_create(other + i, 0, work, (void *)(intptr_t)i);
    work(0);
    for (int i = 1; i < threads; i++) pthread_join(other[i], 0);
    int out = open(argv[4], O_WRONLY | O_CREAT | O_APPEND, 0644);
    dprintf(out, "%s %.17g\n", argv[1], sum());
    return 0;
}
