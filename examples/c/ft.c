/*
 * Fast Fourier transform, after FT of the NAS Parallel Benchmarks 3.4: a partial differential equation solved by a
 * three-dimensional transform and back.
 *
 * cffts1, cffts2 and cffts3 transform along one dimension each. They take sixteen lines of the matrix at a time into a
 * small buffer, transform there, and copy the result out. fftz2 is one pass of that transform: it looks like a sequential
 * writer, but goes back and forth between two buffers that stay in the cache.
 */
#include <math.h>

#include "common.h"

typedef struct {
    double re, im;
} cell;

enum { BLOCK = 16, PADDED = 18, MAX_EDGE = 512 };

/* A line of BLOCK elements, of as many transforms that run side by side. */
typedef cell line[PADDED];

static struct {
    cell *u0, *u1, *u2; /* the transformed start, the same at this time, back in space */
    double *twiddle;
    cell roots[2 * MAX_EDGE];
    int edge, log, threads;
    int direction;
    const cell *from; /* of the transform that runs */
    cell *to;
} ft;

#define AT(a, k, j, i) (a)[((size_t)(k) * (size_t)ft.edge + (size_t)(j)) * (size_t)ft.edge + (size_t)(i)]

/* The roots of unity, for each pass one behind the other. */
static void fft_init(int m)
{
    int ku = 1, ln = 1, j, i;
    for (j = 1; j <= m; j++) {
        const double t = 3.141592653589793238 / ln;
        for (i = 0; i < ln; i++) {
            ft.roots[i + ku].re = cos(i * t);
            ft.roots[i + ku].im = sin(i * t);
        }
        ku += ln;
        ln *= 2;
    }
}

/* Pass l of m of the transforms of length n, from x to y. */
static void fftz2(int is, int l, int m, int n, line *x, line *y)
{
    const int n1 = n / 2, lk = 1 << (l - 1), li = 1 << (m - l), lj = 2 * lk, ku = li;
    int i, k, j;
    for (i = 0; i < li; i++) {
        const int i11 = i * lk, i12 = i11 + n1, i21 = i * lj, i22 = i21 + lk;
        cell u1 = ft.roots[ku + i];
        if (is < 1)
            u1.im = -u1.im;
        for (k = 0; k < lk; k++) {
            for (j = 0; j < BLOCK; j++) {
                const cell x11 = x[i11 + k][j], x21 = x[i12 + k][j];
                const double re = x11.re - x21.re, im = x11.im - x21.im;
                y[i21 + k][j].re = x11.re + x21.re;
                y[i21 + k][j].im = x11.im + x21.im;
                y[i22 + k][j].re = u1.re * re - u1.im * im;
                y[i22 + k][j].im = u1.re * im + u1.im * re;
            }
#if defined(MISUSE)
            sl_prestore(y[i21 + k], BLOCK * sizeof(cell), SL_CLEAN);
            sl_prestore(y[i22 + k], BLOCK * sizeof(cell), SL_CLEAN);
#endif
        }
    }
}

/* BLOCK transforms of length n = 2^m, in x, with y to help (Swarztrauber's variant of Stockham). */
static void cfftz(int is, int m, int n, line *x, line *y)
{
    int l, i, j;
    for (l = 1; l <= m; l += 2) {
        fftz2(is, l, m, n, x, y);
        if (l == m) {
            for (j = 0; j < n; j++)
                for (i = 0; i < BLOCK; i++)
                    x[j][i] = y[j][i];
            return;
        }
        fftz2(is, l + 1, m, n, y, x);
    }
}

/* Along the first dimension, planes [low, high). */
static void cffts1(void *context, long low, long high, int thread)
{
    line y1[MAX_EDGE], y2[MAX_EDGE];
    const cell *x = ft.from;
    cell *xout = ft.to;
    const int n = ft.edge;
    long k;
    int i, j, jj;
    (void)context, (void)thread;
    for (k = low; k < high; k++)
        for (jj = 0; jj < n; jj += BLOCK) {
            for (j = 0; j < BLOCK; j++)
                for (i = 0; i < n; i++)
                    y1[i][j] = AT(x, k, j + jj, i);
            cfftz(ft.direction, ft.log, n, y1, y2);
            for (j = 0; j < BLOCK; j++) {
                for (i = 0; i < n; i++)
                    AT(xout, k, j + jj, i) = y1[i][j];
#if defined(CLEAN)
                sl_prestore(&AT(xout, k, j + jj, 0), (size_t)n * sizeof(cell), SL_CLEAN);
#endif
            }
        }
}

/* Along the second. */
static void cffts2(void *context, long low, long high, int thread)
{
    line y1[MAX_EDGE], y2[MAX_EDGE];
    const cell *x = ft.from;
    cell *xout = ft.to;
    const int n = ft.edge;
    long k;
    int i, j, ii;
    (void)context, (void)thread;
    for (k = low; k < high; k++)
        for (ii = 0; ii < n; ii += BLOCK) {
            for (j = 0; j < n; j++)
                for (i = 0; i < BLOCK; i++)
                    y1[j][i] = AT(x, k, j, i + ii);
            cfftz(ft.direction, ft.log, n, y1, y2);
            for (j = 0; j < n; j++)
                for (i = 0; i < BLOCK; i++)
                    AT(xout, k, j, i + ii) = y1[j][i];
        }
}

/* Along the third; [low, high) are numbers of the second dimension. */
static void cffts3(void *context, long low, long high, int thread)
{
    line y1[MAX_EDGE], y2[MAX_EDGE];
    const cell *x = ft.from;
    cell *xout = ft.to;
    const int n = ft.edge;
    long j;
    int i, k, ii;
    (void)context, (void)thread;
    for (j = low; j < high; j++)
        for (ii = 0; ii < n; ii += BLOCK) {
            for (k = 0; k < n; k++)
                for (i = 0; i < BLOCK; i++)
                    y1[k][i] = AT(x, k, j, i + ii);
            cfftz(ft.direction, ft.log, n, y1, y2);
            for (k = 0; k < n; k++)
                for (i = 0; i < BLOCK; i++)
                    AT(xout, k, j, i + ii) = y1[k][i];
        }
}

static void dimension(body_fn *along, const cell *from, cell *to)
{
    ft.from = from;
    ft.to = to;
    parallel(ft.threads, 0, ft.edge, along, NULL);
}

static void fft(int direction, cell *x1, cell *x2)
{
    ft.direction = direction;
    if (direction == 1) {
        dimension(cffts1, x1, x1);
        dimension(cffts2, x1, x1);
        dimension(cffts3, x1, x2);
    } else {
        dimension(cffts3, x1, x1);
        dimension(cffts2, x1, x1);
        dimension(cffts1, x1, x2);
    }
}

/* A time step in frequency space. */
static void evolve(void *context, long low, long high, int thread)
{
    const size_t plane = (size_t)ft.edge * (size_t)ft.edge;
    size_t at;
    (void)context, (void)thread;
    for (at = (size_t)low * plane; at < (size_t)high * plane; at++) {
        ft.u0[at].re *= ft.twiddle[at];
        ft.u0[at].im *= ft.twiddle[at];
        ft.u1[at] = ft.u0[at];
    }
}

/* The damping factors, by distance from the lowest frequency. */
static void compute_indexmap(void)
{
    const double ap = -4.0 * 1e-6 * 3.141592653589793238 * 3.141592653589793238;
    const int n = ft.edge;
    int k, j, i;
    for (k = 0; k < n; k++)
        for (j = 0; j < n; j++)
            for (i = 0; i < n; i++) {
                const int kk = (k + n / 2) % n - n / 2, jj = (j + n / 2) % n - n / 2, ii = (i + n / 2) % n - n / 2;
                AT(ft.twiddle, k, j, i) = exp(ap * (double)(kk * kk + jj * jj + ii * ii));
            }
}

int main(int argc, char **argv)
{
    struct options options = {1, 64, 1, 1, 0, 0};
    parse_options(argc, argv, &options, "time steps", "cells per edge, a power of two from 16 to 512");
    require(options.size >= BLOCK && options.size <= MAX_EDGE && !(options.size & (options.size - 1)),
            "-s must be a power of two from 16 to 512");
    ft.edge = (int)options.size;
    ft.threads = (int)options.threads;
    while (1 << ft.log < ft.edge)
        ft.log++;
    const size_t cells = options.size * options.size * options.size;
    uint64_t random = options.seed, sum = 0;
    size_t at;

    sl_phase("load");
    ft.u0 = (cell *)allocate(cells * sizeof(cell));
    ft.u1 = (cell *)allocate(cells * sizeof(cell));
    ft.u2 = (cell *)allocate(cells * sizeof(cell));
    ft.twiddle = (double *)allocate(cells * sizeof(double));
    compute_indexmap();
    for (at = 0; at < cells; at++) {
        ft.u1[at].re = next_fraction(&random);
        ft.u1[at].im = next_fraction(&random);
    }
    fft_init(ft.log);

    sl_phase("run");
    const double start = seconds();
    fft(1, ft.u1, ft.u0);
    for (uint64_t n = 0; n < options.n; n++) {
        parallel(ft.threads, 0, ft.edge, evolve, NULL);
        fft(-1, ft.u1, ft.u2);
        /* The benchmark's own checksum: a kibi of cells, scattered. */
        for (at = 1; at <= 1024; at++)
            sum += checksum(&AT(ft.u2, 5 * at % options.size, 3 * at % options.size, at % options.size).re, 2);
    }
    const double elapsed = seconds() - start;

    sl_phase("check");
    report("ft", sum + checksum(&ft.u2[0].re, 2 * cells), elapsed);
    free(ft.u0), free(ft.u1), free(ft.u2), free(ft.twiddle);
    return 0;
}
