/*
 * Multigrid, after MG of the NAS Parallel Benchmarks 3.4: V-cycles that solve a discrete Poisson problem on a cube.
 *
 * u is the solution, v the right side, r the residual; each holds the grids of all levels, finest first, with a layer of
 * ghost cells that comm3 keeps periodic. resid writes r, psinv corrects u. A row is written from its neighbours, whose
 * sums stand in two row buffers, so that the innermost loop writes one row of the matrix from left to right.
 */
#include <math.h>

#include "common.h"

enum { MAX_EDGE = 1026, MAX_LEVELS = 10 };

static struct {
    double *u, *v, *r;
    int levels, threads;
    int edge[MAX_LEVELS];     /* with ghost cells, coarsest first */
    size_t start[MAX_LEVELS]; /* where a level begins in u and r */
} grid;

/* A cell of a cube with n cells per edge. */
#define AT(a, i3, i2, i1) (a)[((size_t)(i3) * (size_t)n + (size_t)(i2)) * (size_t)n + (size_t)(i1)]

struct stencil {
    double *u, *r;
    const double *v;
    int n;
};

/* Makes the ghost cells those of the opposite side. */
static void comm3(double *u, int n)
{
    int i3, i2, i1;
    for (i3 = 1; i3 < n - 1; i3++) {
        for (i2 = 1; i2 < n - 1; i2++) {
            AT(u, i3, i2, 0) = AT(u, i3, i2, n - 2);
            AT(u, i3, i2, n - 1) = AT(u, i3, i2, 1);
        }
        for (i1 = 0; i1 < n; i1++) {
            AT(u, i3, 0, i1) = AT(u, i3, n - 2, i1);
            AT(u, i3, n - 1, i1) = AT(u, i3, 1, i1);
        }
    }
    for (i2 = 0; i2 < n; i2++)
        for (i1 = 0; i1 < n; i1++) {
            AT(u, 0, i2, i1) = AT(u, n - 2, i2, i1);
            AT(u, n - 1, i2, i1) = AT(u, 1, i2, i1);
        }
}

/* u = u + C r: the smoother. */
static void psinv(void *context, long low, long high, int thread)
{
    static const double c[3] = {-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0};
    const struct stencil *s = (const struct stencil *)context;
    double *u = s->u;
    const double *r = s->r;
    const int n = s->n;
    double r1[MAX_EDGE], r2[MAX_EDGE];
#if defined(SKIP)
    double row[MAX_EDGE];
#endif
    long i3;
    int i2, i1;
    (void)thread;
    for (i3 = low; i3 < high; i3++)
        for (i2 = 1; i2 < n - 1; i2++) {
            for (i1 = 0; i1 < n; i1++) {
                r1[i1] = AT(r, i3, i2 - 1, i1) + AT(r, i3, i2 + 1, i1) + AT(r, i3 - 1, i2, i1) + AT(r, i3 + 1, i2, i1);
                r2[i1] = AT(r, i3 - 1, i2 - 1, i1) + AT(r, i3 - 1, i2 + 1, i1) + AT(r, i3 + 1, i2 - 1, i1) +
                         AT(r, i3 + 1, i2 + 1, i1);
            }
            for (i1 = 1; i1 < n - 1; i1++) {
                const double value = AT(u, i3, i2, i1) + c[0] * AT(r, i3, i2, i1) +
                                     c[1] * (AT(r, i3, i2, i1 - 1) + AT(r, i3, i2, i1 + 1) + r1[i1]) +
                                     c[2] * (r2[i1] + r1[i1 - 1] + r1[i1 + 1]);
#if defined(SKIP)
                row[i1] = value;
#else
                AT(u, i3, i2, i1) = value;
#endif
            }
#if defined(SKIP)
            sl_copy_skip(&AT(u, i3, i2, 1), &row[1], (size_t)(n - 2) * sizeof(double));
#elif defined(CLEAN)
            sl_prestore(&AT(u, i3, i2, 1), (size_t)(n - 2) * sizeof(double), SL_CLEAN);
#endif
        }
#if defined(SKIP)
    sl_fence();
#endif
}

/* r = v - A u. */
static void resid(void *context, long low, long high, int thread)
{
    static const double a[4] = {-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0};
    const struct stencil *s = (const struct stencil *)context;
    const double *u = s->u, *v = s->v;
    double *r = s->r;
    const int n = s->n;
    double u1[MAX_EDGE], u2[MAX_EDGE];
    long i3;
    int i2, i1;
    (void)thread;
    for (i3 = low; i3 < high; i3++)
        for (i2 = 1; i2 < n - 1; i2++) {
            for (i1 = 0; i1 < n; i1++) {
                u1[i1] = AT(u, i3, i2 - 1, i1) + AT(u, i3, i2 + 1, i1) + AT(u, i3 - 1, i2, i1) + AT(u, i3 + 1, i2, i1);
                u2[i1] = AT(u, i3 - 1, i2 - 1, i1) + AT(u, i3 - 1, i2 + 1, i1) + AT(u, i3 + 1, i2 - 1, i1) +
                         AT(u, i3 + 1, i2 + 1, i1);
            }
            for (i1 = 1; i1 < n - 1; i1++)
                AT(r, i3, i2, i1) = AT(v, i3, i2, i1) - a[0] * AT(u, i3, i2, i1) -
                                    a[2] * (u2[i1] + u1[i1 - 1] + u1[i1 + 1]) - a[3] * (u2[i1 - 1] + u2[i1 + 1]);
#if defined(CLEAN) || defined(SKIP)
            sl_prestore(&AT(r, i3, i2, 1), (size_t)(n - 2) * sizeof(double), SL_CLEAN);
#endif
        }
}

/* Restricts the residual of level k to the one below. */
static void rprj3(int k)
{
    const double *r = grid.r + grid.start[k];
    double *s = grid.r + grid.start[k - 1];
    const int nk = grid.edge[k], nj = grid.edge[k - 1];
    int j3, j2, j1;
#define R(d3, d2, d1) r[((size_t)(2 * j3 + (d3)) * (size_t)nk + (size_t)(2 * j2 + (d2))) * (size_t)nk + (size_t)(i + (d1))]
    for (j3 = 1; j3 < nj - 1; j3++)
        for (j2 = 1; j2 < nj - 1; j2++) {
            double x1[MAX_EDGE], y1[MAX_EDGE];
            for (j1 = 1; j1 < nj; j1++) {
                const int i = 2 * j1 - 1;
                x1[i] = R(0, -1, 0) + R(0, 1, 0) + R(-1, 0, 0) + R(1, 0, 0);
                y1[i] = R(-1, -1, 0) + R(1, -1, 0) + R(-1, 1, 0) + R(1, 1, 0);
            }
            for (j1 = 1; j1 < nj - 1; j1++) {
                const int i = 2 * j1;
                const double y2 = R(-1, -1, 0) + R(1, -1, 0) + R(-1, 1, 0) + R(1, 1, 0);
                const double x2 = R(0, -1, 0) + R(0, 1, 0) + R(-1, 0, 0) + R(1, 0, 0);
                s[((size_t)j3 * (size_t)nj + (size_t)j2) * (size_t)nj + (size_t)j1] =
                    0.5 * R(0, 0, 0) + 0.25 * (R(0, 0, -1) + R(0, 0, 1) + x2) + 0.125 * (x1[i - 1] + x1[i + 1] + y2) +
                    0.0625 * (y1[i - 1] + y1[i + 1]);
            }
        }
#undef R
    comm3(s, nj);
}

/* Adds the correction of level k - 1 to level k. */
static void interp(int k)
{
    const double *z = grid.u + grid.start[k - 1];
    double *u = grid.u + grid.start[k];
    const int nj = grid.edge[k - 1], n = grid.edge[k];
    int i3, i2, i1;
#define Z(d3, d2, d1) z[((size_t)(i3 + (d3)) * (size_t)nj + (size_t)(i2 + (d2))) * (size_t)nj + (size_t)(i1 + (d1))]
    for (i3 = 0; i3 < nj - 1; i3++)
        for (i2 = 0; i2 < nj - 1; i2++) {
            double z1[MAX_EDGE], z2[MAX_EDGE], z3[MAX_EDGE];
            for (i1 = 0; i1 < nj; i1++) {
                z1[i1] = Z(0, 1, 0) + Z(0, 0, 0);
                z2[i1] = Z(1, 0, 0) + Z(0, 0, 0);
                z3[i1] = Z(1, 1, 0) + Z(1, 0, 0) + z1[i1];
            }
            for (i1 = 0; i1 < nj - 1; i1++) {
                AT(u, 2 * i3, 2 * i2, 2 * i1) += Z(0, 0, 0);
                AT(u, 2 * i3, 2 * i2, 2 * i1 + 1) += 0.5 * (Z(0, 0, 1) + Z(0, 0, 0));
            }
            for (i1 = 0; i1 < nj - 1; i1++) {
                AT(u, 2 * i3, 2 * i2 + 1, 2 * i1) += 0.5 * z1[i1];
                AT(u, 2 * i3, 2 * i2 + 1, 2 * i1 + 1) += 0.25 * (z1[i1] + z1[i1 + 1]);
            }
            for (i1 = 0; i1 < nj - 1; i1++) {
                AT(u, 2 * i3 + 1, 2 * i2, 2 * i1) += 0.5 * z2[i1];
                AT(u, 2 * i3 + 1, 2 * i2, 2 * i1 + 1) += 0.25 * (z2[i1] + z2[i1 + 1]);
            }
            for (i1 = 0; i1 < nj - 1; i1++) {
                AT(u, 2 * i3 + 1, 2 * i2 + 1, 2 * i1) += 0.25 * z3[i1];
                AT(u, 2 * i3 + 1, 2 * i2 + 1, 2 * i1 + 1) += 0.125 * (z3[i1] + z3[i1 + 1]);
            }
        }
#undef Z
}

static void zero3(double *u, int n)
{
    memset(u, 0, (size_t)n * (size_t)n * (size_t)n * sizeof *u);
}

/* resid and psinv on level k; `v` is the right side there. */
static void residual(int k, const double *v)
{
    struct stencil s = {grid.u + grid.start[k], grid.r + grid.start[k], v, grid.edge[k]};
    parallel(grid.threads, 1, s.n - 1, resid, &s);
    comm3(s.r, s.n);
}

static void smooth(int k)
{
    struct stencil s = {grid.u + grid.start[k], grid.r + grid.start[k], NULL, grid.edge[k]};
    parallel(grid.threads, 1, s.n - 1, psinv, &s);
    comm3(s.u, s.n);
}

/* One V-cycle. */
static void mg3P(void)
{
    const int top = grid.levels - 1;
    int k;
    for (k = top; k > 0; k--)
        rprj3(k);
    zero3(grid.u + grid.start[0], grid.edge[0]);
    smooth(0);
    for (k = 1; k < top; k++) {
        zero3(grid.u + grid.start[k], grid.edge[k]);
        interp(k);
        residual(k, grid.r + grid.start[k]);
        smooth(k);
    }
    interp(top);
    residual(top, grid.v);
    smooth(top);
}

static double norm2u3(const double *r, int n)
{
    double sum = 0;
    int i3, i2, i1;
    for (i3 = 1; i3 < n - 1; i3++)
        for (i2 = 1; i2 < n - 1; i2++)
            for (i1 = 1; i1 < n - 1; i1++)
                sum += AT(r, i3, i2, i1) * AT(r, i3, i2, i1);
    return sqrt(sum / ((double)(n - 2) * (n - 2) * (n - 2)));
}

/* The right side: ten charges of each sign, at random places. */
static void zran3(double *v, int n, uint64_t seed)
{
    int i;
    zero3(v, n);
    for (i = 0; i < 20; i++) {
        const int i3 = 1 + (int)(next_random(&seed) % (uint64_t)(n - 2));
        const int i2 = 1 + (int)(next_random(&seed) % (uint64_t)(n - 2));
        const int i1 = 1 + (int)(next_random(&seed) % (uint64_t)(n - 2));
        AT(v, i3, i2, i1) = i < 10 ? 1.0 : -1.0;
    }
    comm3(v, n);
}

int main(int argc, char **argv)
{
    struct options options = {1, 128, 1, 1, 0, 0};
    parse_options(argc, argv, &options, "V-cycles", "cells per edge, a power of two from 4 to 1024");
    require(options.size >= 4 && options.size <= 1024 && !(options.size & (options.size - 1)),
            "-s must be a power of two from 4 to 1024");
    size_t cells = 0;
    int k;
    for (k = 0; 2u << k <= options.size; k++)
        grid.edge[k] = (2 << k) + 2;
    grid.levels = k;
    grid.threads = (int)options.threads;
    for (k = grid.levels - 1; k >= 0; k--) {
        grid.start[k] = cells;
        cells += (size_t)grid.edge[k] * (size_t)grid.edge[k] * (size_t)grid.edge[k];
    }
    const int top = grid.levels - 1, n = grid.edge[top];
    const size_t finest = (size_t)n * (size_t)n * (size_t)n;

    sl_phase("load");
    grid.u = (double *)allocate_zeros(cells * sizeof(double));
    grid.v = (double *)allocate(finest * sizeof(double));
    grid.r = (double *)allocate_zeros(cells * sizeof(double));
    zran3(grid.v, n, options.seed);

    sl_phase("run");
    const double start = seconds();
    residual(top, grid.v);
    const double first = norm2u3(grid.r, n);
    for (uint64_t i = 0; i < options.n; i++) {
        mg3P();
        residual(top, grid.v);
    }
    const double last = norm2u3(grid.r, n);
    const double elapsed = seconds() - start;

    sl_phase("check");
    if (!(last < first)) {
        fprintf(stderr, "mg: the residual grew from %g to %g\n", first, last);
        return 1;
    }
    report("mg", checksum(grid.u, finest) + 3 * checksum(grid.r, finest), elapsed);
    free(grid.u), free(grid.v), free(grid.r);
    return 0;
}
